"""Sets of networks from posteriors over some or all layers, deep ensembles and MC dropout.

Posteriors are over the last layer, the query network, or the whole network:

    "last"    C, b₄                     the paper's: K logistic regressions on fixed features
    "query"   A, B, b₃, C, b₄           the query network; the update network stays as trained
    "all"     and W, V, b₁, U, b₂       the whole network

(letters of `gestalt.network`). The first is sampled by `infer_posterior`, the others by
`infer_network_posterior`. There the last layer is a part whose weights affect single outputs, and
each hidden layer is cut into `cuts` parts by groups of units, so that the weights into one unit
stay together. The prior is centred on the trained weights, with one variance for all of them.

Deep ensemble (Lakshminarayanan, Pritzel & Blundell 2017, NeurIPS): networks that were trained from
different initial weights. MC dropout (Gal & Ghahramani 2016, ICML): a network trained with dropout,
with a mask of hidden units for each member. Masking hidden2 is the same as scaling rows of the last
layer,

    (ψ ∘ b / (1−ρ)) C = ψ (diag(b) / (1−ρ) C),

so a member is again a network, which keeps its mask for every question. To store a member, its mask
is enough: a bit for each hidden unit.

A new kind of members is a function that returns `Comprehenders`, a name in
`equivocal.doubt.comparison.KINDS` and a call in `equivocal.doubt.run`.
"""

from collections.abc import Sequence
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.tree_util import Partial
from jaxtyping import Array, Float, Int

from equivocal.beliefs import (
    SamplerSettings,
    collect_rows,
    infer_network_posterior,
    infer_posterior,
)
from equivocal.doubt.comprehenders import Comprehenders, replace_last_layers, share_weights
from equivocal.network import Network, QueryNetwork, SentenceGestalt
from equivocal.network.questions import collect_questions, compute_gestalts
from equivocal.world import Corpus
from lastlayer.errors import UserError, check_known
from lastlayer.seeds import Seed, choose_seed

RATE = 0.1  # of dropout
LAYERS = ("last", "query", "all")
PARTICLES = 104  # more than the 101 weights of an output of the paper's network
T = TypeVar("T")
Inputs = dict[str, Int[Array, " rows"]]


def sample_comprehenders(
    network: Network,
    corpus: Corpus,
    layers: str = "last",
    *,
    prior_variance: float = 1.0,
    num_particles: int = PARTICLES,
    cuts: int = 1,
    num_steps: int | None = None,
    tolerance: float = 0.05,
    seed: Seed = 0,
) -> Comprehenders:
    """Sample comprehenders from the posterior of one network, given its training corpus.

    Parameters
    ----------
    network : Network
        The trained network, on whose weights the prior is centred.
    corpus : Corpus
        The sentences that it was trained on.
    layers : {"last", "query", "all"}
        Which weights are uncertain: the last layer, the query network, or every weight.
    prior_variance : float
        Prior variance of each of these weights.
    num_particles : int
        Number of members to sample.
    cuts : int
        Number of parts into which each hidden layer is cut; parts are updated one after the other.
    num_steps : int, optional
        Number of steps; the sampler's default unless given.
    tolerance : float
        Distance from the fixed point below which sampling has converged, in posterior standard
        deviations.
    seed : int or numpy.random.Generator
        The same seed gives the same members.

    Returns
    -------
    Comprehenders
        One member for each particle; `converged` says whether sampling converged.

    Raises
    ------
    UserError
        Where an argument is out of its range.
    """
    check_known(layers, LAYERS, "kind of layers")
    hidden = network.model.query.output_weight.shape[0]
    if not isinstance(cuts, int) or not 1 <= cuts <= hidden:
        raise UserError(f"cuts must be a whole number from 1 to {hidden}, got {cuts!r}.")
    began = perf_counter()
    rows, model = collect_rows(network, corpus), network.model
    how: dict[str, Any] = {"num_particles": num_particles, "tolerance": tolerance}
    how |= {} if num_steps is None else {"num_steps": num_steps}
    if layers == "last":
        # not validated here, since `sample_posterior` explains mistakes better
        sampler = SamplerSettings.model_construct(method="exact-flow", **how)
        found: Any = infer_posterior(rows, sampler, prior_variance, seed)
        models, passes = replace_last_layers(model, found.particles), 1
    else:
        found = infer_network_posterior(
            rows,
            *build_function(model, corpus, layers),
            np.asarray(ravel_pytree(_select_weights(model, layers))[0]),
            cut_into_parts(model, layers, cuts),
            prior_variance,
            seed,
            **how,
        )
        models = _replace_weights(model, found.particles, layers)
        passes = found.info.forward_passes
    return Comprehenders(
        kind=layers,
        models=models,
        world=network.world,
        seconds=perf_counter() - began,
        passes=passes,
        message=found.info.message,
        converged=found.info.converged,
    )


def _select_weights(model: SentenceGestalt, layers: str) -> QueryNetwork | SentenceGestalt:
    """Return the part of a network whose weights are uncertain."""
    return model.query if layers == "query" else model


def _replace_weights(
    model: SentenceGestalt, particles: Float[np.ndarray, "M D"], layers: str
) -> SentenceGestalt:
    """Return members with the sampled weights; all other weights are shared."""
    if layers == "all":
        return jax.vmap(partial(_unflatten, model))(particles)
    update = share_weights(model, len(particles)).update
    return SentenceGestalt(update, jax.vmap(partial(_unflatten, model.query))(particles))


def _unflatten(like: T, weights: Float[Array, " D"] | Float[np.ndarray, " D"]) -> T:
    """Return a tree of the same structure as another, with its weights taken from a vector."""
    shaped: T = ravel_pytree(like)[1](jnp.asarray(weights))
    return shaped


def build_function(model: SentenceGestalt, corpus: Corpus, layers: str) -> tuple[Any, Inputs]:
    """Return the network as a function of its uncertain weights, and its inputs.

    The other arrays are arguments for JAX (`Partial`), so another network needs no compilation.
    """
    questions = collect_questions(corpus)
    asked = np.flatnonzero(corpus.queries.weight > 0)
    heard = questions.levels if layers == "all" else compute_gestalts(model, questions.levels)
    tree = _select_weights(model, layers)
    function = Partial(_compute_logits, tree, heard, questions.probes)  # type: ignore[no-untyped-call]
    return function, {"node": questions.node[asked], "probe": questions.probe[asked]}


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


def cut_into_parts(model: SentenceGestalt, layers: str, cuts: int) -> list[np.ndarray]:
    """Return the indices of weights: of the last layer by output, of others by groups of units."""
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
    units = [np.concatenate(arrays).T for arrays in into]  # a row for each hidden unit
    last = np.concatenate([query.output_weight, query.output_bias[None]]).T
    return [last, *(part.ravel() for rows in units for part in np.array_split(rows, cuts))]


def make_deep_ensemble(networks: Sequence[Network], seconds: float = 0.0) -> Comprehenders:
    """Make a deep ensemble of trained networks.

    Parameters
    ----------
    networks : sequence of Network
        The members, all of one world.
    seconds : float
        Time to train all but one of them.

    Returns
    -------
    Comprehenders
        One member for each network.

    Raises
    ------
    UserError
        Where there is no network, or networks of several worlds.
    """
    if len({network.world.fingerprint for network in networks}) != 1:
        raise UserError("a deep ensemble needs at least one network, all of one world; train some.")
    models = [jax.tree.map(np.asarray, network.model) for network in networks]
    return Comprehenders(
        kind="deep ensemble",
        models=jax.tree.map(lambda *leaves: np.stack(leaves), *models),
        world=networks[0].world,
        seconds=seconds,
        passes=0,
        message=f"{len(networks)} networks",
    )


def make_mc_dropout(
    network: Network,
    rate: float = RATE,
    num_members: int = PARTICLES,
    *,
    seed: Seed = 0,
    seconds: float = 0.0,
) -> Comprehenders:
    """Draw dropout masks for a network, each of which makes a member.

    Parameters
    ----------
    network : Network
        The network, which should have been trained with dropout at this rate.
    rate : float
        Probability that a hidden unit is dropped, between 0 and 1.
    num_members : int
        Number of masks to draw.
    seed : int or numpy.random.Generator
        The same seed gives the same masks.
    seconds : float
        Training time of the network.

    Returns
    -------
    Comprehenders
        One member for each mask.

    Raises
    ------
    UserError
        Where the rate would drop no unit or all of them.
    """
    if not (isinstance(rate, int | float) and 0 < rate < 1):
        raise UserError(
            f"rate must lie between 0 and 1, got {rate!r}: at 0 members would not differ, at 1 no "
            f"hidden unit would be left; use the rate that the network was trained with, as {RATE}."
        )
    theta = network.last_layer().values  # units × (hidden + 1)
    shape = (num_members, theta.shape[1] - 1)
    kept = jax.random.bernoulli(jax.random.key(choose_seed(seed)), 1 - rate, shape)
    scale = np.pad(np.asarray(kept) / (1 - rate), ((0, 0), (0, 1)), constant_values=1.0)
    return Comprehenders(
        kind="MC dropout",
        models=replace_last_layers(network.model, theta[:, None] * scale),
        world=network.world,
        seconds=seconds,
        passes=0,
        message=f"{rate:.0%} of hidden units dropped",
        bytes_each=-(-shape[1] // 8),
    )
