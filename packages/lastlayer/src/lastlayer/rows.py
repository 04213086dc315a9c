"""Data laid out in blocks of rows, and sums over them that never hold more than one block.

Every sampler needs, for each output k, sums over rows such as Ψᵀ diag(r_k) Ψ. Rows are cut into
equal blocks; the last one is filled up with rows that count zero times, which change nothing.
Outputs are the leading axis inside a block, so that the work is a batch of matrix products.

Blocks lie in the memory of one device; or they are split over several (`placement`), each of which
sums its own before the sums are added up; or they are laid out or read from a disk when they are
needed (`streaming`). The sums over blocks work the same in each case. Small problems need no
blocks: their rows are NumPy arrays (`SmallRows`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from lastlayer.compiling import Array, Float, Int, compile_on_call
from lastlayer.devices import (
    AXIS,
    CUT,
    WHOLE,
    count_local_shards,
    count_shards,
    find_largest_anywhere,
    place,
    place_by_device,
)
from lastlayer.logits import compute_small_moments
from lastlayer.plan import Plan
from lastlayer.problem import Problem

T = TypeVar("T")
HANDED_OVER = 1 << 25  # bytes of features that are passed to JAX at a time
WIDTH = 16  # outputs whose offsets are computed together


class Rows(NamedTuple):
    """Rows of some outputs, in blocks."""

    features: Float[Array, "blocks rows D"]  # ψ √v
    counts: Float[Array, "blocks *K rows"]  # one for all outputs, or per output
    targets: Float[Array, "blocks K rows"]
    offsets: Float[Array, "blocks ... rows"]  # ψ·m₀, per output or one for all


class Block(NamedTuple):
    """One block of `Rows`."""

    features: Float[Array, "rows D"]
    counts: Float[Array, "*K rows"]
    targets: Float[Array, "K rows"]
    offsets: Float[Array, "... rows"]


def count_local_blocks(problem: Problem, block_rows: int) -> int:
    """Count the blocks of this process: the most that any process needs, equal for each device."""
    fewest = int(find_largest_anywhere(-(-problem.num_rows // block_rows)))
    return -(-fewest // count_local_shards()) * count_local_shards()


def lay_out(
    problem: Problem,
    outputs: slice,
    block_rows: int,
    *,
    num_features: int | None = None,
    handed_over: int = HANDED_OVER,
) -> Rows:
    """Cut a problem into blocks, for some of its outputs; extra features are columns of zeros."""
    blocks = count_local_blocks(problem, block_rows)
    features = _cut_features(problem, blocks, block_rows, num_features, handed_over)
    counts = place(cut_into_blocks(problem.row_counts[:, None], blocks, block_rows)[..., 0])
    unset = jax.device_put(np.zeros(0, problem.dtype))  # `load_outputs` sets them
    return load_outputs(Rows(features, counts, unset, unset), problem, outputs)


def _cut_features(
    problem: Problem, blocks: int, block_rows: int, num_features: int | None, handed_over: int
) -> Array:
    """Lay out ψ √v, the largest array of a run, part by part.

    JAX copies the arrays that it is given, and its CPU backend holds three copies meanwhile.
    """
    wide = num_features or problem.num_features
    if count_shards() > 1:
        each = blocks // count_local_shards()
        starts = range(0, blocks, each)
        return place_by_device(
            _fill_blocks(problem, range(i, i + each), block_rows, wide) for i in starts
        )
    together = max(1, handed_over // (block_rows * wide * problem.dtype.itemsize))
    if together >= blocks:
        return jax.device_put(_fill_blocks(problem, range(blocks), block_rows, wide))
    features = jnp.zeros((blocks, block_rows, wide), problem.dtype)
    for first in range(0, blocks, together):
        some = range(first, min(first + together, blocks))
        part = _fill_blocks(problem, some, block_rows, wide)
        features = _put(features, part, first).block_until_ready()
    return features


def _fill_blocks(problem: Problem, some: range, block_rows: int, wide: int) -> np.ndarray:
    """Return ψ √v of some blocks, (blocks, rows, wide), filled up with zeros."""
    rows = problem.features[some.start * block_rows : some.stop * block_rows]
    filled = np.zeros((len(some) * block_rows, wide), problem.dtype)
    np.multiply(rows, problem.prior_scale, out=filled[: len(rows), : problem.num_features])
    return filled.reshape(len(some), block_rows, wide)


@compile_on_call(donate_argnums=0)
def _put(every: Array, some: Array, first: Int[Array, ""]) -> Array:
    return jax.lax.dynamic_update_slice_in_dim(every, some, first, axis=0)


def load_outputs(rows: Rows, problem: Problem, outputs: slice) -> Rows:
    """Return the same rows with the targets and offsets of other outputs."""
    block_rows = rows.features.shape[1]
    offsets = compute_offsets(problem.features, problem.select_mean(outputs), block_rows)
    columns = {"targets": problem.targets[:, outputs], "offsets": offsets}
    if problem.counts.ndim == 2:
        columns["counts"] = problem.counts[:, outputs]
    turned = {n: _transpose_blocks(problem, part, block_rows) for n, part in columns.items()}
    return rows._replace(**turned)


def compute_offsets(features: np.ndarray, prior_mean: np.ndarray, block_rows: int) -> np.ndarray:
    """Return ψ·m₀, maths (1), (N, K) or (N, 1).

    All products have one shape, so that no bit depends on which rows and outputs come together.
    """
    N, number = len(features), len(prior_mean)
    width = 1 if number == 1 else WIDTH
    groups = cut_into_blocks(prior_mean, -(-number // width), width)
    columns = np.ascontiguousarray(groups.swapaxes(1, 2))
    offsets = np.empty((N, len(groups) * width), features.dtype)
    for start in range(0, N, block_rows):
        block = features[start : start + block_rows]
        if len(block) < block_rows:
            block = cut_into_blocks(block, 1, block_rows)[0]
        found = np.matmul(block, columns).swapaxes(0, 1).reshape(block_rows, -1)
        offsets[start : start + block_rows] = found[: N - start]
    return offsets[:, :number]


def cut_into_blocks(columns: np.ndarray, blocks: int, block_rows: int) -> np.ndarray:
    """Return columns (N, K) as (blocks, rows, K), filled up with zeros."""
    padded = np.zeros((blocks * block_rows, columns.shape[1]), columns.dtype)
    padded[: len(columns)] = columns
    return padded.reshape(blocks, block_rows, columns.shape[1])


def _transpose_blocks(problem: Problem, columns: np.ndarray, block_rows: int) -> Array:
    """Transpose columns (N, K) to (blocks, K, rows), placed on the devices that sum over them.

    With a thousand outputs, a GPU transposes far faster than its host. On a CPU, transposing in
    NumPy holds one copy less.
    """
    blocks = cut_into_blocks(columns, count_local_blocks(problem, block_rows), block_rows)
    if jax.default_backend() == "cpu":
        return place(np.ascontiguousarray(blocks.swapaxes(1, 2)))
    return place(blocks).swapaxes(1, 2)


class InMemory:
    """The rows of the outputs in flight, one slot for each, which `load` gives to other outputs."""

    def __init__(self, problem: Problem, plan: Plan, slots: int) -> None:
        self._problem = problem
        rows = lay_out(problem, slice(0, slots), plan.block_rows, num_features=plan.num_features)

        # slots without an output are filled with zeros
        def fill(columns: Array) -> Array:
            beyond = slots - columns.shape[1]
            return jnp.pad(columns, ((0, 0), (0, beyond), (0, 0))) if beyond else columns

        targets = fill(rows.targets)
        offsets = rows.offsets if rows.offsets.shape[1] == 1 else fill(rows.offsets)
        counts = fill(rows.counts) if rows.counts.ndim == 3 else rows.counts
        self.rows = rows._replace(targets=targets, offsets=offsets, counts=counts)

    def load(self, slots: np.ndarray, outputs: np.ndarray) -> None:
        """Put other outputs into some slots."""
        problem, block_rows = self._problem, self.rows.features.shape[1]
        columns = {"targets": problem.targets[:, outputs]}
        if len(problem.prior_mean) > 1:
            m0 = problem.select_mean(outputs)
            columns["offsets"] = compute_offsets(problem.features, m0, block_rows)
        if problem.counts.ndim == 2:
            columns["counts"] = problem.counts[:, outputs]
        for name, new in columns.items():
            turned = _transpose_blocks(problem, new, block_rows)
            set_in = _set_columns(getattr(self.rows, name), slots, turned)
            self.rows = self.rows._replace(**{name: set_in})


@compile_on_call(donate_argnums=0)
def _set_columns(stacked: Array, slots: Int[Array, " n"], columns: Array) -> Array:
    return stacked.at[:, slots].set(columns)


@runtime_checkable
class Blocks(Protocol):
    """Rows that are laid out when needed: chunks of several blocks, each fetched by its number."""

    num_chunks: int
    wide: int  # columns of features

    def fetch(self, number: Int[Array, ""]) -> Rows:
        """Fetch one chunk; may be called under `jit`."""


def scan_blocks(
    function: Callable[..., tuple[T, Any]], rows: "Rows | Blocks", *beside: Array
) -> tuple[T, Any]:
    """Sum the first part of a function's result over blocks, and stack the second parts.

    Arrays `beside` the rows (leading axis: blocks) are passed to the function block by block. One
    block is worked on at a time, and one chunk fetched. Where blocks are split over devices, sums
    are added over devices, and stacks stay split.
    """
    in_memory = isinstance(rows, Rows)
    leaves = (*(rows if isinstance(rows, Rows) else (jnp.arange(rows.num_chunks),)), *beside)

    def call(leaves: tuple[Array, ...]) -> tuple[T, Any]:
        own = len(leaves) - len(beside)
        return function(Block(*leaves[:own]), *leaves[own:])

    def fetch(leaves: tuple[Array, ...]) -> tuple[Array, ...]:
        assert not isinstance(rows, Rows)
        return *rows.fetch(leaves[0]), *leaves[1:]

    def take_first(leaves: tuple[Array, ...]) -> tuple[Array, ...]:
        return tuple(leaf[0] for leaf in leaves)

    def on_device(*leaves: Array) -> tuple[T, Any]:
        def call_first(leaves: tuple[Array, ...]) -> T:
            some = take_first(leaves)
            return call(some if in_memory else take_first(fetch(some)))[0]

        def add(total: T, leaves: tuple[Array, ...]) -> tuple[T, Any]:
            found, stacked = call(leaves)
            return jax.tree.map(jnp.add, total, found), stacked

        def add_chunk(total: T, leaves: tuple[Array, ...]) -> tuple[T, Any]:
            # block by block: the same sums, to the last bit, as if all blocks were in memory
            return jax.lax.scan(add, total, fetch(leaves))

        shapes = jax.eval_shape(call_first, leaves)
        zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        return jax.lax.scan(add if in_memory else add_chunk, zero, leaves)

    if count_shards() == 1:
        return on_device(*leaves)

    def on_each(*leaves: Array) -> tuple[T, Any]:
        total, stacked = on_device(*leaves)
        return jax.lax.psum(total, AXIS), stacked  # type: ignore[no-untyped-call]

    parts = (WHOLE, CUT)
    return jax.shard_map(on_each, in_specs=CUT, out_specs=parts, check_vma=False)(*leaves)


def sum_over_blocks(function: Callable[..., T], rows: "Rows | Blocks", *beside: Array) -> T:
    """Sum a function of a block over all blocks."""
    return scan_blocks(lambda *block: (function(*block), None), rows, *beside)[0]


def map_over_blocks(function: Callable[[Block], Array], rows: "Rows | Blocks") -> Array:
    """Apply a function to each block and stack the results."""
    stacked: Array = scan_blocks(lambda block: ((), function(block)), rows)[1]
    return stacked


class Averages(NamedTuple):
    """Averages over N(m, GGᵀ) for each output."""

    gradient: np.ndarray  # (K, D), g̃
    weights: np.ndarray  # (K, N), c E[y(1 − y)]


@dataclass(frozen=True, kw_only=True, eq=False)
class SmallRows:
    """Rows with counts above zero, for the outputs that have not converged yet."""

    features: np.ndarray  # (N, D), ψ √v
    counts: np.ndarray  # (1, N) or (K, N)
    targets: np.ndarray  # (K, N)
    offsets: np.ndarray  # (1, N) or (K, N)

    @classmethod
    def lay_out(cls, problem: Problem, kind: np.dtype) -> "SmallRows":
        """Return the rows of a problem that count, in the precision `kind`."""
        counted = problem.row_counts > 0
        psi, offsets = problem.features[counted], problem.compute_offsets()[counted]
        columns = problem.counts[counted], problem.targets[counted], offsets
        c, t, m0 = (np.ascontiguousarray(np.atleast_2d(x.T), kind) for x in columns)
        scaled = (psi * problem.prior_scale).astype(kind)
        return cls(features=scaled, counts=c, targets=t, offsets=m0)

    def select(self, outputs: np.ndarray) -> "SmallRows":
        """Return the rows of some outputs."""
        parts = {name: getattr(self, name) for name in ("counts", "targets", "offsets")}
        K = len(self.targets)
        return replace(self, **{name: x[outputs] for name, x in parts.items() if len(x) == K})

    def average(self, mean: np.ndarray, variance: np.ndarray) -> Averages:
        """Return the averages over logits with these variances, (K, N)."""
        mu = mean @ self.features.T + self.offsets
        c, t = self.counts, self.targets
        tail, slopes, _ = map(np.asarray, compute_small_moments(mu, variance))
        error = np.where(mu > 0, (c - t) - c * tail, c * tail - t)  # c E[y] − t
        return Averages(error @ self.features + mean, c * slopes)

    def compute_curvature(self, found: Averages, direction: np.ndarray) -> np.ndarray:
        """Return the curvature of the loss along a direction, (K,)."""
        logits = direction @ self.features.T
        return (found.weights * logits**2).sum(axis=1) + (direction**2).sum(axis=1)
