"""What last layers of the size of networks cost, and how far off cheaper posteriors are.

    python -m benchmarks.large --out DIR              up to 20,000 rows × 769 features × 100 outputs
    python -m benchmarks.large --quick --out DIR      a check that it works, in a minute

Writes DIR/large.csv, one row for each size and method: seconds of a second call, and the peak
memory of its process, Python and JAX included (with the rows: 4 (D + K) bytes each). Errors are
those of the logits of 500 other rows, against `exact-flow` in all directions: of their means (root
mean square, in its standard deviations) and of their variances (relative, on average). Rows are
made up: features with a spectrum that falls as that of a network, targets of a logistic regression
with rare and frequent answers.
"""

import argparse
import csv
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

SIZES = ((6_635, 101, 176), (20_000, 257, 100), (20_000, 769, 100))
QUICK = ((1_000, 65, 5), (2_000, 129, 8))
METHODS: dict[str, dict[str, Any]] = {
    "exact-flow": {},
    "exact-flow, rank auto": {"rank": "auto"},
    "laplace": {"method": "laplace"},
    "laplace, rank auto": {"method": "laplace", "rank": "auto"},
}
COLUMNS = [
    "device",
    "method",
    "n",
    "d",
    "k",
    "seconds",
    "memory_mb",
    "mean_error",
    "variance_error",
]
HELD_OUT = 500


def make_rows(n: int, d: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return features whose spectrum falls, with an intercept, and targets."""
    rng = np.random.default_rng(0)
    scales = np.arange(1, d, dtype=np.float32) ** -1.5
    latent = rng.standard_normal((n, d - 1), dtype=np.float32) * scales
    mixed = latent @ rng.standard_normal((d - 1, d - 1), dtype=np.float32)
    features = np.column_stack([np.tanh(mixed), np.ones(n, np.float32)])
    weights = rng.standard_normal((d, k), dtype=np.float32) / np.float32(np.sqrt(d / 8))
    weights[-1] = np.linspace(-4, 0, k)
    chance = 1 / (1 + np.exp(-features @ weights))
    return features, (rng.random((n, k), dtype=np.float32) < chance).astype(np.float32)


def measure_here(method: str, size: tuple[int, int, int], out: Path) -> dict[str, Any]:
    """Measure one posterior in this process, and write the logits of the other rows."""
    import jax

    from lastlayer import sample_posterior

    n, d, k = size
    features, targets = make_rows(n + HELD_OUT, d, k)
    for _ in range(2):
        began = time.perf_counter()
        found = sample_posterior(
            features[:n],
            targets[:n],
            **{"prior_variance": 1.0, "diagnose": False} | METHODS[method],
        )
        seconds = time.perf_counter() - began
    mean, sd = found.logits(features[n:])
    np.savez(out, mean=mean, sd=sd)
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
    device = jax.devices()[0].device_kind
    return {"device": device, "seconds": round(seconds, 3), "memory_mb": round(peak)}


def measure(size: tuple[int, int, int], out: Path) -> list[dict[str, Any]]:
    """Measure all methods, each in a process of its own; the first is what others are held to."""
    rows = []
    for number, method in enumerate(METHODS):
        file = out / f"logits_{number}.npz"
        command = [sys.executable, "-m", "benchmarks.large", "--out", str(file)]
        command += ["--child", method, *map(str, size)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        row: dict[str, Any] = {"method": method, **dict(zip("ndk", size, strict=True))}
        if done.returncode:
            sys.exit(f"{method} failed at {size}: {done.stderr[-500:]}")
        with np.load(file) as arrays:
            mean, sd = arrays["mean"], arrays["sd"]
        file.unlink()
        if not number:
            exact, width = mean, sd
        row["mean_error"] = float(np.sqrt((((mean - exact) / width) ** 2).mean()))
        row["variance_error"] = float(np.abs((sd / width) ** 2 - 1).mean())
        rows.append(row | json.loads(done.stdout.splitlines()[-1]))
        print(*(f"{name} {rows[-1][name]}" for name in COLUMNS), sep=", ", flush=True)
    return rows


def main() -> None:
    """Measure all sizes, and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        method, *size = arguments.child
        n, d, k = map(int, size)
        print(json.dumps(measure_here(method, (n, d, k), arguments.out)))
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    with (arguments.out / "large.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        for size in QUICK if arguments.quick else SIZES:
            table.writerows(measure(size, arguments.out))
            file.flush()


if __name__ == "__main__":
    main()
