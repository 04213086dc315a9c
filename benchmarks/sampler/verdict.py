"""The accuracy of the verdict on Gaussian posteriors: `covariance_shift` against long exact chains.

The true shift of an output is tr(P⁻¹ C)/D − 1 with the covariance P of its Gaussian and C of its
posterior (maths.md (24)), C from thousands of draws by `hmc`. Problems: the last layers of up
to three trained networks under three priors, with all their rows (`--run FOLDER`); or, if the
folder holds files NAME.npz instead of networks, those rows with true shifts computed before
(features, targets, counts, trained, and true_PRIOR for each of `PRIORS`); without a folder, made-up
rows. Reference posteriors, those of tests/data and what is beside the checkout, are added, but not
to known shifts.
Every estimate is made with three seeds.

A false alarm is an output below the limit that is called far, a miss one above it that is not.
Their rates are given over all outputs below and above the limit, and without those whose true shift
is within 5 % of it, since long chains have an error, too.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy.stats import spearmanr

from benchmarks.sampler.lines import Findings, Goal, Line
from benchmarks.sampler.running import Workbench
from benchmarks.sampler.timing import measure_time
from equivocal.store.folders import has_run
from lastlayer import sample_posterior
from lastlayer.machine import use_one_blas_thread
from lastlayer.outcome import RunSettings
from lastlayer.problem import Likelihood, Problem, collapse
from lastlayer.variational import fit_gaussian
from lastlayer.verdict import CALLED_FAR, TOO_FAR, diagnose_gaussian

__all__ = ["measure"]

ROOT = Path(__file__).resolve().parents[2]
REFERENCES = (ROOT.parent / "shared" / "reference", ROOT / "tests" / "data")
NETWORKS, SEEDS = 3, (0, 1, 2)
PRIORS = {"trained_1": 1.0, "zero_1": 1.0, "trained_5": 5.0}  # N(trained or 0, variance I)
CLEAR = 0.05  # relative distance from the limit beyond which the truth is certain
FEW = 2  # outputs, too few for a rank correlation
NOTHING = 0.002  # a relative difference of variances that is negligible
WITHIN, RANKED, WRONG, CHEAP = Goal(least=0.9), Goal(least=0.8), Goal(most=0.05), Goal(most=1 / 3)


class Case(NamedTuple):
    """A problem, and the true shift of each of its outputs if it is known already."""

    name: str
    arguments: dict[str, Any]
    true: np.ndarray | None = None


def measure(bench: Workbench) -> Findings:
    """Compare the estimated shifts of all problems with the true ones."""
    details = {}
    for case in _list_cases(bench):
        bench.say(f"verdict, {case.name}")
        true = case.true
        if true is None:
            gaussian = sample_posterior(**case.arguments)
            exact = sample_posterior(**case.arguments, method="hmc", num_particles=4_000)
            products = np.matmul(np.linalg.inv(gaussian.covariance.astype(float)), exact.covariance)
            true = np.trace(products, axis1=1, axis2=2) / exact.mean.shape[1] - 1
        estimated = np.concatenate(_estimate(case))
        details[case.name] = {"true": np.tile(true, len(SEEDS)), "estimated": estimated}
    cost = _measure_cost(bench) if _has_rows(bench) else None
    return Findings(lines=compare(details, cost), details=details)


def _has_rows(bench: Workbench) -> bool:
    return bench.run is None or has_run(bench.run)


def _estimate(case: Case) -> list[np.ndarray]:
    """Return the estimated shifts, for each seed."""
    given = {"counts": None, "prior_mean": 0.0, **case.arguments}
    built = Problem.build(
        given["features"],
        given["targets"],
        given["counts"],
        given["prior_mean"],
        given["prior_variance"],
        Likelihood.BERNOULLI,
        None,
    )
    problem, double = collapse(built), built.dtype == np.float64
    settings = RunSettings(
        num_particles=200,
        num_steps=None,
        tolerance=1e-7 if double else 5e-4,
        seed=0,
        memory_budget=None,
    )
    with (
        jax.enable_x64(double),
        jax.default_matmul_precision("highest"),
        use_one_blas_thread(),
    ):
        outcome = fit_gaussian(problem, settings)
        return [diagnose_gaussian(problem, outcome, replace(settings, seed=s)) for s in SEEDS]


def compare(details: dict[str, dict[str, np.ndarray]], cost: float | None) -> list[Line]:
    """Return lines on all outputs together, and on rank correlations within problems."""
    pairs = [np.stack([found["true"], found["estimated"]]) for found in details.values()]
    number = sum(len(found["true"]) for found in details.values()) // len(SEEDS)
    true, estimated = np.concatenate(pairs, axis=1)
    near = np.abs(estimated - true) < NOTHING
    near |= np.abs(np.log(estimated / np.maximum(true, NOTHING))) < np.log(1.5)
    far, called = true > TOO_FAR, estimated > CALLED_FAR
    within = [float(spearmanr(*pair)[0]) for pair in pairs if pair.shape[1] > FEW]
    clear = np.abs(true / TOO_FAR - 1) > CLEAR
    what = f"covariance shift of {number:,} outputs, limit {TOO_FAR:.1%}"
    lines = [
        Line(what=what, ours=float(np.median(true)), unit=""),
        _make_line("  share within a factor of 1.5 of the true one", near.mean(), WITHIN),
        _make_line("  rank correlation with the true one", spearmanr(true, estimated)[0], RANKED),
        Line(what="  the same within a problem, least", ours=min(within, default=None), unit=""),
        Line(what="  the same within a problem, most", ours=max(within, default=None), unit=""),
        _make_line("  false alarms, of outputs below the limit", _share(called[~far]), WRONG),
        _make_line("  misses, of outputs above it", _share(~called[far]), WRONG),
        Line(what="  false alarms, certain truths", ours=_share(called[~far & clear]), unit=""),
        Line(what="  misses, certain truths", ours=_share(~called[far & clear]), unit=""),
    ]
    if cost is not None:
        lines.append(_make_line("  seconds in those of the flow", cost, CHEAP))
    return lines


def _share(wrong: np.ndarray) -> float:
    return float(wrong.mean()) if len(wrong) else 0.0


def _make_line(what: str, value: float, goal: Goal) -> Line:
    return Line(what=what, ours=float(value), unit="", goal=Goal(**{**vars(goal), "of": "ours"}))


def _list_cases(bench: Workbench) -> Iterator[Case]:
    if bench.run is None:
        data = bench.data
        for variance in (1.0, 5.0):
            arguments = {"features": data.features, "targets": data.targets}
            yield Case(f"N(0, {variance:g} I)", arguments | {"prior_variance": variance})
    elif _has_rows(bench):
        yield from _list_network_cases(bench.run, bench.settings.outputs)
    else:
        yield from _list_known_cases(bench.run)
        return
    files = {path.name: path for each in REFERENCES for path in each.glob("gold_[!d]*_s*.npz")}
    for _, path in sorted(files.items()):
        name, size = path.stem.removeprefix("gold_").rsplit("_s", 1)
        with np.load(path) as answers, np.load(path.with_name(f"gold_data_{name}.npz")) as rows:
            ratio = np.trace(np.linalg.solve(answers["vi_cov"], answers["cov"]))
            arguments = {"features": rows["X"], "targets": rows["t"]}
            true = np.array([ratio / len(answers["cov"]) - 1])
        yield Case(f"{name}, {size}", arguments | {"prior_variance": float(size)}, true)


def _list_known_cases(folder: Path) -> Iterator[Case]:
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as found:
            known = dict(found)
        own = {name: known[name] for name in ("features", "targets", "counts")}
        for name, variance in PRIORS.items():
            mean = known["trained"] if name.startswith("trained") else 0.0
            prior = {"prior_mean": mean, "prior_variance": variance}
            yield Case(f"{path.stem}, {name}", own | prior, known[f"true_{name}"])


def _list_network_cases(folder: Path, outputs: int) -> Iterator[Case]:
    from equivocal.beliefs import collect_last_layer
    from equivocal.network import Run

    run = Run.load(folder)
    for number, network in enumerate(run.networks[:NETWORKS]):
        layer = collect_last_layer(run, network)
        layer = layer.select(list(range(min(outputs, layer.targets.shape[1]))))
        own = {"features": layer.features, "targets": layer.targets, "counts": layer.counts}
        for name, mean, variance in (
            ("N(trained, I)", layer.trained, 1.0),
            ("N(0, I)", 0.0, 1.0),
            ("N(trained, 5 I)", layer.trained, 5.0),
        ):
            prior = {"prior_mean": mean, "prior_variance": variance}
            yield Case(f"network {number}, {name}", own | prior)


def _measure_cost(bench: Workbench) -> float:
    """Return the ratio of the verdict's seconds to the flow's, both compiled, on the same rows."""
    data = bench.data
    given = (data.features, data.targets, None, 0.0, 1.0, Likelihood.BERNOULLI, None)
    problem = collapse(Problem.build(*given))
    settings = RunSettings(
        num_particles=bench.settings.num_particles,
        num_steps=None,
        tolerance=5e-4,
        seed=0,
        memory_budget=None,
    )
    flow, verdict = [], []
    with jax.default_matmul_precision("highest"), use_one_blas_thread():
        for seed in range(3):
            own = replace(settings, seed=seed)
            seconds, outcome = measure_time(
                lambda: fit_gaussian(problem, own)  # noqa: B023
            )
            flow.append(seconds)
            diagnose = partial(diagnose_gaussian, problem, outcome, own)
            verdict.append(measure_time(diagnose)[0])
    return min(verdict) / min(flow)
