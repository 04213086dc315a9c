"""Turn a network and its inputs into the rows of features, targets and weights of a last layer.

The features of a PyTorch module are the inputs of its last linear layer. That layer is found by
tracing one forward pass: it is the `torch.nn.Linear` called last, provided that the module returns
what this layer computes. Several threads may ask for features at the same time: a lock lets one at
a time switch the module to evaluation mode and back, and each thread records its own pass only.
PyTorch is not imported before a module is passed.
"""

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from lastlayer.checks import (
    check_counts,
    check_numbers,
    encode_classes,
    fail,
    name_argument,
)
from lastlayer.errors import UserError
from lastlayer.problem import Likelihood

BATCH_SIZE = 1024
# Modules that change no value in evaluation mode, and so may follow the last layer.
HARMLESS = {"Identity", "Dropout", "AlphaDropout", "Flatten", "Unflatten"}
_guard = threading.Lock()
_locks: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # module: its lock


def compute_features(feature_map: Callable[[Any], Any], inputs: Any, intercept: bool) -> np.ndarray:
    """Return ψ of raw inputs, (N, D), with a column of ones where there is an intercept."""
    psi = read_array(feature_map(inputs), "features")
    if psi.ndim != 2:
        fail(f"features of feature_map must be one row per input, (N, D), got shape {psi.shape}.")
    if not intercept:
        return psi
    return np.concatenate([psi, np.ones_like(psi[:, :1])], axis=1)


def compute_features_of(
    feature_map: Callable[[Any], Any], inputs: Any, intercept: bool
) -> np.ndarray:
    """Return ψ of raw inputs, or of batches of inputs, whose targets are ignored."""
    if hasattr(inputs, "__getitem__") or not isinstance(inputs, Iterable):
        return compute_features(feature_map, inputs, intercept)
    batches = (each[0] if isinstance(each, tuple | list) else each for each in inputs)
    parts = [compute_features(feature_map, x, intercept) for x in batches]
    if not parts:
        fail("inputs must hold at least one batch, got none.")
    return np.concatenate(parts)


class Collected(NamedTuple):
    """Features, targets and, where they were given, counts."""

    features: np.ndarray
    targets: Any
    counts: Any = None


def collect_rows(
    feature_map: Callable[[Any], Any], inputs: Any, targets: Any, counts: Any, intercept: bool
) -> Collected:
    """Return features, targets and counts of arrays, or of batches where `targets` is None.

    Batches are read one after another, and only their features are kept.
    """
    if targets is not None:
        psi = compute_features(feature_map, inputs, intercept)
        _check_lengths(len(psi), targets, "")
        return Collected(psi, targets, None if counts is None else read_array(counts, "counts"))
    if counts is not None:
        fail(
            "counts cannot be given beside batches, whose order they would have to follow; let "
            "the batches be (inputs, targets, counts)."
        )
    parts = []
    for number, batch in enumerate(check_batches(inputs), start=1):
        x, y, *c = check_batch(batch)
        psi = compute_features(feature_map, x, intercept)
        t = read_array(y, "targets", finite=not c)  # counts of 0 mark missing targets, often NaN
        _check_lengths(len(psi), t, f" in batch {number}")
        parts.append((psi, t, *(read_array(each, "counts") for each in c)))
    if not parts:
        fail("inputs must hold at least one batch of (inputs, targets), got none.")
    if len({len(part) for part in parts}) > 1:
        fail("batches must all have counts or none: add counts of one where they are missing.")
    return Collected(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _check_lengths(num_inputs: int, targets: Any, where: str) -> None:
    """Check that there are as many targets as inputs."""
    number = len(targets) if np.ndim(targets) else 1
    if number != num_inputs:
        fail(
            f"targets must have one row per input, got {number:,} for {num_inputs:,} inputs{where};"
            " leave out the inputs without a target, or give targets of them all."
        )


def collect_validation(
    feature_map: Callable[[Any], Any], validation: Any, intercept: bool
) -> tuple[Any, ...]:
    """Return features and targets, and counts where given, of (inputs, targets) or of batches."""
    x, y, c = validation, None, None
    if isinstance(validation, tuple | list) and not is_list_of_batches(validation):
        if len(validation) not in (2, 3):
            fail(
                "validation must be (inputs, targets), (inputs, targets, counts) or batches of "
                f"these, got {len(validation)} parts."
            )
        x, y, c = (*validation, None)[:3]
    with name_argument("validation"):
        t = None if y is None else read_array(y, "targets", finite=c is None)
        found = collect_rows(feature_map, x, t, c, intercept)
    return found[: 2 + (found.counts is not None)]


def is_list_of_batches(given: Any) -> bool:
    """Return whether a list holds batches (tuples of arrays), and is not itself one batch."""
    return bool(given) and all(
        isinstance(each, tuple | list) and all(hasattr(part, "shape") for part in each)
        for each in given
    )


def check_batches(batches: Any) -> Iterable[Any]:
    """Return the batches, provided that they can be iterated over and are not one array."""
    if not isinstance(batches, Iterable) or hasattr(batches, "shape"):
        fail(
            f"inputs without targets must be batches of (inputs, targets) such as a DataLoader "
            f"gives, got {type(batches).__name__}; pass the targets."
        )
    return batches


def check_batch(batch: Any) -> tuple[Any, ...]:
    """Return the inputs and targets of a batch, and its counts where it has them."""
    if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
        fail(
            f"batches must each be (inputs, targets) or (inputs, targets, counts), got "
            f"{type(batch).__name__}; wrap the loader in a generator that yields these."
        )
    return tuple(batch)


def join_weights(weights: Any, bias: Any, num_features: int, intercept: bool) -> np.ndarray | None:
    """Return trained weights (K, D), the bias as last column if there is an intercept, or None."""
    if bias is not None and (weights is None or not intercept):
        fail("bias is the prior mean of the intercept: it needs weights and intercept=True.")
    if weights is None:
        return None
    W = read_array(weights, "weights")
    if W.ndim != 2 or W.shape[1] != num_features:
        fail(
            f"weights must have shape (K, {num_features}), one column per feature without the "
            f"intercept, got {W.shape}."
        )
    if not intercept:
        return W
    b = np.zeros(len(W), W.dtype) if bias is None else read_array(bias, "bias")
    if b.shape != (len(W),):
        fail(f"bias must have shape ({len(W)},), one per row of weights, got {b.shape}.")
    return np.concatenate([W, b[:, None]], axis=1)


def agree_on_likelihood(
    targets: Any, num_outputs: int | None, likelihood: str | None, counts: Any
) -> tuple[np.ndarray, str]:
    """Return the targets, class numbers as one column per output, and the likelihood.

    Without weights, `num_outputs` is None and class numbers stay as they are.
    """
    t, K = read_array(targets, "targets", finite=counts is None), num_outputs
    if K is not None and t.ndim > 1 and t.shape[1:] != (K,):
        fail(f"targets must have shape (N,) or (N, {K}), one column per output, got {t.shape}.")
    if K is None or K < 2 or t.ndim != 1:
        return t, str(Likelihood.BERNOULLI) if likelihood is None else likelihood
    if likelihood is None and (t.dtype == bool or (K > 2 and np.isin(t, (0, 1)).all())):
        fail(
            f"targets of shape (N,) that hold only 0 and 1 are ambiguous for {K} outputs: give "
            f"shape (N, {K}) for yes and no, or likelihood='softmax' for class numbers."
        )
    if likelihood not in (None, Likelihood.SOFTMAX):
        fail(
            f"targets of shape (N,) are class numbers, which need likelihood='softmax'; for yes/no "
            f"outputs give shape (N, {K})."
        )
    c = check_counts(counts, len(t), np.dtype("float64"))
    return encode_classes(np.where(c == 0, 0, t), c, K), str(Likelihood.SOFTMAX)


class TorchFeatures:
    """Feature map ψ of a PyTorch module: the inputs of its last linear layer.

    A forward pass of the first inputs shows which layer that is.
    """

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
        """The last linear layer, looked up by its name."""
        return self.module.get_submodule(self.name)

    @classmethod
    def from_layer(cls, module: Any, name: str, batch_size: int = BATCH_SIZE) -> "TorchFeatures":
        """Return the features of a module whose last layer is known by name."""
        found = cls.__new__(cls)
        found.module, found.name, found.batch_size = module, name, batch_size
        if not isinstance(dict(module.named_modules()).get(name), _import_torch().nn.Linear):
            fail(f"the module has no torch.nn.Linear named {name!r}; pass the network it was.")
        return found

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
            for batch in self._cut_batches(inputs):
                seen.clear()
                _call(self.module, batch)
                parts.append(_read_features(seen, len(batch)))
        psi = np.concatenate(parts)
        try:
            return check_numbers(psi, "features")
        except UserError:
            read_array(inputs, "inputs")  # where NaN comes from the inputs, the message names them
            raise

    def compute_fingerprint(self) -> str:
        """Return a hash of all weights, which tells whether a posterior belongs to this network."""
        digest = hashlib.sha256()
        for name, value in self.module.state_dict().items():
            digest.update(name.encode())
            if hasattr(value, "detach"):
                digest.update(read_array(value, name).tobytes())
        return digest.hexdigest()

    def _cut_batches(self, inputs: Any) -> Iterator[Any]:
        """Yield the inputs in batches, on the device and in the precision of the module."""
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
        fail("from_torch needs PyTorch: pip install 'lastlayer[torch]'.")
    return torch


@contextmanager
def _evaluate(module: Any) -> Iterator[None]:
    """Switch to evaluation mode without gradients, then restore the mode of every submodule.

    One thread at a time: a second one would take the evaluation mode that the first has set for
    the module's own, and restore that.
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
    """Return the `Linear` called last in a pass, provided that the module returns its logits."""
    returned, called = _trace(module, batch)
    if not hasattr(returned, "numel"):
        fail(
            f"module must return a tensor of logits, got {type(returned).__name__}; "
            "wrap it in a module that returns its logits alone."
        )
    effective = [pair for pair in called if type(pair[0]).__name__ not in HARMLESS]
    layer, logits = effective[-1] if effective else (module, None)
    if logits is None:
        last = type(layer).__name__
        fail(
            f"the last layer must be torch.nn.Linear, got {last}: leave the activation off, so "
            "that the module returns the logits of a linear layer."
        )
    if sum(part is layer for part, _ in called) > 1:
        fail("the last layer must be used once in a pass; this module uses its weights repeatedly.")
    if returned.isnan().any():  # NaN equals nothing, so logits could not be compared
        read_array(batch, "inputs")  # where NaN comes from the inputs, the message names them
        fail("module must return finite logits, got nan for finite inputs; check its weights.")
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
        return _call(module, batch), called


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


def _read_features(seen: list[Any], length: int) -> np.ndarray:
    """Return the inputs of the last layer as an array, provided that there is one row per input."""
    if len(seen) != 1 or seen[0].ndim != 2 or len(seen[0]) != length:
        shape = tuple(seen[0].shape) if seen else "nothing"
        fail(
            f"inputs must reach the last layer as one row of features per input, ({length}, D), "
            f"got {shape}; pool or flatten other axes before it."
        )
    return read_array(seen[0], "features", finite=False)


def _read_tensor(inputs: Any) -> Any:
    """Return inputs as a tensor; PyTorch warns of arrays that cannot be written to."""
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
    """Return an array or a tensor of any device in NumPy, half precision as float32."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if value.is_floating_point() and value.itemsize < 4 else value
        value = value.numpy()
    return check_numbers(value, name, finite=finite)
