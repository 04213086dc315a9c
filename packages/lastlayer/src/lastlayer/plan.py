"""How many rows and outputs are worked on at a time, and what of it is held in memory.

The shapes of products decide their last bits. So the sizes of blocks and groups, and whether
outputs share products, follow from the problem and the kind of device alone. The memory budget
decides only what is held between passes and what is made anew in each, of the same shapes: the
same seed gives the same bits under every budget. One that has no room for a single group is
refused.

What a run holds in addition to the caller's own arrays:

    features laid out in blocks           2·N·D (once more while they are handed to the device);
                                          without room for it, some 4 MB that are laid out at a time
    per output in flight                  4·N (targets, offsets, spread, weights) + state
    per output in flight and block row    working space
    products of features                  N·D(D+1)/2, or an eighth of it where it is made anew

Results (covariances K·D², particles K·J·D) belong to the caller and are not counted. On a CPU small
blocks are also faster, because a block of all outputs in flight stays in the cache.
"""

from dataclasses import dataclass
from functools import cache

import jax

from lastlayer.checks import fail
from lastlayer.devices import (
    count_local_shards,
    count_shards,
    find_largest_anywhere,
)
from lastlayer.machine import measure_memory
from lastlayer.problem import Likelihood, Problem
from lastlayer.products import count_products

CPU_BLOCK_ROWS, CPU_SLOTS = 512, 16
# Where outputs share products of features (`products`): outputs in flight, bytes of products, and
# the parts of rows in which they are formed.
SHARED_SLOTS, MOST_SHARED, CPU_PARTS = 256, 1 << 31, 8
# Bytes on a CPU, whatever its memory: of outputs in flight, and of what is held to share products.
# A GPU has a quarter of its own memory for either.
IN_FLIGHT, TO_SHARE = 3 << 29, 1 << 30
GPU_BLOCK_ROWS, GPU_SLOTS = 16_384, 256
KEPT = 4  # numbers that a flow keeps for each row and output in flight
LANES = 8  # XLA's CPU matrix product is twice as fast when D is a multiple of this


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Sizes of one run."""

    block_rows: int
    slots: int  # outputs in flight
    num_features: int  # D, filled up with columns of zeros
    streamed: bool = False  # rows are laid out chunk by chunk in every pass
    shared: bool = False  # rows are one block, which all outputs share
    parts: int = 0  # in which products of their features are formed; 0: they are not
    held: bool = False  # products are formed once, and not in every pass
    least: int = 0  # bytes of the smallest budget that has room for it


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
    slots: int | None = None,
    beside: int = 0,
) -> Plan:
    """Choose sizes, given what a method keeps (in numbers, not bytes), and what the budget holds.

    `per_output`: state of one output. `per_row`: working space of one output and block row.
    `per_row_kept`: what one output keeps for every row. `pad`: fill features up to whole lanes.
    `share`: lay rows out as one block that outputs share, where one device has room for it.
    `cpu_slots`: outputs in flight on a CPU, at most. `slots`: as many as must be. `beside`: what is
    kept besides.
    """
    device, on_cpu = choose_limit(None), jax.default_backend() == "cpu"
    limit = choose_limit(budget)
    size = problem.dtype.itemsize
    # of one device; of the process that has most, so that all plan alike
    num_rows = -(-int(find_largest_anywhere(problem.num_rows)) // count_local_shards())
    if share and problem.in_memory and count_shards() == 1:
        plan = _plan_to_share(problem, limit, per_output, TO_SHARE if on_cpu else device)
        if plan is not None:
            return plan
    D = _pad(problem.num_features) if pad else problem.num_features
    if on_cpu:
        block = min(CPU_BLOCK_ROWS, round_to_power_of_two(num_rows))
        in_flight = min(cpu_slots, round_to_power_of_two(problem.num_outputs))
    else:
        block, in_flight = min(GPU_BLOCK_ROWS, num_rows), min(GPU_SLOTS, problem.num_outputs)
    in_flight = slots or in_flight

    def count_bytes() -> int:
        """Count what the outputs in flight take."""
        rows = -(-num_rows // block) * block
        each = per_row_kept * rows + per_output + block * per_row
        return size * (in_flight * each + beside)

    most = IN_FLIGHT if on_cpu else device
    while count_bytes() > most and in_flight > 1 and slots is None:
        in_flight //= 2
    while count_bytes() > most and block > 16:
        block //= 2
    features = size * -(-num_rows // block) * block * (2 * D + 1)
    streamed = not problem.in_memory
    streamed |= count_shards() == 1 and count_bytes() + features > limit
    least = count_bytes() + (0 if streamed or count_shards() == 1 else features)
    check_budget(problem, limit, least)
    return Plan(block_rows=block, slots=in_flight, num_features=D, streamed=streamed, least=least)


def _plan_to_share(problem: Problem, limit: int, per_output: int, most: int) -> Plan | None:
    """Return a plan with rows in one block that outputs share, unless that takes too much."""
    N, D, size = problem.num_rows, problem.num_features, problem.dtype.itemsize
    slots = min(SHARED_SLOTS, problem.num_outputs)
    products = N * count_products(D) * size
    for parts in (CPU_PARTS if jax.default_backend() == "cpu" else 1, 0):
        rows = -(-N // max(parts, 1)) * max(parts, 1)
        # beside the rows: two copies of them, and a few numbers for each row and output
        working = size * (4 * rows * D + slots * (8 * rows + per_output))
        least = working + (products // parts if parts else 0)
        if least > most or (parts and products > MOST_SHARED):
            continue
        check_budget(problem, limit, least)
        held = parts > 0 and working + products <= limit
        return Plan(
            block_rows=rows,
            slots=slots,
            num_features=D,
            shared=True,
            parts=parts,
            held=held,
            least=least,
        )
    return None


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
    """Return the budget, by default that of the device: the smallest of all processes."""
    return -int(find_largest_anywhere(-(find_budget() if budget is None else budget)))


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
    limit = _find_limit(jax.local_devices()[0])
    return (limit or measure_memory() // count_local_shards()) // 4


@cache
def _find_limit(device: jax.Device) -> int:
    """Return the bytes of a GPU, or 0 for a CPU; kept, since asking a GPU may take 15 ms."""
    return int((device.memory_stats() or {}).get("bytes_limit", 0))


def round_to_power_of_two(n: int) -> int:
    """Return the next power of two, so that nearby sizes share a compiled program."""
    return 1 << max(0, n - 1).bit_length()
