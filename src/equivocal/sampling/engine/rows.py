"""Data laid out in blocks of rows, and sums over them that never hold more than one block.

Every sampler needs, for each output k, sums over rows such as Ψᵀ diag(r_k) Ψ. Rows are cut into
equal blocks; the last one is filled up with rows that count zero times, which change nothing.
Outputs are the leading axis inside a block, so that the work is a batch of matrix products.

Blocks lie in the memory of one device, or are cut over several (`placement`), each of which sums
its own before the sums are added up; or they are read from a disk when their turn comes
(`streaming`). Whoever sums over blocks need not know which.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from equivocal.sampling.engine.placement import (
    AXIS,
    CUT,
    WHOLE,
    largest_anywhere,
    local_shards,
    num_shards,
    placed,
    placed_by_device,
)
from equivocal.sampling.engine.problem import Problem
from equivocal.sampling.engine.shapes import Array, Float, Int

__all__ = [
    "Block",
    "Blocks",
    "Rows",
    "for_outputs",
    "in_blocks",
    "lay_out",
    "local_blocks",
    "map_over_blocks",
    "offsets_of",
    "scan_blocks",
    "sum_over_blocks",
    "turned",
]

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


def local_blocks(problem: Problem, block_rows: int) -> int:
    """Blocks of this process: as many as any process needs, and equally many for each device."""
    fewest = int(largest_anywhere(-(-problem.num_rows // block_rows)))
    return -(-fewest // local_shards()) * local_shards()


def lay_out(
    problem: Problem, outputs: slice, block_rows: int, *, num_features: int | None = None
) -> Rows:
    """Cut a problem into blocks, for some of its outputs; extra features are columns of zeros."""
    blocks = local_blocks(problem, block_rows)
    rows = Rows(
        features=_features_in_blocks(problem, blocks, block_rows, num_features),
        counts=placed(in_blocks(problem.counts[:, None], blocks, block_rows)[..., 0]),
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
    if num_shards() > 1:
        each = blocks // local_shards()
        starts = range(0, blocks, each)
        return placed_by_device(
            _some_blocks(problem, range(i, i + each), block_rows, wide) for i in starts
        )
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
    block_rows = rows.counts.shape[1]
    blocks = local_blocks(problem, block_rows)
    return rows._replace(
        targets=turned(in_blocks(problem.targets[:, outputs], blocks, block_rows)),
        offsets=turned(in_blocks(offsets_of(problem, outputs), blocks, block_rows)),
    )


def offsets_of(problem: Problem, outputs: slice | np.ndarray) -> np.ndarray:
    """Logits of the prior mean for some outputs."""
    m0 = problem.prior_mean if len(problem.prior_mean) == 1 else problem.prior_mean[outputs]
    return problem.features @ m0.T


def in_blocks(columns: np.ndarray, blocks: int, block_rows: int) -> np.ndarray:
    """(N, K) as (blocks, rows, K), filled up with zeros."""
    padded = np.zeros((blocks * block_rows, columns.shape[1]), columns.dtype)
    padded[: len(columns)] = columns
    return padded.reshape(blocks, block_rows, -1)


def turned(blocks: np.ndarray) -> Array:
    """(blocks, rows, K) as (blocks, K, rows) where the sums are made.

    With a thousand outputs, turning takes a host long; a GPU does it at once.
    On a CPU the host's way holds one copy less.
    """
    if jax.default_backend() == "cpu":
        return placed(np.ascontiguousarray(blocks.swapaxes(1, 2)))
    return _turned(placed(blocks))


@jax.jit
def _turned(blocks: Array) -> Array:
    return blocks.swapaxes(1, 2)


@runtime_checkable
class Blocks(Protocol):
    """Rows that are not in memory: chunks of several blocks, each fetched by its number."""

    @property
    def numbers(self) -> Int[Array, " chunks"]:
        """Of all chunks."""

    def fetch(self, number: Int[Array, ""]) -> Rows:
        """One chunk, under `jit`."""


def scan_blocks(
    function: Callable[..., tuple[T, Any]], rows: "Rows | Blocks", *beside: Array
) -> tuple[T, Any]:
    """Σ over blocks of the first part of a function's answer, and the second parts stacked.

    What stands `beside` the rows (leading axis: blocks) is handed to the function block by block;
    one block is in memory at a time. Where blocks are cut over devices, sums are added over them
    and stacks stay cut.
    """
    leaves = (*(rows if isinstance(rows, Rows) else (rows.numbers,)), *beside)
    own = len(leaves) - len(beside)

    def call(leaves: tuple[Array, ...]) -> tuple[T, Any]:
        if isinstance(rows, Rows):
            return function(Block(*leaves[:own]), *leaves[own:])
        return scan_blocks(function, rows.fetch(leaves[0]), *leaves[own:])

    def on_device(*leaves: Array) -> tuple[T, Any]:
        shapes = jax.eval_shape(call, tuple(leaf[0] for leaf in leaves))[0]
        zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)

        def add(total: T, leaves: tuple[Array, ...]) -> tuple[T, Any]:
            found, stacked = call(leaves)
            return jax.tree.map(jnp.add, total, found), stacked

        return jax.lax.scan(add, zero, leaves)

    if num_shards() == 1:
        return on_device(*leaves)

    def on_each(*leaves: Array) -> tuple[T, Any]:
        total, stacked = on_device(*leaves)
        return jax.lax.psum(total, AXIS), stacked  # type: ignore[no-untyped-call]

    parts = (WHOLE, CUT)
    return jax.shard_map(on_each, in_specs=CUT, out_specs=parts, check_vma=False)(*leaves)


def sum_over_blocks(function: Callable[..., T], rows: "Rows | Blocks", *beside: Array) -> T:
    """Σ over blocks of a function that gives arrays."""
    return scan_blocks(lambda *block: (function(*block), None), rows, *beside)[0]


def map_over_blocks(function: Callable[[Block], Array], rows: "Rows | Blocks") -> Array:
    """A function of each block, stacked."""
    stacked: Array = scan_blocks(lambda block: ((), function(block)), rows)[1]
    return stacked
