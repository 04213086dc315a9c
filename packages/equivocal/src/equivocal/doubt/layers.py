"""Posteriors over more layers than the last, by the network flow.

    "query"   A, B, b₃, C, b₄           the query network; the update network stays as trained
    "all"     and W, V, b₁, U, b₂       the whole network

(letters of `equivocal.network`). The last layer is a part whose weights affect single outputs, and
each hidden layer is a part of its own. The prior is centred on the trained weights, with one
variance for all of them.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.tree_util import Partial
from jaxtyping import Array, Float, Int

from equivocal.beliefs import collect_rows, infer_network_posterior
from equivocal.network import Network, SentenceGestalt
from equivocal.network.questions import Questions, collect_questions, compute_gestalts
from equivocal.network.sentence_gestalt import QueryNetwork
from equivocal.truth import PooledBeliefs, pool_members
from equivocal.world import Corpus
from lastlayer.network_flow import NetworkPosterior

__all__ = ["pool_networks", "sample_layers"]

LAYERS = ("query", "all")
T = TypeVar("T")
Inputs = dict[str, Int[Array, " rows"]]


def sample_layers(
    network: Network, corpus: Corpus, layers: str, prior_variance: float, seed: int, **how: Any
) -> NetworkPosterior:
    """Sample the weights of some layers, given the corpus that a network was trained on."""
    questions, asked = collect_questions(corpus), np.flatnonzero(corpus.queries.weight > 0)
    questions = questions._replace(node=questions.node[asked], probe=questions.probe[asked])
    return infer_network_posterior(
        collect_rows(network, corpus),
        *build_function(network.model, questions, layers),
        np.asarray(ravel_pytree(_select_weights(network.model, layers))[0]),
        cut_into_parts(network.model, layers),
        prior_variance,
        seed,
        **how,
    )


def pool_networks(
    network: Network,
    questions: Questions,
    units: Sequence[int],
    layers: str,
    particles: Float[np.ndarray, "M D"],
) -> PooledBeliefs:
    """Average the beliefs of networks whose layers have these weights, and that share the rest."""
    function, inputs = build_function(network.model, questions, layers)
    logits = Partial(_ask_member, function, inputs, np.array(units))  # type: ignore[no-untyped-call]
    return pool_members(logits, particles)


def _ask_member(function: Any, inputs: Inputs, units: Array, weights: Array) -> Array:
    logits: Array = function(weights, inputs)[:, units]
    return logits


def _select_weights(model: SentenceGestalt, layers: str) -> QueryNetwork | SentenceGestalt:
    """Return the part of a network whose weights are uncertain."""
    return model.query if layers == "query" else model


def _unflatten(like: T, weights: Float[Array, " D"] | Float[np.ndarray, " D"]) -> T:
    """Return a tree of the same structure as another, with its weights taken from a vector."""
    shaped: T = ravel_pytree(like)[1](jnp.asarray(weights))
    return shaped


def build_function(model: SentenceGestalt, questions: Questions, layers: str) -> tuple[Any, Inputs]:
    """Return the network as a function of its uncertain weights, and its inputs.

    The other arrays are arguments for JAX (`Partial`), so another network needs no compilation.
    """
    heard = questions.levels if layers == "all" else compute_gestalts(model, questions.levels)
    tree = _select_weights(model, layers)
    function = Partial(_compute_logits, tree, heard, questions.probes)  # type: ignore[no-untyped-call]
    return function, {"node": questions.node, "probe": questions.probe}


def _compute_logits(
    tree: QueryNetwork | SentenceGestalt,
    heard: Any,
    probes: Array,
    weights: Array,
    inputs: Inputs,
) -> Array:
    """Compute logits from flat weights and gestalts or, for a whole network, tokens."""
    tree = _unflatten(tree, weights)
    if isinstance(tree, SentenceGestalt):
        heard, tree = compute_gestalts(tree, heard), tree.query
    return tree.logits(tree.features(heard, probes, inputs["node"], inputs["probe"]))


def cut_into_parts(model: SentenceGestalt, layers: str) -> list[np.ndarray]:
    """Return the indices of weights: of the last layer by output, of every hidden layer together.

    A part moves at once; J particles span J − 1 directions of it (maths.md (20)).
    """
    tree = _select_weights(model, layers)
    at = _unflatten(tree, np.arange(ravel_pytree(tree)[0].size))
    query = at.query if isinstance(at, SentenceGestalt) else at
    into: list[tuple[Array, ...]] = [
        (query.gestalt_weight, query.probe_weight, query.hidden_bias[None])
    ]
    if isinstance(at, SentenceGestalt):
        update = at.update
        into.append((update.token_weight, update.recurrent_weight, update.hidden_bias[None]))
        into.append((update.gestalt_weight, update.gestalt_bias[None]))
    last = np.concatenate([query.output_weight, query.output_bias[None]]).T
    return [last, *(np.concatenate(arrays).T.ravel() for arrays in into)]
