"""Fit a last layer to rows of features, and measure it on rows that were held out.

The method is chosen by the size of the problem: Gaussian variational inference up to K N D² =
`MOST_WORK`, some ten seconds on one core, and beyond it Laplace's approximation, which needs about
a tenth of the time and is as good where rows are many. The report says which was used.
"""

import math
import warnings
from typing import Any, NamedTuple

import jax
import numpy as np

from lastlayer.batches import Rows, agree_on_likelihood, encode_rows, join_weights
from lastlayer.checks import fail
from lastlayer.posterior import Posterior
from lastlayer.prior import FEWEST_ROWS
from lastlayer.problem import Likelihood, Problem
from lastlayer.report import (
    HeldOut,
    Report,
    average_losses,
    compare_with_network,
    compute_losses,
    measure_labels,
    measure_misses,
)
from lastlayer.sampling import sample_posterior
from lastlayer.unfamiliar import fit_familiarity

MOST_WORK = 1e11  # K N D² of variational inference on a CPU
HELD_OUT = 5  # one row in so many is held out where no validation rows are given
WORSE = 1.01  # times the network's NLL, above which the report warns


class Head(NamedTuple):
    """What is known of a trained last layer."""

    weights: Any = None  # (K, D)
    bias: Any = None  # (K,)
    intercept: bool | None = None
    notes: list[str] = []  # noqa: RUF012


def fit_rows(
    rows: Rows,
    validation: Rows | None,
    head: Head,
    *,
    names: Any = None,
    likelihood: str | None = None,
    groups: Any = None,
    **options: Any,
) -> dict[str, Any]:
    """Return the fields of a `LastLayer` that do not depend on its feature map."""
    intercept = head.intercept
    if intercept is None:
        constant = (np.ptp(rows.features, axis=0) == 0) & (rows.features[0] != 0)
        intercept = head.bias is not None or (head.weights is None and not constant.any())
    trained = join_weights(head.weights, head.bias, intercept)
    K = None if trained is None else len(trained)

    def encode(some: Rows, classes: list[str] | None) -> tuple[Rows, str, list[str] | None]:
        """Return rows with numbers for targets and all columns, what they are, and classes."""
        some, classes = encode_rows(some, classes, K)
        if intercept:
            ones = np.ones_like(some.features[:, :1])
            some = some._replace(features=np.concatenate([some.features, ones], axis=1))
        return *agree_on_likelihood(some, K, likelihood), classes

    known = 0
    rows, kind, classes = encode(rows, None if names is None else [str(name) for name in names])
    if rows.counts is not None and not rows.counts.any():
        fail("targets are missing (NaN) or count 0 in every row; give some that are known.")
    if validation is not None:
        held = encode(validation, classes)[0]
        note = f"held out: {len(held.features):,} rows given as validation"
        by = {"validation": tuple(part for part in held if part is not None), "groups": groups}
        known = _count_known(held, rows)
    else:
        left, note = _choose_held_out(len(rows.features), groups)
        by = {"groups": None if groups is None else np.asarray(groups)[~left]}
        rows, held = rows if left.all() else rows.take(~left), rows.take(left)
    notes, options = [*head.notes, note], {"prior_variance": "auto"} | options
    if "method" not in options and (work := _measure_work(rows, kind)) > MOST_WORK:
        options = {"method": "laplace", "diagnose": False} | options
        notes.append(
            f"method: Laplace's approximation, since K N D² = {work:.2g} is above {MOST_WORK:.0g};"
            " method='exact-flow' takes several times as long"
        )
    if isinstance(options["prior_variance"], str):  # "auto" chooses by these
        options |= by
    given: dict[str, Any] = {"counts": rows.counts, "likelihood": kind, "trained": trained}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        posterior = sample_posterior(rows.features, rows.targets, **given, **options)
    told = [str(each.message) for each in caught]
    for each in told:
        warnings.warn(each, UserWarning, stacklevel=3)
    kept = Problem.build(*held, 0.0, 1.0, posterior.likelihood, posterior.mean.dtype)
    answers = posterior.predict(kept.features)
    names = _name_outputs(classes, len(posterior.mean))
    on_held = HeldOut(kept, answers.probability, names)
    nll = {"posterior": average_losses(kept, compute_losses(kept, on_held.probability))}
    nll |= compare_with_network(kept, trained)
    doubts = _list_doubts(posterior, nll, kept)
    if 2 * known > len(held.features):
        doubts.append(
            f"{known:,} of {len(held.features):,} validation rows are rows of the fit, too; losses "
            "and prior are judged by rows that were seen: give rows that were held out"
        )
    report = Report(
        nll=nll,
        warnings=[*doubts, *told],
        notes=[*notes, posterior.info.message],
        labels=measure_labels(on_held, answers),
        held_out=on_held,
    )
    counts = None if rows.counts is None else rows.counts.reshape(len(rows.features), -1)
    seen = None if counts is None else counts.max(axis=1)
    return {
        "posterior": posterior,
        "intercept": bool(intercept),
        "names": names,
        "familiarity": fit_familiarity(rows.features, held.features[kept.row_counts > 0], seen),
        "misses": measure_misses(on_held),
        "report": report,
    }


def _count_known(held: Rows, rows: Rows) -> int:
    """Count the held-out rows whose features are, bit for bit, those of a row of the fit."""
    known = {row.tobytes() for row in np.asarray(rows.features)}
    features = np.asarray(held.features, np.asarray(rows.features).dtype)
    return sum(row.tobytes() in known for row in features)


def _choose_held_out(number: int, groups: Any) -> tuple[np.ndarray, str]:
    """Return which rows to hold out where no validation rows are given, and a note.

    All rows, which are then fitted, too, where there are too few.
    """
    units = np.arange(number) if groups is None else np.unique(groups, return_inverse=True)[1]
    if len(units) != number:
        fail(f"groups must have shape ({number},), one per row, got {np.shape(groups)}.")
    if number < FEWEST_ROWS or units.max() + 1 < HELD_OUT:
        return np.ones(number, bool), "held out: none, there are too few; measured on the fit's own"
    left = (np.random.default_rng(0).permutation(units.max() + 1) % HELD_OUT == 0)[units]
    return left, (
        f"held out: {left.sum():,} of {number:,} rows, drawn at random; if the network was trained "
        "on them, pass others as validation"
    )


def _measure_work(rows: Rows, likelihood: str) -> float:
    """Return K N D² of yes/no outputs on a CPU; elsewhere size chooses no other method."""
    if likelihood == Likelihood.SOFTMAX or jax.default_backend() != "cpu":
        return 0.0
    return float(math.prod(rows.targets.shape)) * rows.features.shape[1] ** 2


def _name_outputs(names: list[str] | None, number: int) -> list[str]:
    if names is None:
        return [str(k) for k in range(number)]
    if number == 1 and len(names) == 2:  # no and yes
        return names[1:]
    if len(names) != number:
        fail(f"names must have {number} entries, one per output, got {len(names)}.")
    return names


def _list_doubts(posterior: Posterior, nll: dict[str, float], problem: Problem) -> list[str]:
    """Return what speaks against using the posterior."""
    info, number = posterior.info, int((problem.row_counts > 0).sum())
    doubts = {
        info.message: not info.converged,
        "a Gaussian is not enough for some outputs; pass refine=True": (
            not info.gaussian_enough and not info.refined.any()
        ),
        "the posterior predicts held-out rows worse than the network": (
            nll["posterior"] > WORSE * nll.get("network", np.inf)
        ),
        f"only {number} held-out rows: what is said of them is uncertain": number < FEWEST_ROWS,
    }
    return [doubt for doubt, applies in doubts.items() if applies]
