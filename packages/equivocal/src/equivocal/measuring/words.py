"""The table of words: a row for each network, sentence and word, with a column for each measure.

All distinct sentences of a world are processed together, whatever paradigms they belong to.

Beliefs are those of particles of the posterior over the last layer, of which each is a comprehender
(`equivocal.measuring.particles`), or those of the trained last layer, as of a single particle.
Surprise and uncertainty are those of the mean belief E[y] over particles, which is the ensemble's
prediction: KL(E[y_t] ‖ E[y_{t−1}]) and H(E[y_t]). The epistemic part of the latter is
H(E[y_t]) − E[H(y_t)].

The measures themselves are in `equivocal.measuring.measures`.
"""

from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.special import log_expit, logsumexp

from equivocal.measuring.measures import (
    compute_bayesian_surprise,
    compute_semantic_update,
    compute_uncertainty,
    compute_unit_divergence,
    measure_exactly,
)
from equivocal.measuring.paradigms import Paradigm
from equivocal.network import Network, SentenceGestalt
from equivocal.world import Utterance, World, name_role_unit
from lastlayer.errors import UserError

CHUNK = 16  # sentences per batch; bounds the memory for the beliefs of all particles


def measure_words(
    networks: Sequence[Network],
    paradigms: Sequence[Paradigm],
    layers: Sequence[np.ndarray] | None = None,
    literal: Sequence[Network] | None = None,
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

    Returns
    -------
    DataFrame
        paradigm, condition, item, position, word (as written), constituent (as the network hears
        it), critical, network and a column for each of `MEASURES`. NaN where a measure has no
        value: `epistemic` of a single last layer, `p600` without literal networks.

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
    heard = list(dict.fromkeys(row.utterance for one in paradigms for row in one.rows.values()))
    tokens, words = _encode(world, heard), pd.DataFrame(_list_words(paradigms, heard))
    at = words.pop("sentence"), words["position"] - 1
    exact = [measure_exactly(world, utterance) for utterance in heard]
    known = {name: [exact[n][name][k] for n, k in zip(*at, strict=True)] for name in exact[0]}
    parts = []
    for n, network in enumerate(networks):
        measured = _measure_network(network, tokens, None if layers is None else layers[n])
        measured["p600"] = np.full(tokens.shape[:2], np.nan)
        if literal is not None:
            both = (compute_trained_logits(each, tokens) for each in (network, literal[n]))
            measured["p600"] = compute_unit_divergence(*both)
        columns = {name: values[at] for name, values in measured.items()}
        parts.append(words.assign(network=n, **columns, **known))
    return pd.concat(parts, ignore_index=True)


def _encode(world: World, heard: Sequence[Utterance]) -> np.ndarray:
    """Encode sentences as (sentences, longest, 2); shorter ones are padded with −1, no token."""
    tokens = np.full((len(heard), max(map(len, heard)), 2), -1, np.int32)
    for number, utterance in enumerate(heard):
        tokens[number, : len(utterance)] = world.encode(utterance)
    return tokens


def _list_words(
    paradigms: Sequence[Paradigm], heard: Sequence[Utterance]
) -> Iterator[dict[str, object]]:
    """Yield every word of every item, with the number of its sentence among those `heard`."""
    number = {utterance: n for n, utterance in enumerate(heard)}
    for paradigm in paradigms:
        for (condition, item), row in paradigm.rows.items():
            about = {"paradigm": paradigm.name, "condition": condition, "item": item}
            for position, part in enumerate(row.utterance, start=1):
                yield about | {
                    "position": position,
                    "word": part.text,
                    "constituent": "+".join(part.tokens),
                    "critical": position == row.critical,
                    "sentence": number[row.utterance],
                }


def _measure_network(
    network: Network, tokens: np.ndarray, layers: np.ndarray | None
) -> dict[str, np.ndarray]:
    """Compute the measures of one network, each (sentences, words)."""
    gestalts = hear(network.model, tokens)
    if layers is None:
        layers = network.last_layer().values.astype(np.float64)[:, None]
    parts = []
    for start in range(0, len(gestalts), CHUNK):
        logits = compute_logits(network, gestalts[start : start + CHUNK], layers)
        mean = average_beliefs(logits)
        total, expected = compute_uncertainty(mean), compute_uncertainty(logits).mean(axis=0)
        epistemic = (
            np.maximum(total - expected, 0) if len(logits) > 1 else np.full_like(total, np.nan)
        )
        parts.append((compute_bayesian_surprise(mean), total, epistemic))
    surprise, uncertainty, epistemic = map(np.concatenate, zip(*parts, strict=True))
    return {
        "semantic_update": compute_semantic_update(gestalts),
        "bayesian_surprise": surprise,
        "uncertainty": uncertainty,
        "epistemic": epistemic,
    }


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
