"""Priors N(m₀, v I), fitted to rows and scored on others that were held out.

Columns of ψ that are constant are intercepts. Under a prior about zero they get the wide variance
`INTERCEPT`, since the frequency of an answer does not tell how large the other weights are.

Where there is a network with weights W, mixtures of a fit θ with the network are scored, too,

    (1 − s) θ + s W,        0 ≤ s < 1,                                                         (1)

which mixes the logits of the two. The loss is convex in them, so a mixture loses at most the mixed
loss, and its difference from the network's own loss has 1 − s times the noise.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from equivocal.sampling.engine.classes import find_mode
from equivocal.sampling.engine.problem import Likelihood, Problem
from equivocal.sampling.engine.settings import RunSettings
from equivocal.sampling.held_out import (
    Fold,
    Logits,
    compute_logits,
    count_answers,
    measure_noise,
    predict_log_probabilities,
    predict_network,
    score_log_probabilities,
)
from equivocal.sampling.samplers.mean_field import RULE, Fit, run_gaussian

# Prior variance of an intercept's logit: base rates from 0.01 % to 99.99 % lie within two sd.
INTERCEPT = 25.0


@dataclass(frozen=True, eq=False)
class Prior:
    """Independent Gaussian weights; one row where all outputs share it."""

    mean: np.ndarray  # (1, D) or (K, D)
    variance: np.ndarray  # (1, D) or (K, D)
    size: np.ndarray  # (1,) or (K,): v, the variance of weights that are no intercepts

    def select(self, outputs: np.ndarray) -> "Prior":
        """Return the prior of some outputs."""
        parts = (self.mean, self.variance, self.size)
        return Prior(*(part if len(part) == 1 else part[outputs] for part in parts))

    def apply(self, problem: Problem) -> Problem:
        """Return the problem with this prior."""
        scale = np.sqrt(self.variance).astype(problem.dtype)
        mean = np.broadcast_to(self.mean, (problem.num_outputs, problem.num_features))
        return replace(
            problem,
            prior_mean=mean.astype(problem.dtype),
            prior_scale=scale[0] if len(scale) == 1 else scale,
        )


@dataclass(frozen=True, eq=False)
class Candidate:
    """A prior with its fits, one for each fold, and their losses on held-out rows."""

    prior: Prior
    fits: list[Fit]
    losses: np.ndarray  # (N,), of each row, summed over outputs
    by_output: np.ndarray  # (K,), of each output, summed over rows
    share: float = 0.0  # s of (1)
    noise: float = 0.0  # variance of the difference from the network's loss, by `measure_noise`

    @property
    def loss(self) -> float:
        """The loss summed over all held-out rows."""
        return float(self.losses.sum())


@dataclass(frozen=True, kw_only=True, eq=False)
class Contest:
    """The data that candidates are fitted to, and the rows that they are scored by."""

    problem: Problem  # all rows and outputs
    outputs: np.ndarray  # the outputs of the problem that the folds have
    folds: list[Fold]
    settings: RunSettings
    weights: np.ndarray | None = None  # W of these outputs
    given: bool = True  # the held-out rows were given; otherwise rows are left out in turn
    known: bool = False  # the network was trained on the held-out rows

    @cached_property
    def unit(self) -> float:
        """The variance of a typical row's logit under weights of variance one."""
        return measure_rows(self.problem)

    @property
    def answers(self) -> float:
        """The number of answers that the losses are sums over."""
        answers = sum(count_answers(fold.held_out) for fold in self.folds)
        return max(answers, float(np.finfo(float).tiny))

    @property
    def rows(self) -> str:
        """The held-out rows in words, for the verdict."""
        number = sum(fold.held_out.num_rows for fold in self.folds)
        kept = ("given " if self.known else "held-out ") * self.given
        left, all_rows = "" if self.given else " left out in turn", self.problem.num_rows
        part = f" of {all_rows:,}" if number < all_rows and not self.given else ""
        return f"{number:,}{part} {kept}row{'s' * (number != 1)}{left}"

    @property
    def measure(self) -> str:
        """The name of the mean loss per answer, for the verdict."""
        if not self.given:
            return "cross-validated NLL"
        return "NLL of validation rows" if self.known else "held-out NLL"

    @cached_property
    def network_logs(self) -> list[np.ndarray]:
        """The network's log probabilities of the held-out rows of each fold."""
        assert self.weights is not None, "there is a network"
        return [predict_network(fold.held_out, self.weights) for fold in self.folds]

    @cached_property
    def network_losses(self) -> np.ndarray | None:
        """The network's loss of each held-out row, (N,)."""
        if self.weights is None:
            return None
        pairs = zip(self.folds, self.network_logs, strict=True)
        return np.concatenate(
            [score_log_probabilities(f.held_out, own).sum(axis=1) for f, own in pairs]
        )

    def make_prior(self, mean: np.ndarray, size: np.ndarray | float) -> Prior:
        """Return N(mean, size I); about zero, intercepts get a wide variance."""
        v = np.atleast_1d(np.asarray(size, np.float64))
        variance = np.repeat(v[:, None], self.problem.num_features, axis=1)
        if not mean.any():
            variance = np.maximum(variance, self._intercepts)
        return Prior(mean, variance, v)

    @cached_property
    def _intercepts(self) -> np.ndarray:
        return measure_intercepts(self.problem)

    def follow(
        self, priors: Iterable[Prior], start: Candidate | None = None
    ) -> Iterator[Candidate]:
        """Yield priors with fits and losses; each fit begins where the one before it ended."""
        fits: list[Fit] | list[None] = [None] * len(self.folds) if start is None else start.fits
        for prior in priors:
            some = prior.select(self.outputs)
            fits = [
                fit_weights(some.apply(fold.fitted), self.settings, fit)
                for fold, fit in zip(self.folds, fits, strict=True)
            ]
            yield self.score(prior, fits)[0]

    def score(
        self, prior: Prior, fits: list[Fit], shares: Iterable[float] = (0.0,)
    ) -> list[Candidate]:
        """Return a candidate with its losses for each share s of the network, as in (1)."""
        pairs = list(zip(self.folds, fits, strict=True))
        logits = [compute_logits(fold.held_out, *fit) for fold, fit in pairs]
        return [self._score(prior, fits, logits, s) for s in shares]

    def _score(
        self, prior: Prior, fits: list[Fit], logits: list[Logits], share: float
    ) -> Candidate:
        losses, noise = [], 0.0
        for i, fold in enumerate(self.folds):
            logs = predict_log_probabilities(
                fold.held_out, self._mix(fold.held_out, logits[i], share)
            )
            losses.append(score_log_probabilities(fold.held_out, logs))
            if self.weights is not None:
                noise += measure_noise(fold.held_out, logs, self.network_logs[i])
        loss = np.nan_to_num(np.concatenate(losses), nan=np.inf)
        return Candidate(prior, fits, loss.sum(axis=1), loss.sum(axis=0), share, noise)

    def _mix(self, problem: Problem, logits: Logits, share: float) -> Logits:
        if share == 0 or self.weights is None:
            return logits
        own = problem.features @ self.weights.T
        return Logits((1 - share) * logits.mean + share * own, (1 - share) ** 2 * logits.variance)

    def compare(self, candidate: Candidate) -> tuple[float, float]:
        """Return a candidate's loss minus the network's, and the standard error of the difference.

        Both are relative to the network's loss. The error is estimated from the rows, or from
        answers drawn from the network or the candidate if that is larger: where both are sure, and
        no unlikely answer occurred, the error over rows would be too small.
        """
        assert self.network_losses is not None, "there is a network to compare with"
        difference = candidate.losses - self.network_losses
        if not np.isfinite(difference).all():
            return np.inf, np.inf
        total = max(float(self.network_losses.sum()), np.finfo(float).tiny)
        error = np.sqrt(max(len(difference) * difference.var(), candidate.noise))
        return float(difference.sum()) / total, float(error) / total


def fit_weights(problem: Problem, settings: RunSettings, start: Fit | None = None) -> Fit:
    """Return the Gaussian fit, or the mode of a softmax.

    Outputs with priors of their own are fitted in groups.
    """
    K, D = problem.num_outputs, problem.num_features
    if problem.likelihood is Likelihood.SOFTMAX:  # the most probable weights, without a spread
        w = None if start is None else (start[0] - problem.prior_mean) / problem.prior_scale
        mode = find_mode(problem, w).astype(problem.dtype)
        return problem.to_weights(mode), np.zeros((K, D, 1), problem.dtype)
    mean, factor = np.empty((K, D), problem.dtype), np.empty((K, D, D), problem.dtype)
    for own, part in problem.split():
        some = np.resize(own, part.num_outputs)
        near = None if start is None else (start[0][some], start[1][some])
        outcome = run_gaussian(part, RULE, settings, start=near)
        assert outcome.factor is not None, "a flow gives a factor"
        mean[own] = part.to_weights(outcome.mean)[: len(own)]
        factor[own] = (outcome.factor * part.prior_scale[:, None])[: len(own)]
    return mean, factor


def measure_intercepts(problem: Problem) -> np.ndarray:
    """Return the prior variance of columns that are constant over rows, (D,); 0 for others."""
    first = problem.features[0].astype(np.float64)
    constant = (np.ptp(problem.features, axis=0) == 0) & (first != 0)
    return np.where(constant, INTERCEPT / np.where(constant, first, 1) ** 2, 0)


def measure_rows(problem: Problem) -> float:
    """Return the mean of |ψ|² over rows, without intercepts."""
    c = problem.row_counts.astype(np.float64)
    psi = problem.features[:, measure_intercepts(problem) == 0]
    lengths = np.einsum("nd,nd->n", psi, psi, dtype=np.float64)
    return float(c @ lengths / max(c.sum(), 1e-300)) or 1.0
