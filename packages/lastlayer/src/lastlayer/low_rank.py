"""A posterior in the features' principal subspace, where D is large: `rank=`.

In coordinates where the prior is N(0, I), let Ψᵀ diag(c) Ψ = U Λ Uᵀ. The posterior is fitted for
the r directions with the largest λ, at r² instead of D² numbers for each output and step; the
other directions keep their prior:

    w = U_r z + U_⊥ ε,    z ~ the posterior given the rows ΨU_r,    ε ~ N(0, I)

No row weighs more than a quarter in the curvature. So with s = λ/4 a direction's variance is at
least 1/(1 + s) of its prior's, and the variance of the rows' logits, summed over rows, is too large
by no more than this share of itself:

    Σ_{i>r} s_i²/(1 + s_i)  /  Σ_i s_i/(1 + s_i)                                               (1)

"auto" takes the least r for which (1) is at most `TOLERANCE`, and `info.rank_error` holds (1). It
says nothing of single rows, nor of means: what the targets tell along the other directions is lost,
which for targets that are like the model's is of the same size.
"""

from dataclasses import dataclass, replace

import numpy as np

from lastlayer.outcome import TOO_FAR, Outcome
from lastlayer.problem import Problem
from lastlayer.variational import make_triangular

TOLERANCE = 0.01  # of (1), for "auto"


@dataclass(frozen=True, eq=False)
class Subspace:
    """The directions that are fitted, the others, and the problem in the former."""

    problem: Problem
    fitted: np.ndarray  # U_r, (D, r)
    others: np.ndarray  # U_⊥, (D, D − r)
    error: float  # (1)

    def expand(self, outcome: Outcome, seed: int) -> None:
        """Turn the posterior of z into that of all weights, w."""
        U, V, r = self.fitted, self.others, self.fitted.shape[1]
        outcome.mean = outcome.mean @ U.T
        if outcome.particles is not None:
            shape = (*outcome.particles.shape[:2], V.shape[1])
            rest = np.random.default_rng([seed, r]).standard_normal(shape).astype(V.dtype)
            outcome.particles = outcome.particles @ U.T + rest @ V.T
        if outcome.covariance is not None:
            outcome.covariance = U @ outcome.covariance @ U.T + V @ V.T
        if outcome.factor is not None:
            rest = np.broadcast_to(V, (len(outcome.factor), *V.shape))
            both = np.concatenate([U @ outcome.factor, rest], axis=2)
            outcome.factor = make_triangular(both)
        outcome.rank, outcome.rank_error = r, self.error
        far = "do not trust this: " if self.error > TOO_FAR else ""
        outcome.notes = [
            *outcome.notes,
            f"{far}fitted in {r:,} of {len(U):,} directions, so that variances of logits are up to "
            f"{self.error:.1%} too large on the average over rows",
        ]


def find_subspace(problem: Problem, rank: int | str) -> Subspace:
    """Return the principal directions of the rows: so many, or as "auto" chooses."""
    psi = problem.features * problem.prior_scale
    values, vectors = np.linalg.eigh((psi.T * problem.row_counts) @ psi)
    U, s = vectors[:, ::-1], np.maximum(values[::-1].astype(float), 0) / 4
    lost = np.cumsum((s * s / (1 + s))[::-1])[::-1]
    errors = np.append(lost, 0) / max((s / (1 + s)).sum(), np.finfo(float).tiny)  # r = 0, …, D
    r = min(rank, len(s)) if isinstance(rank, int) else int(np.argmax(errors <= TOLERANCE))
    r = max(r, 1)
    rows = np.ascontiguousarray(psi @ U[:, :r])
    mean, scale = np.zeros((1, r), psi.dtype), np.ones(r, psi.dtype)
    reduced = replace(problem, features=rows, prior_mean=mean, prior_scale=scale)
    return Subspace(reduced, U[:, :r], U[:, r:], float(errors[r]))
