"""Our posterior of K outputs against scikit-learn's K point estimates on the same rows.

`LogisticRegression(C=1, fit_intercept=False, max_iter=1000)` has the same prior N(0, I) and returns
the mode; ours returns mean, covariance, particles and diagnostics, and merges equal rows by itself.
Times run from arrays in memory to the fitted result, without imports. Outputs with a single class,
which scikit-learn refuses, are skipped for it and not for us.

In scikit-learn's favour: it gets float32 rows, as we do, and the number of threads that is fastest
for it on a few outputs (on small problems its two thread pools wait for each other in busy loops).
For comparison, without a goal, it also runs with its default threads, with the solver
newton-cholesky, and on rows that were merged beforehand and have weights.
"""

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.sampler.lines import Findings, Goal, Line
from benchmarks.sampler.problems import Data
from benchmarks.sampler.running import Workbench
from benchmarks.sampler.timing import measure_time
from lastlayer.machine import count_cores

__all__ = ["measure"]

MAX_ITER = 1_000
TRIED = 8  # outputs that determine the number of threads
FASTER = Goal(least=1.0)
NEEDS = "needs scikit-learn: pip install 'lastlayer[sklearn]'"

Rows = tuple[np.ndarray, np.ndarray, np.ndarray | None]  # features, targets, weights
RowsOf = Callable[[int], Rows]


def measure(bench: Workbench) -> Findings:
    """Measure the first and second pass with lbfgs, and the comparisons without a goal."""
    try:
        import sklearn.linear_model  # noqa: F401
    except ImportError:
        return Findings(lines=[Line(what="scikit-learn", note=NEEDS)])
    data, ours = bench.data, bench.ours
    outputs = data.two_classes
    bench.say("scikit-learn, number of threads")
    trials = _try_threads(data, outputs)
    best = min(trials, key=lambda threads: trials[threads])
    theirs = _time_passes(bench, data, outputs, best)
    fitted = f"{len(outputs)} fits"
    threads = f"{best} thread{'s' * (best != 1)}"
    labels = {
        "lbfgs_first": f"scikit-learn lbfgs, {fitted}, {threads}, first call",
        "lbfgs_second": f"scikit-learn lbfgs, {fitted}, {threads}, second call",
        "lbfgs_threads_as_they_come": "  its threads as they come",
        "newton_cholesky": f"  solver newton-cholesky, {threads}",
        "lbfgs_merged_rows": "  its equal rows merged beforehand",
    }
    lines = [
        _make_line(what, ours.cold if name == "lbfgs_first" else ours.warm, theirs[name], name)
        for name, what in labels.items()
    ]
    return Findings(
        lines=lines,
        details={
            "data": data.summary(),
            "equivocal": ours.details(),
            "scikit_learn": theirs,
            "threads": best,
            "seconds_per_fit_by_threads": trials,
            "skipped_outputs": data.targets.shape[1] - len(outputs),
            # as if one process per core did not slow the others down
            "lbfgs_seconds_on_all_cores_at_best": trials[1] * len(outputs) / count_cores(),
        },
    )


def _make_line(what: str, ours: float, theirs: dict[str, float], name: str) -> Line:
    seconds = theirs["seconds"]
    goal = FASTER if name in {"lbfgs_first", "lbfgs_second"} else None
    return Line(what=what, ours=ours, theirs=seconds, ratio=seconds / ours, goal=goal)


def _time_passes(
    bench: Workbench, data: Data, outputs: list[int], threads: int
) -> dict[str, dict[str, float]]:
    """Return seconds and unfinished fits of every pass over all outputs."""
    single, merged = _get_single_rows(data), merge_rows(data)
    passes: dict[str, tuple[str, RowsOf, int | None]] = {
        "lbfgs_first": ("lbfgs", single, threads),
        "lbfgs_second": ("lbfgs", single, threads),
        "lbfgs_threads_as_they_come": ("lbfgs", single, None),
        "newton_cholesky": ("newton-cholesky", single, threads),
        "lbfgs_merged_rows": ("lbfgs", merged, threads),
    }
    results = {}
    for name, (solver, rows_of, limit) in passes.items():
        bench.say(f"scikit-learn, {name.replace('_', ' ')}")
        with _limit_threads(limit):
            seconds, unfinished = _fit_all(rows_of, outputs, solver)
        results[name] = {"seconds": seconds, "unfinished_fits": unfinished}
    return results


def _get_single_rows(data: Data) -> RowsOf:
    return lambda k: (data.features, data.targets[:, k], None)


def merge_rows(data: Data) -> RowsOf:
    """Return rows for each output: distinct ones for its ones and for its zeros, with counts."""
    distinct, group = data.groups
    counts = np.bincount(group, minlength=len(distinct))

    def rows_of(k: int) -> Rows:
        ones = np.bincount(group, weights=data.targets[:, k], minlength=len(distinct))
        some_ones, some_zeros = ones > 0, ones < counts
        targets = np.repeat([1, 0], [some_ones.sum(), some_zeros.sum()])
        weights = np.concatenate([ones[some_ones], (counts - ones)[some_zeros]])
        return np.concatenate([distinct[some_ones], distinct[some_zeros]]), targets, weights

    return rows_of


def _try_threads(data: Data, outputs: list[int]) -> dict[int, float]:
    """Return seconds per fit with 1, 2, 4 … threads."""
    some = outputs[:: max(1, len(outputs) // TRIED)]
    rows_of = _get_single_rows(data)
    _fit_all(rows_of, some[:1], "lbfgs")  # imports, which would count for the first trial
    cores = count_cores()
    numbers = sorted({*(2**power for power in range(cores.bit_length())), cores})
    trials = {}
    for threads in numbers:
        with _limit_threads(threads):
            trials[threads] = _fit_all(rows_of, some, "lbfgs")[0] / len(some)
    return trials


def _limit_threads(limit: int | None) -> AbstractContextManager[Any]:
    limits = import_module("threadpoolctl").threadpool_limits  # comes with scikit-learn
    within: AbstractContextManager[Any] = limits(limits=limit)
    return within


def _fit_all(rows_of: RowsOf, outputs: list[int], solver: str) -> tuple[float, int]:
    """Return the seconds of all fits, one after another, and how many ran out of iterations."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    def fit(k: int) -> int:
        features, targets, weights = rows_of(k)
        model = LogisticRegression(C=1.0, fit_intercept=False, solver=solver, max_iter=MAX_ITER)
        model.fit(features, targets, sample_weight=weights)
        return int(model.n_iter_.max())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        seconds, iterations = measure_time(lambda: [fit(k) for k in outputs])
    return seconds, sum(count >= MAX_ITER for count in iterations)
