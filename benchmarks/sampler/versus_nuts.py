"""Our posterior against NumPyro's NUTS: times, and the difference of predictions.

Both sides get the same rows in float32 and merge equal ones. NUTS runs on a few outputs, from the
rarest to the most balanced one; its time for all K is K times the mean over those. It compiles once
for all outputs, for a time that JAX reports. Two ratios: warm-up and draws against our second call,
and the same with compilation against our first call. Our time includes diagnostics and particles,
that of NUTS its R-hat; neither includes predictions.

Predictions are compared on held-out rows. The difference includes the Monte Carlo error of NUTS,
whose standard error, from the spread over chains, is given as well.
"""

from typing import Any

import numpy as np
from scipy.special import expit

from benchmarks.sampler.lines import Findings, Goal, Line
from benchmarks.sampler.ours import OurTimes
from benchmarks.sampler.problems import Data
from benchmarks.sampler.running import Workbench
from benchmarks.sampler.settings import BenchSettings
from benchmarks.sampler.timing import measure_time, record_compilation, sum_spans
from lastlayer import Posterior, sample_posterior

__all__ = ["choose_outputs", "measure", "run_nuts"]

NEEDS = "needs NumPyro: pip install 'lastlayer[nuts]'"
FASTER = Goal(least=500)
CLOSE = Goal(most=0.02, of="ours")


def measure(bench: Workbench) -> Findings:
    """Measure times for all K outputs, and the largest difference of predictions."""
    try:
        import numpyro  # noqa: F401
    except ImportError:
        return Findings(lines=[Line(what="NumPyro NUTS", note=NEEDS)])
    data, ours, settings = bench.data, bench.ours, bench.settings
    outputs = choose_outputs(data, settings.nuts_outputs)
    bench.say(f"NUTS, {len(outputs)} output{'s' * (len(outputs) != 1)}")
    with record_compilation() as spans:
        total, posterior = measure_time(lambda: run_nuts(data, outputs, settings))
    compiling = sum_spans(spans)
    each = (total - compiling) / len(outputs)
    difference, error = _measure_differences(data, outputs, ours.posterior, posterior)
    details = {
        "data": data.summary(),
        "equivocal": ours.details(),
        "outputs": _describe_outputs(data, outputs, posterior, difference, error),
        "seconds_total": total,
        "seconds_compiling": compiling,
        "seconds_per_output": each,
        "message": posterior.info.message,
    }
    K = data.targets.shape[1]
    lines = _list_lines(ours, compiling, each, K, f"NUTS × {K}, from {len(outputs)}")
    largest = f"  largest difference of predictions, {len(data.held_out):,} held-out rows"
    lines.append(Line(what=largest, ours=float(difference.max()), unit="", goal=CLOSE))
    return Findings(lines=lines, details=details)


def _list_lines(ours: OurTimes, compiling: float, each: float, K: int, size: str) -> list[Line]:
    warm, cold = K * each, compiling + K * each
    return [
        Line(
            what=f"{size}, compiled",
            ours=ours.warm,
            theirs=warm,
            ratio=warm / ours.warm,
            goal=FASTER,
        ),
        Line(
            what=f"{size}, with compilation",
            ours=ours.cold,
            theirs=cold,
            ratio=cold / ours.cold,
        ),
    ]


def choose_outputs(data: Data, number: int) -> list[int]:
    """Return outputs with two classes, evenly spaced from the rarest to the most balanced."""
    ones = data.targets.sum(axis=0, dtype=np.int64)
    rarer = np.minimum(ones, len(data.targets) - ones)
    ranked = sorted(data.two_classes, key=lambda k: rarer[k])
    number = min(number, len(ranked))
    places = np.linspace(0, len(ranked) - 1, number) if number > 1 else [len(ranked) // 2]
    return [ranked[round(float(place))] for place in places]


def run_nuts(data: Data, outputs: list[int], settings: BenchSettings) -> Posterior:
    """Sample some outputs by NUTS."""
    return sample_posterior(
        data.features,
        data.targets[:, outputs],
        prior_variance=1.0,
        method="nuts",
        num_particles=settings.nuts_draws,
        num_steps=settings.nuts_warmup,
        num_chains=settings.nuts_chains,
        seed=settings.seed,
    )


def _measure_differences(
    data: Data, outputs: list[int], ours: Posterior, nuts: Posterior
) -> tuple[np.ndarray, np.ndarray]:
    """Return for each output the largest difference of predictions over held-out rows.

    Also returns the largest standard error of NUTS.
    """
    reference = nuts.predict_proba(data.held_out)
    gap = np.abs(ours.predict_proba(data.held_out)[:, outputs] - reference)
    # draws of the chains alternate: draw i of every chain comes before draw i + 1
    by_chain = np.stack(
        [
            _average_probability(data.held_out, nuts.particles[:, c :: nuts.chains])
            for c in range(nuts.chains)
        ]
    )
    error = by_chain.std(axis=0, ddof=1) / np.sqrt(nuts.chains) if nuts.chains > 1 else 0 * gap
    return gap.max(axis=0), error.max(axis=0)


def _average_probability(rows: np.ndarray, particles: np.ndarray) -> np.ndarray:
    """Return mean probabilities (M, K) from rows (M, D) and particles (K, J, D)."""
    return np.stack([expit(rows @ each.T).mean(axis=1) for each in particles], axis=1)


def _describe_outputs(
    data: Data,
    outputs: list[int],
    nuts: Posterior,
    difference: np.ndarray,
    error: np.ndarray,
) -> list[dict[str, Any]]:
    return [
        {
            "output": k,
            "ones": int(data.targets[:, k].sum(dtype=np.int64)),
            "largest_difference": difference[i],
            "nuts_standard_error_at_most": error[i],
            "nuts_rhat": nuts.info.r_hat[i],
        }
        for i, k in enumerate(outputs)
    ]
