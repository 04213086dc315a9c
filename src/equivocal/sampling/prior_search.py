"""Search for the prior's variance: most probable weights along a path of variances.

With q = v · mean|ψ|², the variance of a typical row's logit under the prior N(m₀, v I), v grows by
half decades of q. At each v the weights that maximise

    log p(t | θ) − ½ Σ_d (θ_d − m₀_d)² / v_d

are found for all outputs and all parts of the rows together, from those at the v before, and scored
by the loss of the rows held out. The path ends when the loss has risen. The narrowest prior whose
loss is within `TIE` of the least is best. Columns of ψ that are constant are intercepts: under a
prior about zero they get the wide variance `INTERCEPT`, since the frequency of an answer does not
tell how large the other weights are.

The evidence, too, may choose, by Laplace's approximation at these weights,

    log p(t_k) ≈ log p(t_k | θ_k) − ½ Σ_d (θ_d − m₀_d)² / v_d − ½ log det(I + P₀H),

but rows that the features were trained on are not evidence for weights on these features: there it
favours priors that are too wide.

Where each output has a variance of its own, scores ℓ_k(g) say in nats how well the g-th value of
the grid explains the data of output k: held-out log likelihoods, or log evidences. The values are
drawn from one population,

    log v_k ~ N(μ, s²) on the grid,        P(g | data of k) ∝ exp(ℓ_k(g)) N(log v_g; μ, s²),     (1)

whose μ and s maximise the likelihood of all outputs (empirical Bayes, by EM). Where labels are
rare, ℓ_k is flat and the output takes the value of the others; where it is steep, its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from equivocal.sampling.engine.problem import Likelihood, Problem
from equivocal.sampling.held_out import (
    Fold,
    Logits,
    predict_log_probabilities,
    score,
)

SIZES = 10.0 ** np.arange(-3, 9.1, 0.5)  # values of q
USUAL = 15  # of them: wider ones are tried only as long as the loss falls
RISEN = 1.02  # the path ends at a loss that is so many times the least one
TIE = 0.0005  # relative difference of losses that counts as none
# Prior variance of an intercept's logit: base rates from 0.01 % to 99.99 % lie within two sd.
INTERCEPT = 25.0
NEAR = 0.05  # distance from the most probable weights, in posterior sd
STEPS, LINE_STEPS = 200, 2  # at most, at each v; Newton's along a line
EM_STEPS = 200  # iterations to fit μ and s of (1)
NARROWEST = 0.25  # s, in steps of the grid: below it all outputs share one value


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
        scale = scale[0] if len(scale) == 1 else scale
        return replace(problem, prior_mean=mean.astype(problem.dtype), prior_scale=scale)


@dataclass(frozen=True, eq=False)
class Path:
    """Priors about one mean, of increasing width, and the rows that they are scored by."""

    problem: Problem  # rows and outputs of all folds
    folds: list[Fold]
    mean: np.ndarray  # m₀, (1, D), or (K, D) for all outputs
    outputs: np.ndarray  # of these, the outputs that the folds have

    @cached_property
    def intercepts(self) -> np.ndarray:
        """The prior variance of columns that are constant over rows, (D,); 0 for others."""
        psi = self.problem.features
        first = psi[0].astype(np.float64)
        constant = (np.ptp(psi, axis=0) == 0) & (first != 0)
        return np.where(constant, INTERCEPT / np.where(constant, first, 1) ** 2, 0)

    @cached_property
    def sizes(self) -> np.ndarray:
        """The values of v."""
        c = self.problem.row_counts.astype(np.float64)
        psi = self.problem.features[:, self.intercepts == 0]
        lengths = np.einsum("nd,nd->n", psi, psi, dtype=np.float64)
        return SIZES / (float(c @ lengths / max(c.sum(), 1e-300)) or 1.0)

    def measure_size(self, weights: np.ndarray) -> float:
        """Return the mean square of weights (K, D) that are no intercepts, within the grid."""
        square = (weights[:, self.intercepts == 0].astype(np.float64) ** 2).mean()
        return float(np.clip(square, self.sizes[0], self.sizes[-1]))

    def make_prior(self, size: np.ndarray | float) -> Prior:
        """Return the prior of variance v, which may be one for each output."""
        v = np.atleast_1d(np.asarray(size, np.float64))
        variance = np.repeat(v[:, None], len(self.intercepts), axis=1)
        if not self.mean.any():
            variance = np.where(self.intercepts > 0, self.intercepts, variance)
        return Prior(self.mean, variance, v)

    def follow(self, by_evidence: bool) -> Iterator[np.ndarray]:
        """Yield the loss of each output, (K,), under priors of increasing width.

        It is that of the rows held out, or minus the log evidence of the first fold.
        """
        priors = [self.make_prior(size).select(self.outputs) for size in self.sizes]
        modes = Modes([fold.fitted for fold in self.folds], priors[0])
        for prior in priors:
            modes.find(prior)
            if by_evidence:
                yield -modes.estimate_evidence(prior)
                continue
            losses = np.zeros(1)
            for i, fold in enumerate(self.folds):
                logs = predict_log_probabilities(fold.held_out, modes.predict(i, fold.held_out))
                losses = losses + score(fold.held_out, logs).sum(axis=0)
            yield np.nan_to_num(losses, nan=np.inf)

    def search(self, by_evidence: bool = False) -> Prior:
        """Return the best prior with one variance for all outputs."""
        losses: list[float] = []
        for number, found in enumerate(self.follow(by_evidence)):
            loss, least = float(found.sum()), min(losses, default=np.inf)
            losses.append(loss)
            if loss > (1 - TIE if number >= USUAL else RISEN) * least:
                break
        best = int(np.argmax(np.array(losses) <= (1 + TIE) * min(losses)))
        return self.make_prior(self.sizes[best] * np.sqrt(10) ** _find_vertex(losses, best))

    def search_each(self, by_evidence: bool = False) -> Prior:
        """Return the best prior with a variance for each output."""
        scores = -np.stack(list(islice(self.follow(by_evidence), USUAL)))
        return self.make_prior(self.sizes[choose_values(scores, self.sizes[:USUAL])])


class Modes:
    """The most probable weights of problems that differ in targets and counts alone.

    They are found by conjugate gradients, all problems and outputs at once. The preconditioner
    takes y(1−y) at its mean r over rows: with ΨᵀcΨ ∘ (ρρᵀ) = U S Uᵀ and prior variances x ρ²,
    the inverse of the Hessian is about B diag(1/(r S + 1/x)) Bᵀ, B = diag(ρ) U. The same matrix
    gives the variances of logits. Along a line, Newton's steps are shortened as far as the third
    derivative of the logistic loss requires (Bach 2010, Electronic Journal of Statistics 4:384).
    """

    def __init__(self, problems: list[Problem], prior: Prior) -> None:
        """Lay out targets and counts as (problems, K, N); ρ is that of the narrowest prior."""
        psi, self.joint = problems[0].features, problems[0].likelihood is Likelihood.SOFTMAX
        self.psi, self.axes = psi, (-2, -1) if self.joint else (-1,)  # what a line search sums over
        self.t = np.stack([p.targets.T for p in problems])
        self.c = np.stack([p.counts.reshape(p.num_rows, -1).T for p in problems])
        self.rho = rho = np.sqrt(prior.variance.mean(axis=0))
        wide = psi.astype(np.float64) * rho
        c = self.c.mean(axis=(0, 1), dtype=np.float64)
        S, U = np.linalg.eigh((wide * c[:, None]).T @ wide)
        self.S, self.B = np.maximum(S, 0), (rho[:, None] * U).astype(psi.dtype)
        self.weights: np.ndarray | None = None  # (problems, K, D)

    def find(self, prior: Prior) -> np.ndarray:
        """Return the weights, (problems, K, D); they begin at those of the prior before."""
        kind = self.psi.dtype
        m0, v = prior.mean.astype(kind), prior.variance.astype(kind)
        w = (
            np.zeros((*self.t.shape[:2], len(self.S)), kind)
            if self.weights is None
            else self.weights
        )
        w = w + np.where(self.weights is None, m0, 0)
        a = w @ self.psi.T
        y = self._predict(a)
        inverse = self.invert(prior, y)
        d, before, size = np.zeros_like(w), np.zeros_like(w), np.ones(1)
        for _ in range(STEPS):
            g = (self.c * y - self.t) @ self.psi + (w - m0) / v
            s = ((g @ self.B) * inverse) @ self.B.T
            turn, size = self._sum((g - before) * s) / size, self._sum(g * s)
            if not size.max() > NEAR**2:
                break
            d = np.maximum(turn, 0) * d - s
            d, before = np.where(self._sum(g * d) < 0, d, -s), g
            b = d @ self.psi.T
            length = self._search_line(a, b, self._sum((w - m0) * d / v), self._sum(d * d / v))
            w, a = w + length * d, a + length * b
            y = self._predict(a)
        self.weights, self.inverse = w, self.invert(prior, y)
        return w

    def invert(self, prior: Prior, y: np.ndarray) -> np.ndarray:
        """Return 1/(r S + 1/x), (problems, K, D), at probabilities (problems, K, N)."""
        r = (self.c * y * (1 - y)).sum(axis=-1) / np.maximum(self.c.sum(axis=-1), 1e-30)
        x = (prior.variance / self.rho**2).max(axis=1, keepdims=True)
        return np.asarray(1 / (r[..., None] * self.S + 1 / x)).astype(y.dtype)

    def predict(self, fold: int, rows: Problem) -> Logits:
        """Return the logits of rows under the weights of one problem, averaged over."""
        assert self.weights is not None, "weights are found first"
        variance = (rows.features @ self.B) ** 2 @ self.inverse[fold].T
        return Logits(rows.features @ self.weights[fold].T, variance)

    def estimate_evidence(self, prior: Prior) -> np.ndarray:
        """Return Laplace's log evidence of each yes/no output of the first problem, (K,)."""
        assert self.weights is not None, "weights are found first"
        w, psi = self.weights[0].astype(np.float64), self.psi.astype(np.float64)
        a = w @ psi.T
        y = self._predict(a)
        likely = (self.t[0] * a - self.c[0] * np.logaddexp(0, a)).sum(axis=-1)
        v = np.broadcast_to(prior.variance, w.shape)
        curved = [
            np.linalg.slogdet(np.eye(len(each)) + (psi * r[:, None]).T @ psi * each)[1]
            for r, each in zip(self.c[0] * y * (1 - y), v, strict=True)
        ]
        return np.asarray(likely - 0.5 * (((w - prior.mean) ** 2 / v).sum(axis=-1) + curved))

    def _search_line(self, a: np.ndarray, b: np.ndarray, slope0: Any, square: Any) -> Any:
        """Return how far to go from logits a along b; the prior has this slope and curvature."""
        steepest = np.maximum(np.abs(b).max(axis=self.axes, keepdims=True), 1e-30)
        length = np.zeros_like(square)
        for _ in range(LINE_STEPS):
            y = self._predict(a + length * b)
            slope = self._sum((self.c * y - self.t) * b) + slope0 + length * square
            centred = b - (y * b).sum(axis=-2, keepdims=True) if self.joint else (1 - y) * b
            step = slope / (self._sum(self.c * y * b * centred) + square)
            length = length - np.sign(step) * np.log1p(steepest * np.abs(step)) / steepest
        return length

    def _sum(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(x.sum(axis=self.axes, keepdims=True))

    def _predict(self, a: np.ndarray) -> np.ndarray:
        if not self.joint:
            return np.asarray(0.5 + 0.5 * np.tanh(0.5 * a))
        y = np.exp(a - a.max(axis=-2, keepdims=True))
        return np.asarray(y / y.sum(axis=-2, keepdims=True))


def _find_vertex(losses: list[float], best: int) -> float:
    """Return the least point of a parabola through a loss and its neighbours, in steps from it."""
    if not 0 < best < len(losses) - 1:
        return 0.0
    before, here, after = losses[best - 1 : best + 2]
    bent = before - 2 * here + after
    return float(np.clip((before - after) / (2 * bent), -0.5, 0.5)) if bent > 0 else 0.0


def choose_values(scores: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the index of each output's value, (K,), from scores (G, K) and values (G,)."""
    x = np.log(values)
    least = (NARROWEST * np.diff(x).min()) ** 2
    mu, variance = x[scores.sum(axis=1).argmax()], max(least, float(np.var(x)))
    for _ in range(EM_STEPS):
        log = scores - 0.5 * ((x - mu) ** 2 / variance)[:, None]
        belief = np.exp(log - log.max(axis=0))
        belief /= belief.sum(axis=0)
        mu = float((belief.T @ x).mean())
        variance = max(least, float((belief * (x[:, None] - mu) ** 2).sum(axis=0).mean()))
    return np.asarray(np.abs(x[:, None] - belief.T @ x).argmin(axis=0))
