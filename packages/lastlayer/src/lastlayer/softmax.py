"""The mode of a softmax, and the Gaussian N(m, GGᵀ) nearest its posterior, over all K·D weights.

The Gaussian is where maths.md (5) holds, with the curvature between classes, (19),

    H = Σ_n c_n (diag E[y_n] − E[y_n y_nᵀ]) ⊗ ψ_n ψ_nᵀ.

It is no more than the coordinates of `exact`, whose draws do not depend on how near it is. A
Gaussian for each class would not do: it cannot tell contrasts of classes, which the data determine,
from a vector that is added to all of them, of which the data say nothing.

The mode is found by Newton steps, solved by conjugate gradients. On separable classes its curvature
is far too small. So from there P⁻¹ moves by damped steps (14), with averages over a few fixed draws
and the mean following at each. Where logits are wide, a softmax is nearly a step at each draw, and
an average of few steps is rough. A softmax at temperature τ gives the probabilities that each class
has the largest logit once Gumbel noise of variance τ² π²/6 is added: it takes the place of a part
of the variance that all logits of a row have, and draws scatter by the rest.

The constants affect the effort, not the law of the draws.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lastlayer.problem import Problem

NEWTON_STEPS, HALVINGS, PRODUCTS = 60, 20, 60
MODE_REACHED = 1e-4  # squared distance from the mode, in posterior sd
PAIRS = 32  # of opposite draws
STEPS, DAMPING, CLOSE = 10, 0.6, 0.1  # of (14); relative misfit of P that is close enough
CORRECTIONS, SHORT = 4, 0.01  # of the mean; squared length, for each weight, that needs no more
PART, NARROW = 0.75, 4.0  # of a row's least variance that τ takes, and less below this variance
TOGETHER = 1 << 18  # numbers at a time, so that a CPU's cache holds them


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassRows:
    """Rows in coordinates where the prior is N(0, I), in double precision."""

    features: np.ndarray  # (N, D), ψ √v
    counts: np.ndarray  # (N, 1)
    targets: np.ndarray  # (N, K)
    offsets: np.ndarray  # (N, K) or (N, 1)

    @classmethod
    def lay_out(cls, problem: Problem) -> "ClassRows":
        """Return the rows of a problem that count."""
        some = problem.counts > 0
        psi = problem.features[some].astype(float)
        return cls(
            features=psi * problem.prior_scale,
            counts=problem.counts[some, None].astype(float),
            targets=problem.targets[some].astype(float),
            offsets=psi @ problem.prior_mean.T.astype(float),
        )

    def cut(self, size: int) -> "Iterator[ClassRows]":
        """Yield so many rows at a time."""
        for first in range(0, len(self.features), size):
            parts = {name: part[first : first + size] for name, part in vars(self).items()}
            yield ClassRows(**parts)

    def find_mode(self, mean: np.ndarray) -> np.ndarray:
        """Return the mode, (K, D), from a start: Newton steps, halved until the loss falls."""
        F, c, t = self.features, self.counts, self.targets

        def evaluate(a: np.ndarray, m: np.ndarray) -> tuple[float, np.ndarray]:
            a = a - a.max(axis=1, keepdims=True)
            log_y = a - np.log(np.exp(a).sum(axis=1, keepdims=True))
            return float(-(t * log_y).sum()) + 0.5 * (m**2).sum(), np.exp(log_y)

        a = F @ mean.T + self.offsets
        loss, y = evaluate(a, mean)
        for _ in range(NEWTON_STEPS):
            gradient = (c * y - t).T @ F + mean
            direction = self._solve(y, gradient)
            along, slope, length = F @ direction.T, float((gradient * direction).sum()), 1.0
            for _ in range(HALVINGS):
                moved = mean - length * direction
                lower, y_there = evaluate(a - length * along, moved)
                if lower <= loss - 1e-4 * length * slope:
                    break
                length /= 2
            else:
                return mean  # round-off
            mean, a, loss, y = moved, a - length * along, lower, y_there
            if slope < MODE_REACHED:
                break
        return mean

    def _solve(self, y: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Return an approximate P g̃ where the probabilities are y, by conjugate gradients."""
        F, cy, identity = self.features, self.counts * y, np.eye(self.features.shape[1])
        own = [(F.T * w) @ F + identity for w in (cy * (1 - y)).T]
        inverse = np.linalg.inv(np.stack(own))
        total, residual = np.zeros_like(gradient), gradient
        direction = near = np.matmul(residual[:, None], inverse)[:, 0]
        size = first = (residual * near).sum()
        for _ in range(PRODUCTS):
            if not size > 1e-4 * first:
                break
            logits = F @ direction.T
            mixed = cy * (logits - (y * logits).sum(axis=1, keepdims=True))
            product = mixed.T @ F + direction
            length = size / (direction * product).sum()
            total, residual = total + length * direction, residual - length * product
            near = np.matmul(residual[:, None], inverse)[:, 0]
            before, size = size, (residual * near).sum()
            direction = near + (size / before) * direction
        return total

    def sum_losses(self, m: np.ndarray, deviations: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the loss and g̃ = Ψᵀ(c E[y] − t) + m, averaged over weights m ± deviations."""
        loss, gradient = 0.0, np.zeros_like(m)
        for part in self.cut(count_together(m, deviations)):
            mu, _, y, log_partition = part.average(m, deviations)
            loss += float((part.counts[:, 0] * log_partition).sum() - (part.targets * mu).sum())
            gradient += (part.counts * y.mean(axis=0) - part.targets).T @ part.features
        return loss + 0.5 * float((m**2).sum()), gradient + m

    def sum_curvature(self, m: np.ndarray, deviations: np.ndarray) -> np.ndarray:
        """Return H + I, (K D, K D), averaged likewise."""
        K, D = m.shape
        H = np.zeros((K, D, K, D))
        for part in self.cut(count_together(m, deviations)):
            _, tau, y, _ = part.average(m, deviations)
            c, rows = part.counts / tau, part.features
            average, y = y.mean(axis=0), np.ascontiguousarray(y.transpose(1, 2, 0))
            weights = -np.matmul(y, y.swapaxes(1, 2)) * (c[..., None] / y.shape[-1])
            weights[:, range(K), range(K)] += c * average
            for k in range(K):
                weighed = weights[:, k, k:, None] * rows[:, None]
                H[k, :, k:] += (rows.T @ weighed.reshape(len(rows), -1)).reshape(D, -1, D)
        for k in range(K):
            H[k + 1 :, :, k] = H[k, :, k + 1 :].swapaxes(0, 1)
        return H.reshape(K * D, K * D) + np.eye(K * D)

    def average(
        self, m: np.ndarray, deviations: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return μ (n, K), τ (n, 1), y at each draw (draws, n, K), and τ E[log Σ e^(a/τ)] (n,)."""
        mu = self.features @ m.T + self.offsets
        moved = self.features @ deviations.swapaxes(1, 2)
        moved -= moved.mean(axis=2, keepdims=True)  # what all classes share changes no probability
        v = (moved**2).mean(axis=0)
        least = v.min(axis=1, keepdims=True)
        taken = PART * least * (least / (least + NARROW))
        tau = np.sqrt(1 + 6 / math.pi**2 * taken)
        moved *= np.sqrt((v - taken) / np.maximum(v, np.finfo(float).tiny))
        a = np.concatenate([mu + moved, mu - moved]) / tau
        top = a.max(axis=2, keepdims=True)
        y = np.exp(np.subtract(a, top, out=a), out=a)
        total = y.sum(axis=2, keepdims=True)
        log_partition = tau[:, 0] * (top + np.log(total))[..., 0].mean(axis=0)
        y /= total
        return mu, tau, y, log_partition

    def correct_mean(self, m: np.ndarray, G: np.ndarray, deviations: np.ndarray) -> np.ndarray:
        """Take steps m ← m − α P g̃(m); the loss over fixed deviations is convex in m."""
        loss, gradient = self.sum_losses(m, deviations)
        for _ in range(CORRECTIONS):
            along = gradient.ravel() @ G
            slope, direction, length = along @ along, (G @ along).reshape(m.shape), 1.0
            for _ in range(HALVINGS):
                found = self.sum_losses(m - length * direction, deviations)
                if found[0] <= loss - 1e-4 * length * slope:
                    break
                length /= 4
            else:
                return m
            m, (loss, gradient) = m - length * direction, found
            if slope < SHORT * m.size:
                break
        return m


def count_together(m: np.ndarray, deviations: np.ndarray) -> int:
    """Return how many rows are averaged over at a time."""
    return max(1, TOGETHER // (m.size + 2 * len(deviations) * len(m)))


def find_gaussian(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Return m, (K, D), and G, (K D, K D)."""
    rows = ClassRows.lay_out(problem)
    m = rows.find_mode(np.zeros((problem.num_outputs, problem.num_features)))
    precision = rows.sum_curvature(m, np.zeros((1, *m.shape)))
    G = _invert_root(precision)
    z = np.random.default_rng(0).standard_normal((PAIRS, len(G)))
    for _ in range(STEPS):
        deviations = (z @ G.T).reshape(PAIRS, *m.shape)
        m = rows.correct_mean(m, G, deviations)
        curvature = rows.sum_curvature(m, deviations)
        misfit = float(np.linalg.norm(G.T @ curvature @ G - np.eye(len(G))))
        precision = (1 - DAMPING) * precision + DAMPING * curvature
        G = _invert_root(precision)
        if misfit < CLOSE * math.sqrt(len(G)):
            break
    return m, G


def _invert_root(precision: np.ndarray) -> np.ndarray:
    """Return G with G Gᵀ = `precision`⁻¹, which is the identity plus a curvature."""
    from scipy.linalg import solve_triangular  # JAX requires SciPy, but does not load it

    root = np.linalg.cholesky(precision)
    return np.asarray(solve_triangular(root, np.eye(len(root)), lower=True).T)
