"""Every check of what a caller hands to the samplers, with one sentence for each mistake.

A message names the argument, what came, the rule and a way out. Nothing here is traced by JAX.
"""

from collections.abc import Iterable
from typing import Any, NoReturn

import numpy as np

from equivocal.errors import UserError, did_you_mean, listed

__all__ = [
    "check_choice",
    "checked_counts",
    "checked_features",
    "checked_int",
    "checked_positive",
    "checked_prior_mean",
    "checked_prior_variance",
    "checked_targets",
    "fail",
]


def fail(message: str) -> NoReturn:
    """Raise the one kind of error that is the caller's to mend."""
    raise UserError(message)


def _numbers(value: object, name: str) -> np.ndarray:
    """A real array of finite numbers."""
    array = np.asarray(value)
    if array.dtype == object or not (np.issubdtype(array.dtype, np.number) or array.dtype == bool):
        fail(f"{name} must hold numbers, got {array.dtype}; encode it first.")
    if np.issubdtype(array.dtype, np.complexfloating):
        fail(f"{name} must hold real numbers, got {array.dtype}; Complex data not supported.")
    if array.size and not np.isfinite(array.min() + array.max()):  # no mask of the whole array
        bad = tuple(int(i[0]) for i in np.nonzero(~np.isfinite(array))) if array.ndim else ()
        where = f" at index {bad}" if bad else ""
        fail(
            f"{name} must be finite, got {array[bad]}{where}; "
            "remove or impute NaN and infinity first."
        )
    return array


def checked_features(features: object, dtype: np.typing.DTypeLike | None) -> np.ndarray:
    """(N, D) in float32 or float64: as given, whole numbers and half precision become float64."""
    if dtype is not None and np.dtype(dtype) not in (np.dtype("float32"), np.dtype("float64")):
        fail(f"dtype must be float32 or float64, got {dtype!r}.")
    psi = _numbers(features, "features")
    if psi.ndim != 2:
        fail(f"features must have shape (N, D), got {psi.shape}; reshape one column to (N, 1).")
    if 0 in psi.shape:
        fail(f"features must have at least one row and one column, got shape {psi.shape}.")
    kind = np.dtype(dtype) if dtype is not None else psi.dtype
    wanted = np.dtype("float32") if kind == np.float32 else np.dtype("float64")
    with np.errstate(over="ignore"):
        psi = psi.astype(wanted, copy=False)
    if not np.isfinite(psi.max() - psi.min()):
        fail('features are too large for float32; rescale them or pass dtype="float64".')
    return psi


def checked_counts(counts: object, num_rows: int, dtype: np.dtype) -> np.ndarray:
    """(N,) how often each row was seen; ones where None."""
    if counts is None:
        return np.ones(num_rows, dtype)
    c = _numbers(counts, "counts")
    if c.shape != (num_rows,):
        fail(f"counts must have shape ({num_rows},), one per row of features, got {c.shape}.")
    if (c < 0).any():
        row = int(np.argmax(c < 0))
        fail(f"counts must be ≥ 0, got {c[row]} in row {row}; leave the row out instead.")
    return c.astype(dtype, copy=False)


def checked_targets(targets: object, counts: np.ndarray, *, softmax: bool) -> np.ndarray:
    """(N, K), each target between 0 and its row's count."""
    t = _numbers(targets, "targets")
    if t.ndim == 1 and softmax:
        t = _one_hot(t, counts)
    elif t.ndim == 1:
        t = t[:, None]
    if t.ndim != 2 or t.shape[1] == 0:
        fail(f"targets must have shape (N,) or (N, K) with K ≥ 1, got {np.asarray(targets).shape}.")
    if len(t) != len(counts):
        fail(f"targets must have one row per row of features, got {len(t)} for {len(counts)}.")
    t = t.astype(counts.dtype, copy=False)
    slack = 8 * np.finfo(counts.dtype).eps * np.maximum(counts, 1)[:, None]  # sums of fractions
    wrong = (t < 0) | (t > counts[:, None] + slack)
    if wrong.any():
        row, column = (int(i[0]) for i in np.nonzero(wrong))
        fail(
            f"targets must lie between 0 and the row's count, got {t[row, column]:g} with count "
            f"{counts[row]:g} in row {row}, output {column}; use 0/1, fractions, or pass counts."
        )
    if softmax and t.shape[1] < 2:
        fail("softmax needs at least 2 classes, got 1; use likelihood='bernoulli'.")
    if softmax and (np.abs(t.sum(axis=1) - counts) > 1e-5 * np.maximum(counts, 1)).any():
        row = int(np.argmax(np.abs(t.sum(axis=1) - counts)))
        fail(
            f"targets of a softmax must sum to the row's count over the classes, got "
            f"{t[row].sum():g} with count {counts[row]:g} in row {row}."
        )
    return np.minimum(t, counts[:, None])


def _one_hot(labels: np.ndarray, counts: np.ndarray) -> np.ndarray:
    if (labels != np.floor(labels)).any() or (labels < 0).any():
        fail(
            "targets of a softmax must be class numbers 0 … K−1 (one per row) or an (N, K) array, "
            f"got {labels[(labels != np.floor(labels)) | (labels < 0)][0]}."
        )
    classes = int(labels.max(initial=-1)) + 1
    if classes > 65_536:
        fail(f"targets name class {classes - 1}; number the classes from 0 without gaps.")
    if len(labels) != len(counts):
        fail(f"targets must have one row per row of features, got {len(labels)}.")
    return np.eye(classes)[labels.astype(int)] * counts[:, None]


def checked_prior_variance(variance: object, num_features: int) -> np.ndarray:
    """(D,) from a scalar or one per coordinate."""
    v = _numbers(variance, "prior_variance").astype(np.float64)
    if v.shape not in ((), (num_features,)):
        fail(
            f"prior_variance must be a number or have shape ({num_features},), one per feature, "
            f"got {v.shape}; only diagonal priors are served."
        )
    if (v <= 0).any():
        fail(
            f"prior_variance must be > 0, got {v.min():g}; to hold a weight fixed, give it a "
            "small variance such as 1e-8 and the value as its prior_mean."
        )
    return np.broadcast_to(v, (num_features,))


def checked_prior_mean(mean: object, num_outputs: int, num_features: int) -> np.ndarray:
    """(K, D), or (1, D) where all outputs share it."""
    m = _numbers(mean, "prior_mean").astype(np.float64)
    shapes = {(), (num_features,), (1, num_features), (num_outputs, num_features)}
    if m.shape not in shapes:
        fail(
            f"prior_mean must be a number or have shape ({num_features},) or "
            f"({num_outputs}, {num_features}), got {m.shape}."
        )
    return np.broadcast_to(m, (len(m) if m.ndim == 2 else 1, num_features))


def checked_int(value: object, name: str, *, least: int) -> int:
    """A whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        fail(f"{name} must be a whole number ≥ {least}, got {value!r}.")
    return int(value)


def checked_positive(value: Any, name: str, *, below: float = np.inf) -> float:
    """A finite number in (0, below)."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        fail(f"{name} must be a number, got {value!r}.")
    if not (0 < value < below and np.isfinite(value)):
        rule = "> 0" if below == np.inf else f"between 0 and {below:g}"
        fail(f"{name} must be {rule} and finite, got {value!r}.")
    return float(value)


def check_choice(value: object, name: str, options: Iterable[str]) -> None:
    """One of a few names; the nearest is suggested."""
    choices = [str(option) for option in options]
    if value not in choices:
        hint = did_you_mean(str(value), choices)
        fail(f"{name} must be one of {listed(choices)}, got {value!r}{hint or '.'}")
