"""Rows that cannot choose a prior: those that the network was trained on, or that the fit has.

On its training rows a network answers better than its own probabilities allow (`Surprise`). The
limits in `KNOWN` may be changed; they recognise the training rows of every network of
docs/peers.md, and none of the validation rows.
"""

from typing import NamedTuple

import numpy as np

from equivocal.sampling.engine.problem import Problem
from equivocal.sampling.held_out import (
    ROWS,
    count_answers,
    predict_network,
    score_log_probabilities,
    take_rows,
    take_some,
)

# a network knows rows if its loss is below this share of what it expects, by so many standard
# deviations: the surer, the nearer it may be
KNOWN = ((0.5, 2.0), (0.97, 3.0), (0.995, 5.0))
OUTPUTS = 1024  # the most that are looked at
SHARED = 0.25  # fewer rows in common are chance: those of few, discrete features
SAME = 1e-5  # of a row's largest feature; batches of other sizes differ by round-off
FEWEST_ROWS = 10  # that can choose a prior


class Surprise(NamedTuple):
    """How well a network answers rows, beside what it expects of itself; per answer."""

    loss: float
    expected: float  # over answers drawn from the network's own probabilities
    sd: float  # of that

    @property
    def knows(self) -> bool:
        """Whether it answers better than it can: training rows, or it is underconfident."""
        loss, expected, sd = self
        return any(loss < min(share * expected, expected - z * sd) for share, z in KNOWN)


def measure_surprise(problem: Problem, weights: np.ndarray) -> Surprise:
    """Return a network's loss on rows and the loss that it expects there."""
    problem, outputs = take_some(problem, OUTPUTS)
    logs = predict_network(problem, weights[outputs]).astype(np.float64)
    y = np.exp(logs)
    entropy = -(y * logs).sum(axis=-1)
    variance = (y * (logs + entropy[..., None]) ** 2).sum(axis=-1)
    c = problem.counts.reshape(problem.num_rows, -1)
    loss = score_log_probabilities(problem, logs).sum()
    sd = np.sqrt((c * variance).sum())
    totals = loss, (c * entropy).sum(), sd
    answers = max(count_answers(problem), np.finfo(float).tiny)
    return Surprise(*(float(total) / answers for total in totals))


def set_aside_shared(validation: Problem, fitted: Problem) -> tuple[Problem | None, str]:
    """Return the validation rows that the fit has not, and a warning where it has many of them."""
    some, _ = take_some(validation, validation.num_outputs)
    shared = find_shared(some.features, fitted.features)
    if shared.mean() < SHARED:
        return validation, ""
    rest = int((~shared).sum())
    warning = (
        f"{shared.sum():,} of {len(shared):,} rows of validation are rows of the fit, and say "
        "nothing of how good it is on others; they were set aside. Leave rows out of the fit, and "
        "of the network's training, and give those."
    )
    return (take_rows(some, ~shared) if rest >= FEWEST_ROWS else None), warning


def find_shared(rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return for each row whether it is among others, (N,), to round-off.

    Rows are compared with their two neighbours on one random projection.
    """
    direction = np.random.default_rng(0).standard_normal(rows.shape[1:])
    key, place = _project(rows, direction), _project(others, direction)
    order = np.argsort(place)
    after = np.searchsorted(place[order], key)
    found = np.zeros(len(rows), bool)
    for neighbour in (after - 1, after):
        near = others[order[np.clip(neighbour, 0, len(others) - 1)]]
        found |= np.abs(near - rows).max(axis=1) <= SAME * np.abs(rows).max(axis=1)
    return found


def _project(rows: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """Return one number per row in double precision, some rows at a time."""
    return np.concatenate([rows[i : i + ROWS] @ direction for i in range(0, len(rows), ROWS)])
