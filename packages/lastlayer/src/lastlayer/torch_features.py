"""The features of a PyTorch module: the inputs of its last linear layer.

That layer is found by tracing one forward pass: it is the `torch.nn.Linear` called last, provided
that the module returns what this layer computes. Threads take turns: one at a time switches a
module to evaluation mode and back, and each records its own pass only. PyTorch is not imported
before a module is passed.
"""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from lastlayer.batches import read_array
from lastlayer.checks import check_numbers, fail

BATCH_SIZE = 1024
# Modules that change no value in evaluation mode, and so may follow the last layer.
HARMLESS = {"Identity", "Dropout", "AlphaDropout", "Flatten", "Unflatten"}
_turn = threading.RLock()


class TorchFeatures:
    """Feature map ψ of a PyTorch module, whose last layer has this name."""

    def __init__(self, module: Any, name: str, batch_size: int = BATCH_SIZE) -> None:
        if not isinstance(dict(module.named_modules()).get(name), _import_torch().nn.Linear):
            fail(f"the module has no torch.nn.Linear named {name!r}; pass the network it was.")
        self.module, self.name, self.batch_size = module, name, batch_size

    @classmethod
    def trace(cls, module: Any, inputs: Any, batch_size: int = BATCH_SIZE) -> "TorchFeatures":
        """Find the last layer by a forward pass of the first inputs."""
        if not isinstance(module, _import_torch().nn.Module):
            fail(
                f"module must be a torch.nn.Module, got {type(module).__name__}; "
                "for another callable use last_layer_posterior."
            )
        with _evaluate(module):
            layer = _find_last_linear(module, next(_cut_batches(module, inputs, batch_size)))
        name = next(name for name, part in module.named_modules() if part is layer)
        return cls(module, name, batch_size)

    @property
    def layer(self) -> Any:
        """The last linear layer, looked up by its name."""
        return self.module.get_submodule(self.name)

    def __call__(self, inputs: Any) -> np.ndarray:
        """Return ψ, (N, D), computed batch by batch; the module is left unchanged."""
        seen: list[Any] = []
        parts = []
        caller = threading.get_ident()

        def record(_: Any, given: Any, named: Any) -> None:
            if threading.get_ident() == caller:  # other threads may be using the module, too
                seen.extend((*given, *named.values()))

        with (
            _evaluate(self.module),
            self.layer.register_forward_pre_hook(record, with_kwargs=True),
        ):
            for batch in _cut_batches(self.module, inputs, self.batch_size):
                seen.clear()
                self.module(batch)
                parts.append(_read_features(seen, len(batch)))
        return check_numbers(np.concatenate(parts), "features")

    def compute_fingerprint(self) -> str:
        """Return a hash of all weights, which tells whether a posterior belongs to this network."""
        digest = hashlib.sha256()
        for name, value in self.module.state_dict().items():
            digest.update(name.encode())
            if hasattr(value, "detach"):
                digest.update(read_array(value, name).tobytes())
        return digest.hexdigest()


def _import_torch() -> Any:
    try:
        import torch
    except ImportError:
        fail("from_torch needs PyTorch: pip install 'lastlayer[torch]'.")
    return torch


def _cut_batches(module: Any, inputs: Any, batch_size: int) -> Iterator[Any]:
    """Yield the inputs in batches, on the device and in the precision of the module."""
    torch = _import_torch()
    if not isinstance(inputs, torch.Tensor):
        if isinstance(inputs, dict | str):
            fail(f"inputs must be one tensor or array, got {type(inputs).__name__}.")
        array = np.asarray(inputs)
        # PyTorch warns of arrays that cannot be written to
        inputs = torch.as_tensor(array if array.flags.writeable else array.copy())
    if inputs.ndim == 0 or len(inputs) == 0:
        fail(f"inputs must hold at least one row, got shape {tuple(inputs.shape)}.")
    like = next((p for p in module.parameters() if p.is_floating_point()), inputs)
    kind = like.dtype if inputs.is_floating_point() else inputs.dtype
    for batch in inputs.split(batch_size):
        yield batch.to(like.device, kind)


@contextmanager
def _evaluate(module: Any) -> Iterator[None]:
    """Switch to evaluation mode without gradients, then restore the mode of every submodule."""
    with _turn:
        modes = [(part, part.training) for part in module.modules()]
        try:
            if any(mode for _, mode in modes):
                module.eval()
            with _import_torch().no_grad():
                yield
        finally:
            for part, mode in modes:
                if part.training != mode:
                    part.training = mode


def _find_last_linear(module: Any, batch: Any) -> Any:
    """Return the `Linear` called last in a pass, provided that the module returns its logits."""
    returned, called = _trace_calls(module, batch)
    if not hasattr(returned, "numel"):
        fail(
            f"module must return a tensor of logits, got {type(returned).__name__}; "
            "wrap it in a module that returns its logits alone."
        )
    effective = [pair for pair in called if type(pair[0]).__name__ not in HARMLESS]
    layer, logits = effective[-1] if effective else (module, None)
    if logits is None:
        fail(
            f"the last layer must be torch.nn.Linear, got {type(layer).__name__}: leave the "
            "activation off, so that the module returns the logits of a linear layer."
        )
    if sum(part is layer for part, _ in called) > 1:
        fail("the last layer must be used once in a pass; this module uses its weights repeatedly.")
    # By value, since a view (a squeeze, a flatten) of the logits is still the logits.
    same = returned.numel() == logits.numel() and _import_torch().allclose(
        returned.ravel(), logits.ravel(), rtol=0, atol=0, equal_nan=True
    )
    if not same:
        fail(
            "the module must return what its last torch.nn.Linear computes, but something changes "
            "it after that: leave the activation off, so that the module returns logits."
        )
    return layer


def _trace_calls(module: Any, batch: Any) -> tuple[Any, list[tuple[Any, Any]]]:
    """Return a module's output, and its layers in the order of their calls.

    Each layer comes with its output if it is linear, else with None.
    """
    Linear = _import_torch().nn.Linear
    called: list[tuple[Any, Any]] = []

    def record(layer: Any, _: Any, result: Any) -> None:
        # a copy, since an activation that works in place would overwrite it
        called.append((layer, result.clone() if isinstance(layer, Linear) else None))

    layers = [p for p in module.modules() if isinstance(p, Linear) or not list(p.children())]
    with ExitStack() as hooks:
        for layer in layers:
            hooks.enter_context(layer.register_forward_hook(record))
        return module(batch), called


def _read_features(seen: list[Any], length: int) -> np.ndarray:
    """Return the inputs of the last layer as an array, provided that there is one row per input."""
    if len(seen) != 1 or seen[0].ndim != 2 or len(seen[0]) != length:
        shape = tuple(seen[0].shape) if seen else "nothing"
        fail(
            f"inputs must reach the last layer as one row of features per input, ({length}, D), "
            f"got {shape}; pool or flatten other axes before it."
        )
    return read_array(seen[0], "features", finite=False)
