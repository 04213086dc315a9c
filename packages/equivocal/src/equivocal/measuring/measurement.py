"""Suites measured with trained networks: a row for each network, sentence, word and measure.

All distinct sentences of a world are processed together, whatever suites they belong to. `value` is
the measure; if it is computed from particles of a posterior, `low` and `high` are a 95 % interval
over them. With `by_role` the surprise is also computed for each role alone, as
`bayesian_surprise_ROLE`; these sum to `bayesian_surprise`.

Particles of a posterior are sampled once and stored. The prior is centred on the trained weights
and the rows are those of training, as everywhere (`equivocal.beliefs`). With particles, the
value, low and high end of a measure are:

surprise, entropy    value: that of the mean belief E[y] over particles, the ensemble's prediction:
                     KL(E[y_t] ‖ E[y_{t−1}]) and H(E[y_{t−1}]) − H(E[y_t]).
                     low, high: contain 95 % of the particles' own values. The divergence is convex,
                     so the value is at most their mean, and may be below low.
epistemic share      defined for all particles together; see `estimate_share_interval`

A new measure belongs in `equivocal.measuring.word_measures`, not here.
"""

import hashlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.special import log_expit, logsumexp

from equivocal.beliefs import SamplerSettings, collect_last_layer, infer_posterior
from equivocal.measuring.suite import Suite
from equivocal.measuring.word_measures import (
    MEASURES,
    WordMeasure,
    check_measures,
    compute_surprise_by_role,
    estimate_share_interval,
)
from equivocal.network import Network, Run, SentenceGestalt
from equivocal.network.storage import name_arrays
from equivocal.store.store import NETWORK_CODE, POSTERIOR_CODE, Store, hash_content
from equivocal.world import Utterance, World, name_role_unit
from lastlayer import Posterior
from lastlayer.errors import UserError, join_names

__all__ = ["ROWS", "SAMPLER", "SURPRISE", "VARIANCE", "choose_measures", "sample_particles"]

INTERVAL = (0.025, 0.975)
VARIANCE = 1.0  # the paper's central prior
ROWS = "every word"
# what posteriors and readings depend on; items are in their keys
SUITE_CODE = (
    *POSTERIOR_CODE,
    *(
        f"equivocal/measuring/{name}.py"
        for name in ("measurement", "reading", "suite", "word_measures")
    ),
)
SAMPLER = SamplerSettings(method="exact-flow", num_particles=64, tolerance=0.01)


class MeasuredWords(NamedTuple):
    """One measure of one network; each array is (sentences, words)."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray


def hash_network(run: Run, index: int) -> str:
    """Return a hash of a network's weights and of all that its corpus depends on."""
    weights = hashlib.sha256()
    for array in name_arrays(run.models[index]).values():
        weights.update(np.asarray(array).tobytes())
    return hash_content(
        weights.hexdigest(), run.world.fingerprint, asdict(run.settings), code=NETWORK_CODE
    )


def sample_particles(
    run: Run, index: int, store: Store, sampler: SamplerSettings = SAMPLER
) -> np.ndarray:
    """Load the particles of a network's posterior from a store, or sample them into it.

    Parameters
    ----------
    run : Run
        The training run.
    index : int
        Which of its networks.
    store : Store
        Stores the posterior as posteriors/WORLD/NN.safetensors.
    sampler : SamplerSettings
        The sampler; a stored posterior of another one is not used.

    Returns
    -------
    array (units, particles, features)
        Last layers, each of a simulated comprehender. A sampler that did not converge is warned of.
    """
    name = f"posteriors/{run.world.name}/{index:02d}"
    posterior = store.load_or_make(
        name,
        hash_content(
            hash_network(run, index), sampler.model_dump(), VARIANCE, ROWS, code=SUITE_CODE
        ),
        ".safetensors",
        load=Posterior.load,
        make=lambda: infer_posterior(
            collect_last_layer(run, run.networks[index], ROWS),
            sampler,
            VARIANCE,
            run.settings.seed + index,
        ),
        save=Posterior.save,
    )
    if not posterior.info.converged:
        what = "diverged" if posterior.info.diverged.any() else "did not converge"
        warnings.warn(
            f"the posterior of network {index} {what} ({store.folder / name}); interpret "
            "results that depend on it with care.",
            stacklevel=2,
        )
    return np.asarray(posterior.particles, np.float32)


def measure_particles(
    measures: dict[str, WordMeasure],
    logits: Float[np.ndarray, "particles *others words roles units"],
) -> dict[str, MeasuredWords]:
    """Compute measures of beliefs or of an ensemble from particles (see the top of this module)."""
    found = {}
    if any(measure.reads == "beliefs" for measure in measures.values()):
        mean = _average_beliefs(logits)
    for name, measure in measures.items():
        if measure.reads == "beliefs":
            low, high = np.quantile(measure.of(logits), INTERVAL, axis=0)
            found[name] = MeasuredWords(measure.of(mean), low, high)
        else:
            found[name] = MeasuredWords(measure.of(logits), *estimate_share_interval(logits))
    return found


def _average_beliefs(logits: np.ndarray) -> np.ndarray:
    """Return the logit of E[σ(a)], without loss of precision where all particles are certain."""
    a = np.asarray(logits, np.float64)
    yes, no = logsumexp(log_expit(a), axis=0), logsumexp(log_expit(-a), axis=0)
    return np.asarray(yes - no)


CHUNK = 16  # sentences per batch; bounds the memory for the beliefs of all particles
SURPRISE = "bayesian_surprise"  # the measure that can be split by role
Particles = Callable[[int], np.ndarray]  # given n, the particles of network n: (units, J, D)


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
        The sentences to measure.
    measures : sequence of str
        Names in `equivocal.measuring.word_measures.MEASURES`.
    particles : callable, optional
        Given n, returns the last layers (units, particles, features) of network n, whose beliefs
        are then measured; by default those of the trained last layer are.
    by_role : bool
        Whether the surprise, where it is measured, is followed by that of each role.

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
    for suite in suites:
        if suite.world.fingerprint != world.fingerprint:
            raise UserError(
                f"suite {suite.name!r} is of world {suite.world.name!r}, the networks of "
                f"{world.name!r}; train networks in the suite's world."
            )
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


def choose_measures(measures: Sequence[str], roles: Sequence[str]) -> dict[str, WordMeasure]:
    """Return measures by name, in order, the surprise followed by that of each of `roles`."""
    chosen: dict[str, WordMeasure] = {}
    for name in measures:
        chosen[name] = MEASURES[name]
        for number, role in enumerate(roles if name == SURPRISE else ()):
            about = partial(_measure_surprise, number)
            chosen[f"{SURPRISE}_{role}"] = replace(MEASURES[name], of=about)
    return chosen


def _measure_surprise(role: int, logits: np.ndarray) -> np.ndarray:
    """Compute the surprise of one role, given by its number."""
    return np.asarray(compute_surprise_by_role(logits)[..., role])


def _encode(world: World, heard: Sequence[Utterance]) -> np.ndarray:
    """Encode sentences as (sentences, longest, 2); shorter ones are padded with −1, no token."""
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
        return np.asarray(psi @ last_layer.T)
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
    """Return a measure whose interval is NaN."""
    nothing = np.full_like(value, np.nan)
    return MeasuredWords(value, nothing, nothing)
