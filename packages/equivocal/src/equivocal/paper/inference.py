"""From networks to posteriors (`sample`), and from these to beliefs about the stimuli (`believe`).

Both find what is finished in the store of the study and make only what is missing, in worker
processes where the caller has some (`equivocal.workers`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from equivocal.beliefs import LayerRows, collect_last_layer, infer_posterior
from equivocal.paper.activations import (
    answer_stimuli,
    combine_answers,
    compare_with_exact,
    compare_with_nuts,
    sample_exactly,
    trace_effect,
    vary_sampler,
)
from equivocal.paper.study import Job, Study
from equivocal.progress import Advance
from equivocal.workers import Begin
from lastlayer import Posterior

__all__ = ["Beliefs", "Posteriors", "believe", "sample"]


@dataclass(frozen=True)
class Posteriors:
    """The posteriors of a study, by sampler, prior variance and network.

    They lie in the store, and one that is not there is sampled when it is asked for.
    """

    study: Study

    def load(self, sampler: str, variance: float, network: int) -> Posterior:
        """Return one posterior."""
        study, job = self.study, Job(sampler, variance, network)
        inference = study.settings.inference

        def infer() -> Posterior:
            rows, seed = _collect_rows(study, network), inference.get_seed(network)
            return infer_posterior(rows, inference.samplers[sampler], variance, seed)

        key, load, save = study.hash_job(job), Posterior.load, Posterior.save
        return study.store.load_or_make(
            job.name, key, ".safetensors", load=load, make=infer, save=save
        )

    def make(self, job: Job) -> None:
        """Put a posterior into the store, if it is not there."""
        self.load(*job)


@lru_cache(maxsize=1)
def _collect_rows(study: Study, index: int) -> LayerRows:
    """Collect the rows of the sampled units of one network, which all its posteriors share."""
    run, units = study.run, study.world.units
    layer = collect_last_layer(run, run.networks[index], study.settings.inference.rows)
    return layer.select([units.index(unit) for unit in study.units])


def sample(study: Study, begin: Begin = partial, advance: Advance = lambda *_: None) -> Posteriors:
    """Sample every posterior that is missing and has not answered yet.

    Parameters
    ----------
    study : Study
        A study with trained networks.
    begin : callable
        Where they are sampled (`equivocal.workers`); by default in this process.
    advance : callable
        Called with the number of posteriors done, their total, and a description of the next.

    Returns
    -------
    Posteriors
        The posteriors of the study.
    """
    posteriors, jobs, find = Posteriors(study), study.jobs, partial(study.store.find, warn=False)
    wanted = study.settings.keep_posteriors or not study.is_finished("activations")
    missing = [job for job in jobs if wanted and find(job.name, study.hash_job(job)) is None]
    waits = [begin(posteriors.make, job) for job in missing]
    for number, (job, wait) in enumerate(zip(missing, waits, strict=True)):
        where = f"network {job.network}, {job.sampler}, prior variance {job.variance:g}"
        advance(len(jobs) - len(missing) + number, len(jobs), where)
        wait()
    advance(len(jobs), len(jobs), "all posteriors are done")
    return posteriors


class Beliefs(NamedTuple):
    """What networks and posteriors believe about the stimuli."""

    answers: xr.Dataset  # at every word, from every posterior (`activations`)
    path: xr.Dataset  # along the sampler's time τ (`trace_effect`)
    exact: xr.Dataset | None  # beside the exact posterior; None where the settings leave it out
    nuts: xr.Dataset | None  # beside that of another program
    steps: pd.DataFrame | None = None  # from the paper's sampler with other J, Δτ and ρ

    @property
    def comparison(self) -> xr.Dataset | None:
        """The comparison with the exact posterior, with NUTS where it was run."""
        if self.exact is None or self.nuts is None:
            return self.exact
        return self.exact.merge(self.nuts, join="left", combine_attrs="override")


class Known(NamedTuple):
    """What is known of the networks under one reading of N."""

    beliefs: Beliefs
    truth: pd.DataFrame | None  # what `compare_with_truth` returned


def believe(
    study: Study,
    posteriors: Posteriors,
    begin: Begin = partial,
    advance: Advance = lambda *_: None,
) -> Beliefs:
    """Ask networks and posteriors about the stimuli, after every word.

    Parameters
    ----------
    study : Study
        A study with trained networks.
    posteriors : Posteriors
        Their posteriors; they are removed from the store unless the settings keep them.
    begin, advance
        As for `sample`.

    Returns
    -------
    Beliefs
        Answers, their path along τ, and their exact counterparts.
    """
    settings, networks = study.settings, range(len(study.run.networks))
    # NUTS is one long chain; it comes after the path, so that its times hold no compilation
    wanted = {"path": 1, "steps": settings.steps.networks, "nuts": settings.nuts.networks}
    others = [name for name, number in wanted.items() if number]
    finished = all(study.is_finished(name) for name in others)
    wait = (partial if finished else begin)(_compare, study, others)

    def gather(work: Callable[[int], object], most: int) -> list[object]:
        waits = [begin(work, index) for index in networks[:most]]
        return [wait() for wait in waits]

    advance(0, 3, "sentences")
    ask = partial(_ask_network, posteriors)
    answers = study.keep("activations", lambda: combine_answers(gather(ask, len(networks)), study))
    advance(1, 3, "exact posterior")
    most, exact = settings.exact.networks, None
    if most:
        draw = partial(sample_exactly, study)
        exact = study.keep("exact", lambda: compare_with_exact(study, answers, gather(draw, most)))
    advance(2, 3, "path and NUTS")
    compared = dict(zip(others, wait(), strict=True))
    advance(3, 3, "answered")
    if not settings.keep_posteriors:
        study.store.remove(*(job.name for job in study.jobs))
    steps = compared["steps"].to_dataframe() if "steps" in compared else None
    return Beliefs(answers, compared["path"], exact, compared.get("nuts"), steps)


def _ask_network(posteriors: Posteriors, index: int) -> dict[str, np.ndarray]:
    return answer_stimuli(posteriors.study, index, partial(posteriors.load, network=index))


def _compare(study: Study, names: list[str]) -> list[xr.Dataset]:
    """Trace the effect along τ, and run other samplers if they are among the names."""
    makers = {"path": trace_effect, "steps": vary_sampler, "nuts": compare_with_nuts}
    return [study.keep(name, partial(makers[name], study)) for name in names]
