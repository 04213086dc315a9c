"""Rows held out of a fit, and losses on them.

Losses are sums over a row's counts. Divided by the number of answers (`count_answers`), they are
the NLL of a yes/no answer, or of a class.

On rows that a network was trained on it predicts better than its own probabilities allow, and so
does an underconfident network on any rows (`measure_surprise`): a reason for suspicion, no proof.
The limits in `KNOWN` may be changed.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from equivocal.sampling.engine.problem import Likelihood, Problem
from equivocal.sampling.predictions import average_logistic

FEWEST_ROWS = 30  # fewer choose no prior
ROWS, OUTPUTS = 8_000, 128  # the most rows and outputs by which a prior is chosen
FOLDS = 5  # parts of the rows; they are left out one after another until enough rows have been
ENOUGH = 300  # rows, or groups of rows
# A network is surprising if its loss is below this share of the loss that it expects, and below it
# by so many standard deviations: the larger the share, the more deviations are required.
KNOWN = ((0.5, 2.0), (0.97, 3.0), (0.995, 5.0))


class Logits(NamedTuple):
    """Independent Gaussian logits of rows and outputs, (N, K)."""

    mean: np.ndarray
    variance: np.ndarray | None = None  # None: zero


@dataclass(frozen=True, eq=False)
class Fold:
    """A problem to fit, and rows to score the fit by."""

    fitted: Problem
    held_out: Problem


def take_some(problem: Problem, most: int = OUTPUTS) -> tuple[Problem, np.ndarray, np.ndarray]:
    """Return a problem of at most `ROWS` rows and `most` outputs, its outputs and its rows."""
    N, K = problem.num_rows, problem.num_outputs
    outputs, rows = np.arange(K), np.arange(N)
    if most < K and problem.likelihood is Likelihood.BERNOULLI:
        outputs = np.linspace(0, K - 1, most).round().astype(int)
        problem = problem.select(outputs)
    if N > ROWS:
        rows = np.random.default_rng(0).choice(N, ROWS, replace=False)
        problem = take_rows(problem, rows)
    return problem, outputs, rows


def take_rows(problem: Problem, rows: np.ndarray) -> Problem:
    """Return the problem of some of its rows."""
    parts = {name: getattr(problem, name)[rows] for name in ("features", "targets", "counts")}
    return replace(problem, **parts)


def make_folds(problem: Problem, groups: np.ndarray | None = None) -> list[Fold]:
    """Leave out parts of the rows in turn, a group's rows always together.

    Rows that are left out stay in the problem with a count of zero, so that all folds share their
    features.
    """
    names = np.arange(problem.num_rows) if groups is None else groups
    found, group = np.unique(names, return_inverse=True)
    parts = min(FOLDS, len(found))
    number = min(parts, -(-ENOUGH * parts // len(found)))
    part = (np.random.default_rng(0).permutation(len(found)) % parts)[group]
    folds = []
    for i in range(number):
        kept = (part != i)[:, None]
        t, c = problem.targets * kept, (problem.counts.T * kept[:, 0]).T
        held_out = take_rows(problem, part == i)
        folds.append(Fold(replace(problem, targets=t, counts=c), held_out))
    return folds


def join_rows(problems: list[Problem]) -> Problem:
    """Return one problem of the rows of several."""
    names = ("features", "targets", "counts")
    parts: dict[str, Any] = {
        name: np.concatenate([getattr(each, name) for each in problems]) for name in names
    }
    return replace(problems[0], **parts)


def count_answers(problem: Problem) -> float:
    """Return the number of answers: the sum of the counts over rows and yes/no outputs."""
    one_each = problem.likelihood is Likelihood.BERNOULLI and problem.counts.ndim == 1
    return float(problem.counts.sum(dtype=np.float64)) * (problem.num_outputs if one_each else 1)


def compute_logits(problem: Problem, mean: np.ndarray, factor: np.ndarray) -> Logits:
    """Return mean and variance of each row's logits, (N, K), under N(mean, factor factorᵀ)."""
    psi = problem.features
    v = np.stack([((psi @ G) ** 2).sum(axis=1) for G in factor], axis=1)
    return Logits(psi @ mean.T, v)


def predict_log_probabilities(problem: Problem, logits: Logits) -> np.ndarray:
    """Return log probabilities of each answer, averaged over Gaussian logits.

    (N, K, 2) for yes and no, or (N, 1, K) for classes, whose average is MacKay's approximation.
    """
    mu, v = logits
    if problem.likelihood is Likelihood.SOFTMAX:
        mu = mu if v is None else mu / np.sqrt(1 + np.pi / 8 * v)
        shifted = mu - mu.max(axis=1, keepdims=True)
        return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))[:, None]
    size = np.abs(mu)
    tail = np.exp(-np.logaddexp(0, size)) if v is None else np.asarray(average_logistic(mu, v).tail)
    tail = np.clip(tail, np.finfo(tail.dtype).tiny, 0.5)
    less, more = np.log(tail), np.log1p(-tail)
    return np.stack([np.where(mu > 0, more, less), np.where(mu > 0, less, more)], axis=-1)


def score(problem: Problem, logs: np.ndarray) -> np.ndarray:
    """Return the loss of each row and output, (N, K), or (N, 1) for classes."""
    t = problem.targets.astype(np.float64)
    if problem.likelihood is Likelihood.SOFTMAX:
        return -(t * logs[:, 0]).sum(axis=1, keepdims=True)
    no = problem.counts.reshape(len(t), -1) - t
    return np.asarray(-(t * logs[..., 0] + no * logs[..., 1]))


def measure_noise(problem: Problem, logs: np.ndarray, others: np.ndarray) -> float:
    """Return the variance of a difference of losses under answers drawn from one of the two models.

    It is the larger of the two variances. Unlike the variance over rows, it includes rare answers
    that did not occur.
    """
    d, c = (logs - others).astype(np.float64), problem.counts.reshape(len(logs), -1)
    variances = []
    for y in (np.exp(logs), np.exp(others)):
        variance = (y * d**2).sum(axis=-1) - (y * d).sum(axis=-1) ** 2
        variances.append(float((c * variance).sum()))
    return max(variances)


class Surprise(NamedTuple):
    """A network's loss on rows, and the loss that its own probabilities predict; per answer."""

    loss: float
    expected: float  # mean loss over answers drawn from the network's own probabilities
    sd: float  # standard deviation of the loss over such answers

    @property
    def knows(self) -> bool:
        """Whether the loss is too low for new rows, unless the network is underconfident."""
        loss, expected, sd = self
        return any(loss < min(share * expected, expected - z * sd) for share, z in KNOWN)


def measure_surprise(problem: Problem, weights: np.ndarray) -> Surprise:
    """Return a network's loss on rows, and the loss that its probabilities predict there."""
    problem, outputs, _ = take_some(problem)
    logits = Logits(problem.features @ weights[outputs].T)
    logs = predict_log_probabilities(problem, logits).astype(np.float64)
    y = np.exp(logs)
    entropy = -(y * logs).sum(axis=-1)
    variance = (y * (logs + entropy[..., None]) ** 2).sum(axis=-1)
    c = problem.counts.reshape(problem.num_rows, -1)
    sd = np.sqrt((c * variance).sum())
    totals = score(problem, logs).sum(), (c * entropy).sum(), sd
    answers = max(count_answers(problem), np.finfo(float).tiny)
    return Surprise(*(float(total) / answers for total in totals))
