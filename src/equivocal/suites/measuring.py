"""Suites heard by trained networks: a row for each network, sentence, word and measure.

All distinct sentences of a world are heard at once, whatever suites they belong to. `value` is the
measure; where an ensemble of last layers stands behind it, `low` and `high` are a 95 % interval
over its particles. For what each particle has of its own (surprise, entropy) `value` is their mean
and the interval their spread; for what belongs to them together (epistemic share) the interval is
`epistemic_share_interval`.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from equivocal.errors import UserError, listed
from equivocal.gestalt import Network, SentenceGestalt
from equivocal.study.word_measures import (
    MEASURES,
    WordMeasure,
    check_measures,
    epistemic_share_interval,
)
from equivocal.suites.suite import Suite
from equivocal.world import Utterance, World, role_unit

__all__ = ["INTERVAL", "hear", "logits_of", "measure_words"]

INTERVAL = (0.025, 0.975)
CHUNK = 16  # sentences whose beliefs are held at once for all particles
Particles = Callable[[int], np.ndarray]  # of network n: (units, J, D)


def measure_words(
    networks: Sequence[Network],
    suites: Sequence[Suite],
    measures: Sequence[str],
    particles: Particles | None = None,
) -> pd.DataFrame:
    """suite, condition, item, position, word, critical, network, measure, value, low, high.

    The suites are of the networks' world. Without `particles` beliefs are those of the trained
    last layer, and measures of an ensemble cannot be asked for.
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
        raise UserError(f"{listed(lacking)} is of an ensemble of last layers; give particles=.")
    heard = list(dict.fromkeys(row.utterance for suite in suites for row in suite.rows.values()))
    tokens = _tokens(world, heard)
    parts = []
    for n, network in enumerate(networks):
        ensemble = None if particles is None else particles(n)
        gestalts = hear(network.model, tokens)
        for name in measures:
            value, low, high = _measured(network, gestalts, MEASURES[name], ensemble)
            found = pd.DataFrame(_rows(suites, heard, value, low, high))
            parts.append(found.assign(network=n, measure=name))
    columns = ["suite", "condition", "item", "position", "word", "critical", "network", "measure"]
    return pd.concat(parts, ignore_index=True)[[*columns, "value", "low", "high"]]


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
    measure: WordMeasure,
    ensemble: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Value, low and high, each (sentences, words)."""
    if measure.reads == "gestalt" or ensemble is None:
        inputs = gestalts
        if measure.reads != "gestalt":
            inputs = logits_of(network, gestalts, network.last_layer().values.astype(np.float64))
        value = measure.of(inputs)
        nothing = np.full_like(value, np.nan)
        return value, nothing, nothing
    parts = [
        _of_ensemble(measure, logits_of(network, gestalts[i : i + CHUNK], ensemble))
        for i in range(0, len(gestalts), CHUNK)
    ]
    value, low, high = (np.concatenate(part) for part in zip(*parts, strict=True))
    return value, low, high


def _of_ensemble(
    measure: WordMeasure, logits: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if measure.reads == "beliefs":
        own = measure.of(logits)
        low, high = np.quantile(own, INTERVAL, axis=0)
        return own.mean(axis=0), low, high
    return measure.of(logits), *epistemic_share_interval(logits)


def _rows(
    suites: Sequence[Suite],
    heard: Sequence[Utterance],
    value: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
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
            "value": value[number[row.utterance], t],
            "low": low[number[row.utterance], t],
            "high": high[number[row.utterance], t],
        }
        for suite in suites
        for (condition, item), row in suite.rows.items()
        for t, word in enumerate(row.utterance.words)
    ]
