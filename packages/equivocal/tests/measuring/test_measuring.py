"""Measures of each word by small trained networks, against the networks' own answers."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit, logit

from equivocal.measuring.measurement import (
    SAMPLER,
    compute_logits,
    hear,
    measure_particles,
    measure_words,
    sample_particles,
)
from equivocal.measuring.suite import Suite, load_suite
from equivocal.measuring.word_measures import MEASURES
from equivocal.network import Run
from equivocal.store.store import Store
from lastlayer.errors import UserError


def of(words, condition: str, item: str, network: int = 1) -> np.ndarray:
    chosen = (words["condition"] == condition) & (words["item"] == item)
    return words[chosen & (words["network"] == network)]["value"].to_numpy()


def test_sentences_of_all_lengths_are_heard_as_the_network_hears_them(
    small_run: Run, chase: Suite
) -> None:
    words = measure_words(small_run.networks, [chase], ["semantic_update"])
    for (condition, item), row in chase.rows.items():
        gestalts = small_run.networks[1].gestalts(row.utterance).values
        silence = np.zeros_like(gestalts[:1])
        wanted = np.abs(np.diff(gestalts, axis=0, prepend=silence)).sum(axis=1)
        np.testing.assert_allclose(of(words, condition, item), wanted, rtol=1e-5)
    critical = words[words["critical"]].set_index(["condition", "item"])["position"]
    assert critical["odd", "cat"].unique().tolist() == [3]  # bone finds BONE
    assert critical["likely", "cat"].unique().tolist() == [3]  # not the last word
    assert words["low"].isna().all()


def test_beliefs_are_the_networks_answers(small_run: Run, chase: Suite) -> None:
    network, row = small_run.networks[0], chase.rows["likely", "cat"]
    gestalts = hear(network.model, chase.world.encode(row.utterance)[None])
    logits = compute_logits(network, gestalts, network.last_layer().values)
    np.testing.assert_allclose(expit(logits[0]), network.comprehend(row.utterance), atol=1e-5)


def test_particles_that_agree_are_one_comprehender(small_run: Run, chase: Suite) -> None:
    """Particles with the trained weights: trained beliefs, no spread, no epistemic uncertainty."""

    def same(index: int) -> np.ndarray:
        return np.repeat(small_run.networks[index].last_layer().values[:, None], 5, axis=1)

    measures = ["semantic_update", "bayesian_surprise", "entropy_reduction", "epistemic_share"]
    ensemble = measure_words(small_run.networks, [chase], measures, same)
    trained = measure_words(small_run.networks, [chase], measures[:3])
    own = ensemble[ensemble["measure"] != "epistemic_share"].reset_index(drop=True)
    trained = trained.set_index(["measure", "network", "condition", "item", "position"])
    own = own.set_index(trained.index.names).loc[trained.index]
    np.testing.assert_allclose(own["value"], trained["value"], rtol=1e-3, atol=1e-4)
    spread = (own["high"] - own["low"])["bayesian_surprise"]
    assert spread.isna().sum() == 2 * len(chase.rows)  # first words
    np.testing.assert_allclose(spread.dropna(), 0, atol=1e-4)
    share = ensemble[ensemble["measure"] == "epistemic_share"]["value"]
    np.testing.assert_allclose(share, 0, atol=1e-4)


def test_surprise_and_entropy_of_particles_are_those_of_their_mean_belief() -> None:
    """Two particles that exchange beliefs: each is surprised, but their mean remains 0.5."""
    y = np.array([[0.9, 0.1, 0.9], [0.1, 0.9, 0.3]])[..., None, None]  # particles, words
    chosen = ("bayesian_surprise", "entropy_reduction")
    found = measure_particles({name: MEASURES[name] for name in chosen}, logit(y))
    own = 0.9 * np.log(9) - 0.1 * np.log(9)  # KL(0.9 ‖ 0.1) = KL(0.1 ‖ 0.9)
    surprise = found["bayesian_surprise"]
    assert surprise.value[1] == pytest.approx(0, abs=1e-12)
    assert [surprise.low[1], surprise.high[1]] == pytest.approx([own, own])
    # the mean goes on to 0.6
    assert surprise.value[2] == pytest.approx(0.6 * np.log(1.2) + 0.4 * np.log(0.8))
    left = -(0.6 * np.log(0.6) + 0.4 * np.log(0.4))
    reduction = found["entropy_reduction"]
    np.testing.assert_allclose(reduction.value[1:], [0, np.log(2) - left], atol=1e-12)
    assert reduction.high[2] <= 1e-12  # the one is as sure as before, the other less


def test_the_mean_belief_is_exact_for_large_logits() -> None:
    """All particles go from logit 80 to −80: 80 nats, where probabilities would give infinity."""
    logits = np.tile(np.array([80.0, -80.0])[:, None, None], (3, 1, 1, 1))
    found = measure_particles({"bayesian_surprise": MEASURES["bayesian_surprise"]}, logits)
    assert found["bayesian_surprise"].value[1] == pytest.approx(80)


def test_surprise_by_role_sums_to_the_surprise(small_run: Run, chase: Suite) -> None:
    words = measure_words(
        small_run.networks, [chase], ["semantic_update", "bayesian_surprise"], by_role=True
    )
    roles = [f"bayesian_surprise_{role}" for role in chase.world.roles]
    assert list(words["measure"].unique()) == ["semantic_update", "bayesian_surprise", *roles]
    keys = ["network", "condition", "item", "position"]
    wide = words.pivot(index=keys, columns="measure", values="value").dropna()
    np.testing.assert_allclose(wide[roles].sum(axis=1), wide["bayesian_surprise"], rtol=1e-6)
    assert (wide[roles].std() > 0).all()


def test_a_measure_of_an_ensemble_needs_one(small_run: Run, chase: Suite) -> None:
    with pytest.raises(UserError, match="epistemic_share needs particles"):
        measure_words(small_run.networks, [chase], ["epistemic_share"])


def test_networks_of_another_world_and_unknown_measures_are_refused(
    small_run: Run, chase: Suite
) -> None:
    with pytest.raises(UserError, match="is of world 'sg2018', the networks of 'garden'"):
        measure_words(small_run.networks, [load_suite("cloze_probability")], ["semantic_update"])
    with pytest.raises(UserError, match="did you mean 'semantic_update'"):
        measure_words(small_run.networks, [chase], ["semantic_updat"])


def test_particles_are_the_first_axis_and_keep_their_units(small_run: Run, chase: Suite) -> None:
    """The beliefs of a particle do not depend on the other particles of the ensemble."""
    network = small_run.networks[0]
    row = chase.rows["odd", "dog"]
    gestalts = hear(network.model, chase.world.encode(row.utterance)[None])
    trained = network.last_layer().values
    mixed = np.stack([trained, -2 * trained, 0 * trained], axis=1)
    logits = compute_logits(network, gestalts, mixed)
    alone = compute_logits(network, gestalts, trained)
    for particle, factor in zip(logits, (1, -2, 0), strict=True):
        np.testing.assert_allclose(particle, factor * alone, rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def sampled(small_run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    for index in (0, 1):
        sample_particles(small_run, index, Store(folder))
    return folder


def times(folder: Path) -> list[int]:
    """Return when each stored posterior was written."""
    return [file.stat().st_mtime_ns for file in sorted((folder / "posteriors").rglob("0*"))]


def test_posteriors_are_stored_and_belong_to_their_network(
    small_run: Run, sampled: Path, tmp_path: Path
) -> None:
    before = times(sampled)
    assert len(before) == 2
    found = sample_particles(small_run, 0, Store(sampled))
    assert found.shape[:2] == (len(small_run.world.units), SAMPLER.num_particles)
    assert times(sampled) == before
    shutil.copytree(sampled, tmp_path, dirs_exist_ok=True)
    other = replace(small_run, models=small_run.models[::-1])  # as if trained anew
    assert not np.array_equal(sample_particles(other, 0, Store(tmp_path)), found)


def test_a_damaged_posterior_is_named_and_sampled_again(
    small_run: Run, sampled: Path, tmp_path: Path
) -> None:
    shutil.copytree(sampled, tmp_path, dirs_exist_ok=True)
    first = min((tmp_path / "posteriors").rglob("0*"))
    first.write_bytes(first.read_bytes()[:1000])
    with pytest.warns(UserWarning, match=first.name):
        found = sample_particles(small_run, 0, Store(tmp_path))
    np.testing.assert_array_equal(found, sample_particles(small_run, 0, Store(sampled)))


def test_particles_have_epistemic_uncertainty_and_intervals(
    small_run: Run, sampled: Path, chase: Suite
) -> None:
    words = measure_words(
        small_run.networks,
        [chase],
        ["bayesian_surprise", "epistemic_share"],
        lambda n: sample_particles(small_run, n, Store(sampled)),
    )
    shares = words[words["measure"] == "epistemic_share"]
    assert ((shares["value"] > 0) & (shares["value"] < 1)).all()
    assert ((shares["low"] < shares["value"]) & (shares["value"] < shares["high"])).all()
    heard = words[(words["measure"] == "bayesian_surprise") & (words["position"] > 1)]
    assert ((heard["low"] < heard["high"]) & (heard["value"] < heard["high"])).all()


def test_another_sampler_gets_a_posterior_of_its_own(
    small_run: Run, sampled: Path, tmp_path: Path
) -> None:
    shutil.copytree(sampled, tmp_path, dirs_exist_ok=True)
    fewer = SAMPLER.model_copy(update={"num_particles": 32})
    assert sample_particles(small_run, 0, Store(tmp_path), fewer).shape[1] == 32


def test_a_posterior_that_did_not_converge_is_named(small_run: Run, tmp_path: Path) -> None:
    one_step = SAMPLER.model_copy(update={"num_steps": 1, "tolerance": 1e-9})
    for _ in range(2):  # sampled, then loaded
        with pytest.warns(UserWarning, match="posterior of network 0 did not converge"):
            sample_particles(small_run, 0, Store(tmp_path), one_step)
