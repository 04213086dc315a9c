"""From networks to posteriors (`sample`), and from these to beliefs about the stimuli (`believe`).

Both find what is finished in the store of the study and make only what is missing, in worker
processes where the caller has some (`equivocal.workers`).

In the paper's world no reversal ever happens, so its reversals have no truth. Two functions give
them something to be compared with:

- `compare_with_truth`: in the world `slips` a reversal may be meant or be a slip of the tongue,
  each with a probability that the world defines (`equivocal.truth`). As many networks as in the
  study are trained there, on one corpus, and given the study's posteriors. Whatever moves towards ½
  comes nearer to true beliefs near ½; so two baselines that know nothing about the weights stand
  beside them: the trained network's logits divided by a temperature, and the answer ½ to every
  question.
- `map_rational`: a rational listener has a belief about a reversal who allows that anything may act
  and that speakers slip. It depends on how much of both it expects; it is computed for a range of
  both, so that the answers of networks and posteriors can be read as prior expectations.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from equivocal.beliefs import LayerRows, collect_last_layer, infer_posterior
from equivocal.network.runs import split_corpus, train_or_load
from equivocal.paper.activations import (
    answer_stimuli,
    combine_answers,
    compare_with_exact,
    compare_with_nuts,
    sample_exactly,
    trace_effect,
    vary_sampler,
)
from equivocal.paper.study import BELIEF_CODE, Job, Study
from equivocal.progress import Advance
from equivocal.store import read_table
from equivocal.store.store import hash_content
from equivocal.truth import (
    CONDITIONS,
    PooledBeliefs,
    ReversalQuestions,
    ask_about_reversals,
    divide_logits,
    pool_gaussian,
    pool_particles,
)
from equivocal.workers import Begin
from equivocal.world import World
from equivocal.world.learning import map_rational_beliefs
from lastlayer import Posterior

__all__ = [
    "EXAMPLE",
    "Beliefs",
    "Known",
    "believe",
    "compare_with_truth",
    "map_rational",
    "sample",
]

WORLD = "slips"
LISTENER = "slips:rare=0"  # the paper's world, with slips of the tongue
PSEUDO_COUNTS = np.geomspace(1e-3, 1e3, 25)  # α, in sentences
SLIPS = np.geomspace(1e-5, 0.5, 29)  # ε
EXAMPLE = 15  # the item that is drawn: during dinner, the pizza eats the woman
TEMPERATURES = {"cooled": 1.2, "half": np.inf}  # by which logits are divided


def load_posterior(study: Study, job: Job) -> Posterior:
    """Load a posterior from the store, or sample and save it."""
    inference = study.settings.inference

    def infer() -> Posterior:
        rows, seed = _collect_rows(study, job.network), inference.get_seed(job.network)
        return infer_posterior(rows, inference.samplers[job.sampler], job.variance, seed)

    key, load, save = study.hash_job(job), Posterior.load, Posterior.save
    return study.store.load_or_make(job.name, key, ".safetensors", load=load, make=infer, save=save)


@lru_cache(maxsize=1)
def _collect_rows(study: Study, index: int) -> LayerRows:
    """Collect the rows of the sampled units of one network, which all its posteriors share."""
    run, units = study.run, study.world.units
    layer = collect_last_layer(run, run.networks[index], study.settings.inference.rows)
    return layer.select([units.index(unit) for unit in study.units])


def sample(study: Study, begin: Begin = partial, advance: Advance = lambda *_: None) -> None:
    """Sample every posterior that is missing and has not answered yet.

    Parameters
    ----------
    study : Study
        A study with trained networks.
    begin : callable
        Where they are sampled (`equivocal.workers`); by default in this process.
    advance : callable
        Called with the number of posteriors done, their total, and a description of the next.
    """
    jobs, find = study.jobs, partial(study.store.find, warn=False)
    wanted = study.settings.keep_posteriors or not study.is_finished("activations")
    missing = [job for job in jobs if wanted and find(job.name, study.hash_job(job)) is None]
    waits = [begin(_make_posterior, study, job) for job in missing]
    for number, (job, wait) in enumerate(zip(missing, waits, strict=True)):
        where = f"network {job.network}, {job.sampler}, prior variance {job.variance:g}"
        advance(len(jobs) - len(missing) + number, len(jobs), where)
        wait()
    advance(len(jobs), len(jobs), "all posteriors are done")


def _make_posterior(study: Study, job: Job) -> None:
    """Put a posterior into the store; a worker does not send it back."""
    load_posterior(study, job)


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


def believe(study: Study, begin: Begin = partial, advance: Advance = lambda *_: None) -> Beliefs:
    """Ask networks and posteriors about the stimuli, after every word.

    Posteriors are removed from the store afterwards, unless the settings keep them.

    Parameters
    ----------
    study : Study
        A study with trained networks.
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
    ask = partial(_ask_network, study)
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


def _ask_network(study: Study, index: int) -> dict[str, np.ndarray]:
    return answer_stimuli(study, index, partial(load_posterior, study))


def _compare(study: Study, names: list[str]) -> list[xr.Dataset]:
    """Trace the effect along τ, and run other samplers if they are among the names."""
    makers = {"path": trace_effect, "steps": vary_sampler, "nuts": compare_with_nuts}
    return [study.keep(name, partial(makers[name], study)) for name in names]


def compare_with_truth(study: Study) -> pd.DataFrame:
    """Compare trained networks and their posteriors with the exact beliefs of the world `slips`.

    Parameters
    ----------
    study : Study
        Its training, its samplers and its central prior are used.

    Returns
    -------
    DataFrame
        A row for each kind (trained, the samplers, cooled, half), network, item and condition: the
        divergence from the exact beliefs at the last word (`kl`, nats per unit), the `belief` that
        the item's patient is the agent and the true probability (`truth`), and the sampler time τ.
    """
    world, training = World.load(WORLD), study.settings.training_settings
    run = train_or_load(world, training, study.folder / WORLD)
    inference = study.settings.inference

    def make() -> pd.DataFrame:
        asked = ask_about_reversals(world)
        parts = []
        for index, network in enumerate(run.networks):
            layer = collect_last_layer(run, network, inference.rows).select(list(asked.units))
            psi = asked.compute_psi(network)
            trained = pool_particles(psi, layer.trained[:, None])
            own = [_tabulate(asked, "trained", trained)]
            for name, sampler in inference.samplers.items():
                seed, variance = inference.get_seed(index), inference.central_prior
                posterior = infer_posterior(layer, sampler, variance, seed, diagnose=False)
                if posterior.gaussian:
                    beliefs = pool_gaussian(psi, posterior)
                else:
                    beliefs = pool_particles(psi, posterior.particles)
                time = float(np.median(posterior.info.time))
                own.append(_tabulate(asked, name, beliefs).assign(time=time))
            for name, temperature in TEMPERATURES.items():
                own.append(_tabulate(asked, name, divide_logits(trained, temperature)))
            parts += [rows.assign(network=index) for rows in own]
        return pd.concat(parts, ignore_index=True)

    return _keep(study, f"{WORLD}/known_truth", make, world.fingerprint, inference.model_dump())


def _keep(study: Study, name: str, make: Callable[[], pd.DataFrame], *what: object) -> pd.DataFrame:
    """Load a table from the store of the study, or make and save it."""
    return study.store.load_or_make(
        name,
        hash_content(str(study.settings.training_settings), *what, code=BELIEF_CODE),
        ".csv",
        load=lambda path: read_table(path, float_precision="round_trip"),
        make=make,
        save=lambda table, path: table.to_csv(path, index=False),
    )


def map_rational(study: Study) -> pd.DataFrame:
    """Compute what rational listeners believe of the study's example, having heard its corpus.

    Returns
    -------
    DataFrame
        Columns pseudo_count (α: how many sentences the expectation is worth that anything may act),
        slip (ε: how often it expects a slip of the tongue) and belief (that the noun which syntax
        makes the agent is the agent).
    """
    example, listener = study.example, World.load(LISTENER)
    role, unit = next(iter(example.tracked.items()))

    def make() -> pd.DataFrame:
        heard = split_corpus(study.world, study.settings.training_settings)[0]
        said = str(example.utterance.first(example.critical))
        ranges = {"pseudo_counts": PSEUDO_COUNTS.tolist(), "slips": SLIPS.tolist()}
        return map_rational_beliefs(listener, heard, said, role, unit, **ranges)

    what = listener.fingerprint, str(example.utterance), role, unit
    return _keep(study, f"{WORLD}/rational", make, *what, PSEUDO_COUNTS.tolist(), SLIPS.tolist())


def _tabulate(asked: ReversalQuestions, kind: str, beliefs: PooledBeliefs) -> pd.DataFrame:
    """Return a row for each item and condition."""
    nouns = asked.select_nouns(beliefs)
    table = pd.DataFrame(
        {
            "kind": kind,
            "condition": np.array(CONDITIONS)[asked.condition],
            "item": asked.item,
            "kl": nouns.compute_divergence(asked.truth).mean(axis=-1),
            "belief": nouns.belief[:, 1],
            "truth": asked.truth[:, 1],
        }
    )
    # the first question about each sentence is about its agent, the second about its patient
    keys = ["kind", "condition", "item"]
    return table.groupby(keys, sort=False, as_index=False).agg(
        {"kl": "mean", "belief": "first", "truth": "first"}
    )
