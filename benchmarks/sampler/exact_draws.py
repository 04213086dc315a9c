"""Exact draws of all outputs by `hmc`: their time and quality, and the time of NUTS.

Every weight of every output has a split-R̂ of at most 1.01 and an effective sample size of at least
400, or the note says how many outputs do not. NUTS is timed on one output of medium rarity, as in
`versus_nuts`, and its time is multiplied by K; that time excludes compilation. Ours is that of a
second call, with another seed than the first; the details have both, and how many programs the
second call still compiled.
"""

import numpy as np

from benchmarks.sampler.lines import Findings, Goal, Line
from benchmarks.sampler.running import Workbench
from benchmarks.sampler.timing import measure_time, record_compilation, sum_spans
from benchmarks.sampler.versus_nuts import NEEDS, choose_outputs, run_nuts
from lastlayer import Posterior, sample_posterior

__all__ = ["measure"]

QUICK_ENOUGH = Goal(most=120, of="ours")
FASTER = Goal(least=100)


def measure(bench: Workbench) -> Findings:
    """Time our draws and those of NUTS."""
    data, settings = bench.data, bench.settings
    K = data.targets.shape[1]
    bench.say(f"hmc, {K} outputs")

    def sample(seed: int) -> Posterior:
        return sample_posterior(
            data.features, data.targets, prior_variance=1.0, method="hmc", seed=seed
        )

    cold, _ = measure_time(lambda: sample(settings.seed + 1))
    with record_compilation() as later:
        seconds, posterior = measure_time(lambda: sample(settings.seed))
    info = posterior.info
    missed = int((~info.output_converged).sum())
    what = f"exact draws of {K} outputs, {posterior.particles.shape[1]:,} of each"
    note = f"{missed} have not converged" if missed else ""
    lines = [Line(what=what, ours=seconds, goal=QUICK_ENOUGH, note=note)]
    details = {
        "data": data.summary(),
        "seconds_cold": cold,
        "seconds": seconds,
        "seconds_cold_over_later": cold / seconds,
        "compilations_later": len(later),
        "r_hat_largest": float(info.r_hat.max()),
        "ess_smallest": float(info.ess.min()),
        "transitions_median": float(np.median(info.steps)),
        "message": info.message,
    }
    try:
        import numpyro  # noqa: F401
    except ImportError:
        return Findings(lines=[*lines, Line(what="NumPyro NUTS", note=NEEDS)], details=details)
    bench.say("NUTS, 1 output")
    outputs = choose_outputs(data, 1)
    with record_compilation() as spans:
        total, nuts = measure_time(lambda: run_nuts(data, outputs, settings))
    theirs = K * (total - sum_spans(spans))
    worst = np.abs(nuts.mean[0] - posterior.mean[outputs[0]])
    worst /= np.sqrt(np.diag(nuts.covariance[0]))
    details |= {"nuts_output": outputs[0], "nuts_mean_difference_in_sd": float(worst.max())}
    what = f"  against NUTS × {K}, from 1"
    ratio = theirs / seconds
    lines.append(Line(what=what, ours=seconds, theirs=theirs, ratio=ratio, goal=FASTER))
    return Findings(lines=lines, details=details)
