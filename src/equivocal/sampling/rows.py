"""Data laid out in blocks of rows, and sums over them that never hold more than one block.

Every sampler needs, for each output k, sums over rows such as Ψᵀ diag(r_k) Ψ. Rows are cut into
equal blocks; the last one is filled up with rows that count zero times, which change nothing.
Outputs are the leading axis inside a block, so that the work is a batch of matrix products.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from equivocal.sampling.problem import Problem
from equivocal.sampling.shapes import Array, Float, Int

__all__ = ["Block", "Rows", "for_outputs", "in_blocks", "lay_out", "offsets_of", "sum_over_blocks"]

T = TypeVar("T")
HANDED_OVER = 1 << 25  # bytes of features at a time


class Rows(NamedTuple):
    """Rows of some outputs, in blocks."""

    features: Float[Array, "blocks rows D"]  # ψ √v
    counts: Float[Array, "blocks rows"]
    targets: Float[Array, "blocks K rows"]
    offsets: Float[Array, "blocks ... rows"]  # ψ·m₀, per output or one for all


class Block(NamedTuple):
    """One block of `Rows`."""

    features: Float[Array, "rows D"]
    counts: Float[Array, " rows"]
    targets: Float[Array, "K rows"]
    offsets: Float[Array, "... rows"]


def lay_out(
    problem: Problem, outputs: slice, block_rows: int, *, num_features: int | None = None
) -> Rows:
    """Cut a problem into blocks, for some of its outputs; extra features are columns of zeros."""
    blocks = -(-len(problem.features) // block_rows)
    rows = Rows(
        features=_features_in_blocks(problem, blocks, block_rows, num_features),
        counts=jnp.asarray(in_blocks(problem.counts[:, None], blocks, block_rows)[:, 0]),
        targets=jnp.zeros(0),
        offsets=jnp.zeros(0),
    )
    return for_outputs(rows, problem, outputs)


def _features_in_blocks(
    problem: Problem, blocks: int, block_rows: int, num_features: int | None
) -> Array:
    """ψ √v, the largest array of a run, handed over a part at a time: JAX copies what it is given.

    Its CPU backend holds three copies while it does so.
    """
    wide = num_features or problem.num_features
    together = max(1, HANDED_OVER // (block_rows * wide * problem.dtype.itemsize))
    if together >= blocks:
        return jnp.asarray(_some_blocks(problem, range(blocks), block_rows, wide))
    features = jnp.zeros((blocks, block_rows, wide), problem.dtype)
    for first in range(0, blocks, together):
        some = range(first, min(first + together, blocks))
        part = _some_blocks(problem, some, block_rows, wide)
        features = _put(features, part, first).block_until_ready()
    return features


def _some_blocks(problem: Problem, some: range, block_rows: int, wide: int) -> np.ndarray:
    rows = problem.features[some.start * block_rows : some.stop * block_rows]
    filled = np.zeros((len(some) * block_rows, wide), problem.dtype)
    np.multiply(rows, problem.prior_scale, out=filled[: len(rows), : problem.num_features])
    return filled.reshape(len(some), block_rows, wide)


@partial(jax.jit, donate_argnums=0)
def _put(every: Array, some: Array, first: Int[Array, ""]) -> Array:
    return jax.lax.dynamic_update_slice_in_dim(every, some, first, axis=0)


def for_outputs(rows: Rows, problem: Problem, outputs: slice) -> Rows:
    """The same rows with the targets and offsets of other outputs."""
    blocks, block_rows = rows.counts.shape
    return rows._replace(
        targets=jnp.asarray(in_blocks(problem.targets[:, outputs], blocks, block_rows)),
        offsets=jnp.asarray(in_blocks(offsets_of(problem, outputs), blocks, block_rows)),
    )


def offsets_of(problem: Problem, outputs: slice) -> np.ndarray:
    """Logits of the prior mean for some outputs."""
    m0 = problem.prior_mean if len(problem.prior_mean) == 1 else problem.prior_mean[outputs]
    return problem.features @ m0.T


def in_blocks(columns: np.ndarray, blocks: int, block_rows: int) -> np.ndarray:
    """(N, K) as (blocks, K, rows), filled up with zeros."""
    padded = np.zeros((blocks * block_rows, columns.shape[1]), columns.dtype)
    padded[: len(columns)] = columns
    return np.ascontiguousarray(padded.reshape(blocks, block_rows, -1).swapaxes(1, 2))


def sum_over_blocks(function: Callable[..., T], rows: Rows, *beside: Array) -> T:
    """Σ over blocks of a function that gives arrays; one block is in memory at a time.

    What stands `beside` the rows (leading axis: blocks) is handed to the function block by block.
    """
    stacked = (*rows, *beside)

    def call(leaves: tuple[Array, ...]) -> T:
        return function(Block(*leaves[: len(rows)]), *leaves[len(rows) :])

    shapes = jax.eval_shape(call, tuple(leaf[0] for leaf in stacked))
    zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)

    def add(total: T, leaves: tuple[Array, ...]) -> tuple[T, None]:
        return jax.tree.map(jnp.add, total, call(leaves)), None

    total: T = jax.lax.scan(add, zero, stacked)[0]
    return total
