"""Suites heard by trained networks: a row for each network, sentence, word and measure.

All distinct sentences of a world are heard at once, whatever suites they belong to. `value` is the
measure; where an ensemble of last layers stands behind it, `low` and `high` are a 95 % interval
over its particles, as `equivocal.suites.particles` tells.

By role, the surprise is told about each role alone as well: `bayesian_surprise_ROLE`, which sum to
`bayesian_surprise`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from equivocal.errors import UserError, join_names
from equivocal.gestalt import Network, SentenceGestalt
from equivocal.study.word_measures import (
    MEASURES,
    WordMeasure,
    check_measures,
    surprise_by_role,
)
from equivocal.suites.particles import Measured, of_particles
from equivocal.suites.suite import Suite
from equivocal.world import Utterance, World, role_unit

__all__ = ["SURPRISE", "asked_measures", "hear", "logits_of", "measure_words"]

CHUNK = 16  # sentences whose beliefs are held at once for all particles
SURPRISE = "bayesian_surprise"  # what is known by role
Particles = Callable[[int], np.ndarray]  # of network n: (units, J, D)


def measure_words(
    networks: Sequence[Network],
    suites: Sequence[Suite],
    measures: Sequence[str],
    particles: Particles | None = None,
    *,
    by_role: bool = False,
) -> pd.DataFrame:
    """suite, condition, item, position, word, critical, network, measure, value, low, high.

    The suites are of the networks' world. Without `particles` beliefs are those of the trained
    last layer, and measures of an ensemble cannot be asked for. With `by_role` the surprise, where
    it is asked for, is followed by that about each role.
    """
    check_measures(measures)
    world = networks[0].world
    for suite in suites:
        if suite.world.fingerprint != world.fingerprint:
            raise UserError(
                f"suite {suite.name!r} is of world {suite.world.name!r}, the networks of "
                f"{world.name!r}; train networks in the suite's world."
            )
    lacking = [name for name in measures if MEASURES[name].reads == "ensemble"]
    if lacking and particles is None:
        raise UserError(f"{join_names(lacking)} is of an ensemble of last layers; give particles=.")
    heard = list(dict.fromkeys(row.utterance for suite in suites for row in suite.rows.values()))
    tokens = _tokens(world, heard)
    asked = asked_measures(measures, world.roles if by_role else ())
    parts = []
    for n, network in enumerate(networks):
        ensemble = None if particles is None else particles(n)
        measured = _measured(network, hear(network.model, tokens), asked, ensemble)
        for name in asked:
            found = pd.DataFrame(_rows(suites, heard, measured[name]))
            parts.append(found.assign(network=n, measure=name))
    columns = ["suite", "condition", "item", "position", "word", "critical", "network", "measure"]
    return pd.concat(parts, ignore_index=True)[[*columns, "value", "low", "high"]]


def asked_measures(measures: Sequence[str], roles: Sequence[str]) -> dict[str, WordMeasure]:
    """The measures by name, in order; the surprise is followed by that about each of `roles`."""
    asked: dict[str, WordMeasure] = {}
    for name in measures:
        asked[name] = MEASURES[name]
        if name == SURPRISE:
            for number, role in enumerate(roles):
                of = partial(_surprise_about, number)
                asked[f"{SURPRISE}_{role}"] = replace(MEASURES[name], of=of)
    return asked


def _surprise_about(role: int, logits: np.ndarray) -> np.ndarray:
    found: np.ndarray = surprise_by_role(logits)[..., role]
    return found


def _tokens(world: World, heard: Sequence[Utterance]) -> np.ndarray:
    """(sentences, longest, 2); −1, no token, past the end, where nothing is read off."""
    tokens = np.full((len(heard), max(map(len, heard)), 2), -1, np.int32)
    for number, utterance in enumerate(heard):
        tokens[number, : len(utterance)] = world.encode(utterance)
    return tokens


def hear(model: SentenceGestalt, tokens: np.ndarray) -> np.ndarray:
    """(sentences, words, gestalt): the gestalt after each word, from silence."""
    heard = jax.vmap(model.listen)(jnp.asarray(tokens))
    return np.asarray(heard, np.float64)


def logits_of(network: Network, gestalts: np.ndarray, last_layer: np.ndarray) -> np.ndarray:
    """Beliefs about every role, (sentences, words, roles, units), under one last layer (units, D).

    With particles (units, J, D) in its place they come first: (J, sentences, …).
    """
    psi = _features(network, gestalts)
    if last_layer.ndim == 2:
        found: np.ndarray = psi @ last_layer.T
        return found
    K, J, D = last_layer.shape
    logits = (psi @ last_layer.reshape(K * J, D).T).reshape(*psi.shape[:-1], K, J)
    return np.moveaxis(logits, -1, 0)


def _features(network: Network, gestalts: np.ndarray) -> np.ndarray:
    """(sentences, words, roles, D): (ψ, 1), what the last layer is given."""
    world, query = network.world, network.model.query
    probes = np.stack([world.lexicon.unit_mask((role_unit(role),)) for role in world.roles])
    sentences, words, width = gestalts.shape
    nodes, roles = np.divmod(np.arange(sentences * words * len(probes)), len(probes))
    found = query.features(
        jnp.asarray(gestalts.reshape(-1, width), jnp.float32),
        jnp.asarray(probes, jnp.float32),
        jnp.asarray(nodes),
        jnp.asarray(roles),
    )
    psi = np.asarray(found).reshape(sentences, words, len(probes), -1)
    return np.concatenate([psi, np.ones_like(psi[..., :1])], axis=-1)


def _measured(
    network: Network,
    gestalts: np.ndarray,
    asked: dict[str, WordMeasure],
    ensemble: np.ndarray | None,
) -> dict[str, Measured]:
    """All measures of one network, by name."""
    found = {
        name: _alone(measure.of(gestalts))
        for name, measure in asked.items()
        if measure.reads == "gestalt"
    }
    others = {name: measure for name, measure in asked.items() if name not in found}
    if others and ensemble is None:
        logits = logits_of(network, gestalts, network.last_layer().values.astype(np.float64))
        found |= {name: _alone(measure.of(logits)) for name, measure in others.items()}
    elif others:
        assert ensemble is not None
        chunks = []
        for i in range(0, len(gestalts), CHUNK):
            logits = logits_of(network, gestalts[i : i + CHUNK], ensemble)
            chunks.append(of_particles(others, logits))
        for name in others:
            parts = zip(*(chunk[name] for chunk in chunks), strict=True)
            found[name] = Measured(*map(np.concatenate, parts))
    return found


def _alone(value: np.ndarray) -> Measured:
    nothing = np.full_like(value, np.nan)
    return Measured(value, nothing, nothing)


def _rows(
    suites: Sequence[Suite],
    heard: Sequence[Utterance],
    found: Measured,
) -> list[dict[str, object]]:
    number = {utterance: n for n, utterance in enumerate(heard)}
    return [
        {
            "suite": suite.name,
            "condition": condition,
            "item": item,
            "position": t + 1,
            "word": word,
            "critical": t + 1 == row.critical,
            "value": found.value[number[row.utterance], t],
            "low": found.low[number[row.utterance], t],
            "high": found.high[number[row.utterance], t],
        }
        for suite in suites
        for (condition, item), row in suite.rows.items()
        for t, word in enumerate(row.utterance.words)
    ]
