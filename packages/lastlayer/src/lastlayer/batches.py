"""Turn a feature map and raw inputs, whole or in batches, into the rows that a posterior takes.

Inputs are arrays, tensors of any device, or batches (inputs, targets[, counts]) as a loader yields
them; batches are read one after another, and only their features are kept. Targets and trained
weights together say which likelihood is meant.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from lastlayer.checks import check_counts, check_numbers, encode_classes, fail, name_argument
from lastlayer.problem import Likelihood

FeatureMap = Callable[[Any], Any]


def read_array(value: Any, name: str, *, finite: bool = True) -> np.ndarray:
    """Return an array or a tensor of any device in NumPy, half precision as float32."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if value.is_floating_point() and value.itemsize < 4 else value
        value = value.numpy()
    return check_numbers(value, name, finite=finite)


def compute_features(feature_map: FeatureMap, inputs: Any, intercept: bool) -> np.ndarray:
    """Return ψ of raw inputs, (N, D), with a column of ones where there is an intercept."""
    psi = read_array(feature_map(inputs), "features")
    if psi.ndim != 2:
        fail(f"features of feature_map must be one row per input, (N, D), got shape {psi.shape}.")
    return np.concatenate([psi, np.ones_like(psi[:, :1])], axis=1) if intercept else psi


def compute_features_of(feature_map: FeatureMap, inputs: Any, intercept: bool) -> np.ndarray:
    """Return ψ of raw inputs, or of batches of inputs, whose targets are ignored."""
    if hasattr(inputs, "__getitem__") or not isinstance(inputs, Iterable):
        return compute_features(feature_map, inputs, intercept)
    batches = (each[0] if isinstance(each, tuple | list) else each for each in inputs)
    parts = [compute_features(feature_map, x, intercept) for x in batches]
    if not parts:
        fail("inputs must hold at least one batch, got none.")
    return np.concatenate(parts)


def collect_rows(
    feature_map: FeatureMap, inputs: Any, targets: Any, counts: Any, intercept: bool
) -> tuple[np.ndarray, ...]:
    """Return features, targets and, where they were given, counts.

    Without `targets`, the inputs are batches.
    """
    if targets is None and counts is not None:
        fail("counts cannot be given beside batches; let the batches be (inputs, targets, counts).")
    whole = (inputs, targets) if counts is None else (inputs, targets, counts)
    parts = []
    for batch in check_batches(inputs) if targets is None else [whole]:
        x, y, *c = check_batch(batch)
        psi = compute_features(feature_map, x, intercept)
        t = read_array(y, "targets", finite=not c)  # counts of 0 mark missing targets, often NaN
        if len(t := np.atleast_1d(t)) != len(psi):
            fail(f"targets must have one row per input, got {len(t):,} for {len(psi):,} inputs.")
        parts.append((psi, t, *(np.atleast_1d(read_array(each, "counts")) for each in c)))
    if len({len(part) for part in parts}) != 1:
        fail("inputs must hold at least one batch, and all batches counts or none.")
    return tuple(np.concatenate(part) for part in zip(*parts, strict=True))


def collect_validation(
    feature_map: FeatureMap, validation: Any, intercept: bool
) -> tuple[np.ndarray, ...]:
    """Return features and targets, and counts where given, of (inputs, targets) or of batches."""
    x, y, c = validation, None, None
    if isinstance(validation, tuple | list) and not is_list_of_batches(validation):
        x, y, c = (*check_batch(validation), None)[:3]
    with name_argument("validation"):
        return collect_rows(feature_map, x, y, c, intercept)


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
            f"batches and validation must be (inputs, targets) or (inputs, targets, counts), got "
            f"{type(batch).__name__}; wrap the loader in a generator that yields these."
        )
    return tuple(batch)


def join_weights(weights: Any, bias: Any, intercept: bool) -> np.ndarray | None:
    """Return trained weights (K, D), the bias as last column if there is an intercept, or None."""
    if bias is not None and (weights is None or not intercept):
        fail("bias is the prior mean of the intercept: it needs weights and intercept=True.")
    if weights is None:
        return None
    W = read_array(weights, "weights")
    b = np.zeros(W.shape[:1], W.dtype) if bias is None else read_array(bias, "bias")
    if W.ndim != 2 or b.shape != (len(W),):
        fail(f"weights must have shape (K, D) and bias (K,), got {W.shape} and {b.shape}.")
    return np.concatenate([W, b[:, None]], axis=1) if intercept else W


def agree_on_likelihood(
    targets: np.ndarray, num_outputs: int | None, likelihood: str | None, counts: Any
) -> tuple[np.ndarray, str]:
    """Return the targets, class numbers as one column per output, and the likelihood.

    Without weights, `num_outputs` is None and class numbers stay as they are.
    """
    t, K = targets, num_outputs
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
