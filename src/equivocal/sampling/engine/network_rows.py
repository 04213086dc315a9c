"""What `sample_network` is given, checked, and its rows laid out in blocks."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from equivocal.sampling.engine.inputs import (
    check_counts,
    check_int,
    check_numbers,
    check_prior_variance,
    check_targets,
    fail,
)
from equivocal.sampling.engine.shapes import Array, Float

FEW = 16  # inputs that tell which output reads a weight; up to twice as many are asked
ROUND_OFF = 1e-4  # of a logit, in float32


class NetworkRows(NamedTuple):
    """Rows in equal blocks; the last is filled up with rows that count zero times."""

    inputs: Any  # a tree of (blocks, rows, …)
    counts: Float[Array, "blocks rows"]
    targets: Float[Array, "blocks K rows"]


class Prior(NamedTuple):
    """Coordinates in which the prior is N(0, I)."""

    mean: Float[Array, " D"]
    scale: Float[Array, " D"]


def check_prior(mean: Any, variance: Any) -> Prior:
    """Return a diagonal Gaussian about a flat vector of weights."""
    m = check_numbers(mean, "prior_mean")
    if m.ndim != 1 or not len(m):
        fail(f"prior_mean must be the trained weights as one flat vector (D,), got {m.shape}.")
    v = check_prior_variance(variance, len(m), np.dtype("float32"))
    return Prior(jnp.asarray(m, jnp.float32), jnp.asarray(np.sqrt(v), jnp.float32))


def check_parts(parts: Sequence[Any] | None, D: int) -> list[np.ndarray]:
    """Return each part as (B, size), B = 1 where all outputs read it."""
    if parts is None:
        return [np.arange(D)[None]]
    indices = [np.asarray(part) for part in parts]
    if not indices or any(part.ndim not in (1, 2) or not part.size for part in indices):
        fail("parts must be a list of index arrays, (weights,) or (outputs, weights), none empty.")
    every = np.concatenate([part.ravel() for part in indices])
    if not np.issubdtype(every.dtype, np.integer) or every.min() < 0 or every.max() >= D:
        fail(f"parts must hold whole numbers from 0 to {D - 1}, the places of weights.")
    if len(np.unique(every)) < len(every):
        fail("parts must not overlap: a weight is in one part, once.")
    return [np.atleast_2d(part) for part in indices]


def check_outputs(network: Any, indices: list[np.ndarray], rows: NetworkRows, prior: Prior) -> None:
    """Check that a part is for all outputs, or has a row for each, read by that output alone."""
    K = rows.targets.shape[1]
    for index in indices:
        if len(index) not in (1, K):
            fail(
                f"a part has shape (weights,), or one row for each of the {K} outputs, got "
                f"{index.shape}."
            )
        if (
            len(index) > 1
            and (reader := _find_second_reader(network, index, rows, prior)) is not None
        ):
            fail(
                f"a part of shape {index.shape} must hold in row k what output k alone reads, but "
                f"output {reader} reads other rows too; give it as one part of shape (weights,)."
            )


def _find_second_reader(
    network: Any, index: np.ndarray, rows: NetworkRows, prior: Prior
) -> int | None:
    """Find an output whose logit moves with the row of another one, asked of a few inputs.

    All rows whose number has a certain bit are moved at once. Any two numbers differ in a bit, so
    2 log₂ K passes find what moving one row after the other would take K for.
    """
    number, some = np.arange(len(index)), max(1, rows.counts.size // FEW)
    few = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[::some], rows.inputs)
    there = np.asarray(prior.mean)[index]
    away = there + np.random.default_rng(0).normal(size=there.shape) * (0.1 + np.abs(there))
    at_rest = np.asarray(_ask(network, prior.mean, few))
    for bit in range(int(number[-1]).bit_length()):
        for moving in (number >> bit & 1 == 0, number >> bit & 1 == 1):
            weights = prior.mean.at[index[moving]].set(away[moving])
            shift = np.abs(np.asarray(_ask(network, weights, few)) - at_rest)
            moved = (shift > ROUND_OFF * (1 + np.abs(at_rest))).any(axis=0)
            if (moved & ~moving).any():
                return int(np.flatnonzero(moved & ~moving)[0])
    return None


@jax.jit
def _ask(network: Any, weights: Float[Array, " D"], inputs: Any) -> Any:
    return network(weights, inputs)


def check_rows(
    network: Any, inputs: Any, targets: Any, counts: Any, prior: Prior, J: int, budget: int
) -> NetworkRows:
    """Return the rows in blocks; say all that is wrong with them before anything runs."""
    leaves = jax.tree.leaves(inputs)
    if not leaves or len({np.shape(leaf)[:1] for leaf in leaves}) > 1 or not np.ndim(leaves[0]):
        fail("inputs must be arrays with the same number of rows along their first axis.")
    N = len(leaves[0])
    c = check_counts(counts, N, np.dtype("float32"))
    t = check_targets(targets, c, softmax=False)
    shape = jax.eval_shape(network, prior.mean, inputs).shape
    if shape != t.shape:
        fail(f"logits must return (rows, outputs), here {t.shape}, got {shape}.")
    size = max(1, min(N, check_int(budget, "memory_budget", least=1) // (12 * t.shape[1] * J)))
    blocks = -(-N // size)
    size = -(-N // blocks)

    def cut(leaf: Any) -> Any:
        leaf = jnp.asarray(leaf)
        filled = jnp.concatenate([leaf, jnp.repeat(leaf[:1], blocks * size - N, axis=0)])
        return filled.reshape(blocks, size, *leaf.shape[1:])

    c = np.concatenate([c, np.zeros(blocks * size - N, c.dtype)]).reshape(blocks, size)
    t = np.concatenate([t, np.zeros((blocks * size - N, t.shape[1]), t.dtype)])
    t = t.reshape(blocks, size, -1).swapaxes(1, 2)
    return NetworkRows(jax.tree.map(cut, inputs), jnp.asarray(c), jnp.asarray(t))
