"""Data laid out in blocks of rows, and sums over them that never hold more than one block.

Every sampler needs, for each output k, sums over rows such as Ψᵀ diag(r_k) Ψ. Rows are cut into
equal blocks; the last one is filled up with rows that count zero times, which change nothing.
Outputs are the leading axis inside a block, so that the work is a batch of matrix products.

Blocks lie in the memory of the device, or they are one block of NumPy arrays. Sums work alike in
both cases.

A `Plan` says how many rows and outputs are worked on at a time, so that a run fits into its budget.
What a run holds in addition to the caller's own arrays:

    features laid out in blocks           2·N·D (once more while they are handed to the device)
    per output in flight                  4·N (targets, offsets, variances, weights) + state
    per output in flight and block row    working space
    products of features (`shared`)       N·D(D+1)/2, and twice that while they are formed

Results (covariances K·D², particles K·J·D) belong to the caller and are not counted. Sizes decide
the last bits of sums, so that another budget may give other rounding. On a CPU small blocks are
also faster, because a block of all outputs in flight stays in the cache.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from lastlayer.checks import fail
from lastlayer.compiling import Array, Either, Float
from lastlayer.machine import measure_memory
from lastlayer.problem import Likelihood, Problem

SPLIT = 32  # parts of rows that a GPU sums at the same time
CPU_BLOCK_ROWS, CPU_SLOTS = 512, 16
GPU_BLOCK_ROWS, GPU_SLOTS = 16_384, 256
SMALLEST_BLOCK = 16
KEPT = 4  # numbers that a flow keeps for each row and output in flight
# XLA's CPU matrix product is twice as fast when D is a multiple of LANES; with fewer features than
# `PADDED_FROM`, padding costs more than it gains
LANES, PADDED_FROM = 8, 32
# Outputs that share products, bytes of these, and the parts of rows in which they are formed.
SHARED_SLOTS, FEWEST_SHARED, MOST_PRODUCTS, PARTS = 256, 4, 1 << 31, 8
SHARED_ROWS = 32  # rows are filled up to a multiple of this, which PARTS divides


T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Sizes of one run."""

    block_rows: int
    slots: int  # outputs in flight
    num_features: int  # D, filled up with columns of zeros
    products: bool = False  # outputs that share their rows share products of features, too


def make_plan(
    problem: Problem,
    budget: int | None,
    *,
    per_output: int,
    per_row: int,
    per_row_kept: int = KEPT,
    cpu_slots: int = CPU_SLOTS,
    slots: int | None = None,
    beside: int = 0,
) -> Plan:
    """Choose sizes, given what a method keeps (in numbers, not bytes), and what the budget holds.

    `per_output`: state of one output. `per_row`: working space of one output and block row.
    `per_row_kept`: what one output keeps for every row. `cpu_slots`: outputs in flight on a CPU, at
    most. `slots`: as many as must be. `beside`: what is kept besides.
    """
    limit, size, on_cpu = choose_limit(budget), problem.dtype.itemsize, _is_on_cpu()
    num_rows, D = problem.num_rows, pad(problem.num_features)
    block = CPU_BLOCK_ROWS if on_cpu else GPU_BLOCK_ROWS
    block = min(block, round_to_power_of_two(num_rows))
    in_flight = slots or min(cpu_slots if on_cpu else GPU_SLOTS, problem.num_outputs)

    def count_bytes() -> int:
        rows = -(-num_rows // block) * block
        each = per_row_kept * rows + per_output + block * per_row
        return size * (in_flight * each + beside + rows * (2 * D + 1))

    while count_bytes() > limit and in_flight > 1 and slots is None:
        in_flight //= 2
    while count_bytes() > limit and block > SMALLEST_BLOCK:
        block //= 2
    check_budget(problem, limit, count_bytes())
    return Plan(block_rows=block, slots=in_flight, num_features=D)


def plan_to_share(problem: Problem, budget: int | None, per_output: int) -> Plan | None:
    """Return a plan with rows in one block that outputs share, unless that takes too much."""
    N, D, size = problem.num_rows, problem.num_features, problem.dtype.itemsize
    slots, limit = min(SHARED_SLOTS, problem.num_outputs), choose_limit(budget)

    def count_bytes() -> int:
        return size * (4 * N * D + slots * (8 * N + per_output))

    while slots > FEWEST_SHARED and count_bytes() > limit / 2:
        slots = -(-slots // 2)
    working = count_bytes()
    products = size * N * D * (D + 1) // 2
    if working > limit / 2:
        return None
    held = products <= MOST_PRODUCTS and working + 3 * products <= limit
    rows = -(-N // SHARED_ROWS) * SHARED_ROWS
    return Plan(block_rows=rows, slots=slots, num_features=D, products=held)


def check_budget(problem: Problem, limit: int, needed: int) -> None:
    """Refuse a budget that has no room for the least that a run holds."""
    if needed > limit:
        narrower = "" if problem.dtype.itemsize == 4 else "use dtype='float32', "
        softmax = problem.likelihood is Likelihood.SOFTMAX
        apart = f", or use {offer_outputs(problem.num_outputs)}" if softmax else ""
        fail(
            f"memory_budget of {limit:,} bytes is too small: {problem.num_rows:,} rows × "
            f"{problem.num_features} features need at least {needed:,} bytes. Raise it, "
            f"{narrower}or give fewer rows{apart}."
        )


def offer_outputs(num_classes: int) -> str:
    """Name the way out of a softmax that takes too much time or memory."""
    return (
        f"one yes/no output per class: targets of shape (N, {num_classes}) with "
        "likelihood='bernoulli' (of the scikit-learn estimator multi_class='one-vs-rest')"
    )


def choose_limit(budget: int | None) -> int:
    """Return the budget, by default a quarter of what the device has."""
    if budget is not None:
        return budget
    return (_find_limit(jax.local_devices()[0]) or measure_memory()) // 4


def pad(num_features: int) -> int:
    """Return D filled up to whole lanes."""
    return -(-num_features // LANES) * LANES if num_features >= PADDED_FROM else num_features


def _is_on_cpu() -> bool:
    return jax.default_backend() == "cpu"


@cache
def _find_limit(device: jax.Device) -> int:
    """Return the bytes of a GPU, or 0 for a CPU; kept, since asking a GPU may take 15 ms."""
    return int((device.memory_stats() or {}).get("bytes_limit", 0))


def round_to_power_of_two(n: int) -> int:
    """Return the next power of two, so that nearby sizes share a compiled program."""
    return 1 << max(0, n - 1).bit_length()


def divide_evenly(number: int, most: int) -> int:
    """Return the size of equal groups of at most so many."""
    return -(-number // -(-number // most))


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
) -> Iterator[tuple[np.ndarray, Rows]]:
    """Yield a list of outputs in groups: their places in the list, and their rows.

    Groups have one size (`together`, or as the plan has it), so that nothing compiles anew: the
    last is filled up with the beginning of the list.
    """
    outputs = np.arange(problem.num_outputs) if outputs is None else outputs
    size = together or divide_evenly(len(outputs), plan.slots)
    groups = -(-len(outputs) // size)
    rows: Any = None
    for places in np.resize(np.arange(len(outputs)), (groups, size)):
        own = outputs[places]
        if rows is None:
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


def scan_blocks(function: Callable[..., tuple[T, Any]], rows: Rows, *beside: Any) -> tuple[T, Any]:
    """Sum the first part of a function's result over blocks, and stack the second parts.

    Arrays `beside` the rows (leading axis: blocks) are passed to the function block by block, one
    block at a time.
    """

    def call(leaves: tuple[Any, ...]) -> tuple[T, Any]:
        own = len(Block._fields)
        return function(Block(*leaves[:own]), *leaves[own:])

    def call_first(leaves: tuple[Any, ...]) -> tuple[T, Any]:
        return call(tuple(leaf[0] for leaf in leaves))

    def add(total: T, leaves: tuple[Array, ...]) -> tuple[T, Any]:
        more, stacked = call(leaves)
        return jax.tree.map(jnp.add, total, more), stacked

    leaves = (*rows, *beside)
    if isinstance(rows.features, np.ndarray):  # one block
        total, stacked = call_first(leaves)
        return total, jax.tree.map(lambda part: part[None], stacked)
    shapes = jax.eval_shape(lambda leaves: call_first(leaves)[0], leaves)
    zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    return jax.lax.scan(add, zero, leaves)


def sum_over_blocks(function: Callable[..., T], rows: Rows, *beside: Any) -> T:
    """Sum a function of a block over all blocks."""
    return scan_blocks(lambda *block: (function(*block), None), rows, *beside)[0]


def map_over_blocks(function: Callable[[Block], Any], rows: Rows) -> Any:
    """Apply a function to each block and stack the results."""
    return scan_blocks(lambda block: ((), function(block)), rows)[1]
