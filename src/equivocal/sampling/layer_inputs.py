"""What a caller gives for a last layer, brought to rows of features, targets and weights."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from equivocal.sampling.engine.inputs import check_counts, encode_classes, fail
from equivocal.sampling.engine.problem import Likelihood
from equivocal.sampling.torch_features import read_array


def compute_features(feature_map: Callable[[Any], Any], inputs: Any, intercept: bool) -> np.ndarray:
    """Return ψ of raw inputs, (N, D), with a column of ones where there is an intercept."""
    psi = read_array(feature_map(inputs), "features")
    if psi.ndim != 2:
        fail(f"feature_map must return one row per input, (N, D), got shape {psi.shape}.")
    if not intercept:
        return psi
    return np.concatenate([psi, np.ones_like(psi[:, :1])], axis=1)


def compute_features_of(
    feature_map: Callable[[Any], Any], inputs: Any, intercept: bool
) -> np.ndarray:
    """Return ψ of raw inputs, or of batches of them, with or without targets."""
    if hasattr(inputs, "__getitem__") or not isinstance(inputs, Iterable):
        return compute_features(feature_map, inputs, intercept)
    batches = (each[0] if isinstance(each, tuple | list) else each for each in inputs)
    parts = [compute_features(feature_map, x, intercept) for x in batches]
    if not parts:
        fail("inputs must hold at least one batch, got none.")
    return np.concatenate(parts)


class Collected(NamedTuple):
    """Features, targets, and how often each was seen, where that is given."""

    features: np.ndarray
    targets: Any
    counts: Any = None


def collect_rows(
    feature_map: Callable[[Any], Any], inputs: Any, targets: Any, counts: Any, intercept: bool
) -> Collected:
    """Return features, targets and counts; of batches, one after another, the features alone."""
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
        psi, t = compute_features(feature_map, x, intercept), read_targets(y, counted=bool(c))
        _check_lengths(len(psi), t, f" in batch {number}")
        parts.append((psi, t, *(read_array(each, "counts") for each in c)))
    if not parts:
        fail("inputs must hold at least one batch of (inputs, targets), got none.")
    if len({len(part) for part in parts}) > 1:
        fail("batches must all have counts or none: add counts of one where they are missing.")
    return Collected(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def read_targets(targets: Any, *, counted: bool) -> np.ndarray:
    """Return targets as an array; where counts say that one is missing, NaN may stand."""
    return read_array(targets, "targets", finite=not counted)


def _check_lengths(num_inputs: int, targets: Any, where: str) -> None:
    """Check that each input has its target."""
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
    if isinstance(validation, tuple | list) and not is_list_of_batches(validation):
        if len(validation) not in (2, 3):
            fail(
                "validation must be (inputs, targets), (inputs, targets, counts) or batches of "
                f"these, got {len(validation)} parts."
            )
        x, y, *c = validation
        found = collect_rows(
            feature_map, x, read_targets(y, counted=bool(c)), c[0] if c else None, intercept
        )
    else:
        found = collect_rows(feature_map, validation, None, None, intercept)
    return found[: 2 + (found.counts is not None)]


def is_list_of_batches(given: Any) -> bool:
    """Return whether a list holds tuples of arrays, rather than being one of these."""
    return bool(given) and all(
        isinstance(each, tuple | list) and all(hasattr(part, "shape") for part in each)
        for each in given
    )


def check_batches(batches: Any) -> Iterable[Any]:
    """Return what can be iterated over."""
    if not isinstance(batches, Iterable) or hasattr(batches, "shape"):
        fail(
            f"without targets, inputs must be batches of (inputs, targets) such as a DataLoader "
            f"gives, got {type(batches).__name__}; pass the targets."
        )
    return batches


def check_batch(batch: Any) -> tuple[Any, ...]:
    """Return the inputs and targets of a batch, and its counts where it has them."""
    if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
        fail(
            f"each batch must be (inputs, targets) or (inputs, targets, counts), got "
            f"{type(batch).__name__}; wrap the loader in a generator that yields these."
        )
    return tuple(batch)


def join_weights(weights: Any, bias: Any, num_features: int, intercept: bool) -> np.ndarray | None:
    """Return (K, D), the bias last where there is an intercept; None without weights."""
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
    """Return targets, with a column per output if their number is known, and the likelihood."""
    t, K = read_targets(targets, counted=counts is not None), num_outputs
    classes, named = K is not None and K > 1 and t.ndim == 1, likelihood is not None
    if likelihood is None:
        likelihood = str(Likelihood.SOFTMAX if classes else Likelihood.BERNOULLI)
    if K is None:
        return t, likelihood
    if t.ndim > 1 and t.shape[1:] != (K,):
        fail(f"targets must have shape (N,) or (N, {K}), one column per output, got {t.shape}.")
    if not classes:
        return t, likelihood
    if not named and K is not None and (t.dtype == bool or (K > 2 and np.isin(t, (0, 1)).all())):
        fail(
            f"targets of shape (N,) that hold only 0 and 1 are ambiguous for {K} outputs: give "
            f"shape (N, {K}) for yes and no, or likelihood='softmax' for class numbers."
        )
    if likelihood != Likelihood.SOFTMAX:
        fail(
            f"targets of shape (N,) are class numbers, which need likelihood='softmax'; for yes/no "
            f"outputs give shape (N, {K})."
        )
    assert K is not None
    c = check_counts(counts, len(t), np.dtype("float64"))
    return encode_classes(np.where(c == 0, 0, t), c, K), likelihood
