"""The features of a PyTorch module: the inputs of its last linear layer.

That layer is given by its name, or found by tracing one forward pass: it is the linear layer called
last, provided that the module returns what this layer computes, alone or as `logits` of a Hugging
Face `ModelOutput`. Where a layer answers at every position of a text and the module returns one of
these answers (decoders), the features are those of this position. `nn.DataParallel` and compiled
modules are unwrapped; dynamically quantised layers serve, too. Threads take turns: one at a time
switches a module to evaluation mode and back, and each records its own pass only. PyTorch is not
imported before a module is passed.
"""

import hashlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from lastlayer.batches import drop_labels, read_array
from lastlayer.checks import check_numbers, fail
from lastlayer.errors import check_known

BATCH_SIZE = 1024
# Modules that change no value in evaluation mode, and so may follow the last layer.
HARMLESS = {"Identity", "Dropout", "AlphaDropout", "Flatten", "Unflatten"}
_turn = threading.RLock()


class TorchFeatures:
    """Feature map ψ of a PyTorch module, whose last layer has this name."""

    def __init__(self, module: Any, name: str, batch_size: int = BATCH_SIZE) -> None:
        self.module, self.name, self.batch_size = unwrap(module), name, batch_size
        linear = [each for each, part in self.module.named_modules() if _is_linear(part)]
        check_known(name, linear, "linear layer of the module")

    @classmethod
    def trace(cls, module: Any, inputs: Any, batch_size: int = BATCH_SIZE) -> "TorchFeatures":
        """Find the last layer by a forward pass of the first inputs."""
        module = unwrap(module)
        with _evaluate(module):
            layer = _find_last_linear(module, next(_cut_batches(module, inputs, batch_size)))
        name = next(name for name, part in module.named_modules() if part is layer)
        return cls(module, name, batch_size)

    @property
    def layer(self) -> Any:
        """The last linear layer, looked up by its name."""
        return self.module.get_submodule(self.name)

    def describe(self) -> str:
        """Return the layer's name and size, for the report."""
        layer = self.layer
        return f"{self.name or 'the module itself'} ({layer.in_features} → {layer.out_features})"

    def read_weights(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the weights and biases of the last layer."""
        weight, bias = self.layer.weight, self.layer.bias
        weight, bias = (part() if callable(part) else part for part in (weight, bias))
        return read_array(weight, "weights"), None if bias is None else read_array(bias, "bias")

    def __call__(self, inputs: Any) -> np.ndarray:
        """Return ψ, (N, D), computed batch by batch; the module is left unchanged."""
        seen: list[Any] = []
        parts = []
        caller = threading.get_ident()

        def record(_: Any, given: Any, named: Any, result: Any) -> None:
            if threading.get_ident() == caller:  # other threads may be using the module, too
                seen.append((*given, *named.values(), result))

        with (
            _evaluate(self.module),
            self.layer.register_forward_hook(record, with_kwargs=True),
        ):
            for batch in _cut_batches(self.module, inputs, self.batch_size):
                seen.clear()
                returned = _call(self.module, batch)
                parts.append(_read_features(seen, _count_rows(batch), returned))
        return check_numbers(np.concatenate(parts), "features")

    def compute_fingerprint(self) -> str:
        """Return a hash of all weights, which tells whether a posterior belongs to this network."""
        digest = hashlib.sha256()
        for name, value in self.module.state_dict().items():
            digest.update(name.encode())
            if hasattr(value, "detach"):
                digest.update(read_array(value, name).tobytes())
        return digest.hexdigest()


def is_module(network: Any) -> bool:
    """Return whether this is a PyTorch module, without importing PyTorch for what is none."""
    return any(each.__module__.startswith("torch.nn") for each in type(network).__mro__)


def unwrap(module: Any) -> Any:
    """Return the module inside `nn.DataParallel` or `torch.compile`."""
    if type(module).__name__ in {"DataParallel", "DistributedDataParallel"}:
        return unwrap(module.module)
    return getattr(module, "_orig_mod", module)


def _is_linear(part: Any) -> bool:
    """Return whether a layer is linear: also a subclass, or one that was quantised dynamically."""
    names = {each.__name__ for each in type(part).__mro__}
    return "Linear" in names and hasattr(part, "out_features")


def _cut_batches(module: Any, inputs: Any, batch_size: int) -> Iterator[Any]:
    """Yield the inputs in batches, on the device and in the precision of the module."""
    import torch

    parameter = next((p for p in module.parameters() if p.is_floating_point()), None)

    def convert(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            array = np.asarray(value)
            # PyTorch warns of arrays that cannot be written to
            value = torch.as_tensor(array if array.flags.writeable else array.copy())
        if value.ndim == 0 or len(value) == 0:
            fail(f"inputs must hold at least one row, got shape {tuple(value.shape)}.")
        like = value if parameter is None else parameter
        return value.to(like.device, like.dtype if value.is_floating_point() else value.dtype)

    if not isinstance(inputs, Mapping):
        yield from convert(inputs).split(batch_size)
        return
    named = {name: convert(value) for name, value in drop_labels(inputs).items()}
    if len({len(value) for value in named.values()}) != 1:
        fail("a dictionary of inputs must hold tensors of equally many rows.")
    length = len(next(iter(named.values())))
    for start in range(0, length, batch_size):
        yield {name: value[start : start + batch_size] for name, value in named.items()}


def _call(module: Any, batch: Any) -> Any:
    """Return what a module returns, its logits where it returns several things by name."""
    returned = module(**batch) if isinstance(batch, dict) else module(batch)
    if isinstance(returned, Mapping) and "logits" in returned:
        return returned["logits"]
    return getattr(returned, "logits", returned)


def _count_rows(batch: Any) -> int:
    return len(next(iter(batch.values()))) if isinstance(batch, dict) else len(batch)


@contextmanager
def _evaluate(module: Any) -> Iterator[None]:
    """Switch to evaluation mode without gradients, then restore the mode of every submodule."""
    from torch import no_grad

    with _turn:
        modes = [(part, part.training) for part in module.modules()]
        try:
            if any(mode for _, mode in modes):
                module.eval()
            with no_grad():
                yield
        finally:
            for part, mode in modes:
                if part.training != mode:
                    part.training = mode


def _find_last_linear(module: Any, batch: Any) -> Any:
    """Return the linear layer called last in a pass; the module must return its logits."""
    returned, called = _trace_calls(module, batch)
    by_name = "; name the layer by head="
    if not hasattr(returned, "numel"):
        fail(f"the module must return a tensor of logits, got {type(returned).__name__}{by_name}.")
    effective = [pair for pair in called if type(pair[0]).__name__ not in HARMLESS]
    layer, logits = effective[-1] if effective else (module, None)
    if logits is None:
        fail(
            f"the last layer must be torch.nn.Linear, got {type(layer).__name__}: leave the "
            f"activation off, so that the module returns logits{by_name}."
        )
    if sum(part is layer for part, _ in called) > 1:
        fail("the last layer must be used once in a pass; this module uses its weights repeatedly.")
    # By value, since a view (a squeeze, a flatten) of the logits is still the logits.
    same = returned.numel() == logits.numel() and bool(
        ((returned.ravel() == logits.ravel()) | returned.ravel().isnan()).all()
    )
    if not same and not (logits.ndim == 3 and _find_positions(logits, returned) is not None):
        fail(
            "the module must return what its last torch.nn.Linear computes, but something changes "
            f"it after that: leave the activation off, so that the module returns logits{by_name}."
        )
    return layer


def _find_positions(logits: Any, returned: Any) -> Any:
    """Return at which position each row was answered, given the answers at all of them (N, T, K).

    None where the module returned none of them.
    """
    if getattr(returned, "ndim", 0) != 2 or returned.shape != logits[:, 0].shape:
        return None
    equal = (logits == returned[:, None]).all(dim=-1)
    return equal.int().argmax(dim=1) if equal.any(dim=1).all() else None


def _trace_calls(module: Any, batch: Any) -> tuple[Any, list[tuple[Any, Any]]]:
    """Return a module's logits, and its layers in the order of their calls.

    Each layer comes with its output if it is linear, else with None.
    """
    called: list[tuple[Any, Any]] = []

    def record(layer: Any, _: Any, result: Any) -> None:
        # a copy, since an activation that works in place would overwrite it
        called.append((layer, result.clone() if _is_linear(layer) else None))

    layers = [p for p in module.modules() if _is_linear(p) or not list(p.children())]
    with ExitStack() as hooks:
        for layer in layers:
            hooks.enter_context(layer.register_forward_hook(record))
        return _call(module, batch), called


def _read_features(seen: list[Any], length: int, returned: Any) -> np.ndarray:
    """Return the inputs of the last layer as an array, provided that there is one row per input."""
    psi = seen[0][0] if len(seen) == 1 else None
    if psi is not None and psi.ndim == 3:
        positions = _find_positions(seen[0][-1], returned)
        psi = psi if positions is None else psi[range(len(psi)), positions]
    if psi is None or psi.ndim != 2 or len(psi) != length:
        shape = "nothing" if psi is None else tuple(psi.shape)
        fail(
            f"inputs must reach the last layer as one row of features per input, ({length}, D), "
            f"got {shape}; pool or flatten other axes before it."
        )
    return read_array(psi, "features", finite=False)
