"""Where a flow starts: near its end, at the cost of a few products with vectors for each output.

The fixed point does not depend on the start, so the start may be rough. With the largest curvature
that the rows can have, H̄ = Ψᵀ diag(c/4) Ψ, which all outputs share, it is the Gaussian

    N(m, (β H̄ + I)⁻¹)                                                        docs/maths.md (29)

whose m and β each output finds for itself: gradient steps for m, preconditioned by that
covariance, and for β that Σ r v agrees with what β H̄ says it is. In the basis of eigenvectors of H̄
the variance of a logit is a sum of squares with weights 1/(1 + βΛ), so nothing here costs N·D² but
H̄ and that basis. Averages over a logit are MacKay's, E σ(a) ≈ σ(μ/κ) with κ² = 1 + π v/8.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from equivocal.sampling.engine.problem import Problem
from equivocal.sampling.engine.shapes import Array, Float, Int

Start = Callable[[int], tuple[np.ndarray, np.ndarray]]  # mean and factor of an output

WIDEST_LOGIT = 3.0
TOGETHER = 16  # outputs; always as many, so that none depends on how many there are
ROUNDS, FIRST_SHARE, LEAST_SHARE = 9, 0.3, 1e-3  # tried on rows of networks and random ones
LONGEST = 4.0  # in steps of Newton's along the line, as in `flow`


def start_near_prior(problem: Problem, wide: int) -> Start:
    """Start at the prior, narrowed where logits would have an sd above `WIDEST_LOGIT`.

    The fixed point does not depend on the start, but from logits of ±1e12 no step finds the way.
    """
    D = problem.num_features
    with np.errstate(divide="ignore"):
        largest = problem.largest * problem.prior_scale * np.sqrt(D)
        narrow = np.minimum(1, WIDEST_LOGIT / largest)
    factor = np.eye(wide, dtype=problem.dtype)
    factor[np.arange(D), np.arange(D)] = narrow
    mean = np.zeros(wide, problem.dtype)
    return lambda _: (mean, factor)


def start_near_end(problem: Problem, wide: int) -> Start:
    """Start at (29); near the prior where features differ so much that the basis is round-off."""
    # in one order: products of columns stored otherwise differ in their last bit
    psi = np.multiply(problem.features, problem.prior_scale, order="C")
    with np.errstate(over="ignore", invalid="ignore"):
        bound = psi.T @ (problem.counts[:, None] / 4 * psi)
    if not np.trace(bound) * np.finfo(problem.dtype).eps ** 2 < 1e-4:
        return start_near_prior(problem, wide)
    curvature, basis = np.linalg.eigh(bound)
    curvature = np.maximum(curvature, 0)
    shared = [*map(jnp.asarray, (psi, problem.counts, basis, curvature, (psi @ basis) ** 2))]
    K, D = problem.num_outputs, problem.num_features
    mean, share = np.zeros((K, wide), problem.dtype), np.zeros(K, problem.dtype)
    for first in range(0, K, TOGETHER):
        some = np.arange(first, min(first + TOGETHER, K))
        filled = np.resize(some, TOGETHER)
        targets, offsets = problem.targets[:, filled].T, problem.compute_offsets(filled).T
        found = _find_start(*shared, targets, np.broadcast_to(offsets, targets.shape))
        mean[some, :D], share[some] = (np.asarray(leaf)[: len(some)] for leaf in found)

    def start_of(k: int) -> tuple[np.ndarray, np.ndarray]:
        factor = np.eye(wide, dtype=problem.dtype)
        factor[:D, :D] = basis / np.sqrt(1 + share[k] * curvature)
        return mean[k], factor

    return start_of


@jax.jit
def _find_start(
    psi: Float[Array, "N D"],
    c: Float[Array, " N"],
    U: Float[Array, "D D"],  # eigenvectors of H̄
    curvature: Float[Array, " D"],  # its eigenvalues Λ
    squares: Float[Array, "N D"],  # of the features in that basis
    targets: Float[Array, "K N"],
    offsets: Float[Array, "K N"],
) -> tuple[Float[Array, "K D"], Float[Array, " K"]]:
    """Return m and β of (29)."""
    tiny = np.finfo(psi.dtype).tiny

    def improve(_: Int[Array, ""], at: tuple[Array, Array]) -> tuple[Array, Array]:
        (m, share), shrink = at, 1 / (1 + at[1][:, None] * curvature)
        v = shrink @ squares.T
        kappa = jnp.sqrt(1 + psi.dtype.type(np.pi / 8) * v)
        y = jax.nn.sigmoid((m @ psi.T + offsets) / kappa)
        r, gradient = c * y * (1 - y) / kappa, (c * y - targets) @ psi + m
        direction = ((gradient @ U) * shrink) @ U.T
        along = (r * (direction @ psi.T) ** 2).sum(axis=1) + (direction**2).sum(axis=1)
        length = (direction * gradient).sum(axis=1) / jnp.maximum(along, tiny)
        said = (1 - shrink).sum(axis=1)  # tr of β H̄ times the covariance
        ratio = jnp.clip((r * v).sum(axis=1) / jnp.maximum(said, tiny), 0.1, 10)
        m = m - jnp.minimum(length, LONGEST)[:, None] * direction
        return m, jnp.clip(share * jnp.sqrt(ratio), LEAST_SHARE, 1)

    share = jnp.full_like(targets[:, 0], FIRST_SHARE)
    m = jnp.zeros((len(targets), psi.shape[1]), psi.dtype)
    return jax.lax.fori_loop(0, ROUNDS, improve, (m, share))
