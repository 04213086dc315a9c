"""Measures one size of `linearity` in a process of its own; argument and result are JSON."""

import gc
import json
import re
import resource
import sys
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.sampler.problems import make_plain_rows
from benchmarks.sampler.timing import measure_time
from lastlayer import METHODS, sample_posterior
from lastlayer.outcome import Outcome, RunSettings
from lastlayer.problem import Likelihood, Problem

__all__ = ["main"]

NEVER = 1e-30  # a tolerance that no output reaches, so that all take every step
REPEATS, LONG = 5, 20.0  # the number of repeats; fewer if they take this many seconds


def main() -> None:
    """Measure the size that the first argument describes, and print the result."""
    sys.stdout.write(json.dumps(_measure(**json.loads(sys.argv[1]))) + "\n")


def _measure(
    *,
    rows: int,
    outputs: int,
    features: int,
    num_particles: int,
    num_steps: int,
    memory_budget: int,
    seed: int,
) -> dict[str, Any]:
    sample_posterior(
        np.eye(2, dtype=np.float32), [0, 1], prior_variance=1.0
    )  # starts JAX and its compiler
    psi, targets = make_plain_rows(rows, outputs, features, seed)
    gc.collect()
    before = _measure_resident()
    options: dict[str, Any] = {
        "prior_variance": 1.0,
        "num_particles": num_particles,
        "num_steps": num_steps,
        "tolerance": NEVER,
        "seed": seed,
        "memory_budget": memory_budget,
    }
    cold, posterior = measure_time(lambda: sample_posterior(psi, targets, **options))
    peak = _measure_peak() - before
    if not (posterior.info.steps == num_steps).all():
        raise RuntimeError(f"outputs took {posterior.info.steps} steps instead of {num_steps}")
    return {
        "seconds_first_call": cold,
        "seconds_flow": _time_flow(psi, targets, RunSettings(**options)),
        "input_bytes": psi.nbytes + targets.nbytes,
        "result_bytes": posterior.particles.nbytes + posterior.covariance.nbytes,
        "peak_bytes": peak,
    }


def _time_flow(psi: np.ndarray, targets: np.ndarray, settings: RunSettings) -> float:
    """Return the median seconds of the sampler itself, without checks and compilation."""
    problem = Problem.build(psi, targets, None, 0.0, 1.0, Likelihood.BERNOULLI, None)
    method = METHODS["exact-flow"]

    def flow(turn: int) -> Outcome:
        return method.run(problem, method.config(), replace(settings, seed=settings.seed + turn))

    flow(0)
    times: list[float] = []
    while len(times) < REPEATS and sum(times) < LONG:
        times.append(measure_time(partial(flow, 1 + len(times)))[0])
    return median(times)


def _measure_resident() -> int:
    """Return the memory in use, or the peak so far if unknown; on Linux, reset the peak."""
    with suppress(OSError):  # Linux: the peak starts again from here
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _read_status("VmRSS") or _measure_peak()


def _measure_peak() -> int:
    """Return the peak memory of this process.

    On Linux it is read from /proc: `ru_maxrss` starts from the peak of the parent process.
    """
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return _read_status("VmHWM") or peak * (1 if sys.platform == "darwin" else 1024)


def _read_status(name: str) -> int:
    """Return a size in bytes from /proc/self/status; 0 on systems other than Linux."""
    with suppress(OSError):
        text = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        if found := re.search(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE):
            return int(found[1]) * 1024
    return 0


if __name__ == "__main__":
    main()
