"""Our side of the comparisons: the time of the posterior of all outputs, cold and warm."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from benchmarks.sampler.problems import Data
from benchmarks.sampler.settings import BenchSettings
from benchmarks.sampler.timing import measure_time, record_compilation, sum_spans
from lastlayer import Posterior, sample_posterior

__all__ = ["OurTimes", "time_ours"]


@dataclass(frozen=True, kw_only=True, eq=False)
class OurTimes:
    """Seconds from rows to a posterior with diagnostics and particles."""

    cold: float  # the first call, compilation included
    warm: float  # the second
    compiling: float  # of the first
    posterior: Posterior

    def details(self) -> dict[str, Any]:
        """Return times and diagnostics for the result file."""
        info = self.posterior.info
        return {
            "seconds_cold": self.cold,
            "seconds_warm": self.warm,
            "seconds_compiling": self.compiling,
            "converged": info.converged,
            "steps_median": float(np.median(info.steps)),
            "message": info.message,
            "settings": info.settings,
        }


def time_ours(data: Data, settings: BenchSettings) -> OurTimes:
    """Time two calls after clearing all compiled programs: the first is cold, the second warm.

    They have different seeds.
    """

    def sample(seed: int) -> Posterior:
        return sample_posterior(
            data.features,
            data.targets,
            prior_variance=1.0,
            method="exact-flow",
            num_particles=settings.num_particles,
            seed=seed,
        )

    # typed in some versions of JAX and not in others
    jax.clear_caches()  # type: ignore[no-untyped-call, unused-ignore]
    with record_compilation() as spans:
        cold, _ = measure_time(lambda: sample(settings.seed + 1))
    warm, posterior = measure_time(lambda: sample(settings.seed))
    return OurTimes(cold=cold, warm=warm, compiling=sum_spans(spans), posterior=posterior)
