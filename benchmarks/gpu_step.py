"""One step of the flow on an accelerator, compared with the time of its matrix products.

    PYTHONPATH=src python3 benchmarks/gpu_step.py OUT.json            K=176, D=101, J=128, N=10,000
    PYTHONPATH=src python3 benchmarks/gpu_step.py OUT.json --small    a check that it works

Imports only jax, numpy and `lastlayer`. Each number is the median of many calls that wait
for their result, after one that compiles:

    gemm         rates of matrix products: large square ones, and batches shaped like the step's,
                 in float32 ("highest"), with TF32 inside, and as JAX multiplies by default
    step         one `flow_step` and its parts (`propose`, `correct_mean`, `sum_rows`,
                 `judge_proposal`), with and without mean corrections; with each its floor, the
                 time that its matrix products would take at the best float32 rate
    blocks       `flow_step` for rows cut into blocks of several sizes, to inform the memory plan
    step_over_own_products   the step divided by the time of its products alone, in their shapes
    end_to_end   `sample_posterior` from arrays in host memory to the posterior, cold and warm

The floor is computed with D, not with the padded D + 3, and counts each symmetric product in full,
as the code computes it. A part that fails (out of memory, say) is reported, and the rest continues.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lastlayer import flow, sample_posterior
from lastlayer.flow import FlowRule
from lastlayer.plan import LANES
from lastlayer.problem import Likelihood, Problem
from lastlayer.rows import Rows, lay_out
from lastlayer.variational import RULE

PRECISIONS = ("highest", "default")  # of the sampler; "default" depends on the device
GEMM_PRECISIONS = ("highest", "tensorfloat32", "default")
RULES = {
    "corrections=3": RULE,
    "corrections=0": RULE._replace(corrections=0),
}

Numbers = dict[str, Any]

BATCH, CURVATURE = (
    "batch (K,N,D)·(K,D,D)",
    "curvature (K,D,N)·(K,N,D)",
)  # the products of a step, in their shapes


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes of the problem, and how it is measured."""

    K: int = 176
    N: int = 10_000
    D: int = 101
    J: int = 128
    square: int = 8_192
    block_rows: tuple[int, ...] = (1_024, 2_048, 5_120, 10_000, 16_384)
    repeats: int = 30

    @property
    def wide(self) -> int:
        """D with padding."""
        return -(-self.D // LANES) * LANES


SMALL = Sizes(K=3, N=300, D=11, J=16, square=128, block_rows=(128, 300), repeats=3)


def measure_median(work: Callable[[], Any], repeats: int) -> float:
    """Return the median seconds of calls that wait for their result, after one that compiles."""

    def once() -> float:
        began = perf_counter()
        jax.tree.map(lambda leaf: leaf.block_until_ready(), work())
        return perf_counter() - began

    once()
    return median(once() for _ in range(repeats))


def draw_data(sizes: Sizes) -> tuple[np.ndarray, np.ndarray]:
    """Draw logistic features with a constant, and targets of weak to strong outputs."""
    rng = np.random.default_rng(0)
    latent = rng.standard_normal((sizes.N, 20))
    psi = np.ones((sizes.N, sizes.D), np.float32)
    psi[:, :-1] = 1 / (1 + np.exp(-latent @ rng.standard_normal((20, sizes.D - 1))))
    weights = rng.standard_normal((sizes.D - 1, sizes.K)) / np.sqrt(sizes.D - 1)
    logits = 4 * (psi[:, :-1] - 0.5) @ weights * np.geomspace(0.1, 5, sizes.K) - 1
    targets = rng.random(logits.shape) < 1 / (1 + np.exp(-logits))
    return psi, targets.astype(np.float32)


def attempt(work: Callable[[], Numbers]) -> Numbers:
    """Return the numbers that `work` returns, or the reason why it failed."""
    try:
        return work()
    except Exception as error:  # whatever it is, continue with the other parts
        reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        return {"failed": reason[:300]}


def measure_gemm(sizes: Sizes) -> Numbers:
    """Measure matrix products: TFLOP/s by shape and precision."""
    K, N, D, n = sizes.K, sizes.N, sizes.wide, sizes.square
    shapes = {
        "square": ((n, n), (n, n)),
        "shared rows (N,D)·(K,D,D)": ((1, N, D), (K, D, D)),
        BATCH: ((K, N, D), (K, D, D)),
        CURVATURE: ((K, D, N), (K, N, D)),
    }
    rates: Numbers = {}
    for name, (left, right) in shapes.items():
        batch = K if len(left) == 3 else 1
        flops = 2.0 * batch * left[-2] * left[-1] * right[-1]
        rates[name] = {
            precision: attempt(lambda: _measure_gemm(left, right, precision, flops, sizes.repeats))  # noqa: B023
            for precision in GEMM_PRECISIONS
        }
    return rates


def _measure_gemm(
    left: tuple[int, ...], right: tuple[int, ...], precision: str, flops: float, repeats: int
) -> Numbers:
    one, two = jax.random.split(jax.random.key(0))
    a, b = jax.random.normal(one, left, jnp.float32), jax.random.normal(two, right, jnp.float32)
    multiply = jax.jit(lambda a, b: jnp.matmul(a, b, precision=precision))
    seconds = measure_median(lambda: multiply(a, b), repeats)
    return {"seconds": seconds, "tflops": flops / seconds / 1e12}


def find_best_rate(rates: Numbers) -> float | None:
    """Return the rate of the fastest float32 product, in FLOP/s."""
    found = [shape["highest"].get("tflops") for shape in rates.values() if "highest" in shape]
    good = [rate for rate in found if rate is not None]
    return max(good) * 1e12 if good else None


def compare_with_products(results: Numbers) -> Numbers:
    """Compare a step with the time of its matrix products alone, in their shapes."""
    product = {name: results["gemm"][name]["highest"]["seconds"] for name in (BATCH, CURVATURE)}
    found: Numbers = {}
    for name, times in (("corrections=3", 2), ("corrections=0", 1)):  # B is computed once or twice
        floor = times * product[BATCH] + product[CURVATURE]
        seconds = results["step"][f"{name}, highest"]["step"]["seconds"]
        found[name] = {"floor_seconds": floor, "ratio_to_floor": seconds / floor}
    return found


def count_flops(sizes: Sizes, rule: FlowRule) -> Numbers:
    """Count the operations of the matrix products in each part of a step."""
    K, N, D = sizes.K, sizes.N, sizes.D
    parts = {
        "propose": 2 * 2.0 * K * D**3 + 2 / 3 * K * D**3,
        "correct_mean": 0.0,
        "sum_rows": 2 * 2.0 * K * N * D**2 + 2 * 2.0 * K * N * D,
        "judge": 0.0,
    }
    if rule.corrections:  # B once, then three products with vectors for each
        parts["correct_mean"] = 2.0 * K * N * D**2 + 3 * rule.corrections * 2.0 * K * N * D
    return parts | {"step": sum(parts.values())}


def make_rows(sizes: Sizes, block_rows: int) -> Rows:
    """Return the made-up rows in blocks, on the device."""
    psi, targets = draw_data(sizes)
    problem = Problem.build(psi, targets, None, 0.0, 1.0, Likelihood.BERNOULLI, None)
    block = min(block_rows, sizes.N)
    return lay_out(problem, slice(0, sizes.K), block, num_features=sizes.wide)


def take_first_steps(sizes: Sizes, rows: Rows, rule: FlowRule) -> flow.FlowState:
    """Return a state from the middle of a run: three steps from near the prior."""
    eye = jnp.broadcast_to(0.3 * jnp.eye(sizes.wide), (sizes.K, sizes.wide, sizes.wide))
    state: flow.FlowState = flow.start_flow(jnp.zeros((sizes.K, sizes.wide), jnp.float32), eye)
    for _ in range(3):
        state, _ = flow.flow_step(state, rows, rule)
    return state


def measure_step(sizes: Sizes, rate: float | None) -> Numbers:
    """Measure a step and its parts for every rule at every precision."""
    rows = make_rows(sizes, sizes.N)
    found: Numbers = {}
    for name, rule in RULES.items():
        for precision in PRECISIONS:
            with jax.default_matmul_precision(precision):
                times = attempt(lambda: _time_parts(sizes, rows, rule))  # noqa: B023
            found[f"{name}, {precision}"] = _compare_with_floor(
                times, count_flops(sizes, rule), rate
            )
    return found


def _time_parts(sizes: Sizes, rows: Rows, rule: FlowRule) -> Numbers:
    """Measure a whole step and each part alone, in seconds."""
    state = take_first_steps(sizes, rows, rule)
    proposal, _ = flow.propose(state)
    mean, factor = proposal.mean, proposal.factor
    sums = flow.sum_rows(rows, mean, factor, rule)
    parts: dict[str, Callable[[], Any]] = {
        "step": lambda: flow.flow_step(state, rows, rule),
        "propose": lambda: flow.propose(state),
        "correct_mean": lambda: flow.correct_mean(
            rows, mean, factor, proposal.damping, state.refused, rule
        ),
        "sum_rows": lambda: flow.sum_rows(rows, mean, factor, rule),
        "judge": lambda: flow.judge_proposal(state, proposal, mean, sums, rule),
    }
    if not rule.corrections:
        del parts["correct_mean"]
    times: Numbers = {}
    for name, work in parts.items():
        times[name] = attempt(lambda: {"seconds": measure_median(work, sizes.repeats)})  # noqa: B023
    return times


def _compare_with_floor(times: Numbers, flops: Numbers, rate: float | None) -> Numbers:
    """Add to each part its number of operations, its floor and the ratio to the floor."""
    for part, found in times.items():
        if part in flops and "seconds" in found:
            floor = flops[part] / rate if rate else None
            ratio = found["seconds"] / floor if floor else None
            found |= {"gemm_flops": flops[part], "floor_seconds": floor, "ratio_to_floor": ratio}
    return times


def measure_blocks(sizes: Sizes) -> Numbers:
    """Measure a step in seconds, by the number of rows in a block."""

    def one(block_rows: int) -> Numbers:
        rows = make_rows(sizes, block_rows)
        state = take_first_steps(sizes, rows, RULE)
        step = measure_median(lambda: flow.flow_step(state, rows, RULE), sizes.repeats)
        return {"seconds": step, "rows_with_padding": rows.counts.size}

    with jax.default_matmul_precision("highest"):
        return {f"{block:,}": attempt(lambda: one(block)) for block in sizes.block_rows}  # noqa: B023


def measure_end_to_end(sizes: Sizes) -> Numbers:
    """Measure the first and later calls of `sample_posterior`, in seconds."""
    psi, targets = draw_data(sizes)

    def one() -> Numbers:
        times = []
        for _ in range(4):
            began = perf_counter()
            posterior = sample_posterior(psi, targets, num_particles=sizes.J)
            times.append(perf_counter() - began)
        info = posterior.info
        return {
            "seconds": median(times[1:]),
            "seconds_cold": times[0],
            "converged": info.converged,
            "steps_median": float(np.median(info.steps)),
            "steps_most": int(np.max(info.steps)),
            "message": info.message,
        }

    return attempt(one)


def show(title: str, numbers: Numbers, indent: int = 0) -> None:
    """Print nested numbers as plain text: names on the left, numbers on the right."""
    pad = "  " * indent
    nested = {k: v for k, v in numbers.items() if isinstance(v, dict)}
    flat = {k: v for k, v in numbers.items() if not isinstance(v, dict)}
    print(
        f"{pad}{title:<{44 - 2 * indent}}",
        "   ".join(f"{k} {format_cell(v)}" for k, v in flat.items()),
    )
    for name, inner in nested.items():
        show(name, inner, indent + 1)


def format_cell(value: object) -> str:
    """Format a number with four digits, and anything else by `str`."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main() -> None:
    """Measure all parts, print them and write them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("path", type=Path, help="JSON file to write")
    parser.add_argument("--small", action="store_true", help="small sizes, to see that it runs")
    given = parser.parse_args()
    sizes = SMALL if given.small else Sizes()
    device = jax.devices()[0]
    facts = {
        "jax": jax.__version__,
        "numpy": np.__version__,
        "device": device.device_kind,
        "backend": jax.default_backend(),
    }
    results: Numbers = {"facts": facts, "sizes": vars(sizes)}
    results["gemm"] = attempt(lambda: measure_gemm(sizes))
    rate = None if "failed" in results["gemm"] else find_best_rate(results["gemm"])
    results["best_float32_flops_per_second"] = rate
    parts: dict[str, Callable[[], Numbers]] = {
        "step": lambda: measure_step(sizes, rate),
        "blocks": lambda: measure_blocks(sizes),
        "end_to_end": lambda: measure_end_to_end(sizes),
    }
    for name, work in parts.items():
        results[name] = attempt(work)
        given.path.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    results["step_over_own_products"] = attempt(lambda: compare_with_products(results))
    given.path.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    show(f"{device.device_kind}, {jax.default_backend()}", results)


if __name__ == "__main__":
    main()
