"""How many rows and outputs are worked on at a time, so that a run fits into its memory budget.

What a run holds in addition to the caller's own arrays:

    features laid out in blocks           2·N·D (once more while they are handed to the device);
                                          without room for it, some 4 MB that are laid out at a time
    per output in flight                  4·N (targets, offsets, variances, weights) + state
    per output in flight and block row    working space
    products of features (`shared`)       N·D(D+1)/2, and twice that while they are formed

Results (covariances K·D², particles K·J·D) belong to the caller and are not counted. Sizes decide
the last bits of sums, so that another budget may give other rounding. On a CPU small blocks are
also faster, because a block of all outputs in flight stays in the cache.
"""

from dataclasses import dataclass
from functools import cache

import jax

from lastlayer.checks import fail
from lastlayer.machine import measure_memory
from lastlayer.problem import Likelihood, Problem

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


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Sizes of one run."""

    block_rows: int
    slots: int  # outputs in flight
    num_features: int  # D, filled up with columns of zeros
    streamed: bool = False  # rows are laid out chunk by chunk in every pass
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
        return size * (in_flight * each + beside)

    while count_bytes() > limit and in_flight > 1 and slots is None:
        in_flight //= 2
    while count_bytes() > limit and block > SMALLEST_BLOCK:
        block //= 2
    check_budget(problem, limit, count_bytes())
    features = size * -(-num_rows // block) * block * (2 * D + 1)
    streamed = count_bytes() + features > limit
    return Plan(block_rows=block, slots=in_flight, num_features=D, streamed=streamed)


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
