"""The table of words: a row for each network, sentence and word, with a column for each measure.

All distinct sentences of a world are processed together, whatever paradigms they belong to.

Beliefs are those of particles of the posterior over the last layer, of which each is a comprehender
(`equivocal.measuring.readings`), or those of the trained last layer, as of a single particle.
Surprise and uncertainty are those of the mean belief E[y] over particles, which is the ensemble's
prediction: KL(E[y_t] ‖ E[y_{t−1}]) and H(E[y_t]). The epistemic part of the latter is
H(E[y_t]) − E[H(y_t)]; `between_networks` is the same over networks in place of particles.

Beliefs in fillers are about the reading that an item gives under `roles`, or else about the literal
one (`find_said_roles`); a filler is recognised by the unit of its own.

The measures themselves are in `equivocal.measuring.measures`.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.special import expit, log_expit, logsumexp

from equivocal.measuring.exact import Warrant, measure_exactly
from equivocal.measuring.measures import (
    KEYS,
    MEASURES,
    compute_bayesian_surprise,
    compute_semantic_update,
    compute_uncertainty,
    compute_unit_divergence,
)
from equivocal.measuring.paradigms import Paradigm
from equivocal.network import Network, SentenceGestalt
from equivocal.world import Utterance, World
from equivocal.world.grammar import name_role_unit
from equivocal.world.hearing import find_said_roles
from equivocal.world.items import Item
from lastlayer.errors import UserError

CHUNK = 16  # sentences per batch; bounds the memory for the beliefs of all particles


class Sentence(NamedTuple):
    """What is measured once, however many items and paradigms have it."""

    utterance: Utterance
    roles: tuple[tuple[str, str], ...]  # given by the item: role, word


def measure_words(
    networks: Sequence[Network],
    paradigms: Sequence[Paradigm],
    layers: Sequence[np.ndarray] | None = None,
    literal: Sequence[Network] | None = None,
    warrant: Warrant | None = None,
) -> pd.DataFrame:
    """Measure every word of every item with trained networks.

    Parameters
    ----------
    networks : sequence of Network
        Trained in the paradigms' world.
    paradigms : sequence of Paradigm
        The sentences to measure.
    layers : sequence of array (units, particles, features), optional
        The last layers of each network whose beliefs are measured; by default the trained one.
    literal : sequence of Network, optional
        As many networks trained in the same world without its noise, for the column `p600`.
    warrant : callable, optional
        `measuring.exact.build_warrant` of their corpus, for the columns `warranted_belief_…`.

    Returns
    -------
    DataFrame
        `KEYS`, `MEASURES`, and beliefs in the filler of each role and in the whole reading, with
        their exact counterparts (`describe_columns` explains all). NaN where a measure has no
        value, such as `epistemic` of a single last layer.

    Raises
    ------
    UserError
        For a paradigm of another world.
    """
    world = networks[0].world
    for paradigm in paradigms:
        if paradigm.world.fingerprint != world.fingerprint:
            raise UserError(
                f"{paradigm.name!r} is of world {paradigm.world.name!r}, the networks of "
                f"{world.name!r}; measure it with networks of its own world."
            )
    number = {one: n for n, one in enumerate(dict.fromkeys(map(_describe, _list_items(paradigms))))}
    tokens, words = _encode(world, list(number)), pd.DataFrame(_list_words(paradigms, number))
    literally = [_find_literal_roles(world, sentence) for sentence in number]
    at = words.pop("sentence"), words["position"] - 1
    known = {
        name: values[at]
        for name, values in _measure_exactly(world, number, literally, tokens, warrant).items()
    }
    parts, beliefs = [], []
    for n, network in enumerate(networks):
        layer = network.last_layer().values.astype(np.float64)[:, None]
        used = layer if layers is None else layers[n]
        measured, mean = _measure_network(network, tokens, used, [roles[-1] for roles in literally])
        beliefs.append(mean)
        ours = compute_trained_logits(network, tokens)
        theirs = (
            _fill_literal_logits(world, ours, literally)
            if literal is None
            else compute_trained_logits(literal[n], tokens)
        )
        measured["p600"] = compute_unit_divergence(ours, theirs)
        columns = {name: values[at] for name, values in measured.items()}
        parts.append(words.assign(network=n, **columns, **known))
    between = _measure_between(np.stack(beliefs))[at]
    table = pd.concat([part.assign(between_networks=between) for part in parts], ignore_index=True)
    kept = [name for name in (*KEYS, *MEASURES) if name in table]
    believed = [name for name in table if name not in kept]
    return table[[*kept, *(name for name in believed if table[name].notna().any())]]


def _measure_exactly(
    world: World,
    sentences: Iterable[Sentence],
    literally: Sequence[Sequence[dict[int, int]]],
    tokens: np.ndarray,
    warrant: Warrant | None,
) -> dict[str, np.ndarray]:
    """Return the measures that are the same for all networks, each (sentences, words)."""
    measures: dict[str, np.ndarray] = {}
    for number, (sentence, roles) in enumerate(zip(sentences, literally, strict=True)):
        asked = sentence.utterance, _name_roles(world, roles[-1])
        found = measure_exactly(world, *asked) | (warrant(*asked) if warrant else {})
        for name, values in found.items():
            rows = measures.setdefault(name, np.full(tokens.shape[:2], np.nan))
            rows[number, : len(values)] = values
    return measures


def _list_items(paradigms: Sequence[Paradigm]) -> Iterator[Item]:
    return (row for paradigm in paradigms for row in paradigm.rows.values())


def _describe(item: Item) -> Sentence:
    return Sentence(item.utterance, tuple(item.roles.items()))


def _encode(world: World, sentences: Sequence[Sentence]) -> np.ndarray:
    """Encode sentences as (sentences, longest, 2); shorter ones are padded with −1, no token."""
    longest = max(len(sentence.utterance) for sentence in sentences)
    tokens = np.full((len(sentences), longest, 2), -1, np.int32)
    for number, (utterance, _) in enumerate(sentences):
        tokens[number, : len(utterance)] = world.encode(utterance)
    return tokens


def _list_words(
    paradigms: Sequence[Paradigm], number: dict[Sentence, int]
) -> Iterator[dict[str, object]]:
    """Yield every word of every item, with the number of its sentence."""
    for paradigm in paradigms:
        for (condition, item), row in paradigm.rows.items():
            about = {"paradigm": paradigm.name, "condition": condition, "item": item}
            for position, part in enumerate(row.utterance, start=1):
                yield about | {
                    "position": position,
                    "word": part.read or part.text,
                    "constituent": "+".join(part.tokens),
                    "critical": position == row.critical,
                    "sentence": number[_describe(row)],
                }


def _find_literal_roles(world: World, sentence: Sentence) -> list[dict[int, int]]:
    """Return the role and the number of every word heard so far, after each constituent."""
    tokens = world.encode(sentence.utterance)
    if not sentence.roles:
        return [find_said_roles(world.grammar, tokens[:k]) for k in range(1, len(tokens) + 1)]
    words = world.lexicon.words
    roles = {world.roles.index(role): words.index(word) for role, word in sentence.roles}
    heard = [set(tokens[:k, 0].tolist()) for k in range(1, len(tokens))]
    return [{r: w for r, w in roles.items() if w in before} for before in heard] + [roles]


def _name_roles(world: World, roles: dict[int, int]) -> dict[str, str]:
    return {world.roles[role]: world.lexicon.words[word] for role, word in roles.items()}


def _fill_literal_logits(
    world: World, logits: np.ndarray, literally: Sequence[Sequence[dict[int, int]]]
) -> np.ndarray:
    """Return the logits of a literal reader: ±∞ for roles heard, those given for others.

    Features that a construction adds are left as they are. NaN where no role has been heard.
    """
    filled, features = logits.copy(), world.lexicon.features
    of_words = features.any(axis=0)
    for number, places in enumerate(literally):
        for place, roles in enumerate(places):
            if not roles:
                filled[number, place] = np.nan
            for role, word in roles.items():
                said = np.where(features[word], np.inf, -np.inf)
                filled[number, place, role, of_words] = said[of_words]
    return filled


def _measure_network(
    network: Network,
    tokens: np.ndarray,
    layers: np.ndarray,
    readings: Sequence[dict[int, int]],
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Compute the measures of one network, each (sentences, words), and its mean beliefs."""
    gestalts, world = hear(network.model, tokens), network.world
    names = [*world.roles, "reading"]
    believed = {f"belief_{name}": np.full(tokens.shape[:2], np.nan) for name in names}
    parts = []
    for start in range(0, len(gestalts), CHUNK):
        logits = compute_logits(network, gestalts[start : start + CHUNK], layers)
        mean = average_beliefs(logits)
        total, expected = compute_uncertainty(mean), compute_uncertainty(logits).mean(axis=0)
        epistemic = (
            np.maximum(total - expected, 0) if len(logits) > 1 else np.full_like(total, np.nan)
        )
        parts.append((compute_bayesian_surprise(mean), total, epistemic, mean))
        for number, roles in enumerate(readings[start : start + CHUNK], start=start):
            if roles:
                units = [
                    world.lexicon.find_word_unit(world.lexicon.words[w]) for w in roles.values()
                ]
                each = expit(logits[:, number - start][:, :, [*roles], units])
                believed["belief_reading"][number] = each.prod(axis=-1).mean(axis=0)
                for place, role in enumerate(roles):
                    believed[f"belief_{world.roles[role]}"][number] = each[..., place].mean(axis=0)
    surprise, uncertainty, epistemic, mean = map(np.concatenate, zip(*parts, strict=True))
    return {
        "semantic_update": compute_semantic_update(gestalts),
        "bayesian_surprise": surprise,
        "uncertainty": uncertainty,
        "epistemic": epistemic,
        **believed,
    }, mean


def _measure_between(beliefs: np.ndarray) -> np.ndarray:
    """Compute the uncertainty between networks, from logits (networks, sentences, words, …)."""
    if len(beliefs) == 1:
        return np.full(beliefs.shape[1:3], np.nan)
    total = compute_uncertainty(average_beliefs(beliefs))
    return np.asarray(np.maximum(total - compute_uncertainty(beliefs).mean(axis=0), 0))


def average_beliefs(
    logits: Float[np.ndarray, "particles *others words roles units"],
) -> Float[np.ndarray, "*others words roles units"]:
    """Return the logit of E[σ(a)], without loss of precision where all particles are certain."""
    a = np.asarray(logits, np.float64)
    return np.asarray(logsumexp(log_expit(a), axis=0) - logsumexp(log_expit(-a), axis=0))


def hear(model: SentenceGestalt, tokens: np.ndarray) -> np.ndarray:
    """Return the gestalt after each word, from silence: (sentences, words, gestalt)."""
    heard = jax.vmap(model.listen)(jnp.asarray(tokens))
    return np.asarray(heard, np.float64)


def compute_trained_logits(network: Network, tokens: np.ndarray) -> np.ndarray:
    """Return a trained network's logits about every role: (sentences, words, roles, units)."""
    layer = network.last_layer().values.astype(np.float64)[:, None]
    return np.asarray(compute_logits(network, hear(network.model, tokens), layer)[0])


def compute_logits(network: Network, gestalts: np.ndarray, layers: np.ndarray) -> np.ndarray:
    """Return logits about every role, (particles, sentences, words, roles, units), of last layers.

    `layers` are (units, particles, features).
    """
    psi = _compute_features(network, gestalts)
    K, J, D = layers.shape
    logits = (psi @ layers.reshape(K * J, D).T).reshape(*psi.shape[:-1], K, J)
    return np.asarray(np.moveaxis(logits, -1, 0))


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
