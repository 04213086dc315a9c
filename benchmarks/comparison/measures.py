"""Measures of a fitted method: scores, seconds, peak memory."""

import ctypes
import gc
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np

from benchmarks.comparison.methods import Method
from benchmarks.comparison.problem import Fitted, Problem, measure_entropy
from benchmarks.scores import (
    auroc,
    brier_score,
    measure_calibration,
    negative_log_likelihood,
    selective_risk,
)

__all__ = ["COLUMNS", "Cost", "measure_cost", "measure_method"]

COLUMNS = ("dataset", "method", "seed", "nll", "brier", "ece", "fit_s", "predict_s", "peak_mb")
KEPT = 0.8  # coverage of the selective risk


class Cost(NamedTuple):
    """The cost of a call."""

    clock: float  # seconds
    processor: float  # seconds, of all threads
    peak: float  # MB of resident memory above what the process had before; NaN off Linux


def measure_cost(call: Callable[[], Any]) -> tuple[Any, Cost]:
    """Return the result of a call, and its cost."""
    gc.collect()
    before = _reset_peak()
    began, used = perf_counter(), process_time()
    result = call()
    took, used = perf_counter() - began, process_time() - used
    return result, Cost(took, used, _read_memory("VmHWM") - before)


def measure_method(problem: Problem, name: str, method: Method, first: bool) -> dict[str, Any]:
    """Fit a method and return its row of the table.

    Parameters
    ----------
    problem : Problem
        Rows and the trained network.
    name : str
        The name of the method.
    method : Method
        The method to fit.
    first : bool
        Whether this is the first fit of these shapes in the process, which compiles programs.
    """
    task = problem.task
    test, t = task.inputs["test"], task.targets["test"]
    fitted, fit = measure_cost(lambda: method.fit(problem))
    p, _ = measure_cost(lambda: fitted.predict(test))
    _, again = measure_cost(lambda: fitted.predict(test))  # without compilation
    p = np.clip(np.asarray(p, np.float64), 1e-7, 1 - 1e-7)  # as far as float32 can tell
    p = p / p.sum(axis=1, keepdims=True) if problem.classes else p
    by_label = np.nan if problem.classes else measure_calibration(t, p, by_label=True)
    row = {
        "dataset": task.name,
        "method": name,
        "seed": task.seed,
        "nll": negative_log_likelihood(t, p),
        "brier": brier_score(t, p),
        "ece": measure_calibration(t, p),
        "fit_s": fit.clock,
        "predict_s": again.clock,
        "peak_mb": fit.peak,
        "outputs": task.num_outputs,
        "features": task.hidden + 1,
        "first_call": first,
        "fit_cpu_s": fit.processor,
        "lines": method.count_lines(),
        "selective_risk": selective_risk(t, p, KEPT),
        "ece_label": by_label,
        "nll_excess": _measure_excess(task.truth, p),
    }
    return row | _measure_strange(problem, fitted) | {"note": fitted.note}


def _measure_excess(truth: np.ndarray | None, p: np.ndarray) -> float:
    """Return the divergence from the true probabilities in nats per label; NaN if unknown."""
    if truth is None:
        return np.nan
    return negative_log_likelihood(truth, p) - negative_log_likelihood(truth, truth)


def _measure_strange(problem: Problem, fitted: Fitted) -> dict[str, float]:
    """Return the AUROC of strange inputs against test rows, by each measure of uncertainty."""
    found = {}
    for kind in ("noise", "shifted"):
        strange = problem.task.strange.get(kind)
        for by in ("entropy", "information", "disagreement"):
            name = f"auroc_{kind}_{by}"
            if strange is None or (by != "entropy" and fitted.doubt is None):
                found[name] = np.nan
                continue
            usual = problem.task.inputs["test"]
            scores = [_compute_doubt(problem, fitted, x, by) for x in (usual, strange)]
            found[name] = auroc(*scores)
    return found


def _compute_doubt(problem: Problem, fitted: Fitted, x: np.ndarray, by: str) -> np.ndarray:
    if by == "entropy":
        return measure_entropy(np.asarray(fitted.predict(x), np.float64), problem.classes)
    assert fitted.doubt is not None
    return np.asarray(fitted.doubt(x)[by], np.float64)


def _reset_peak() -> float:
    """Reset the peak and return the memory in use, in MB."""
    try:
        ctypes.CDLL(None).malloc_trim(0)  # free but resident memory would hide the peak
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except (OSError, AttributeError):
        return np.nan
    return _read_memory("VmRSS")


def _read_memory(name: str) -> float:
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return np.nan
    line = next(line for line in status.splitlines() if line.startswith(name + ":"))
    return int(line.split()[1]) / 1024
