"""Posteriors over the last layer, the query network, or the whole network.

    "last"    C, b₄                     the paper's: K logistic regressions on fixed features
    "query"   A, B, b₃, C, b₄           what answers a question; listening stays as trained
    "all"     and W, V, b₁, U, b₂       the whole network

(letters of `gestalt.network`). The first goes through `sample_posterior`; the others through
`sample_network`, with the last layer as a part that is read by single outputs and each hidden layer
cut into `cuts` parts, unit by unit, so that the weights into one unit stay together. The prior is
about the trained weights, with one variance for all of them.
"""

from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
import xarray as xr
from jax.tree_util import Partial
from jaxtyping import Array, Float, Int

from equivocal.errors import UserError, did_you_mean, join_names
from equivocal.gestalt import Network, QueryNetwork, SentenceGestalt, features
from equivocal.gestalt.questions import Level, collect_questions, compute_gestalts
from equivocal.sampling import sample_network, sample_posterior
from equivocal.uncertainty.comprehenders import Comprehenders, shared_by, with_last_layers
from equivocal.world import Corpus

__all__ = ["LAYERS", "PARTICLES", "check_layers", "posterior_of"]

LAYERS = ("last", "query", "all")
PARTICLES = 104  # more than the 101 weights of an output of the paper's network
CUTS = 1
T = TypeVar("T")


class _Sampled(NamedTuple):
    models: SentenceGestalt
    passes: int
    message: str
    converged: bool


def posterior_of(
    network: Network,
    corpus: Corpus,
    layers: str = "last",
    *,
    prior_variance: float = 1.0,
    num_particles: int = PARTICLES,
    cuts: int = CUTS,
    num_steps: int | None = None,
    tolerance: float = 0.05,
    seed: int = 0,
) -> Comprehenders:
    """Comprehenders from the posterior of one network, given what it was taught."""
    check_layers(layers)
    hidden = network.model.query.output_weight.shape[0]
    if not isinstance(cuts, int) or not 1 <= cuts <= hidden:
        raise UserError(f"cuts must be a whole number from 1 to {hidden}, got {cuts!r}.")
    began = perf_counter()
    asked = features(network, corpus)
    how: dict[str, Any] = {
        "counts": asked["counts"].values,
        "prior_variance": prior_variance,
        "num_particles": num_particles,
        "tolerance": tolerance,
        "seed": seed,
        **({} if num_steps is None else {"num_steps": num_steps}),
    }
    if layers == "last":
        found = _of_last_layer(network, asked, how)
    else:
        found = _of_network(network, corpus, asked["targets"].values, layers, cuts, how)
    return Comprehenders(
        kind=layers,
        models=found.models,
        world=network.world,
        seconds=perf_counter() - began,
        passes=found.passes,
        message=found.message,
        converged=found.converged,
    )


def _of_last_layer(network: Network, asked: xr.Dataset, how: dict[str, Any]) -> _Sampled:
    posterior = sample_posterior(
        asked["features"].values,
        asked["targets"].values,
        prior_mean=network.last_layer().values,
        **how,
    )
    models, info = with_last_layers(network.model, posterior.particles), posterior.info
    return _Sampled(models, 1, info.message, info.converged)


def _of_network(
    network: Network,
    corpus: Corpus,
    targets: np.ndarray,
    layers: str,
    cuts: int,
    how: dict[str, Any],
) -> _Sampled:
    model = network.model
    found = sample_network(
        *_as_function(model, corpus, layers),
        targets,
        _flat(model.query if layers == "query" else model),
        parts=_parts(model, layers, cuts),
        **how,
    )
    models, info = _with_weights_of(model, found.particles, layers), found.info
    return _Sampled(models, info.forward_passes, info.message, info.converged)


def check_layers(layers: object) -> None:
    """One of the three names."""
    if layers not in LAYERS:
        hint = did_you_mean(str(layers), LAYERS) or "."
        raise UserError(f"layers must be one of {join_names(LAYERS)}, got {layers!r}{hint}")


def _with_weights_of(
    model: SentenceGestalt, particles: Float[np.ndarray, "M D"], layers: str
) -> SentenceGestalt:
    if layers == "all":
        return _shaped(model, particles)
    update = shared_by(model, len(particles)).update
    return SentenceGestalt(update, _shaped(model.query, particles))


def _flat(tree: QueryNetwork | SentenceGestalt) -> Float[np.ndarray, " D"]:
    return np.concatenate([np.asarray(leaf).ravel() for leaf in jax.tree.leaves(tree)])


def _shaped(like: T, weights: Float[Array, "*M D"] | Float[np.ndarray, "*M D"]) -> T:
    """The reverse of `_flat`; with members in front where there are."""
    leaves, structure = jax.tree.flatten(like)
    ends = np.cumsum([leaf.size for leaf in leaves])
    cut = [
        weights[..., end - leaf.size : end].reshape(*weights.shape[:-1], *leaf.shape)
        for leaf, end in zip(leaves, ends, strict=True)
    ]
    shaped: T = jax.tree.unflatten(structure, cut)
    return shaped


Inputs = dict[str, Int[Array, " rows"]]


def _as_function(
    model: SentenceGestalt, corpus: Corpus, layers: str
) -> tuple[Callable[[Array, Inputs], Array], Inputs]:
    """The network as a function of some of its weights, and the rows it is asked about."""
    questions = collect_questions(corpus)
    asked = np.flatnonzero(corpus.queries.weight > 0)
    inputs = {"node": questions.node[asked], "probe": questions.probe[asked]}
    if layers == "all":
        given = (model, questions.levels, questions.probes)
        return _partial(_logits_of_all, *given), inputs
    heard = compute_gestalts(model, questions.levels)
    return _partial(_logits_of_query, model.query, heard, questions.probes), inputs


def _partial(function: Callable[..., Array], *given: Any) -> Callable[[Array, Inputs], Array]:
    """With arrays that JAX sees as arguments, so that another network compiles nothing anew."""
    made: Callable[[Array, Inputs], Array] = Partial(function, *given)  # type: ignore[no-untyped-call]
    return made


def _logits_of_query(
    query: QueryNetwork, heard: Array, probes: Array, weights: Array, inputs: Inputs
) -> Array:
    query = _shaped(query, weights)
    return query.logits(query.features(heard, probes, inputs["node"], inputs["probe"]))


def _logits_of_all(
    model: SentenceGestalt,
    levels: tuple[Level, ...],
    probes: Array,
    weights: Array,
    inputs: Inputs,
) -> Array:
    model = _shaped(model, weights)
    heard = compute_gestalts(model, levels)
    query = model.query
    return query.logits(query.features(heard, probes, inputs["node"], inputs["probe"]))


def _parts(model: SentenceGestalt, layers: str, cuts: int) -> list[np.ndarray]:
    """Places of weights: the last layer by output, hidden layers by groups of units."""
    tree = model.query if layers == "query" else model
    at = _shaped(tree, np.arange(len(_flat(tree))))
    query = at.query if isinstance(at, SentenceGestalt) else at
    into: list[tuple[Array, ...]] = [
        (query.gestalt_weight, query.probe_weight, query.hidden_bias[None])
    ]
    if isinstance(at, SentenceGestalt):
        update = at.update
        into.append((update.token_weight, update.recurrent_weight, update.hidden_bias[None]))
        into.append((update.gestalt_weight, update.gestalt_bias[None]))
    units = [np.concatenate(arrays).T for arrays in into]  # a row for each hidden unit
    last = np.concatenate([query.output_weight, query.output_bias[None]]).T
    return [last, *(part.ravel() for rows in units for part in np.array_split(rows, cuts))]
