"""Data laid out in blocks of rows, and sums over them that never hold more than one block.

Every sampler needs, for each output k, sums over rows such as Ψᵀ diag(r_k) Ψ. Rows are cut into
equal blocks; the last one is filled up with rows that count zero times, which change nothing.
Outputs are the leading axis inside a block, so that the work is a batch of matrix products.

Blocks lie in the memory of the device; or they are laid out or read from a disk when they are
needed (`StreamedRows`); or they are one block of NumPy arrays. The sums work the same in each case.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from lastlayer.compiling import Array, Either, Float, Int
from lastlayer.plan import Plan, divide_evenly
from lastlayer.problem import Problem

CHUNK = 1 << 22  # bytes of features that are laid out at once
SPLIT = 32  # parts of rows that a GPU sums at the same time

T = TypeVar("T")


class Rows(NamedTuple):
    """Rows of some outputs, in blocks."""

    features: Float[Either, "blocks rows D"]  # ψ √v
    counts: Float[Either, "blocks *K rows"]  # one for all outputs, or per output
    targets: Float[Either, "blocks K rows"]
    offsets: Float[Either, "blocks ... rows"]  # ψ·m₀, per output or one for all


class Block(NamedTuple):
    """One block of `Rows`."""

    features: Float[Either, "rows D"]
    counts: Float[Either, "*K rows"]
    targets: Float[Either, "K rows"]
    offsets: Float[Either, "... rows"]


@runtime_checkable
class Blocks(Protocol):
    """Rows that are laid out when needed: chunks of several blocks, each fetched by its number."""

    num_chunks: int
    wide: int  # columns of features

    def fetch(self, number: Int[Array, ""]) -> Rows:
        """Fetch one chunk; may be called under `jit`."""


def lay_out(
    problem: Problem,
    outputs: slice | np.ndarray,
    block_rows: int,
    *,
    num_features: int | None = None,
    on_device: bool = True,
) -> Rows:
    """Cut a problem into blocks, for some of its outputs; extra features are columns of zeros."""
    blocks = -(-problem.num_rows // block_rows)
    filled = fill_features(problem, problem.features, num_features or problem.num_features)
    features: Either = cut_into_blocks(filled, blocks, block_rows)
    counts: Either = cut_into_blocks(problem.row_counts[:, None], blocks, block_rows)[..., 0]
    if on_device:
        features, counts = jax.device_put((features, counts))
    rows = Rows(features, counts, counts, counts)  # `load_outputs` sets the last two
    return load_outputs(rows, problem, outputs)


def fill_features(problem: Problem, psi: np.ndarray, wide: int) -> np.ndarray:
    """Return ψ √v of some rows, (n, wide), filled up with columns of zeros."""
    filled = np.zeros((len(psi), wide), problem.dtype)
    np.multiply(psi, problem.prior_scale, out=filled[:, : problem.num_features])
    return filled


def load_outputs(rows: Rows, problem: Problem, outputs: slice | np.ndarray) -> Rows:
    """Return the same rows with the targets, counts and offsets of other outputs."""
    blocks, block_rows = rows.features.shape[:2]
    columns = {
        "targets": problem.targets[:, outputs],
        "offsets": problem.compute_offsets(outputs),
    }
    if problem.counts.ndim == 2:
        columns["counts"] = problem.counts[:, outputs]
    turned: dict[str, Either] = {
        name: np.ascontiguousarray(cut_into_blocks(part, blocks, block_rows).swapaxes(1, 2))
        for name, part in columns.items()
    }
    if not isinstance(rows.features, np.ndarray):
        turned = jax.device_put(turned)
    return rows._replace(**turned)


def cut_into_blocks(columns: np.ndarray, blocks: int, block_rows: int) -> np.ndarray:
    """Return columns (N, K) as (blocks, rows, K), filled up with zeros."""
    missing = blocks * block_rows - len(columns)
    padded = np.pad(columns, ((0, missing), (0, 0))) if missing else columns
    return padded.reshape(blocks, block_rows, columns.shape[1])


def iterate_outputs(
    problem: Problem,
    plan: Plan,
    outputs: np.ndarray | None = None,
    together: int | None = None,
) -> Iterator[tuple[np.ndarray, Rows | Blocks]]:
    """Yield a list of outputs in groups: their places in the list, and their rows.

    Groups have one size (`together`, or as the plan has it), so that nothing compiles anew: the
    last is filled up with the beginning of the list. Sums over the rows of a group must be finished
    before the next group is requested.
    """
    outputs = np.arange(problem.num_outputs) if outputs is None else outputs
    size = together or divide_evenly(len(outputs), plan.slots)
    groups = -(-len(outputs) // size)
    rows: Any = None
    for places in np.resize(np.arange(len(outputs)), (groups, size)):
        own = outputs[places]
        if plan.streamed:
            rows = rows or StreamedRows(problem, plan, own.copy())
            rows.outputs[:] = own
        elif rows is None:
            rows = lay_out(problem, own, plan.block_rows, num_features=plan.num_features)
        else:
            rows = load_outputs(rows, problem, own)
        yield places, rows


def weigh_rows(weights: Either, features: Either) -> Any:
    """Return Σ_n w_n ψ_n for weights (K, N) and features (N, D).

    A GPU has a product of few rows and columns computed by few of its processors, however many rows
    are summed: parts of them are summed at the same time there.
    """
    N, D = features.shape
    parts = next(parts for parts in (SPLIT, 1) if N % parts == 0)
    if isinstance(features, np.ndarray) or jax.default_backend() != "gpu" or parts == 1:
        return weights @ features
    split = weights.reshape(-1, parts, N // parts).swapaxes(0, 1)
    return jnp.matmul(split, features.reshape(parts, -1, D)).sum(axis=0)


def scan_blocks(
    function: Callable[..., tuple[T, Any]], rows: Rows | Blocks, *beside: Any
) -> tuple[T, Any]:
    """Sum the first part of a function's result over blocks, and stack the second parts.

    Arrays `beside` the rows (leading axis: blocks) are passed to the function block by block. One
    block is worked on at a time, and one chunk fetched.
    """
    in_memory = isinstance(rows, Rows)
    leaves = (*(rows if isinstance(rows, Rows) else (jnp.arange(rows.num_chunks),)), *beside)

    def call(leaves: tuple[Any, ...]) -> tuple[T, Any]:
        own = len(leaves) - len(beside)
        return function(Block(*leaves[:own]), *leaves[own:])

    def take_first(leaves: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(leaf[0] for leaf in leaves)

    def fetch(leaves: tuple[Array, ...]) -> tuple[Array, ...]:
        assert not isinstance(rows, Rows)
        return *rows.fetch(leaves[0]), *leaves[1:]

    if isinstance(leaves[0], np.ndarray):  # one block
        total, stacked = call(take_first(leaves))
        return total, jax.tree.map(lambda part: part[None], stacked)

    def call_first(leaves: tuple[Array, ...]) -> T:
        some = take_first(leaves)
        return call(some if in_memory else take_first(fetch(some)))[0]

    def add(total: T, leaves: tuple[Array, ...]) -> tuple[T, Any]:
        more, stacked = call(leaves)
        return jax.tree.map(jnp.add, total, more), stacked

    def add_chunk(total: T, leaves: tuple[Array, ...]) -> tuple[T, Any]:
        return jax.lax.scan(add, total, fetch(leaves))

    shapes = jax.eval_shape(call_first, leaves)
    zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    return jax.lax.scan(add if in_memory else add_chunk, zero, leaves)


def sum_over_blocks(function: Callable[..., T], rows: Rows | Blocks, *beside: Any) -> T:
    """Sum a function of a block over all blocks."""
    return scan_blocks(lambda *block: (function(*block), None), rows, *beside)[0]


def map_over_blocks(function: Callable[[Block], Any], rows: Rows | Blocks) -> Any:
    """Apply a function to each block and stack the results."""
    return scan_blocks(lambda block: ((), function(block)), rows)[1]


@jax.tree_util.register_static
class StreamedRows:
    """Rows of some outputs, as chunks of blocks that are made on request.

    A `numpy.memmap` of the run's own precision is read in chunks, too, and need not fit in memory.
    Compiled sums request a chunk by its number while they run. So a caller must wait for them to
    finish before it puts other numbers into `outputs`.
    """

    def __init__(self, problem: Problem, plan: Plan, outputs: np.ndarray) -> None:
        self.problem, self.block_rows, self.wide = problem, plan.block_rows, plan.num_features
        self.outputs = outputs
        size = plan.block_rows * plan.num_features * problem.dtype.itemsize
        blocks = -(-problem.num_rows // plan.block_rows)
        self.together = min(max(1, CHUNK // size), blocks)  # blocks of a chunk
        self.num_chunks = -(-problem.num_rows // (self.together * plan.block_rows))

    def fetch(self, number: Int[Array, ""]) -> Rows:
        """Fetch one chunk; the compiled program calls the host for it."""
        n, r, slots = self.together, self.block_rows, len(self.outputs)
        own = 1 if len(self.problem.prior_mean) == 1 else slots
        counts = (n, r) if np.ndim(self.problem.counts) < 2 else (n, slots, r)
        # as bits: enable_x64 does not hold in the thread that calls back, which would round
        bits = (2,) * (self.problem.dtype.itemsize // 8)
        shapes = [
            jax.ShapeDtypeStruct(shape + bits, np.uint32)  # type: ignore[no-untyped-call]
            for shape in ((n, r, self.wide), counts, (n, slots, r), (n, own, r))
        ]
        fetched = jax.pure_callback(self._read_bits, shapes, number)
        kind = self.problem.dtype
        return Rows(*(jax.lax.bitcast_convert_type(part, kind) for part in fetched))

    def _read_bits(self, number: Any) -> list[np.ndarray]:
        parts = map(np.ascontiguousarray, self.read_chunk(number))
        bits = (2,) * (self.problem.dtype.itemsize // 8)
        return [part.view(np.uint32).reshape(part.shape + bits) for part in parts]

    def read_chunk(self, number: Any) -> list[np.ndarray]:
        """Read the fields of `Rows`; rows past the end count zero times."""
        problem, blocks = self.problem, (self.together, self.block_rows)
        start = int(number) * self.together * self.block_rows
        stop = start + self.together * self.block_rows
        given = problem.features, problem.targets, problem.counts
        psi, t, c = (part[start:stop] for part in given)

        def cut(columns: np.ndarray) -> np.ndarray:
            columns = columns.astype(problem.dtype, copy=False)
            return cut_into_blocks(columns, *blocks).swapaxes(1, 2)

        counts = cut(c[:, self.outputs]) if c.ndim == 2 else cut(c[:, None])[:, 0]
        features = cut_into_blocks(fill_features(problem, psi, self.wide), *blocks)
        offsets = psi @ problem.select_mean(self.outputs).T
        return [features, counts, cut(t[:, self.outputs]), cut(offsets)]
