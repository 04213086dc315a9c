"""Whether time grows as rows × outputs, and memory stays within its budget.

Each size runs in a process of its own (`child`), with a fixed number of steps. Time is that of the
compiled flow alone, per row, output and step: the later work (draws, diagnostics with a fixed limit
of work) does not grow with the data. Memory is the peak of a whole first call, compilation
included, minus the memory of the process before it, with inputs made and JAX started.
"""

import json
import subprocess
import sys
from itertools import chain
from typing import Any

import numpy as np

from benchmarks.sampler.lines import Findings, Goal, Line
from benchmarks.sampler.running import Workbench
from benchmarks.sampler.settings import BenchSettings

__all__ = ["measure"]

MIB = float(1 << 20)
LINEAR = Goal(most=1.1, of="ours")  # the exponent; 1 is linear, less is better
WITHIN = Goal(least=1.0, at_any_size=True)
Size = tuple[int, int]  # rows, outputs


def measure(bench: Workbench) -> Findings:
    """Measure time per row, output and step, its exponents in N and K, and peak memory."""
    settings = bench.settings
    measured = {}
    for size in dict.fromkeys(chain(*list_sizes(settings))):
        bench.say(f"{size[0]:,} rows, {size[1]} outputs")
        measured[size] = measure_in_child(*size, settings)
    sizes = [{"rows": n, "outputs": k, **found} for (n, k), found in measured.items()]
    details = {"sizes": sizes, "features": settings.features}
    return Findings(lines=list_lines(measured, settings), details=details)


def list_sizes(settings: BenchSettings) -> tuple[list[Size], list[Size]]:
    """Return sizes that vary in rows, with the fewest outputs, and sizes that vary in outputs."""
    fewest = min(settings.linear_outputs)
    by_rows = [(rows, fewest) for rows in settings.linear_rows]
    return by_rows, [(settings.linear_fixed_rows, outputs) for outputs in settings.linear_outputs]


def list_lines(measured: dict[Size, dict[str, Any]], settings: BenchSettings) -> list[Line]:
    by_rows, by_outputs = list_sizes(settings)
    lines = [_judge_cost(size, found, settings) for size, found in measured.items()]
    for what, axis, line_of_sizes in (("rows", 0, by_rows), ("outputs", 1, by_outputs)):
        if len(line_of_sizes) > 1:
            lines.append(_judge_exponent(what, line_of_sizes, axis, measured))
    return lines + [_judge_memory(size, measured[size], settings) for size in by_rows]


def measure_in_child(rows: int, outputs: int, settings: BenchSettings) -> dict[str, Any]:
    """Return the result of `benchmarks.sampler.child`, or `failed` with its last message."""
    wanted = {
        "rows": rows,
        "outputs": outputs,
        "features": settings.features,
        "num_particles": settings.num_particles,
        "num_steps": settings.linear_steps,
        "memory_budget": settings.memory_budget,
        "seed": settings.seed,
    }
    command = [sys.executable, "-m", "benchmarks.sampler.child", json.dumps(wanted)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        printed = done.stderr.strip().splitlines() or ["nothing was printed"]
        return {"failed": f"exit code {done.returncode}, {printed[-1]}"}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _name_size(size: tuple[int, int]) -> str:
    return f"N = {size[0]:,}, K = {size[1]}"


def _judge_cost(size: Size, found: dict[str, Any], settings: BenchSettings) -> Line:
    what = f"time per row, output and step, {_name_size(size)}"
    if "failed" in found:
        return Line(what=what, note=found["failed"])
    return Line(what=what, ours=found["seconds_flow"] / (size[0] * size[1] * settings.linear_steps))


def _judge_exponent(
    what: str,
    sizes: list[Size],
    axis: int,
    measured: dict[Size, dict[str, Any]],
) -> Line:
    """Return a line with the slope of log time against log size."""
    good = [size for size in sizes if "failed" not in measured[size]]
    line = f"time grows as {what} to the power"
    if len(good) < 2:
        return Line(what=line, note="fewer than two sizes ran")
    seconds = [measured[size]["seconds_flow"] for size in good]
    slope = float(np.polyfit(np.log([size[axis] for size in good]), np.log(seconds), 1)[0])
    return Line(what=line, ours=slope, unit="", goal=LINEAR)


def _judge_memory(size: Size, found: dict[str, Any], settings: BenchSettings) -> Line:
    what = f"memory beyond inputs and its budget, {_name_size(size)}"
    if "failed" in found:
        return Line(what=what, note=found["failed"])
    used, budget = found["peak_bytes"] / MIB, settings.memory_budget / MIB
    return Line(what=what, ours=used, theirs=budget, unit="MiB", ratio=budget / used, goal=WITHIN)
