"""Pooled beliefs of several networks, and the members of each kind of uncertainty."""

import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.special import entr, expit

from equivocal.doubt.comprehenders import Comprehenders, build_role_questions
from equivocal.doubt.members import (
    cut_into_parts,
    make_deep_ensemble,
    make_mc_dropout,
    sample_comprehenders,
)
from equivocal.network import Run, features, train
from equivocal.network.runs import split_corpus
from lastlayer import sample_posterior
from lastlayer.errors import UserError
from tests.conftest import SMALL

TEXTS = ["the dog chases the cat", "the boy", "bone finds bone on the lawn"]


@pytest.fixture(scope="module")
def both(small_run: Run) -> Comprehenders:
    return make_deep_ensemble(small_run.networks, seconds=3.0)


def test_each_member_has_the_beliefs_of_its_network(small_run: Run, both: Comprehenders) -> None:
    beliefs = both.compute_beliefs(TEXTS)
    for member, network in enumerate(small_run.networks):
        for number, text in enumerate(TEXTS):
            alone = network.comprehend(text).isel(word=-1)
            np.testing.assert_allclose(beliefs[member, number], alone, atol=1e-6)


def test_pooled_beliefs_are_means_and_differences_are_epistemic_uncertainty(
    both: Comprehenders,
) -> None:
    heard = [both.world.parse(text) for text in TEXTS]
    found = both.pool(build_role_questions(both.world, heard))
    y = both.compute_beliefs(TEXTS).astype(float).reshape(2, -1, len(both.world.units))
    entropy = entr(y.mean(axis=0)) + entr(1 - y.mean(axis=0))
    own = (entr(y) + entr(1 - y)).mean(axis=0)
    np.testing.assert_allclose(found.belief, y.mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(found.epistemic, entropy - own, atol=1e-5)
    assert found.epistemic.max() > 0.01
    alone = both.select([1])
    assert len(alone) == 1
    questions = build_role_questions(both.world, [text.first(1) for text in heard])
    assert alone.pool(questions).epistemic.max() < 1e-6


def test_unknown_layers_are_refused(small_run: Run) -> None:
    with pytest.raises(UserError, match="'lst': did you mean 'last'"):
        sample_comprehenders(small_run.networks[0], small_run.held_out, "lst")
    with pytest.raises(UserError, match="cuts must be a whole number from 1 to 20"):
        sample_comprehenders(small_run.networks[0], small_run.held_out, "all", cuts=21)


@pytest.mark.parametrize("layers", ["query", "all"])
@pytest.mark.parametrize("cuts", [1, 3])
def test_parts_hold_every_weight_once_and_outputs_their_own(
    small_run: Run, layers: str, cuts: int
) -> None:
    model = small_run.models[0]
    weights = ravel_pytree(model if layers == "all" else model.query)[0]
    last, *hidden = cut_into_parts(model, layers, cuts)
    every = np.concatenate([last.ravel(), *hidden])
    assert sorted(every) == list(range(len(weights)))
    assert len(hidden) == cuts * (3 if layers == "all" else 1)
    theta = small_run.networks[0].last_layer().values
    np.testing.assert_array_equal(weights[last], theta)


def test_the_last_layer_goes_through_the_sampler(small_run: Run) -> None:
    network, corpus = small_run.networks[0], split_corpus(small_run.world, small_run.settings)[0]
    made = sample_comprehenders(network, corpus, "last", num_particles=24)
    asked = features(network, corpus)
    posterior = sample_posterior(
        asked["features"].values,
        asked["targets"].values,
        counts=asked["counts"].values,
        prior_mean=network.last_layer().values,
        num_particles=24,
        tolerance=0.05,
    )
    psi = network.probe_features(TEXTS[0], ["agent"]).values[-1, 0]
    logits = psi @ posterior.particles.swapaxes(1, 2)  # units × members
    agent = made.world.roles.index("agent")
    np.testing.assert_allclose(
        made.compute_beliefs(TEXTS[:1])[:, 0, agent], expit(logits.T), atol=1e-5
    )
    assert made.message == posterior.info.message
    # what all share is kept once: only the last layer is beyond one network
    assert made.bytes == 23 * 4 * network.last_layer().size


@pytest.mark.slow
def test_whole_networks_agree_with_the_sampler_where_only_the_last_layer_is_uncertain(
    small_run: Run,
) -> None:
    """`query` with almost no prior variance outside the last layer equals `last`."""
    from equivocal.doubt.members import build_function
    from lastlayer import sample_network

    network, corpus = small_run.networks[0], split_corpus(small_run.world, small_run.settings)[0]
    asked, query = features(network, corpus), network.model.query
    variance = np.full(len(ravel_pytree(query)[0]), 1e-8)
    last = cut_into_parts(network.model, "query", 1)[0]
    variance[last] = 1.0
    found = sample_network(
        *build_function(network.model, corpus, "query"),
        asked["targets"].values,
        np.asarray(ravel_pytree(query)[0]),
        prior_variance=variance,
        counts=asked["counts"].values,
        parts=[last],
        num_particles=24,
        tolerance=0.01,
    )
    posterior = sample_posterior(
        asked["features"].values,
        asked["targets"].values,
        counts=asked["counts"].values,
        prior_mean=network.last_layer().values,
        tolerance=0.001,
    )
    assert found.info.converged, found.info.message
    sd = np.sqrt(np.diagonal(posterior.covariance, axis1=1, axis2=2))
    assert np.abs((found.mean[last] - posterior.mean) / sd).max() < 0.03
    ratio = found.particles[:, last].std(axis=0, ddof=1) / sd
    np.testing.assert_allclose(ratio, 1, atol=0.03)


@pytest.mark.slow
def test_with_more_layers_more_weights_are_uncertain(small_run: Run) -> None:
    network = small_run.networks[0]
    corpus = split_corpus(small_run.world, small_run.settings)[0]
    query, everything = (
        sample_comprehenders(network, corpus, layers, num_particles=24, num_steps=2)
        for layers in ("query", "all")
    )
    assert np.asarray(query.models.update.token_weight).strides[0] == 0
    assert np.asarray(query.models.query.gestalt_weight).std(axis=0).min() > 0
    assert np.asarray(everything.models.update.token_weight).std(axis=0).min() > 0
    assert everything.passes > query.passes > 24
    assert "understated" in query.message
    assert everything.bytes > query.bytes


def test_a_mask_drops_hidden_units(small_run: Run) -> None:
    network = small_run.networks[0]
    masked = make_mc_dropout(network, 0.4, 50, seed=3)
    weight = np.asarray(masked.models.query.output_weight)  # members × hidden × units
    trained = np.asarray(network.model.query.output_weight)
    kept = (weight != 0).any(axis=2)
    np.testing.assert_allclose(weight, kept[..., None] * trained / 0.6, rtol=1e-6)
    assert abs(kept.mean() - 0.6) < 0.08  # 1,000 units: five standard errors
    np.testing.assert_array_equal(
        np.asarray(masked.models.query.output_bias)[7], network.model.query.output_bias
    )
    off = make_mc_dropout(network, 1e-9, 2).compute_beliefs(TEXTS)
    np.testing.assert_allclose(
        off[0], make_deep_ensemble([network]).compute_beliefs(TEXTS)[0], atol=1e-6
    )
    # 20 hidden units, a bit for each: three bytes a member, and as many for some as they are
    assert (masked.bytes, masked.select([0, 1]).bytes) == (150, 6)


@pytest.mark.parametrize("rate", [0, 0.0, 1.0, -0.1, 1.5, float("nan"), "0.1", None])
def test_a_rate_that_drops_nothing_or_all_is_refused(small_run: Run, rate: object) -> None:
    with pytest.raises(UserError, match=r"rate must lie between 0 and 1, got .*; use the rate"):
        make_mc_dropout(small_run.networks[0], rate)


@pytest.mark.slow
def test_training_with_dropout_makes_networks_robust_to_it(small_run: Run) -> None:
    """With dropout masks, a network trained with dropout loses less than one trained without."""
    dropped = train(small_run.world, SMALL, dropout=0.4)
    assert dropped.settings == small_run.settings

    def loss(run: Run, index: int) -> float:
        """The mean distance that masks move beliefs by."""
        network = run.networks[index]
        masked = make_mc_dropout(network, 0.4, 30, seed=1).compute_beliefs(TEXTS[:1])
        return float(
            np.abs(masked - make_deep_ensemble([network]).compute_beliefs(TEXTS[:1])).mean()
        )

    assert all(loss(dropped, i) < loss(small_run, i) for i in range(2))
    with pytest.raises(UserError, match=r"dropout must lie in \[0, 1\)"):
        train(small_run.world, SMALL, dropout=1.0)


def test_an_ensemble_of_several_worlds_is_refused() -> None:
    with pytest.raises(UserError, match="all of one world"):
        make_deep_ensemble([])
