"""Rows held out of a fit: which of them may choose a prior, and log losses on them.

Losses are sums over a row's counts. Divided by the number of answers (`count_answers`), they are
the NLL of a yes/no answer, or of a class.

Rows that the network was trained on, or that are part of the fit, cannot choose a prior. On its
training rows a network predicts better than its own probabilities allow (`Surprise`). The limits in
`KNOWN` may be changed; they recognise the training rows of every network of docs/peers.md, and none
of the validation rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from equivocal.sampling.engine.problem import Likelihood, Problem
from equivocal.sampling.predictions import average_logistic

ROWS, OUTPUTS = 8_000, 128  # the most rows and outputs by which a prior is chosen
FOLDS = 5  # parts of the rows; they are left out one after another until enough rows have been
ENOUGH, MANY = 300, 10  # held-out rows; half as many are enough with so many labels each
# A network was trained on rows if its loss is below this share of the loss that it expects, and
# below it by so many standard deviations: the larger the share, the more deviations are required.
KNOWN = ((0.5, 2.0), (0.97, 3.0), (0.995, 5.0))
MORE_OUTPUTS = 1024  # the most outputs by which training rows are recognised
SHARED = 0.25  # a smaller share of common rows may be chance, with few discrete features
SAME = 1e-5  # relative to a row's largest feature; batches of other sizes differ by round-off
FEWEST_ROWS = 10  # with fewer, no prior is chosen


class Logits(NamedTuple):
    """Independent Gaussian logits of rows and outputs, (N, K)."""

    mean: np.ndarray
    variance: np.ndarray


@dataclass(frozen=True, eq=False)
class Fold:
    """A problem to fit, and rows to score the fit by."""

    fitted: Problem
    held_out: Problem


def take_some(problem: Problem, most: int = OUTPUTS) -> tuple[Problem, np.ndarray]:
    """Return a problem of at most `ROWS` rows and `most` outputs, and which outputs it has."""
    N, K = problem.num_rows, problem.num_outputs
    outputs = np.arange(K)
    if most < K and problem.likelihood is Likelihood.BERNOULLI:
        outputs = np.linspace(0, K - 1, most).round().astype(int)
        problem = problem.select(outputs)
    if N > ROWS:
        problem = take_rows(problem, np.random.default_rng(0).choice(N, ROWS, replace=False))
    return problem, outputs


def take_rows(problem: Problem, rows: np.ndarray) -> Problem:
    """Return the problem of some of its rows."""
    parts = {name: getattr(problem, name)[rows] for name in ("features", "targets", "counts")}
    return replace(problem, **parts)


def make_folds(problem: Problem, validation: Problem | None) -> Iterator[Fold]:
    """Yield problems to fit, each with the rows to score it by: those given, or parts left out.

    Rows that are left out stay in the problem with a count of zero, so that all folds have the same
    shape and share one compiled program.
    """
    if validation is not None:
        yield Fold(problem, validation)
        return
    N = problem.num_rows
    parts = min(FOLDS, N)
    many = problem.likelihood is Likelihood.BERNOULLI and problem.num_outputs >= MANY
    number = min(parts, -(-(ENOUGH // 2 if many else ENOUGH) * parts // N))
    part = np.random.default_rng(0).permutation(N) % parts
    for i in range(number):
        kept = (part != i).reshape(-1, *[1] * (problem.counts.ndim - 1))
        t, c = problem.targets * (part != i)[:, None], problem.counts * kept
        yield Fold(replace(problem, targets=t, counts=c), take_rows(problem, part == i))


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

    (N, K, 2) for yes and no, or (N, 1, K) for classes, whose logits have no variance here.
    """
    mu, v = logits
    if problem.likelihood is Likelihood.SOFTMAX:
        return _log_softmax(mu)[:, None]
    return _take_logs(mu, np.asarray(average_logistic(mu, v).tail))


def predict_network(problem: Problem, weights: np.ndarray) -> np.ndarray:
    """Return log probabilities of each answer under the network's weights.

    (N, K, 2) for yes and no, or (N, 1, K) for classes.
    """
    logits = problem.features @ weights.T.astype(problem.dtype)
    if problem.likelihood is Likelihood.SOFTMAX:
        return _log_softmax(logits)[:, None]
    return _take_logs(logits, np.exp(-np.logaddexp(0, np.abs(logits))))


def score_log_probabilities(problem: Problem, logs: np.ndarray) -> np.ndarray:
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
        """Whether the loss is too low for new rows: training rows, or an underconfident network."""
        loss, expected, sd = self
        return any(loss < min(share * expected, expected - z * sd) for share, z in KNOWN)


def measure_surprise(problem: Problem, weights: np.ndarray) -> Surprise:
    """Return a network's loss on rows, and the loss that its probabilities predict there."""
    problem, outputs = take_some(problem, MORE_OUTPUTS)
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
    """Return validation rows that are not rows of the fit, and a warning if many of them are."""
    some, _ = take_some(validation, validation.num_outputs)
    shared = find_shared(some.features, fitted.features)
    if shared.mean() < SHARED:
        return validation, ""
    rest = int((~shared).sum())
    warning = (
        f"{shared.sum():,} of {len(shared):,} rows of validation are rows of the fit, and cannot "
        "show how good it is on other rows; they were set aside. Leave rows out of the fit and of "
        "the network's training, and pass those."
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


def _take_logs(mu: np.ndarray, tail: np.ndarray) -> np.ndarray:
    """Return log P(yes) and log P(no) from the logit's sign and the less likely answer's P."""
    tail = np.clip(tail, np.finfo(tail.dtype).tiny, 0.5)
    less, more = np.log(tail), np.log1p(-tail)
    return np.stack([np.where(mu > 0, more, less), np.where(mu > 0, less, more)], axis=-1)


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))
