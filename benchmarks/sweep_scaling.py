"""Strong scaling of `equivocal sweep`: the same points with one worker and with two.

    python -m benchmarks.sweep_scaling            three quarters of an hour
    python -m benchmarks.sweep_scaling --quick    does it still work?

Points differ in the seed of the training, so that each trains networks of its own and none waits
for another's. Every measurement is a process of its own with a fresh folder, one and two workers
by turns, so that a machine that grows slower does so for both. Two times are told: in all, as a
user waits, and from the moment the workers are there. Goal: two workers take at most 1 / 1.8 of the
time of one, from that moment. The tables of all runs must be the same to the last byte. Run it on a
machine that does nothing else. Writes `benchmarks/results/sweep_scaling.json` (`--quick`:
`quick/sweep_scaling.json`).
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.machine import RESULTS, machine_facts
from equivocal.files import write_text_atomically

GOAL = 1.8
TINY = ["training.epochs=1", "training.sentences=200", "inference.prior_variances=[1.0]"]
WORKERS = (1, 2)


def main(
    quick: Annotated[bool, typer.Option(help="Few small points, to see that it runs.")] = False,
) -> None:
    """Measure one and two workers by turns."""
    points, repeats, small = (2, 1, TINY) if quick else (8, 3, [])
    seeds = ",".join(str(seed) for seed in range(points))
    vary = [f"training.seed={seeds}", *small]
    measured: dict[int, list[dict[str, float]]] = {workers: [] for workers in WORKERS}
    tables: set[str] = set()
    for repeat in range(repeats):
        for workers in WORKERS if repeat % 2 == 0 else WORKERS[::-1]:
            with tempfile.TemporaryDirectory() as folder:
                measured[workers].append(_timed(vary, workers, Path(folder)))
                out = Path(folder) / "out"
                files = [out / "sweep.csv", *sorted((out / "tables").glob("*.csv"))]
                tables.add("".join(file.read_text(encoding="utf-8") for file in files))
    result = _summary(measured) | {
        "quick": quick,
        "points": points,
        "repeats": repeats,
        "goal": GOAL,
        "same_tables": len(tables) == 1,
        "machine": machine_facts(),
    }
    result["met"] = result["speedup"]["working"] >= GOAL and result["same_tables"]
    path = RESULTS / ("quick/sweep_scaling.json" if quick else "sweep_scaling.json")
    write_text_atomically(path, json.dumps(result, indent=1) + "\n")
    print(f"{points} points, median of {repeats}    one worker    two workers    times faster")
    for what, words in (("working", "once the workers are there"), ("in_all", "in all")):
        one, two = (result["seconds"][what][str(workers)] for workers in WORKERS)
        print(f"{words:28}{one:10.1f} s{two:13.1f} s{result['speedup'][what]:15.2f}")
    print(f"the tables are {'the same' if result['same_tables'] else 'NOT the same'}")
    if not (quick or result["met"]):
        raise SystemExit(f"missed: {GOAL} times faster with the same tables")


def _timed(vary: list[str], workers: int, folder: Path) -> dict[str, float]:
    """Seconds of one sweep; the workers are there when their dashboard is announced."""
    command = [sys.executable, "-m", "equivocal", "sweep", "--quick", "--workers", str(workers)]
    for setting in vary:
        command += ["--vary", setting]
    began = time.perf_counter()
    process = subprocess.Popen(
        [*command, "--out", str(folder / "out")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    told = process.stderr.readline()
    there = time.perf_counter()
    told += process.stderr.read()
    if process.wait() != 0:
        raise SystemExit(told)
    ended = time.perf_counter()
    return {"in_all": ended - began, "working": ended - there}


def _summary(measured: dict[int, list[dict[str, float]]]) -> dict[str, Any]:
    kinds = ("in_all", "working")
    seconds = {
        kind: {
            str(workers): statistics.median(each[kind] for each in measured[workers])
            for workers in WORKERS
        }
        for kind in kinds
    }
    speedup = {kind: seconds[kind]["1"] / seconds[kind]["2"] for kind in kinds}
    return {"measured": measured, "seconds": seconds, "speedup": speedup}


if __name__ == "__main__":
    typer.run(main)
