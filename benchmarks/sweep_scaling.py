"""Strong scaling of `equivocal sweep`: the same points with one worker and with two.

    python -m benchmarks.sweep_scaling                  an hour and a quarter
    python -m benchmarks.sweep_scaling --only found     one part; the results of the other are kept
    python -m benchmarks.sweep_scaling --only found --points 4 --repeats 1
    python -m benchmarks.sweep_scaling --quick          a check that it works

    compiled    the first sweep on a machine: every worker compiles its programs
    found       every later one: workers find compiled programs in the cache

Points differ in the seed of training, so that each trains networks of its own and none waits for
another's. Every measurement is a process of its own with a fresh folder. One and two workers
alternate, so that a machine that becomes slower affects both. Two times are given: the total, and
the time since the workers have started. Goal: two workers take at most 1 / 1.8 of the time of one,
since the start of the workers. The tables of all runs must be identical to the last byte. Run it on
an idle machine. Writes `benchmarks/results/sweep_scaling.json` (`--quick`:
`quick/sweep_scaling.json`).
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.machine import RESULTS, describe_machine
from lastlayer.files import write_text_atomically

GOAL = 1.8
TINY = ["training.epochs=1", "training.sentences=200", "inference.prior_variances=[1.0]"]
WORKERS = (1, 2)
PARTS = ("compiled", "found")


def main(
    only: Annotated[str | None, typer.Option(help="compiled or found.")] = None,
    quick: Annotated[bool, typer.Option(help="Few small points, to see that it runs.")] = False,
    points: Annotated[int | None, typer.Option(min=2, help="Studies in the sweep [8].")] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="Measurements of each [3].")] = None,
) -> None:
    """Measure one and two workers in alternation."""
    path = RESULTS / ("quick/sweep_scaling.json" if quick else "sweep_scaling.json")
    known = json.loads(path.read_text("utf-8")) if path.exists() else {}
    points, repeats = points or (2 if quick else 8), repeats or (1 if quick else 3)
    small = TINY if quick else []
    # seeds of training that no other repetition has
    turns = [range(turn * points, (turn + 1) * points) for turn in range(repeats + 1)]
    vary = [[f"training.seed={','.join(map(str, turn))}", *small] for turn in turns]
    if only not in (None, *PARTS):
        raise SystemExit(f"--only is {' or '.join(PARTS)}, got {only!r}.")
    measured = PARTS if only is None else (only,)
    for part in measured:
        known[part] = _measure_part(part, vary) | {
            "points": points,
            "machine": describe_machine(),
        }
        write_text_atomically(path, json.dumps(known, indent=1) + "\n")
        _print_part(part, known[part])
    missed = [part for part in measured if not known[part]["met"]]
    if missed and not quick:
        raise SystemExit(f"missed ({', '.join(missed)}): {GOAL} times faster, with the same tables")


def _measure_part(part: str, vary: list[list[str]]) -> dict[str, Any]:
    """Measure with the settings of each repetition; the first only fills the folder of programs."""
    repeats = len(vary) - 1
    measured: dict[int, list[dict[str, float]]] = {workers: [] for workers in WORKERS}
    tables: set[str] = set()
    with tempfile.TemporaryDirectory() as programs:
        if part == "found":
            with tempfile.TemporaryDirectory() as folder:
                _time_sweep(vary[0], max(WORKERS), Path(folder), programs)
        for repeat in range(repeats):
            for workers in WORKERS if repeat % 2 == 0 else WORKERS[::-1]:
                with tempfile.TemporaryDirectory() as folder:
                    kept = programs if part == "found" else f"{folder}/programs"
                    measured[workers].append(
                        _time_sweep(vary[1 + repeat], workers, Path(folder), kept)
                    )
                    out = Path(folder) / "out"
                    files = [out / "sweep.csv", *sorted((out / "tables").glob("*.csv"))]
                    tables.add("".join(file.read_text(encoding="utf-8") for file in files))
    found = _summarise(measured) | {"repeats": repeats, "same_tables": len(tables) == repeats}
    return found | {"met": found["speedup"]["working"] >= GOAL and found["same_tables"]}


def _print_part(part: str, found: dict[str, Any]) -> None:
    title = f"{found['points']} points, programs {part}, median of {found['repeats']}"
    print(f"{title:44}    one worker    two workers    times faster")
    for what, words in (("working", "once the workers are there"), ("in_all", "in all")):
        one, two = (found["seconds"][what][str(workers)] for workers in WORKERS)
        print(f"{words:44}{one:12.1f} s{two:13.1f} s{found['speedup'][what]:15.2f}")
    print(f"the tables are {'the same' if found['same_tables'] else 'NOT the same'}", flush=True)


def _time_sweep(vary: list[str], workers: int, folder: Path, programs: str) -> dict[str, float]:
    """Time one sweep; the workers have started when their dashboard is announced."""
    command = [sys.executable, "-m", "equivocal", "sweep", "--quick", "--workers", str(workers)]
    for setting in vary:
        command += ["--vary", setting]
    began = time.perf_counter()
    process = subprocess.Popen(
        [*command, "--out", str(folder / "out")],
        env=os.environ | {"EQUIVOCAL_CACHE": programs},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    printed = process.stderr.readline()
    started = time.perf_counter()
    printed += process.stderr.read()
    if process.wait() != 0:
        raise SystemExit(printed)
    ended = time.perf_counter()
    return {"in_all": ended - began, "working": ended - started}


def _summarise(measured: dict[int, list[dict[str, float]]]) -> dict[str, Any]:
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
