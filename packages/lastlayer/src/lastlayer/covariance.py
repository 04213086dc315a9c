"""Covariances of all outputs by their roots, also in a subspace that outputs share: `rank=`.

    P_k = S G_k G_kᵀ S            or           P_k = S (U_r G_k G_kᵀ U_rᵀ + U_⊥ U_⊥ᵀ) S

with S the prior's standard deviations. Variances of logits are sums of squares, |ψᵀSG|², which keep
their digits where ψᵀPψ cancels. G stays on the GPU where it was found there, and a covariance is
computed when it is read.

The second form is for large D. Where the prior is N(0, I), let Ψᵀ diag(c) Ψ = U Λ Uᵀ. The posterior
is fitted for the r directions with the largest λ, at r² instead of D² numbers for each output; the
other directions keep their prior:

    w = U_r z + U_⊥ ε,    z ~ the posterior given the rows ΨU_r,    ε ~ N(0, I)

No row weighs more than a quarter in the curvature. So with s = λ/4 a direction's variance is at
least 1/(1 + s) of its prior's, and the variance of the rows' logits, summed over rows, is too large
by no more than this share of itself:

    Σ_{i>r} s_i²/(1 + s_i)  /  Σ_i s_i/(1 + s_i)                                               (1)

"auto" takes the least r for which (1) is at most `TOLERANCE`, and `info.rank_error` holds (1). It
says nothing of single rows, nor of means: what the targets tell along the other directions is lost,
which for targets that are like the model's is of the same size.

This is also an ensemble of J < D particles whose localisation has the right limit: r + 1 particles
have the moments of z exactly (`ensembles`), and with r = D they are those of the whole posterior.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lastlayer.compiling import compile_on_call
from lastlayer.ensembles import draw
from lastlayer.machine import count_cores, use_one_blas_thread
from lastlayer.outcome import TOO_FAR, Outcome
from lastlayer.problem import Problem

TOLERANCE = 0.01  # of (1), for "auto"
FEWEST = 4_096  # answers for which threads are started
TOGETHER = 1 << 26  # numbers of whole factors that are held for draws


@dataclass(frozen=True, eq=False)
class Subspace:
    """The directions that are fitted, and the others."""

    fitted: np.ndarray  # U_r, (D, r)
    others: np.ndarray  # U_⊥, (D, D − r)
    error: float = 0.0  # (1)

    def expand(self, outcome: Outcome, seed: int) -> None:
        """Turn the posterior of z into that of all weights, w; a factor stays that of z."""
        U, V, r = self.fitted, self.others, self.fitted.shape[1]
        outcome.mean, outcome.subspace = outcome.mean @ U.T, self
        if outcome.particles is not None:
            shape = (*outcome.particles.shape[:2], V.shape[1])
            rest = np.random.default_rng([seed, r]).standard_normal(shape).astype(V.dtype)
            outcome.particles = outcome.particles @ U.T + rest @ V.T
        if outcome.covariance is not None:
            outcome.covariance = U @ outcome.covariance @ U.T + V @ V.T
        outcome.rank, outcome.rank_error = r, self.error
        far = "do not trust this: " if self.error > TOO_FAR else ""
        outcome.notes = [
            *outcome.notes,
            f"{far}fitted in {r:,} of {len(U):,} directions, so that variances of logits are up to "
            f"{self.error:.1%} too large on the average over rows",
        ]


def find_subspace(problem: Problem, rank: int | str) -> tuple[Subspace, Problem]:
    """Return the principal directions, so many or as "auto" chooses, and the problem of z."""
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
    return Subspace(U[:, :r], U[:, r:], float(errors[r])), reduced


@dataclass(frozen=True, kw_only=True, eq=False)
class Root:
    """A factor of the covariance of each output, as it was found."""

    inner: Any  # G, (K, r, r), in the memory of the host or of a GPU
    scale: np.ndarray  # diagonal of S, (D,)
    subspace: Subspace | None = None

    @cached_property
    def triangles(self) -> np.ndarray:
        """Lower triangular G with the same GGᵀ, on the host."""
        if isinstance(self.inner, np.ndarray) and not np.triu(self.inner[0], 1).any():
            return self.inner
        return make_triangular(self.inner)

    def select(self, outputs: np.ndarray) -> "Root":
        """Return the factors of some outputs."""
        return replace(self, inner=self.inner[outputs])

    def expand(self, outputs: slice = slice(None)) -> np.ndarray:
        """Return whole factors of some outputs, lower triangular, (K, D, D)."""
        inner = self.triangles[outputs]
        if self.subspace is None:
            return np.asarray(inner * self.scale[:, None])
        U, V = self.subspace.fitted, self.subspace.others
        rest = np.broadcast_to(V, (len(inner), *V.shape))
        return make_triangular(np.concatenate([U @ inner, rest], axis=2) * self.scale[:, None])

    def measure_sd(self, psi: np.ndarray) -> np.ndarray:
        """Return |ψᵀSG_k| of rows ψ in double precision, (n, K)."""
        rows, beyond = psi * self.scale, np.zeros(1)
        if self.subspace is not None:
            beyond = ((rows @ self.subspace.others) ** 2).sum(axis=1)
            rows = rows @ self.subspace.fitted
        if not isinstance(self.inner, np.ndarray):
            given = jnp.asarray(rows, self.inner.dtype), self.inner
            with jax.enable_x64(self.inner.dtype == np.float64):
                squares = np.asarray(_sum_squares_on_device(*given), np.float64)
            return np.asarray(np.sqrt(squares.T + beyond[:, None]))
        return np.asarray(np.sqrt(_sum_squares(rows, self.triangles) + beyond[:, None]))


def _sum_squares(rows: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Return |ψᵀG_k|² for lower triangular G_k, (n, K): half the work of full matrices."""
    from scipy.linalg.blas import dtrmm, strmm  # JAX requires SciPy, but does not load it

    columns = np.asfortranarray(rows.T, factor.dtype)
    multiply = strmm if factor.dtype == np.float32 else dtrmm
    squares = np.empty((len(rows), len(factor)))

    def measure(k: int) -> None:
        along = multiply(1.0, factor[k].T, columns)  # Gᵀ as Fortran has it: no copy
        squares[:, k] = np.einsum("dn,dn->n", along, along)

    threads = count_cores() if squares.size > FEWEST else 1
    with use_one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        list(pool.map(measure, range(len(factor))))
    return squares


@compile_on_call()
def _sum_squares_on_device(rows: jax.Array, factor: jax.Array) -> jax.Array:
    def measure(G: jax.Array) -> jax.Array:
        return (jnp.matmul(rows, G, precision="highest") ** 2).sum(axis=1)

    squares: jax.Array = jax.lax.map(measure, factor)
    return squares


@dataclass(frozen=True, kw_only=True, eq=False)
class Draws:
    """Recipe for draws of Gaussian weights θ_k ~ N(m_k, P_k)."""

    mean: np.ndarray  # (K, D), m
    root: Root
    num_particles: int
    seed: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape (K, J, D) of the draws."""
        K, D = self.mean.shape
        return K, self.num_particles, D

    def make(self) -> np.ndarray:
        """Return the draws; the same seed gives the same bits."""
        K, J, D = self.shape
        particles, size = np.empty(self.shape, self.mean.dtype), max(1, TOGETHER // (D * D))
        with jax.default_matmul_precision("highest"):
            for first in range(0, K, size):
                some = slice(first, min(first + size, K))
                numbers = np.arange(some.start, some.stop)
                own = self.mean[some], self.root.expand(some)
                particles[some] = draw(*own, J, self.seed, numbers)
        return particles


def make_triangular(factor: Any) -> np.ndarray:
    """Return the lower triangular G with the same GGᵀ, whatever way the flow took to its own.

    Draws are m + G times noise, so that they then depend on the posterior alone.
    """
    if isinstance(factor, np.ndarray):
        return np.ascontiguousarray(_triangulate(factor, np))
    return np.asarray(_triangulate_on_device(factor, jnp))


def _triangulate(factor: Any, xp: Any) -> Any:
    upper = xp.linalg.qr(factor.swapaxes(1, 2), mode="r")
    sign = xp.where(xp.diagonal(upper, axis1=1, axis2=2) < 0, -1, 1).astype(factor.dtype)
    return (upper * sign[..., None]).swapaxes(1, 2)


_triangulate_on_device: Callable[..., Any] = compile_on_call(static_argnames="xp")(_triangulate)
