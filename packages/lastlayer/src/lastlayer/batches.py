"""Turn a network's inputs and targets, whole or in batches, into the rows that a posterior takes.

A batch is (inputs, targets), (inputs, targets, counts), or a dictionary of inputs whose targets are
under one of `LABELS`; batches are read one after another, and only their features are kept. Targets
are numbers, booleans, strings, sparse arrays or data frames; NaN and None are missing labels.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from lastlayer.checks import check_counts, check_numbers, encode_classes, fail, name_argument
from lastlayer.errors import join_names
from lastlayer.problem import Likelihood

FeatureMap = Callable[[Any], Any]
LABELS = ("labels", "label", "targets", "target", "y")


class Rows(NamedTuple):
    """Features, and targets as they were given."""

    features: np.ndarray  # (N, D)
    targets: np.ndarray  # (N,) or (N, K)
    counts: np.ndarray | None = None  # (N,) or (N, K)

    def take(self, which: np.ndarray) -> "Rows":
        """Return some of the rows."""
        counts = None if self.counts is None else self.counts[which]
        return Rows(self.features[which], self.targets[which], counts)


def read_array(value: Any, name: str, *, finite: bool = True) -> np.ndarray:
    """Return an array or a tensor of any device in NumPy, half precision as float32."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.dequantize() if value.is_quantized else value
        value = value.float() if value.is_floating_point() and value.itemsize < 4 else value
        value = value.numpy()
    elif str(getattr(value, "dtype", "")) in {"bfloat16", "float16"}:
        value = np.asarray(value).astype(np.float32)
    return check_numbers(value, name, finite=finite)


def compute_features(feature_map: FeatureMap, inputs: Any, intercept: bool) -> np.ndarray:
    """Return ψ of raw inputs, (N, D), with a column of ones where there is an intercept."""
    psi = read_array(feature_map(inputs), "features")
    if psi.ndim != 2:
        fail(f"features must be one row per input, (N, D), got shape {psi.shape}.")
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


def iterate_batches(given: Any, batch_size: int) -> tuple[Any, Iterator[Any]]:
    """Return the inputs of the first batch, and all batches."""
    batches: Any = given
    if isinstance(given, Mapping) or (
        isinstance(given, tuple | list) and not _is_list_of_batches(given)
    ):
        batches = [given]
    elif hasattr(given, "__getitem__") and not isinstance(given, list) and _has_batches(given):
        from torch.utils.data import DataLoader

        batches = DataLoader(given, batch_size=batch_size)
    elif not isinstance(given, Iterable) or hasattr(given, "shape"):
        fail(
            "rows must be (inputs, targets) or batches of them, such as a DataLoader gives, got "
            f"{type(given).__name__}; pass the targets, too."
        )
    iterator = iter(batches)
    first = next(iterator, None)
    if first is None:
        fail("rows must hold at least one batch, got none.")
    return split_batch(first)[0], chain([first], iterator)


def _has_batches(given: Any) -> bool:
    """Return whether this is a map-style dataset of PyTorch or Hugging Face."""
    return hasattr(given, "__len__") and not hasattr(given, "shape")


def _is_list_of_batches(given: Any) -> bool:
    """Return whether a list holds batches, and is not itself one batch."""
    return bool(given) and all(
        isinstance(each, Mapping)
        or (isinstance(each, tuple | list) and all(hasattr(part, "shape") for part in each))
        for each in given
    )


def split_batch(batch: Any) -> tuple[Any, Any, Any]:
    """Return the inputs and targets of a batch, and its counts where it has them."""
    if isinstance(batch, Mapping):
        name = next((name for name in LABELS if name in batch), None)
        if name is None:
            known = join_names(map(str, batch))
            fail(f"a dictionary of inputs needs its targets under 'labels', got {known}.")
        return drop_labels(batch), batch[name], None
    if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
        fail(
            "batches must be (inputs, targets), (inputs, targets, counts) or dictionaries with "
            f"'labels', got {type(batch).__name__}; wrap the loader in a generator of these."
        )
    return (*batch, None)[:3]


def drop_labels(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a dictionary of inputs without its targets."""
    return {str(name): value for name, value in batch.items() if name not in LABELS}


def collect_rows(feature_map: FeatureMap, batches: Iterable[Any], intercept: bool) -> Rows:
    """Return the features, targets and counts of all batches."""
    parts = []
    for batch in batches:
        x, y, c = split_batch(batch)
        psi, t = compute_features(feature_map, x, intercept), read_targets(y)
        if len(t) != len(psi):
            fail(f"targets must have one row per input, got {len(t):,} for {len(psi):,} inputs.")
        counted = [] if c is None else [np.atleast_1d(read_array(c, "counts"))]
        parts.append((psi, t, *counted))
    if len({len(part) for part in parts}) != 1:
        fail("either all batches must have counts, or none.")
    return Rows(*map(np.concatenate, zip(*parts, strict=True)))


def read_targets(value: Any) -> np.ndarray:
    """Return targets as an array of numbers, which may be NaN, or of objects (names of classes)."""
    if hasattr(value, "toarray"):
        value = value.toarray()
    elif hasattr(value, "to_numpy"):  # pandas
        value = value.to_numpy()
    if not hasattr(value, "detach"):
        array = np.atleast_1d(np.asarray(value))
        words = array.dtype == object and any(isinstance(v, str) for v in array.flat)
        if words or array.dtype.kind in "US":
            if array.size != len(array):
                fail(f"names of classes must have shape (N,), got {array.shape}; give 0 and 1.")
            return array.ravel().astype(object)
        value = array.astype(float) if array.dtype == object else array
    array = np.atleast_1d(read_array(value, "targets", finite=False))
    if np.isinf(array).any():
        fail("targets must be finite, or NaN where a label is missing.")
    return array


def list_names(targets: Any) -> list[str] | None:
    """Return the names of the outputs that targets carry as columns of a data frame."""
    names = getattr(targets, "columns", None)
    return None if names is None else [str(name) for name in names]


def encode_rows(
    rows: Rows, classes: list[str] | None, num_outputs: int | None
) -> tuple[Rows, list[str] | None]:
    """Return rows whose targets are numbers, with counts of 0 for missing ones, and the classes.

    Two named classes are one yes/no output, the second named by yes, unless there are two outputs.
    """
    t, c = rows.targets, rows.counts
    if t.dtype != object:
        missing = np.isnan(t) if t.dtype.kind == "f" else np.zeros(t.shape, bool)
    else:
        missing = np.array([not isinstance(v, str) for v in t])
        classes = sorted(set(t[~missing])) if classes is None else classes
        if unknown := set(t[~missing]) - set(classes):
            fail(f"targets hold {min(unknown)!r}, which is none of {join_names(classes)}.")
        numbers = {name: float(i) for i, name in enumerate(classes)}
        t = np.array([numbers.get(v, np.nan) for v in t])
        if len(classes) == 2 and num_outputs in (None, 1):
            t = t[:, None]
            missing = missing[:, None]
    if missing.any():
        given = np.ones(len(t)) if c is None else c
        if t.ndim == 2 and given.ndim == 1:
            given = given[:, None]
        c, t = np.where(missing, 0, given), np.where(missing, 0, t)
    return Rows(rows.features, t, c), classes


def collect_validation(
    feature_map: FeatureMap, validation: Any, intercept: bool, batch_size: int
) -> Rows:
    """Return the features, targets and counts of validation rows."""
    with name_argument("validation"):
        _, batches = iterate_batches(validation, batch_size)
        return collect_rows(feature_map, batches, intercept)


def join_weights(weights: Any, bias: Any, intercept: bool) -> np.ndarray | None:
    """Return trained weights (K, D), the bias as last column if there is an intercept, or None."""
    if bias is not None and (weights is None or not intercept):
        fail("bias is the trained intercept: it needs weights and intercept=True.")
    if weights is None:
        return None
    W = read_array(weights, "weights")
    b = np.zeros(W.shape[:1], W.dtype) if bias is None else read_array(bias, "bias")
    if W.ndim != 2 or b.shape != (len(W),):
        fail(f"weights must have shape (K, D) and bias (K,), got {W.shape} and {b.shape}.")
    return np.concatenate([W, b[:, None]], axis=1) if intercept else W


def agree_on_likelihood(
    rows: Rows, num_outputs: int | None, likelihood: str | None
) -> tuple[Rows, str]:
    """Return the rows, class numbers as one column per output, and the likelihood.

    Without weights, `num_outputs` is None and class numbers stay as they are.
    """
    t, K, c = rows.targets, num_outputs, rows.counts
    if K is not None and t.ndim > 1 and t.shape[1:] != (K,):
        fail(f"targets must have shape (N,) or (N, {K}), one column per output, got {t.shape}.")
    if K is None or K < 2 or t.ndim != 1:
        return rows, str(Likelihood.BERNOULLI) if likelihood is None else likelihood
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
    weights = check_counts(c, len(t), np.dtype("float64"))
    coded = encode_classes(np.where(weights == 0, 0, t), weights, K)
    return Rows(rows.features, coded, c), str(Likelihood.SOFTMAX)
