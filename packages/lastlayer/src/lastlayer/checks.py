"""Checks of the arguments that callers pass to the samplers, with one sentence for each mistake.

A message names the argument, the value received, the rule and a way out. JAX traces nothing here.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from lastlayer.errors import UserError, did_you_mean, join_names

MOST_CLASSES = 65_536

__all__ = ["check_bool", "check_choice", "check_int", "fail"]


def fail(message: str) -> NoReturn:
    """Raise the one kind of error that the caller can fix."""
    raise UserError(message)


@contextmanager
def name_argument(name: str) -> Iterator[None]:
    """Put the name of an argument before messages about its parts: "validation features must …"."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{name} {error}") from None


def check_numbers(value: Any, name: str, *, finite: bool = True) -> np.ndarray:
    """Return an array of real numbers; unless `finite` is False, they must be finite."""
    if hasattr(value, "toarray"):
        fail(f"{name} must be a dense array, got a sparse {type(value).__name__}; use .toarray().")
    if isinstance(value, np.ma.MaskedArray) and np.ma.getmaskarray(value).any():
        fail(f"{name} must have no masked entries; impute them with .filled(...) or drop the rows.")
    try:
        array = np.asarray(value)
        if array.dtype == object:  # a data frame of several kinds of numbers, nullable ones
            array = array.astype(np.float64)
    except (TypeError, ValueError, RuntimeError, OSError) as error:  # ragged; a damaged file
        said = str(error).split("\n")[0].rstrip(".")
        fail(f"{name} must be one array of numbers, with rows of equal length: {said}.")
    if not np.can_cast(array.dtype, np.longdouble):
        fail(f"{name} must hold real numbers, got {array.dtype}; encode them first.")
    # a mask of the whole array would take memory; NaN is both its minimum and its maximum
    if finite and array.size and not (np.isfinite(array.min()) and np.isfinite(array.max())):
        bad = tuple(int(i[0]) for i in np.nonzero(~np.isfinite(array))) if array.ndim else ()
        way_out = "remove or impute NaN and infinity first"
        if name.endswith("targets"):
            way_out = "leave such labels out with counts of 0"
        fail(f"{name} must be finite, got {array[bad]} at index {bad}; {way_out}.")
    return array


def check_features(features: object, dtype: Any, name: str = "features") -> np.ndarray:
    """Return (N, D) in the precision of `choose_dtype`; errors call it `name`."""
    psi = check_numbers(features, name)
    if psi.ndim != 2 or 0 in psi.shape:
        fail(
            f"{name} must have shape (N, D), N and D at least one, got {psi.shape}; reshape one "
            "column to (N, 1), and flatten what belongs to a row."
        )
    return _convert(psi, name, choose_dtype(psi, dtype))


def choose_dtype(features: Any, dtype: Any) -> np.dtype:
    """Return the precision of a run: as given, or float32 if the features are, else float64."""
    single, double = np.dtype("float32"), np.dtype("float64")
    if dtype is None:
        return single if features.dtype == single else double
    if dtype not in ("float32", "float64", np.float32, np.float64, single, double):
        fail(f"dtype must be float32 or float64, got {dtype!r}.")
    return np.dtype(dtype)


def _convert(array: np.ndarray, name: str, dtype: np.dtype) -> np.ndarray:
    """Convert to the precision of the run, in which all numbers must still be finite."""
    with np.errstate(over="ignore", under="ignore"):
        converted: np.ndarray = array.astype(dtype, copy=False)
    if converted.size and not (np.isfinite(converted.min()) and np.isfinite(converted.max())):
        largest = max(-float(array.min()), float(array.max()))
        fail(
            f"{name} must stay below {np.finfo(dtype).max:.0e} in {dtype}, got {largest:.0e}; "
            'rescale or sample with dtype="float64".'
        )
    return converted


def check_counts(counts: object, num_rows: int, dtype: np.dtype, targets: Any = None) -> np.ndarray:
    """Return how often each row was seen, (N,), or each target, (N, K); by default ones."""
    if counts is None:
        return np.ones(num_rows, dtype)
    c = check_numbers(counts, "counts")
    if c.shape != (num_rows,) and not (c.ndim == 2 and c.shape == np.shape(targets)):
        fail(f"counts must have shape ({num_rows},), or (N, K) as targets have, got {c.shape}.")
    if (c < 0).any():
        row, *_ = np.argwhere(c < 0)[0]
        fail(f"counts must be ≥ 0, got {c[c < 0][0]} in row {row}; use 0 to leave it out.")
    return _convert(c, "counts", dtype)


def check_targets(targets: object, counts: np.ndarray, *, softmax: bool) -> np.ndarray:
    """Return (N, K) targets, each between 0 and its row's count."""
    if counts.ndim == 2 and softmax:
        fail("counts of shape (N, K) are for likelihood='bernoulli'; a softmax takes (N,).")
    t = check_numbers(targets, "targets", finite=bool(counts.all()))
    if t.ndim not in (1, 2) or 0 in t.shape[1:]:
        fail(f"targets must have shape (N,) or (N, K) with K ≥ 1, got {t.shape}.")
    if len(t) != len(counts):
        fail(f"targets must have one row per row of features, got {len(t)} for {len(counts)}.")
    if not counts.all():  # NaN may stand for a missing target
        t = np.where(counts.reshape(*counts.shape, *[1] * (t.ndim - counts.ndim)) == 0, 0, t)
        check_numbers(t, "targets")
    if t.ndim == 1:
        t = encode_classes(t, counts) if softmax else t[:, None]
    t = _clip_to_counts(_convert(t, "targets", counts.dtype), counts)
    if softmax and t.shape[1] < 2:
        fail("targets of a softmax need at least 2 classes, got 1; use likelihood='bernoulli'.")
    if softmax and (np.abs(t.sum(axis=1) - counts) > 1e-5 * np.maximum(counts, 1)).any():
        row = int(np.argmax(np.abs(t.sum(axis=1) - counts)))
        fail(
            f"targets of a softmax must sum to the row's count over the classes, got "
            f"{t[row].sum():g} with count {counts[row]:g} in row {row}."
        )
    return t


def _clip_to_counts(t: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Check targets against 0 and their counts; clip what exceeds a count by round-off."""
    c = counts if counts.ndim == 2 else counts[:, None]
    wrong = (t < 0) | (t > c + 8 * np.finfo(c.dtype).eps * np.maximum(c, 1))
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        count = np.broadcast_to(c, t.shape)[row, column]
        fail(
            f"targets must lie between 0 and the row's count, got {t[row, column]:g} with count "
            f"{count:g} in row {row}, output {column}; use 0/1, fractions, or pass counts; for "
            "class numbers, (N,), pass likelihood='softmax'."
        )
    return np.minimum(t, c)


def encode_classes(
    labels: np.ndarray, counts: np.ndarray, num_classes: int | None = None
) -> np.ndarray:
    """Return (N, K) rows that sum to the counts, from class numbers.

    A class may be absent only where their number is known.
    """
    most = MOST_CLASSES if num_classes is None else num_classes
    wrong = (labels != np.floor(labels)) | (labels < 0) | (labels >= most)
    if wrong.any():
        last = "K−1" if num_classes is None else num_classes - 1
        fail(
            f"targets of a softmax must be class numbers 0 … {last} (one per row) or an (N, K) "
            f"array, got {labels[wrong][0]}."
        )
    classes = num_classes or int(labels.max(initial=-1)) + 1
    if num_classes is None and len(np.unique(labels)) < classes:
        fail(
            f"targets of a softmax name class {classes - 1} and leave out another: number the "
            "classes from 0 without gaps, or pass an (N, K) array."
        )
    return np.eye(classes)[labels.astype(int)] * counts[:, None]


def check_prior_variance(
    variance: object, num_features: int, dtype: np.dtype, num_outputs: int = 0
) -> np.ndarray:
    """Return (D,) variances, or (K, D) where outputs have their own; the precision must hold them.

    They are given as one number, one per feature, or, unless `num_outputs` is 0, as one or D
    numbers per output.
    """
    if variance is None or isinstance(variance, str):
        hint = did_you_mean(str(variance), ["auto"]) or "."
        fail(f"prior_variance must be 'auto' or numbers, got {variance!r:.60}{hint}")
    v = check_numbers(variance, "prior_variance").astype(np.float64)
    each = [(num_outputs, 1), (num_outputs, num_features)] if num_outputs else []
    if v.shape not in (shapes := [(), (num_features,), *each]):
        fail(
            f"prior_variance must have one of the shapes {shapes}, got {v.shape}; only diagonal "
            "priors are served."
        )
    least, most = np.finfo(dtype).tiny, np.finfo(dtype).max / 1e6  # room for sums of variances
    wrong = v[~((least <= v) & (v <= most))]
    if wrong.size:
        fail(
            f"prior_variance must lie between {least:.0e} and {most:.0e} in {dtype}, got "
            f"{wrong[0]:g}: rescale the features so that it is near 1; to hold a weight fixed, use "
            "a small one such as 1e-8 and the value as its prior_mean."
        )
    if v.ndim < 2 or (v == v[0]).all():
        return np.broadcast_to(v if v.ndim < 2 else v[0], (num_features,))
    return np.broadcast_to(v, (num_outputs, num_features))


def check_prior_mean(
    mean: object, num_outputs: int, num_features: int, dtype: np.dtype
) -> np.ndarray:
    """Return (K, D), or (1, D) where all outputs share it."""
    m = _convert(check_numbers(mean, "prior_mean"), "prior_mean", dtype)
    shapes = {(), (num_features,), (1, num_features), (num_outputs, num_features)}
    if m.shape not in shapes:
        fail(
            f"prior_mean must be a number or have shape ({num_features},) or "
            f"({num_outputs}, {num_features}), got {m.shape}."
        )
    return np.broadcast_to(m, (len(m) if m.ndim == 2 else 1, num_features))


def check_int(value: object, name: str, *, least: int, most: int | None = None) -> int:
    """Return a whole number from `least` to `most`."""
    greatest = np.inf if most is None else most
    if (
        isinstance(value, bool)
        or not isinstance(value, int | np.integer)
        or not least <= value <= greatest
    ):
        rule = f"≥ {least}" if most is None else f"between {least} and {most}"
        fail(f"{name} must be a whole number {rule}, got {value!r:.60}.")
    return int(value)


def check_bool(value: object, name: str) -> bool:
    """Return True or False; refuse other values, even those that Python takes for true."""
    if not isinstance(value, bool | np.bool_):
        fail(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def check_positive(value: Any, name: str, *, below: float = np.inf) -> float:
    """Return a finite number in (0, below)."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        fail(f"{name} must be a number, got {value!r}.")
    if not (0 < value < below and value <= np.finfo(float).max):  # nor is NaN
        rule = "> 0" if below == np.inf else f"between 0 and {below:g}"
        fail(f"{name} must be {rule} and finite, got {value!r:.60}.")
    return float(value)


def check_choice(value: object, name: str, options: Iterable[str]) -> None:
    """Check that a value is one of a few names; suggest the nearest."""
    choices = [str(option) for option in options]
    if value not in choices:
        hint = did_you_mean(str(value), choices)
        fail(f"{name} must be one of {join_names(choices)}, got {value!r}{hint or '.'}")
