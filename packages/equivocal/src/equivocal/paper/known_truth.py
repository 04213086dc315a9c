"""Beliefs about reversals in a world in which these have a true answer.

In the world `slips` a reversal may be meant or be a slip of the tongue, each with a probability
that the world defines (`equivocal.truth`). As many networks as in the study are trained there, on
one corpus, and given the study's posteriors. Whatever moves towards ½ comes nearer to true beliefs
near ½; so two baselines that know nothing about the weights stand beside them: the trained
network's logits divided by a temperature, and the answer ½ to every question.

In the paper's own world no reversal ever happens, so its reversals have no truth. But a rational
listener has a belief about them, who allows that anything may act and that speakers slip. It
depends on how much of both it expects: `map_rational` computes it for a range of both, so that the
answers of networks and posteriors can be read as prior expectations (`draw_rational_map`).
"""

from collections.abc import Callable

import numpy as np
import pandas as pd

from equivocal.beliefs import collect_last_layer, infer_posterior
from equivocal.network.runs import split_corpus, train_or_load
from equivocal.paper.study import BELIEF_CODE, Study
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
from equivocal.world import World
from equivocal.world.learning import map_rational_beliefs

__all__ = ["EXAMPLE", "WORLD", "compare_with_truth", "map_rational"]

WORLD = "slips"
LISTENER = "slips:rare=0"  # the paper's world, with slips of the tongue
PSEUDO_COUNTS = np.geomspace(1e-3, 1e3, 25)  # α, in sentences
SLIPS = np.geomspace(1e-5, 0.5, 29)  # ε
EXAMPLE = 15  # the item that is drawn: during dinner, the pizza eats the woman
TEMPERATURES = {"cooled": 1.2, "half": np.inf}  # by which logits are divided


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
