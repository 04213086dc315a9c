"""The cost of reading rows from a file.

    python -m benchmarks.scaling                                   an hour
    python -m benchmarks.scaling --rows 100000 1000000
    python -m benchmarks.scaling --small --out scaling.json        a check that it works

    streamed   16 outputs on rows of 101 features in a `.npy` file, read again in every pass within
               a budget of 2 GB: seconds, and the peak memory of the whole process (Python and JAX
               included). Goal: 10⁷ rows (4 GB of features) below 2 GB. For comparison, up to 10⁶
               rows are also kept in memory.

Every measurement runs in a process of its own; results go to benchmarks/results/scaling.json.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

Numbers = dict[str, Any]
D, BUDGET = 101, 2_000_000_000
CHUNK = 50_000
RESULTS = Path(__file__).parent / "results" / "scaling.json"
BUILD = Path(__file__).parents[1] / "build"  # not /tmp, which may be in memory


def make_rows(folder: Path, rows: int, outputs: int, features: int) -> None:
    """Write logistic features of a few latent dimensions and targets to a folder, in chunks."""
    rng = np.random.default_rng(0)
    shape = (rows, features)
    psi = np.lib.format.open_memmap(folder / "features.npy", "w+", np.float32, shape)
    targets = np.lib.format.open_memmap(folder / "targets.npy", "w+", np.uint8, (rows, outputs))
    units = rng.standard_normal((20, features - 1), dtype=np.float32)
    weights = 4 * rng.standard_normal((features - 1, outputs), dtype=np.float32)
    weights /= np.float32(np.sqrt(features))
    for first in range(0, rows, CHUNK):
        some = slice(first, min(first + CHUNK, rows))
        latent = rng.standard_normal((some.stop - first, 20), dtype=np.float32)
        part = 1 / (1 + np.exp(-latent @ units))
        logits = (part - 0.5) @ weights - 1
        psi[some, :-1], psi[some, -1] = part, 1
        targets[some] = rng.random(logits.shape, dtype=np.float32) < 1 / (1 + np.exp(-logits))


def measure_streamed_here(folder: str, how: str) -> Numbers:
    """Measure one posterior: seconds, and the peak memory of this process."""
    from lastlayer import sample_posterior

    files = [Path(folder) / f"{name}.npy" for name in ("features", "targets")]
    psi, t = (np.load(file, mmap_mode="r") if how == "file" else np.load(file) for file in files)
    # a budget that all sizes exceed once laid out, so that small ones are streamed too
    budget = min(BUDGET, 2 * psi.nbytes) if how == "file" else None
    began = time.perf_counter()
    info = sample_posterior(psi, t, prior_variance=1.0, memory_budget=budget).info
    return {
        "seconds": time.perf_counter() - began,
        "peak_bytes": _measure_peak(),
        "steps_most": int(info.steps.max()),
        "message": info.message,
    }


def _measure_peak() -> int:
    """Return the peak memory of this process; `ru_maxrss` would start from its parent's."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def run_in_child(name: str, *arguments: str) -> Numbers:
    """Run a function of this file in a process of its own, and return its numbers."""
    child = subprocess.run(
        [sys.executable, "-m", "benchmarks.scaling", "--child", name, *arguments],
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    if child.returncode:
        return {"failed": child.stderr[-500:]}
    numbers: Numbers = json.loads(child.stdout.splitlines()[-1])
    return numbers


def measure_streamed(rows: Sequence[int], small: bool) -> Numbers:
    """Measure posteriors of files of several sizes."""
    found: Numbers = {}
    BUILD.mkdir(exist_ok=True)
    for number in rows:
        with tempfile.TemporaryDirectory(dir=BUILD) as folder:
            make_rows(Path(folder), number, *((2, 9) if small else (16, D)))
            one = {"file": run_in_child("measure_streamed_here", folder, "file")}
            if number <= 1_000_000:
                one["memory"] = run_in_child("measure_streamed_here", folder, "memory")
        found[str(number)] = one
        print(f"{number:,} rows:", json.dumps(one), flush=True)
    return found


def main() -> None:
    """Measure the requested parts and write the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        name, *rest = arguments.child
        print(json.dumps(globals()[name](*rest)))
        return
    from benchmarks.machine import describe_machine  # late: it would add to a child's memory

    known = json.loads(arguments.out.read_text("utf-8")) if arguments.out.exists() else {}
    rows = [20_000] if arguments.small else arguments.rows
    measured = measure_streamed(rows, arguments.small)
    new = {number: one | {"machine": describe_machine()} for number, one in measured.items()}
    known["streamed"] = known.get("streamed", {}) | new
    arguments.out.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
