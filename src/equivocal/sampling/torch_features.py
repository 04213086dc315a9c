"""ψ of a PyTorch module: what its last linear layer is given.

The layer is found by watching one pass: the `torch.nn.Linear` reached last, if what it computes is
what the module returns. Nothing here imports PyTorch before a module is handed over.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from equivocal.sampling.engine.inputs import check_numbers, fail

BATCH_SIZE = 1024
# Modules that change no value in evaluation mode, so they may stand behind the last layer.
HARMLESS = {"Identity", "Dropout", "AlphaDropout", "Flatten", "Unflatten"}


class TorchFeatures:
    """ψ of a PyTorch module: what its last linear layer is given."""

    def __init__(self, module: Any, batch_size: int = BATCH_SIZE) -> None:
        if not isinstance(module, _import_torch().nn.Module):
            fail(
                f"module must be a torch.nn.Module, got {type(module).__name__}; "
                "for another callable use last_layer_posterior."
            )
        self.module = module
        self.batch_size = batch_size
        self._layer: Any = None

    def __call__(self, inputs: Any) -> np.ndarray:
        """Return ψ, (N, D), batch by batch; the module is left as it was."""
        layer = self.find_last_linear(inputs)
        seen: list[Any] = []
        parts = []
        with _evaluate(self.module):
            hook = layer.register_forward_pre_hook(
                lambda _, given, named: seen.extend((*given, *named.values())), with_kwargs=True
            )
            try:
                for batch in self._cut_batches(inputs):
                    seen.clear()
                    _call(self.module, batch)
                    parts.append(_check_batch(seen, len(batch)))
            finally:
                hook.remove()
        return np.concatenate(parts)

    def find_last_linear(self, inputs: Any) -> Any:
        """Return the layer whose output the module returns, found with the first batch."""
        if self._layer is None:
            with _evaluate(self.module):
                self._layer = _find_last_linear(self.module, next(self._cut_batches(inputs)))
        return self._layer

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
    """Switch to evaluation mode without gradients; every submodule gets its own mode back."""
    modes = [(part, part.training) for part in module.modules()]
    try:
        module.eval()
        with _import_torch().no_grad():
            yield
    finally:
        for part, mode in modes:
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
    hooks = [layer.register_forward_hook(note) for layer in layers]
    try:
        return _call(module, batch), reached
    finally:
        for hook in hooks:
            hook.remove()


def _call(module: Any, batch: Any) -> Any:
    """Return what the module makes of a batch; hand on PyTorch's own complaint."""
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


def read_array(value: Any, name: str) -> np.ndarray:
    """Return finite numbers; a tensor from wherever it lives, half precision as float32."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if value.is_floating_point() and value.itemsize < 4 else value
        value = value.numpy()
    return check_numbers(value, name)
