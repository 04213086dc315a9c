"""How many rows and outputs are worked on at a time, so that memory stays within a budget.

What a run holds in addition to the caller's own arrays:

    features laid out in blocks           2·N·D (once more while they are handed to the device)
    per output in flight                  4·N (targets, offsets, spread, weights) + state
    per output in flight and block row    working space

Results (covariances K·D², particles K·J·D) belong to the caller and are not counted. On a CPU small
blocks are also faster, because a block of all outputs in flight stays in the cache.
"""

from dataclasses import dataclass

import jax

from equivocal.machine import measure_memory
from equivocal.sampling.engine.inputs import fail
from equivocal.sampling.engine.placement import (
    count_local_shards,
    count_shards,
    find_largest_anywhere,
)
from equivocal.sampling.engine.problem import Problem
from equivocal.sampling.engine.products import count_products

CPU_BLOCK_ROWS, CPU_SLOTS = 512, 16
# Where outputs share products of features (`products`): outputs in flight, and bytes of products.
SHARED_SLOTS, MOST_SHARED = 256, 1 << 31
GPU_BLOCK_ROWS, GPU_SLOTS = 16_384, 256
KEPT = 4  # numbers that a flow keeps for each row and output in flight
LANES = 8  # XLA's CPU matrix product is twice as fast when D is a multiple of this


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Sizes of one run."""

    block_rows: int
    slots: int  # outputs in flight
    num_features: int  # D, filled up with columns of zeros
    shared: bool = False  # rows are one block, which all outputs share
    products: bool = False  # and products of their features are formed once


def make_plan(
    problem: Problem,
    budget: int | None,
    *,
    per_output: int,
    per_row: int,
    per_row_kept: int = KEPT,
    pad: bool = False,
    share: bool = False,
    cpu_slots: int = CPU_SLOTS,
) -> Plan:
    """Choose the largest sizes that fit, given what a method keeps (in numbers, not bytes).

    `per_output`: state of one output. `per_row`: working space of one output and block row.
    `per_row_kept`: what one output keeps for every row. `pad`: fill features up to whole lanes.
    `share`: lay rows out as one block that outputs share, where one device has room for it.
    `cpu_slots`: outputs in flight on a CPU, at most.
    """
    own = find_budget() if budget is None else budget
    limit = -int(find_largest_anywhere(-own))  # the least of all processes: they plan alike
    size = problem.dtype.itemsize
    # of one device; of the process that has most, so that all plan alike
    num_rows = -(-int(find_largest_anywhere(problem.num_rows)) // count_local_shards())
    D = _pad(problem.num_features) if pad else problem.num_features
    if jax.default_backend() == "cpu":
        block = min(CPU_BLOCK_ROWS, round_to_power_of_two(num_rows))
        slots = min(cpu_slots, round_to_power_of_two(problem.num_outputs))
    else:
        block, slots = min(GPU_BLOCK_ROWS, num_rows), min(GPU_SLOTS, problem.num_outputs)

    def count_bytes(block: int, slots: int, kept: int = per_row_kept) -> int:
        rows = -(-num_rows // block) * block
        in_memory = 2 * D + 1 if problem.in_memory else 0
        return size * (rows * in_memory + slots * (kept * rows + per_output + block * per_row))

    if share and problem.in_memory and count_shards() == 1:
        own, many = problem.num_features, min(SHARED_SLOTS, problem.num_outputs)
        products = num_rows * count_products(own) * size
        # beside the rows: two copies of them, and a few numbers for each row and output
        working = size * (4 * num_rows * own + many * (8 * num_rows + per_output))
        formed = products <= MOST_SHARED and working + products <= limit
        if formed or working <= limit:
            return Plan(
                block_rows=num_rows, slots=many, num_features=own, shared=True, products=formed
            )
    while count_bytes(block, slots) > limit and slots > 1:
        slots //= 2
    while count_bytes(block, slots) > limit and block > 16:
        block //= 2
    if count_bytes(block, slots) > limit:
        narrower = "" if size == 4 else "use dtype='float32', "
        fail(
            f"memory_budget of {limit:,} bytes is too small: {num_rows:,} rows × "
            f"{problem.num_features} features need {count_bytes(block, slots):,} bytes. Raise it, "
            f"{narrower}or give fewer rows."
        )
    return Plan(block_rows=block, slots=slots, num_features=D)


def estimate_memory(num_rows: int, num_features: int, itemsize: int) -> int:
    """Return the bytes of a flow with rows in memory, one output in flight and small blocks."""
    D, block = _pad(num_features), 16
    rows = -(-num_rows // block) * block
    state = 8 * (D + 8) ** 2 + block * (3 * D + 24)
    return itemsize * (rows * (2 * D + 1 + KEPT) + state)


def _pad(num_features: int) -> int:
    return -(-num_features // LANES) * LANES


def find_budget() -> int:
    """Return a quarter of what the device has."""
    stats = jax.local_devices()[0].memory_stats() or {}
    return (stats.get("bytes_limit") or measure_memory() // count_local_shards()) // 4


def round_to_power_of_two(n: int) -> int:
    """Return the next power of two, so that nearby sizes share a compiled program."""
    return 1 << max(0, n - 1).bit_length()
