"""Suites heard by trained networks: a row for each network, sentence, word and measure.

All distinct sentences of a world are heard at once, whatever suites they belong to. `value` is the
measure; where particles of a posterior are behind it, `low` and `high` are a 95 % interval over
them (`equivocal.suites.particles`). By role, the surprise is also computed about each role alone:
`bayesian_surprise_ROLE`, which sum to `bayesian_surprise`.
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
from equivocal.study.word_measures import MEASURES, WordMeasure, check_measures, surprise_by_role
from equivocal.suites.particles import MeasuredWords, measure_particles
from equivocal.suites.suite import Suite
from equivocal.world import Utterance, World, name_role_unit

__all__ = ["SURPRISE", "choose_measures", "compute_logits", "hear", "measure_words"]

CHUNK = 16  # sentences whose beliefs are held at once for all particles
SURPRISE = "bayesian_surprise"  # the measure that can be split by role
Particles = Callable[[int], np.ndarray]  # of network n: (units, J, D)


def measure_words(
    networks: Sequence[Network],
    suites: Sequence[Suite],
    measures: Sequence[str],
    particles: Particles | None = None,
    *,
    by_role: bool = False,
) -> pd.DataFrame:
    """Measure every word of suites with trained networks.

    Parameters
    ----------
    networks : sequence of Network
        Trained in the suites' world.
    suites : sequence of Suite
        What they hear.
    measures : sequence of str
        Names in `equivocal.study.word_measures.MEASURES`.
    particles : callable, optional
        Gives the last layers (units, particles, features) of network n, whose beliefs are then
        measured. Without it beliefs are those of the trained last layer.
    by_role : bool
        Whether the surprise, where it is measured, is followed by that about each role.

    Returns
    -------
    DataFrame
        suite, condition, item, position, word, critical, network, measure, value, low, high.

    Raises
    ------
    UserError
        For an unknown measure, a suite of another world, or a measure that needs particles.
    """
    check_measures(measures)
    world = networks[0].world
    _check_worlds(suites, world)
    lacking = [name for name in measures if MEASURES[name].reads == "ensemble"]
    if lacking and particles is None:
        raise UserError(
            f"{join_names(lacking)} needs particles of a posterior; give them as particles=."
        )
    heard = list(dict.fromkeys(row.utterance for suite in suites for row in suite.rows.values()))
    tokens, words = _encode(world, heard), _list_words(suites, heard)
    at = words.pop("sentence"), words["position"] - 1
    asked, parts = choose_measures(measures, world.roles if by_role else ()), []
    for n, network in enumerate(networks):
        ensemble = None if particles is None else particles(n)
        measured = _measure_network(network, hear(network.model, tokens), asked, ensemble)
        for name in asked:
            columns = {k: v[at] for k, v in measured[name]._asdict().items()}
            parts.append(words.assign(network=n, measure=name, **columns))
    return pd.concat(parts, ignore_index=True)


def _check_worlds(suites: Sequence[Suite], world: World) -> None:
    for suite in suites:
        if suite.world.fingerprint != world.fingerprint:
            raise UserError(
                f"suite {suite.name!r} is of world {suite.world.name!r}, the networks of "
                f"{world.name!r}; train networks in the suite's world."
            )


def choose_measures(measures: Sequence[str], roles: Sequence[str]) -> dict[str, WordMeasure]:
    """Return measures by name, in order, the surprise followed by that about each of `roles`."""
    chosen: dict[str, WordMeasure] = {}
    for name in measures:
        chosen[name] = MEASURES[name]
        if name == SURPRISE:
            for number, role in enumerate(roles):
                about = partial(_measure_surprise, number)
                chosen[f"{SURPRISE}_{role}"] = replace(MEASURES[name], of=about)
    return chosen


def _measure_surprise(role: int, logits: np.ndarray) -> np.ndarray:
    found: np.ndarray = surprise_by_role(logits)[..., role]
    return found


def _encode(world: World, heard: Sequence[Utterance]) -> np.ndarray:
    """Encode sentences as (sentences, longest, 2); −1, no token, fills the shorter ones."""
    tokens = np.full((len(heard), max(map(len, heard)), 2), -1, np.int32)
    for number, utterance in enumerate(heard):
        tokens[number, : len(utterance)] = world.encode(utterance)
    return tokens


def _list_words(suites: Sequence[Suite], heard: Sequence[Utterance]) -> pd.DataFrame:
    """List every word of every item, with the number of its sentence among those `heard`."""
    number = {utterance: n for n, utterance in enumerate(heard)}
    return pd.DataFrame(
        {
            "suite": suite.name,
            "condition": condition,
            "item": item,
            "position": position,
            "word": word,
            "critical": position == row.critical,
            "sentence": number[row.utterance],
        }
        for suite in suites
        for (condition, item), row in suite.rows.items()
        for position, word in enumerate(row.utterance.words, start=1)
    )


def hear(model: SentenceGestalt, tokens: np.ndarray) -> np.ndarray:
    """Return the gestalt after each word, from silence: (sentences, words, gestalt)."""
    heard = jax.vmap(model.listen)(jnp.asarray(tokens))
    return np.asarray(heard, np.float64)


def compute_logits(network: Network, gestalts: np.ndarray, last_layer: np.ndarray) -> np.ndarray:
    """Return beliefs about every role, (sentences, words, roles, units), under a last layer.

    With particles (units, J, D) in place of a last layer (units, D) they come first: (J, …).
    """
    psi = _compute_features(network, gestalts)
    if last_layer.ndim == 2:
        found: np.ndarray = psi @ last_layer.T
        return found
    K, J, D = last_layer.shape
    logits = (psi @ last_layer.reshape(K * J, D).T).reshape(*psi.shape[:-1], K, J)
    return np.moveaxis(logits, -1, 0)


def _compute_features(network: Network, gestalts: np.ndarray) -> np.ndarray:
    """Return (ψ, 1), the input of the last layer: (sentences, words, roles, D)."""
    world, query = network.world, network.model.query
    probes = np.stack([world.lexicon.mark_units((name_role_unit(role),)) for role in world.roles])
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


def _measure_network(
    network: Network,
    gestalts: np.ndarray,
    asked: dict[str, WordMeasure],
    ensemble: np.ndarray | None,
) -> dict[str, MeasuredWords]:
    """Compute all measures of one network, by name."""
    plain = {name: m for name, m in asked.items() if m.reads == "gestalt"}
    others = {name: m for name, m in asked.items() if name not in plain}
    found = {name: _add_no_interval(m.of(gestalts)) for name, m in plain.items()}
    if others and ensemble is None:
        logits = compute_logits(network, gestalts, network.last_layer().values.astype(np.float64))
        found |= {name: _add_no_interval(m.of(logits)) for name, m in others.items()}
    elif others and ensemble is not None:
        chunks = [
            measure_particles(others, compute_logits(network, gestalts[i : i + CHUNK], ensemble))
            for i in range(0, len(gestalts), CHUNK)
        ]
        for name in others:
            parts = zip(*(chunk[name] for chunk in chunks), strict=True)
            found[name] = MeasuredWords(*map(np.concatenate, parts))
    return found


def _add_no_interval(value: np.ndarray) -> MeasuredWords:
    nothing = np.full_like(value, np.nan)
    return MeasuredWords(value, nothing, nothing)
