"""The features of a PyTorch module: what its last linear layer is given.

The last layer is found by watching one pass: the `torch.nn.Linear` reached last, if what it
computes is what the module returns. Threads may ask for features at the same time: each waits for
its turn with the module, which is put into evaluation mode and back, and sees its own pass alone.
Nothing here imports PyTorch before a module is handed over.
"""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from equivocal.sampling.engine.inputs import check_numbers, fail

BATCH_SIZE = 1024
# Modules that change no value in evaluation mode, so they may stand behind the last layer.
HARMLESS = {"Identity", "Dropout", "AlphaDropout", "Flatten", "Unflatten"}
_guard = threading.Lock()
_locks: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # one for each module


class TorchFeatures:
    """ψ of a PyTorch module: what its last linear layer is given; found with a batch of inputs."""

    def __init__(self, module: Any, inputs: Any, batch_size: int = BATCH_SIZE) -> None:
        if not isinstance(module, _import_torch().nn.Module):
            fail(
                f"module must be a torch.nn.Module, got {type(module).__name__}; "
                "for another callable use last_layer_posterior."
            )
        self.module = module
        self.batch_size = batch_size
        with _evaluate(module):
            layer = _find_last_linear(module, next(self._cut_batches(inputs)))
        self.name = next(name for name, part in module.named_modules() if part is layer)

    @property
    def layer(self) -> Any:
        """The last layer."""
        return self.module.get_submodule(self.name)

    @classmethod
    def from_layer(cls, module: Any, name: str, batch_size: int = BATCH_SIZE) -> "TorchFeatures":
        """Return the features of a module whose last layer is known by name."""
        found = cls.__new__(cls)
        found.module, found.name, found.batch_size = module, name, batch_size
        linear = isinstance(dict(module.named_modules()).get(name), _import_torch().nn.Linear)
        if not linear:
            fail(f"the module has no torch.nn.Linear named {name!r}; pass the network it was.")
        return found

    def __call__(self, inputs: Any) -> np.ndarray:
        """Return ψ, (N, D), batch by batch; the module is left as it was."""
        seen: list[Any] = []
        parts = []
        caller = threading.get_ident()

        def note(_: Any, given: Any, named: Any) -> None:
            if threading.get_ident() == caller:  # others may be using the module themselves
                seen.extend((*given, *named.values()))

        with _evaluate(self.module):
            hook = self.layer.register_forward_pre_hook(note, with_kwargs=True)
            with hook:
                for batch in self._cut_batches(inputs):
                    seen.clear()
                    _call(self.module, batch)
                    parts.append(_check_batch(seen, len(batch)))
        return np.concatenate(parts)

    def compute_fingerprint(self) -> str:
        """Return a hash of all weights, by which a posterior finds its network again."""
        digest = hashlib.sha256()
        for name, value in self.module.state_dict().items():
            digest.update(name.encode())
            if hasattr(value, "detach"):
                digest.update(read_array(value, name).tobytes())
        return digest.hexdigest()

    def _cut_batches(self, inputs: Any) -> Iterator[Any]:
        inputs = _read_tensor(inputs)
        if inputs.ndim == 0 or len(inputs) == 0:
            fail(f"inputs must hold at least one row, got shape {tuple(inputs.shape)}.")
        like = next((p for p in self.module.parameters() if p.is_floating_point()), inputs)
        kind = like.dtype if inputs.is_floating_point() else inputs.dtype
        for batch in inputs.split(self.batch_size):
            yield batch.to(like.device, kind)


def _import_torch() -> Any:
    try:
        import torch
    except ImportError:
        fail("from_torch needs PyTorch: pip install 'equivocal[torch]'.")
    return torch


@contextmanager
def _evaluate(module: Any) -> Iterator[None]:
    """Switch to evaluation mode without gradients; every submodule gets its own mode back.

    One thread at a time: another that came between would find the mode of the first, and leave it.
    """
    with _guard:
        lock = _locks.setdefault(module, threading.RLock())
    with lock:
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
    """Return the `Linear` reached last in a pass, if the module returns what it computes."""
    returned, reached = _trace(module, batch)
    if not hasattr(returned, "numel"):
        fail(
            f"module must return a tensor of logits, got {type(returned).__name__}; "
            "wrap it in a module that returns its logits alone."
        )
    lasting = [pair for pair in reached if type(pair[0]).__name__ not in HARMLESS]
    if not lasting or lasting[-1][1] is None:
        last = type(lasting[-1][0]).__name__ if lasting else type(module).__name__
        fail(
            f"the last layer must be torch.nn.Linear, got {last}: leave the activation off, so "
            "that the module returns the logits of a linear layer."
        )
    layer, logits = lasting[-1]
    if sum(part is layer for part, _ in reached) > 1:
        fail("the last layer must be used once in a pass; its weights serve several places here.")
    # By value, since a view (a squeeze, a flatten) of the logits is still the logits.
    if returned.numel() != logits.numel() or not _import_torch().equal(
        returned.ravel(), logits.ravel()
    ):
        fail(
            "the module must return what its last torch.nn.Linear computes, but something changes "
            "it after that: leave the activation off, so that the module returns logits."
        )
    return layer


def _trace(module: Any, batch: Any) -> tuple[Any, list[tuple[Any, Any]]]:
    """Return a module's result and its layers in the order of a pass, linear ones with logits."""
    Linear = _import_torch().nn.Linear
    reached: list[tuple[Any, Any]] = []

    def note(layer: Any, _: Any, result: Any) -> None:
        # a copy, since an activation that works in place would overwrite it
        reached.append((layer, result.clone() if isinstance(layer, Linear) else None))

    layers = [p for p in module.modules() if isinstance(p, Linear) or not list(p.children())]
    with ExitStack() as hooks:
        for layer in layers:
            hooks.enter_context(layer.register_forward_hook(note))
        return _call(module, batch), reached


def _call(module: Any, batch: Any) -> Any:
    """Return the module's output for a batch; pass on PyTorch's error message."""
    try:
        return module(batch)
    except (RuntimeError, IndexError) as error:
        said = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        fail(
            f"inputs must be what the module takes, got shape {tuple(batch.shape)} and PyTorch "
            f"says: {said}."
        )


def _check_batch(seen: list[Any], length: int) -> np.ndarray:
    if len(seen) != 1 or seen[0].ndim != 2 or len(seen[0]) != length:
        shape = tuple(seen[0].shape) if seen else "nothing"
        fail(
            f"the last layer must be given one row of features per input, ({length}, D), got "
            f"{shape}; pool or flatten other axes before it."
        )
    return read_array(seen[0], "features")


def _read_tensor(inputs: Any) -> Any:
    torch = _import_torch()
    if isinstance(inputs, torch.Tensor):
        return inputs
    try:
        array = np.asarray(inputs)
        return torch.as_tensor(array if array.flags.writeable else array.copy())
    except (TypeError, ValueError):
        fail(
            f"inputs must be one tensor or array, got {type(inputs).__name__}; wrap a module that "
            "takes several in one that takes a single tensor."
        )


def read_array(value: Any, name: str, *, finite: bool = True) -> np.ndarray:
    """Return finite numbers; a tensor from wherever it lives, half precision as float32."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if value.is_floating_point() and value.itemsize < 4 else value
        value = value.numpy()
    return check_numbers(value, name, finite=finite)
