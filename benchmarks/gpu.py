"""Whole posteriors and training on the machine at hand: run it on a GPU and on two cores.

    python -m benchmarks.gpu --rows runs/paper --save-rows ROWS.npz       rows of a trained network
    python -m benchmarks.gpu ROWS.npz --out cpu.json --only posterior training
    PYTHONPATH=src:. python3 benchmarks/gpu.py ROWS.npz --out gpu.json    on the GPU's machine
    PYTHONPATH=src:. python3 benchmarks/gpu.py ROWS.npz --cold --out cold.json   first calls there
    python -m benchmarks.gpu --compare cpu.json gpu.json --out benchmarks/results/gpu.json

Parts, each written to the file as soon as it is measured; all except `training` need only jax and
numpy:

    posterior   `sample_posterior` for 176 outputs on 10,000 rows of a network, from arrays in host
                memory to the posterior there: the first call, and the median of those after it
    exact       exact draws (`method="hmc"`) for the same outputs, timed in the same way
    step        one step for N = 10⁶, D = 512 and 64 outputs: the FLOP/s of its matrix products,
                beside the rates of such products alone
    large       N = 10⁶, D = 512, K = 1,000 from arrays in host memory to the posterior
    training    ten networks of the preset `paper`

`--cold` measures first calls instead, each in a process of its own, with the compiler options of
`lastlayer.compiling` and without: seconds of the first and of later calls, how many
programs were compiled, and for how long. Rows may have `counts`.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lastlayer import flow, sample_posterior
from lastlayer.compiling import GPU_OPTIONS
from lastlayer.machine import collect_versions
from lastlayer.rows import Rows
from lastlayer.variational import RULE

Numbers = dict[str, Any]


def measure_time(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds until the result is computed, and the result."""
    began = time.perf_counter()
    found = work()
    jax.tree.map(lambda leaf: leaf.block_until_ready() if isinstance(leaf, jax.Array) else 0, found)
    return time.perf_counter() - began, found


def measure_repeats(work: Callable[..., Any], repeats: int) -> float:
    """Return the median seconds of later calls, each with a seed that no call had before."""
    return median(measure_time(partial(work, seed=1 + turn))[0] for turn in range(repeats))


def measure_posterior(rows: Path, sizes: Numbers) -> Numbers:
    """Measure the whole posterior of one network, at the first and at later calls."""
    with np.load(rows) as data:
        features, targets = data["features"], data["targets"]
    work = partial(sample_posterior, features, targets)
    cold, found = measure_time(lambda: work().info)
    warm = measure_repeats(work, sizes["repeats"])
    return {
        "rows": len(features),
        "outputs": targets.shape[1],
        "seconds_cold": cold,
        "seconds": warm,
        "steps_most": int(found.steps.max()),
        "message": found.message,
    }


def measure_exact(rows: Path, sizes: Numbers) -> Numbers:
    """Measure exact draws for every output of one network, at the first and at later calls."""
    with np.load(rows) as data:
        work = partial(sample_posterior, data["features"], data["targets"], method="hmc")
    cold, found = measure_time(lambda: work().info)
    warm = measure_repeats(work, sizes["repeats"])
    return {
        "seconds_cold": cold,
        "seconds": warm,
        "ess_least": float(found.ess.min()),
        "r_hat_most": float(found.r_hat.max()),
        "message": found.message,
    }


def measure_step(sizes: Numbers) -> Numbers:
    """Measure one step at a large size, and one of its products alone."""
    N, D, K, block = sizes["N"], sizes["D"], sizes["slots"], sizes["block_rows"]
    blocks = N // block
    keys = jax.random.split(jax.random.key(0), 2)
    rows = Rows(
        features=jax.random.normal(keys[0], (blocks, block, D)) / np.sqrt(D),
        counts=jnp.ones((blocks, block)),
        targets=jax.random.bernoulli(keys[1], 0.3, (blocks, K, block)).astype(jnp.float32),
        offsets=jnp.zeros((blocks, 1, block)),
    )
    B = jnp.zeros((K, block, D)) + rows.features[0]
    G = jnp.zeros((K, D, D)) + jnp.eye(D)
    with jax.default_matmul_precision("highest"):
        product = jax.jit(jnp.matmul)
        state, _ = flow.flow_step(flow.start_flow(jnp.zeros((K, D)), G), rows, RULE)
        again = partial(flow.flow_step, state, rows, RULE)
        again()  # compiles
        seconds = median(measure_time(again)[0] for _ in range(5))
        product(B, G).block_until_ready()
        alone = median(measure_time(partial(product, B, G))[0] for _ in range(10))
    rate = 6.0 * N * K * D * D / seconds / 1e12  # B twice (spread, sums) and BᵀrB
    rate_alone = 2.0 * K * block * D * D / alone / 1e12
    return {
        **{"N": N, "D": D, "outputs": K, "seconds": seconds, "tflops": rate},
        **{"tflops_of_products_alone": rate_alone, "share": rate / rate_alone},
    }


def measure_large(sizes: Numbers) -> Numbers:
    """Measure a posterior of a thousand outputs on a million rows."""
    N, D, K = sizes["N"], sizes["D"], sizes["K"]
    rng = np.random.default_rng(0)
    features = rng.standard_normal((N, D), dtype=np.float32) / np.float32(np.sqrt(D))
    features[:, 0] = 1
    weights = rng.standard_normal((D, K), dtype=np.float32) * 2
    weights[0] = np.linspace(-4, 0, K)
    logits = np.asarray(jnp.matmul(features, weights))
    targets = np.empty((N, K), bool)
    for first in range(0, N, 10_000):
        some = slice(first, first + 10_000)
        chance = rng.random(logits[some].shape, dtype=np.float32)
        targets[some] = chance < 1 / (1 + np.exp(-logits[some]))
    del logits
    print("the problem is made", flush=True)
    began = time.perf_counter()
    one = sample_posterior(features, targets, num_particles=2, dtype="float32").info
    seconds = time.perf_counter() - began
    return {
        **{"N": N, "D": D, "K": K, "seconds": seconds},
        "steps_median": float(np.median(one.steps)),
        "steps_most": int(one.steps.max()),
        # the initial evaluation is not counted as a step, but costs as much
        "tflops": 6.0 * N * D * D * float((one.steps + 1).sum()) / seconds / 1e12,
        "message": one.message,
    }


def measure_training(sizes: Numbers) -> Numbers:
    """Measure the training of ten networks of the preset, side by side."""
    from equivocal.network import train

    first, _ = measure_time(lambda: train("paper", networks=sizes["networks"], epochs=2).seconds)
    seconds, run = measure_time(lambda: train("paper", networks=sizes["networks"]))
    return {
        "networks": sizes["networks"],
        "seconds": seconds,
        "seconds_compiling": first,
        "belief_error": [float(x) for x in run.scores["belief_error"]],
    }


FULL: Numbers = {
    **{"repeats": 5, "compared": 32, "networks": 10},
    **{"N": 1_000_000, "D": 512, "K": 1_000, "slots": 64, "block_rows": 10_000},
}
SMALL: Numbers = {
    **{"repeats": 1, "compared": 2, "networks": 1},
    **{"N": 2_000, "D": 8, "K": 5, "slots": 4, "block_rows": 500},
}
PARTS = ("posterior", "exact", "step", "large", "training")


def measure(arguments: argparse.Namespace) -> None:
    """Measure the requested parts, and write each result at once."""
    sizes = SMALL if arguments.small else FULL
    device = jax.devices()[0]
    found: Numbers = {
        "device": device.device_kind,
        "flags": os.environ.get("XLA_FLAGS", ""),
        "versions": collect_versions("equivocal", "jax", "jaxlib", "numpy"),
    }
    for name in arguments.only:
        work = globals()[f"measure_{name}"]
        began = time.perf_counter()
        try:
            found[name] = work(arguments.data, sizes) if name in PARTS[:2] else work(sizes)
        except Exception as error:  # continue with the other parts
            found[name] = {"failed": f"{type(error).__name__}: {str(error)[:300]}"}
        print(f"{name} ({time.perf_counter() - began:.0f} s):", json.dumps(found[name]), flush=True)
        arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


VARIANTS: dict[str, Numbers] = {
    "ours": dict(GPU_OPTIONS),
    "none": {},
    "no triton": {"xla_gpu_enable_triton_gemm": False},
    "no autotuning": {"xla_gpu_autotune_level": 0},
}


def measure_cold(rows: Path, out: Path) -> None:
    """Measure first and later calls with each set of options, each in a process of its own.

    This process does not use the device.
    """
    found = {}
    for name, options in VARIANTS.items():
        command = [sys.executable, __file__, str(rows), "--options", json.dumps(options)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        last = done.stdout.splitlines()[-1] if done.returncode == 0 else "null"
        found[name] = json.loads(last) or {"failed": done.stderr[-500:]}
        print(name, json.dumps(found[name]), flush=True)
        out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def measure_first_call(rows: Path, options: Numbers, repeats: int = 5) -> Numbers:
    """Measure one first call and some later ones, with and without diagnostics, in this process."""
    GPU_OPTIONS.clear()
    GPU_OPTIONS.update(options)
    compiled: list[float] = []

    def listen(event: str, duration_secs: float, **_: Any) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(listen)
    with np.load(rows) as data:
        given = {name: data[name] for name in ("features", "targets", "counts") if name in data}
    started, _ = measure_time(lambda: jax.device_put(np.zeros(1)))
    first, found = measure_time(lambda: sample_posterior(**given).info)
    number, seconds = len(compiled), sum(compiled)
    warm = measure_repeats(partial(sample_posterior, **given), repeats)
    plain = partial(sample_posterior, **given, diagnose=False)
    without = measure_repeats(plain, repeats)
    return {
        "device": jax.devices()[0].device_kind,
        "options": options,
        "seconds_starting_device": started,
        "seconds_first_call": first,
        "programs": number,
        "seconds_compiling": seconds,
        "seconds_later_call": warm,
        "seconds_later_without_verdict": without,
        "programs_later": len(compiled) - number,
        "message": found.message,
    }


def save_rows(run: Path, out: Path) -> None:
    """Save the rows that `benchmarks.sampling` measures on."""
    from benchmarks.sampler.problems import collect_run_rows
    from benchmarks.sampler.settings import BenchSettings

    data = collect_run_rows(run, BenchSettings())
    np.savez_compressed(out, features=data.features, targets=data.targets)


def compare(files: list[Path], out: Path) -> None:
    """Compare the results of two machines."""
    cpu, gpu = (json.loads(file.read_text(encoding="utf-8")) for file in files)
    ratios = {
        f"{name}_times_faster": cpu[name]["seconds"] / gpu[name]["seconds"]
        for name in ("posterior", "training")
        if "seconds" in cpu.get(name, {}) and "seconds" in gpu.get(name, {})
    }
    print(json.dumps(ratios, indent=1))
    out.write_text(json.dumps({**ratios, "gpu": gpu, "cpu": cpu}, indent=1) + "\n", "utf-8")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path, nargs="?", help="rows saved before")
    parser.add_argument("--rows", type=Path, help="a run whose rows to save")
    parser.add_argument("--save-rows", type=Path)
    parser.add_argument("--out", type=Path, default=Path("gpu.json"))
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--small", action="store_true", help="does it still work?")
    parser.add_argument("--cold", action="store_true", help="measure first calls, with options")
    parser.add_argument("--options", type=json.loads, help="measure one first call in this process")
    parser.add_argument("--compare", type=Path, nargs=2)
    arguments = parser.parse_args()
    if arguments.compare:
        compare(arguments.compare, arguments.out)
    elif arguments.cold:
        measure_cold(arguments.data, arguments.out)
    elif arguments.options is not None:
        print(json.dumps(measure_first_call(arguments.data, arguments.options)))
    elif arguments.save_rows:
        save_rows(arguments.rows, arguments.save_rows)
    else:
        measure(arguments)


if __name__ == "__main__":
    main()
