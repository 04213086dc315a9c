"""What posteriors take on a GPU, beside the time of their matrix products alone.

    PYTHONPATH=packages/lastlayer/src:. python3 -m benchmarks.gpu --out DIR

Needs jax, numpy and threadpoolctl only. Each size runs in a process of its own; DIR/gpu.json is
written after each. `seconds` is that of a second call, from arrays in host memory, with another
seed; `floor` is the time of the two products of one evaluation (variances of logits, curvatures:
4 K N D² operations) in the same precision, times the evaluations that the flow took. `--only`
names parts, `--small` checks that everything works.
"""

import argparse
import json
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

from benchmarks.large import make_rows
from lastlayer import sample_posterior

Numbers = dict[str, Any]
SIZES = ((6_635, 101, 176), (50_000, 769, 200), (200_000, 257, 100), (20_000, 4_097, 32))
SMALL = ((600, 20, 4), (900, 40, 3))
HMC = (20_000, 769, 200)
LIMIT = 150  # seconds for a part


def measure_time(work: Callable[[], Any]) -> float:
    """Return the seconds until the result is computed."""
    began = time.perf_counter()
    found = work()
    jax.tree.map(lambda leaf: leaf.block_until_ready() if isinstance(leaf, jax.Array) else 0, found)
    return time.perf_counter() - began


def measure_products(features: np.ndarray, outputs: int) -> Numbers:
    """Return the seconds of the two products of one evaluation."""
    psi, D = jax.device_put(features), features.shape[1]
    G = jnp.broadcast_to(jnp.eye(D, dtype=psi.dtype), (outputs, D, D)) + 0.0
    weights = jnp.full((outputs, len(psi)), 0.25, psi.dtype)
    with jax.default_matmul_precision("highest"):
        spread = jax.jit(partial(jax.lax.map, lambda g: ((psi @ g) ** 2).sum(axis=1)))
        curve = jax.jit(partial(jax.lax.map, lambda w: (psi.T * w) @ psi))
        measure_time(lambda: (spread(G), curve(weights)))
        return {
            "variances": median(measure_time(lambda: spread(G)) for _ in range(3)),
            "curvatures": median(measure_time(lambda: curve(weights)) for _ in range(3)),
        }


def measure_posterior(n: int, d: int, k: int) -> Numbers:
    """Measure a posterior of one size, with and without its verdict, and predictions."""
    features, targets = make_rows(n, d, k)
    work = partial(sample_posterior, features, targets, prior_variance=1.0, diagnose=False)
    found: Numbers = {"first": measure_time(lambda: work().info)}
    found["seconds"] = measure_time(lambda: work(seed=1).info)
    posterior = work(seed=2)
    found["steps"] = int(posterior.info.steps.max())
    found["message"] = posterior.info.message
    posterior.predict_proba(features[:1_000])
    found["predict_1000"] = measure_time(lambda: posterior.predict_proba(features[:1_000]))
    stats = jax.local_devices()[0].memory_stats() or {}
    found["peak_bytes"] = stats.get("peak_bytes_in_use", 0)
    products = measure_products(features, k)
    found |= products | {"floor": (found["steps"] + 1) * sum(products.values())}
    if d <= HMC[1]:
        checked = partial(work, diagnose=True)
        checked(seed=4)
        found["with_verdict"] = measure_time(lambda: checked(seed=5).info)
    return found


def measure_exact(n: int, d: int, k: int) -> Numbers:
    """Measure exact draws: one call, which compiles."""
    features, targets = make_rows(n, d, k)
    work = partial(sample_posterior, features, targets, prior_variance=1.0, method="hmc")
    posterior: list[Any] = []
    seconds = measure_time(lambda: posterior.append(work()))
    return {"seconds": seconds, "message": posterior[0].info.message}


def measure_roots(k: int, d: int) -> Numbers:
    """Measure Cholesky factors and triangular solves, all outputs at once and one by one."""
    A = jnp.broadcast_to(jnp.eye(d) + 1e-3, (k, d, d)) + 0.0

    def factorize(A: jax.Array) -> jax.Array:
        L = jnp.linalg.cholesky(A)
        return jax.lax.linalg.triangular_solve(L, A, left_side=True, lower=True)

    ways = {"together": jax.jit(factorize), "in_turn": jax.jit(partial(jax.lax.map, factorize))}
    found = {}
    for name, way in ways.items():
        measure_time(partial(way, A))
        found[name] = measure_time(partial(way, A))
    return found


def list_parts(small: bool) -> dict[str, Callable[[], Numbers]]:
    """Return what is measured, by name."""
    sizes, hmc = (SMALL, SMALL[1]) if small else (SIZES, HMC)
    parts: dict[str, Callable[[], Numbers]] = {
        "x".join(map(str, size)): partial(measure_posterior, *size) for size in sizes
    }
    for _, d, k in sizes:
        parts[f"roots {k}x{d}"] = partial(measure_roots, k, d)
    parts["hmc " + "x".join(map(str, hmc))] = partial(measure_exact, *hmc)
    return parts


def main() -> None:
    """Measure each part in its own process, and write what is known after each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    parts = list_parts(arguments.small)
    if arguments.child:
        device = jax.devices()[0].device_kind
        print(json.dumps(parts[arguments.child]() | {"device": device, "jax": jax.__version__}))
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    found: Numbers = {}
    for name in arguments.only or parts:
        command = [sys.executable, "-m", "benchmarks.gpu", "--out", ".", "--child", name]
        command += ["--small"] * arguments.small
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=LIMIT
            )
            last = done.stdout.splitlines()[-1:] if done.returncode == 0 else []
            found[name] = json.loads(last[0]) if last else {"failed": done.stderr[-1500:]}
        except subprocess.TimeoutExpired:
            found[name] = {"failed": f"took more than {LIMIT} s"}
        print(name, json.dumps(found[name]), flush=True)
        text = json.dumps(found, indent=1) + "\n"
        (arguments.out / "gpu.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
