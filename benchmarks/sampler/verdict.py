"""Whether the verdict on a Gaussian can be believed: `covariance_shift` against long exact chains.

The true shift of an output is tr(P⁻¹ C)/D − 1 with the covariance P of its Gaussian and C of its
posterior (docs/maths.md (27)), C from thousands of draws by `hmc`. Problems: the last layers of up
to three trained networks under three priors, with all their rows; without trained networks made-up
rows. Reference posteriors beside the checkout are added where they are there. A false alarm is an
output below the limit that is called far, a miss one above it that is not; each is given as a share
of the outputs below and above.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy.stats import spearmanr

from benchmarks.sampler.lines import Findings, Goal, Line
from benchmarks.sampler.running import Workbench
from benchmarks.sampler.timing import measure_time
from equivocal.machine import use_one_blas_thread
from equivocal.sampling import sample_posterior
from equivocal.sampling.diagnostics import CALLED_FAR, TOO_FAR, diagnose_gaussian
from equivocal.sampling.engine.problem import Likelihood, Problem, collapse
from equivocal.sampling.engine.settings import RunSettings
from equivocal.sampling.samplers import exact_flow

__all__ = ["measure"]

REFERENCE = Path(__file__).resolve().parents[3] / "shared" / "reference"
NETWORKS = 3
FEW = 2  # outputs whose ranks say nothing
NOTHING = 0.002  # a difference of variances that nobody needs to know
WITHIN, RANKED, WRONG, CHEAP = Goal(least=0.9), Goal(least=0.8), Goal(most=0.05), Goal(most=1 / 3)


class Case(NamedTuple):
    """A problem, and the true shift of each of its outputs where it is known already."""

    name: str
    arguments: dict[str, Any]
    true: np.ndarray | None = None


def measure(bench: Workbench) -> Findings:
    """Compare the estimated shifts of all problems with the true ones."""
    details = {}
    for case in _list_cases(bench):
        bench.say(f"verdict, {case.name}")
        gaussian = sample_posterior(**case.arguments)
        true = case.true
        if true is None:
            exact = sample_posterior(**case.arguments, method="hmc", num_particles=4_000)
            products = np.matmul(np.linalg.inv(gaussian.covariance.astype(float)), exact.covariance)
            true = np.trace(products, axis1=1, axis2=2) / exact.mean.shape[1] - 1
        details[case.name] = {"true": true, "estimated": gaussian.info.covariance_shift}
    return Findings(lines=compare(details, _measure_cost(bench)), details=details)


def compare(details: dict[str, dict[str, np.ndarray]], cost: float) -> list[Line]:
    """Return the lines on all outputs together, and on the ranks within each problem."""
    pairs = [np.stack([found["true"], found["estimated"]]) for found in details.values()]
    true, estimated = np.concatenate(pairs, axis=1)
    near = np.abs(estimated - true) < NOTHING
    near |= np.abs(np.log(estimated / np.maximum(true, NOTHING))) < np.log(1.5)
    far, called = true > TOO_FAR, estimated > CALLED_FAR
    within = [float(spearmanr(*pair)[0]) for pair in pairs if pair.shape[1] > FEW]
    what = f"covariance shift of {len(true):,} outputs, limit {TOO_FAR:.1%}"
    return [
        Line(what=what, ours=float(np.median(true)), unit=""),
        _make_line("  share within a factor of 1.5 of the true one", near.mean(), WITHIN),
        _make_line("  rank correlation with the true one", spearmanr(true, estimated)[0], RANKED),
        Line(what="  the same within a problem, least", ours=min(within, default=None), unit=""),
        Line(what="  the same within a problem, most", ours=max(within, default=None), unit=""),
        _make_line("  false alarms, of outputs below the limit", np.mean(called[~far]), WRONG),
        _make_line(
            "  misses, of outputs above it", np.mean(~called[far]) if far.any() else 0.0, WRONG
        ),
        _make_line("  seconds in those of the flow", cost, CHEAP),
    ]


def _make_line(what: str, value: float, goal: Goal) -> Line:
    return Line(what=what, ours=float(value), unit="", goal=Goal(**{**vars(goal), "of": "ours"}))


def _list_cases(bench: Workbench) -> Iterator[Case]:
    if bench.run is None:
        data = bench.data
        for variance in (1.0, 5.0):
            arguments = {"features": data.features, "targets": data.targets}
            yield Case(f"N(0, {variance:g} I)", arguments | {"prior_variance": variance})
    else:
        yield from _list_network_cases(bench.run, bench.settings.outputs)
    for path in sorted(REFERENCE.glob("gold_[!d]*_s*.npz")):
        name, size = path.stem.removeprefix("gold_").rsplit("_s", 1)
        with np.load(path) as answers, np.load(REFERENCE / f"gold_data_{name}.npz") as rows:
            ratio = np.trace(np.linalg.solve(answers["vi_cov"], answers["cov"]))
            arguments = {"features": rows["X"], "targets": rows["t"]}
            true = np.array([ratio / len(answers["cov"]) - 1])
        yield Case(f"{name}, {size}", arguments | {"prior_variance": float(size)}, true)


def _list_network_cases(folder: Path, outputs: int) -> Iterator[Case]:
    from equivocal.gestalt import Run
    from equivocal.inference import collect_last_layer

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
    """Return the verdict's seconds over those of the flow, both compiled, on the same rows."""
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
        for _ in range(3):
            seconds, outcome = measure_time(
                lambda: exact_flow.run(problem, exact_flow.ExactFlowConfig(), settings)
            )
            flow.append(seconds)
            diagnose = partial(diagnose_gaussian, problem, outcome, settings)
            verdict.append(measure_time(diagnose)[0])
    return min(verdict) / min(flow)
