"""The flow of a softmax in NumPy: the fixed point of `flow` for classes, found in tens of steps.

With one likelihood for all classes, docs/maths.md (19), steps (15) converge slowly where classes
are separable. The weight of a row, W = c E[y(1−y)]/τ, then depends on the spread of its logits, and
changes by more than they do; and the weights that two similar classes share are determined by the
prior alone, which the covariance of each class does not represent. So here

- means are found by Newton steps with the curvature between classes, c (diag E[y] − E[yyᵀ])/τ,
  solved by conjugate gradients with the covariances as preconditioner;
- log W is the only other unknown: it gives P_k⁻¹ = I + Ψᵀ diag(W_k) Ψ, from which follow the means
  and a new W. That map is iterated with Anderson's mixing (Walker and Ni 2011, SIAM Journal on
  Numerical Analysis 49:1715): the next log W is the combination of the last `KEPT` whose residuals
  cancel best, rows weighted by their information W ψᵀPψ.

Averages are over a softmax at the temperature τ of `likelihoods.soften_softmax`, so that the map is
smooth also where logits are wide.

The constants may be changed: they affect the number of steps, not the fixed point. Problems that do
not converge here are solved by `flow`.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from equivocal.sampling.engine.flow import LONGEST
from equivocal.sampling.engine.likelihoods import FlowRule, soften_softmax
from equivocal.sampling.engine.problem import Problem, Start
from equivocal.sampling.engine.rows import SmallRows
from equivocal.sampling.engine.settings import Outcome

__all__ = ["find_points", "flow_classes", "is_served"]

STEPS, BRIEF_STEPS = 250, 15
SOON, NEAR = 60, 1.0  # give up if after so many steps the least residual is larger than this
MOST_PAIRS = 1 << 24  # largest N K², the size of the curvature between classes
KEPT, SHORT = 8, 0.3  # steps that are mixed; how far along its residual each of them goes
LARGEST_STEP = 1.0  # largest change of log W
LEAST_LOGIT = -40.0  # smallest logit, relative to the largest of a row
LEAST = np.log(1e-30)  # smallest log W: such rows have no influence
# Most Newton steps for a mean, shortenings of a step, and products of conjugate gradients.
NEWTON_STEPS, SHORTENINGS, PRODUCTS = 6, 6, 60
EXACT = 0.05  # a mean is found to this share of the residual of W
TOGETHER = 1 << 18  # numbers at a time, so that a CPU's cache holds them


class Averages(NamedTuple):
    """Averages over N(m, GGᵀ) for all classes."""

    gradient: np.ndarray  # (K, D), g̃
    weights: np.ndarray  # (K, N), W
    likely: np.ndarray  # (K, N), c E[y]/τ
    pairs: np.ndarray  # (N, K, K), c E[yyᵀ]/τ


class Classes(NamedTuple):
    """Rows with counts above zero, in coordinates where the prior is N(0, I)."""

    features: np.ndarray  # (N, D), ψ √v
    counts: np.ndarray  # (1, N)
    targets: np.ndarray  # (K, N)
    offsets: np.ndarray  # (1, N) or (K, N)
    points: np.ndarray  # (Q, K)

    def average(self, mean: np.ndarray, sd: np.ndarray) -> Averages:
        """Return the averages over logits with these standard deviations, (K, N)."""
        c, (tau, rest) = self.counts, soften_softmax(sd**2)
        mu = ((mean @ self.features.T + self.offsets) / tau).T
        (N, K), Q, spread = mu.shape, len(self.points), (rest / tau).T
        y, pairs = np.empty((N, K), mu.dtype), np.empty((N, K, K), mu.dtype)
        part = max(1, TOGETHER // (Q * K))
        for first in range(0, N, part):
            some = slice(first, first + part)
            drawn = mu[some, None] + spread[some, None] * self.points
            drawn -= drawn.max(axis=2, keepdims=True)
            np.maximum(drawn, LEAST_LOGIT, out=drawn)  # products of subnormal numbers are slow
            np.exp(drawn, out=drawn)
            drawn /= drawn.sum(axis=2, keepdims=True)
            y[some] = drawn.mean(axis=1)
            pairs[some] = np.matmul(drawn.swapaxes(1, 2), drawn) / Q
        gradient = (c * y.T - self.targets) @ self.features + mean
        pairs *= (c / tau).T[..., None]
        likely = c / tau * y.T
        weights = likely - np.einsum("nkk->kn", pairs)
        return Averages(gradient, weights, likely, pairs)

    def find_factors(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return G with GGᵀ = (I + Ψᵀ diag(W_k) Ψ)⁻¹, (K, D, D), and the sd of each logit."""
        F, identity = self.features, np.eye(self.features.shape[1], dtype=weights.dtype)
        precision = np.stack([identity + (F.T * w) @ F for w in weights])
        G = np.linalg.inv(np.linalg.cholesky(precision)).swapaxes(1, 2)
        return G, np.stack([np.linalg.norm(F @ each, axis=1) for each in G])

    def find_means(
        self, mean: np.ndarray, G: np.ndarray, sd: np.ndarray, tolerance: float
    ) -> tuple[np.ndarray, Averages]:
        """Return the means at fixed covariances, by damped Newton steps, and the averages there."""
        found = self.average(mean, sd)
        for number in range(NEWTON_STEPS):
            along = np.matmul(found.gradient[:, None], G)
            if number and (along**2).sum() <= tolerance**2:
                break
            direction = self._solve(found, G)
            slope, length = float((found.gradient * direction).sum()), 1.0
            for _ in range(SHORTENINGS):
                near = self.average(mean - length * direction, sd)
                # the loss is convex: beyond its minimum along the line the slope changes its sign
                there = float((near.gradient * direction).sum())
                if not there < -0.5 * slope:
                    break
                length *= max(0.1, slope / (slope - there))
            mean, found = mean - length * direction, near
        # adding one vector to all classes changes no probability; under the prior it is best zero
        return mean - mean.mean(axis=0), found

    def _solve(self, found: Averages, G: np.ndarray) -> np.ndarray:
        """Return an approximate H⁻¹ g̃ for the curvature of all classes, by conjugate gradients."""

        def precondition(g: np.ndarray) -> np.ndarray:
            return np.matmul(np.matmul(g[:, None], G), G.swapaxes(1, 2))[:, 0]

        total, residual = np.zeros_like(found.gradient), found.gradient
        direction = near = precondition(residual)
        size = first = (residual * near).sum()
        for _ in range(PRODUCTS):
            logits = direction @ self.features.T
            mixed = np.matmul(found.pairs, logits.T[..., None])[..., 0].T
            product = (found.likely * logits - mixed) @ self.features + direction
            length = size / (direction * product).sum()
            total, residual = total + length * direction, residual - length * product
            near = precondition(residual)
            before, size = size, (residual * near).sum()
            if not size > 1e-3 * first:
                break
            direction = near + (size / before) * direction
        return total

    def measure_misfit(self, G: np.ndarray, change: np.ndarray) -> np.ndarray:
        """Return ‖Gᵀ Ψᵀ diag(change) Ψ G‖ of each class, (K,)."""
        products = (self.features @ each for each in G)
        return np.array(
            [np.linalg.norm((B.T * d) @ B) for B, d in zip(products, change, strict=True)]
        )


def find_points(rule: FlowRule) -> np.ndarray | None:
    """Return the points over which a softmax is averaged; None for other rules."""
    keywords: dict[str, Any] = getattr(rule.expectation, "keywords", {})
    return keywords.get("points")


def is_served(problem: Problem, rule: FlowRule) -> bool:
    """Return whether `flow_classes` can solve the problem."""
    pairs = problem.num_rows * problem.num_outputs**2
    return find_points(rule) is not None and problem.in_memory and pairs <= MOST_PAIRS


def flow_classes(
    problem: Problem,
    rule: FlowRule,
    tolerance: float,
    start_of: Start,
    *,
    kind: np.dtype,
    brief: bool,
) -> Outcome:
    """Find the fixed point in the precision `kind`; `converged` says whether it was reached."""
    K, points = problem.num_outputs, find_points(rule)
    assert points is not None, "the rule is that of a softmax"
    laid = SmallRows.lay_out(problem, kind)
    rows = Classes(laid.features, laid.counts, laid.targets, laid.offsets, points.astype(kind))
    starts = zip(*(start_of(k) for k in range(K)), strict=True)
    m, G = (np.stack(part).astype(kind) for part in starts)
    sd = np.stack([np.linalg.norm(rows.features @ each, axis=1) for each in G])
    kept: deque[tuple[np.ndarray, np.ndarray]] = deque(maxlen=KEPT)
    best, aim = np.inf, 1.0
    log_weights = _take_logs(rows.average(m, sd).weights)
    for number in range(1, (BRIEF_STEPS if brief else STEPS) + 1):
        weights = np.exp(log_weights)
        G, sd = rows.find_factors(weights)
        m, found = rows.find_means(m, G, sd, aim)
        change = found.weights - weights
        misfit = rows.measure_misfit(G, change)
        slope = np.linalg.norm(np.matmul(found.gradient[:, None], G)[:, 0], axis=1)
        done = max(misfit.max(), slope.max()) <= tolerance
        if done or not np.isfinite(misfit).all() or (number > SOON and best > NEAR):
            break
        aim = max(tolerance / 2, min(1.0, EXACT * float(misfit.max())))
        residual = _take_logs(found.weights) - log_weights
        best = min(best, float(misfit.max()))
        following = _mix(kept, log_weights, residual, weights * sd**2)
        kept.append((log_weights, residual))
        log_weights = following
    return Outcome(
        mean=m.astype(problem.dtype),
        factor=G.astype(problem.dtype),
        converged=np.full(K, done),
        steps=np.full(K, number),
        time=np.full(K, -number * np.log1p(-LONGEST)),
        mean_residual=slope,
        covariance_residual=misfit,
    )


def _take_logs(weights: np.ndarray) -> np.ndarray:
    """Return log W, at least `LEAST`."""
    return np.log(np.maximum(weights, np.exp(LEAST), dtype=weights.dtype))


def _mix(
    kept: Iterable[tuple[np.ndarray, np.ndarray]],
    x: np.ndarray,
    residual: np.ndarray,
    scale: np.ndarray,
) -> np.ndarray:
    """Return the next x by Anderson's mixing, with residuals weighted by the scale."""
    steps = [(x - other, residual - its) for other, its in kept]
    move = SHORT * residual
    if steps:
        columns = np.stack([(change * scale).ravel() for _, change in steps], axis=1)
        share = np.linalg.lstsq(columns, (residual * scale).ravel(), rcond=1e-10)[0]
        for each, (moved, change) in zip(share, steps, strict=True):
            move = move - each * (moved + SHORT * change)
    moved = x + np.clip(move, -LARGEST_STEP, LARGEST_STEP)
    return np.asarray(np.maximum(moved, LEAST, dtype=x.dtype))
