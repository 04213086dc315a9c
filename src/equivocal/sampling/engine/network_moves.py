"""The move (1) of `network_flow.py` for one part of the weights, and how long a step it is.

s follows Aitken's relaxation of S − I, as in `flow.py`, and is halved as long as the evidence
bound, (2) of `flow.py` with log det over the spanned directions, would fall.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from equivocal.sampling.engine.network_sums import Ensemble, Given, Terms, expectations, part_sums
from equivocal.sampling.engine.shapes import Array, Float, Int

__all__ = ["FIRST", "Step", "advance", "move_part"]

FIRST, GROWTH, SHRINKAGE, LARGEST = 0.5, 1.5, 0.5, 0.95  # of s
# Where the network bends, S leaves out its second derivative and (1) comes to rest a little beside
# the bound's maximum: the bound is there to refuse leaps, not the last steps. Nats per direction.
SLACK = 0.1
TRIES = 5  # attempts at s, each half the one before; then a part stays where it is for a round
ROUND_OFF = 1e-5  # of the largest eigenvalue; directions below are d's own null space in float32


class Step(NamedTuple):
    """What (1) did to one part, output by output where it has them."""

    gain: Float[Array, " B"]  # of the evidence bound, but for the likelihood
    misfit: Float[Array, "B J J"]  # S − I over the spanned directions, before the step
    mean_residual: Float[Array, " B"]  # distance to go, in posterior standard deviations
    covariance_residual: Float[Array, " B"]  # largest relative error of a spanned variance
    rank: int | Int[Array, ""]  # spanned directions


def advance(
    given: Given,
    ensemble: Ensemble,
    terms: Terms,
    index: np.ndarray,
    s: np.ndarray,
    before: np.ndarray | None,
) -> tuple[Ensemble, Terms, np.ndarray, Step, int]:
    """One part moved by (1), with a shorter s where the bound would fall, and none in the end."""
    sums = part_sums(given, ensemble, index, terms)
    if before is not None:
        _, here = move_part(ensemble, index, *sums, s)
        s = _relaxed(s, before, np.asarray(here.misfit))
    for tries in range(1, TRIES + 2):
        moved, taken = move_part(ensemble, index, *sums, s)
        there = expectations(*given, moved)
        falls = _falls(taken, terms, there)
        if not falls.any():
            break
        s = np.where(falls, SHRINKAGE * s if tries < TRIES else 0.0, s)
    return moved, there, s, taken, tries


def _falls(step: Step, terms: Terms, there: Terms) -> np.ndarray:
    """Where the evidence bound would fall by more than `SLACK` nats a direction."""
    old, new = (np.asarray(x.log_likelihood, np.float64) for x in (terms, there))
    if len(step.gain) == 1:
        old, new = old.sum(keepdims=True), new.sum(keepdims=True)
    slack = 16 * np.finfo(np.float32).eps * np.abs(old) + SLACK * np.asarray(step.rank)
    return np.asarray(~(new + np.asarray(step.gain) >= old - slack))  # NaN is lower too


def _relaxed(s: np.ndarray, before: np.ndarray, misfit: np.ndarray) -> np.ndarray:
    """The s that would have cancelled the change of S − I, within bounds."""
    change = misfit - before
    best = -s * (before * change).sum(axis=(1, 2)) / np.maximum((change**2).sum(axis=(1, 2)), 1e-30)
    clipped = np.clip(best, SHRINKAGE * s, GROWTH * s)
    return np.minimum(np.where(best > 0, clipped, GROWTH * s), LARGEST)


@jax.jit
def move_part(
    ensemble: Ensemble,
    index: Int[Array, "B size"],
    S: Float[Array, "B J J"],
    g: Float[Array, "B J"],
    damping: Float[Array, " B"],
) -> tuple[Ensemble, Step]:
    """(1) for one part, and how far it was from rest."""
    J = len(ensemble.deviations)
    multiply = partial(jnp.matmul, precision="highest")
    d = ensemble.deviations[:, index].swapaxes(0, 1) / np.sqrt(J - 1)  # B J size
    m, s = ensemble.mean[index], jnp.asarray(damping, d.dtype)[:, None]
    lam, V = jnp.linalg.eigh(S + multiply(d, d.swapaxes(1, 2)))
    # the null space of d must not grow: what it holds is round-off
    rank = min(J - 1, index.shape[1])
    alive = (lam > ROUND_OFF * lam[:, -1:]) & (np.arange(J) >= J - rank)
    shrink = jnp.where(alive, 1 / (1 - s + s * lam), 1.0)
    gradient = g[..., None] + multiply(d, m[..., None])
    along = jnp.where(alive, multiply(V.swapaxes(1, 2), gradient)[..., 0], 0.0)
    change = multiply((V * (s * shrink * along)[:, None]).sum(axis=-1)[:, None], d)[:, 0]
    moved = multiply(multiply(V * jnp.sqrt(shrink)[:, None], V.swapaxes(1, 2)), d)
    moved = moved - moved.mean(axis=1, keepdims=True)
    size = (d**2).sum(axis=(1, 2)) + (m**2).sum(axis=1)
    size = size - (moved**2).sum(axis=(1, 2)) - ((m - change) ** 2).sum(axis=1)
    misfit = jnp.where(alive, lam - 1, 0.0)
    step = Step(
        gain=0.5 * (size + jnp.log(shrink).sum(axis=1)),
        misfit=multiply(V * misfit[:, None], V.swapaxes(1, 2)),
        mean_residual=jnp.linalg.norm(along * jnp.sqrt(shrink), axis=1),
        covariance_residual=jnp.abs(lam[:, -rank:] - 1).max(axis=1),
        rank=rank,
    )
    particles = ensemble.deviations.at[:, index].set(moved.swapaxes(0, 1) * np.sqrt(J - 1))
    return Ensemble(ensemble.mean.at[index].set(m - change), particles), step
