"""ψ with distinct rows and counts: the input of the last layer, and the data of a sampler."""

import numpy as np
import pytest
from scipy.special import expit

from equivocal.network import Run, features
from equivocal.world import World
from lastlayer.errors import UserError


def test_features_times_last_layer_is_the_answer(small_run: Run) -> None:
    network = small_run.networks[0]
    text = "the dog chases the cat on the lawn"
    world = network.world
    corpus = world.sample(200, seed=2)
    data = features(network, corpus)
    assert data["features"].shape == (data.sizes["row"], 20 + 1)
    assert np.all(data["features"].sel(feature="bias") == 1)
    theta = network.last_layer()
    logits = data["features"].to_numpy() @ theta.to_numpy().T

    heard = "dog chase cat on lawn"  # the input tokens of that sentence
    (row,) = np.flatnonzero((data["heard"] == heard) & (data["probe"] == "agent"))
    expected = network.comprehend(text).isel(word=-1).sel(probe="agent")
    np.testing.assert_allclose(expit(logits[row]), expected, rtol=1e-4, atol=1e-6)


def test_counts_and_targets_add_up(small_run: Run) -> None:
    corpus = small_run.world.sample(200, seed=2)
    data = features(small_run.networks[0], corpus)
    events = corpus.derivations.fillers >= 0
    asked = 2 * (events.sum(axis=1) * (corpus.tree.node_of >= 0).sum(axis=1)).sum()
    assert float(data["counts"].sum()) == asked
    assert np.all(data["targets"].to_numpy() >= 0)
    assert np.all(data["targets"].to_numpy() <= data["counts"].to_numpy()[:, None] + 1e-9)
    roles = data["targets"].isel(unit=slice(0, 4)).sum("unit")
    np.testing.assert_allclose(roles, data["counts"])  # every answer names exactly one role


def test_a_corpus_of_another_world_is_refused(small_run: Run, paper: World) -> None:
    with pytest.raises(UserError, match="from world 'paper', the network from 'garden'"):
        features(small_run.networks[0], paper.sample(10))
