"""What small trained networks do with each word, against the networks' own answers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit, logit

from equivocal.errors import UserError
from equivocal.gestalt import Run
from equivocal.sampling import Posterior
from equivocal.study.word_measures import MEASURES
from equivocal.suites import Suite, load_suite, measure_words, posteriors
from equivocal.suites.measuring import hear, logits_of
from equivocal.suites.particles import of_particles
from equivocal.suites.posteriors import PARTICLES, SAMPLER, particles_of, sample_posteriors


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
    logits = logits_of(network, gestalts, network.last_layer().values)
    np.testing.assert_allclose(expit(logits[0]), network.comprehend(row.utterance), atol=1e-5)


def test_particles_that_agree_are_one_comprehender(small_run: Run, chase: Suite) -> None:
    """All with the trained weights: the trained beliefs, no spread, nothing left to learn."""

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
    """Two who change places: each is surprised, together they believe 0.5 before and after."""
    y = np.array([[0.9, 0.1, 0.9], [0.1, 0.9, 0.3]])[..., None, None]  # particles, words
    chosen = ("bayesian_surprise", "entropy_reduction")
    found = of_particles({name: MEASURES[name] for name in chosen}, logit(y))
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


def test_the_mean_belief_stays_exact_far_out() -> None:
    """From all at logit 80 to all at −80, as one: 80 nats; probabilities would say infinity."""
    logits = np.tile(np.array([80.0, -80.0])[:, None, None], (3, 1, 1, 1))
    found = of_particles({"bayesian_surprise": MEASURES["bayesian_surprise"]}, logits)
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
    with pytest.raises(UserError, match="epistemic_share is of an ensemble"):
        measure_words(small_run.networks, [chase], ["epistemic_share"])


def test_other_peoples_networks_and_unknown_measures_are_refused(
    small_run: Run, chase: Suite
) -> None:
    with pytest.raises(UserError, match="is of world 'sg2018', the networks of 'garden'"):
        measure_words(small_run.networks, [load_suite("cloze_probability")], ["semantic_update"])
    with pytest.raises(UserError, match="did you mean 'semantic_update'"):
        measure_words(small_run.networks, [chase], ["semantic_updat"])


def test_particles_are_the_first_axis_and_keep_their_units(small_run: Run, chase: Suite) -> None:
    """A particle in a mixed ensemble believes what it believes alone."""
    network = small_run.networks[0]
    row = chase.rows["odd", "dog"]
    gestalts = hear(network.model, chase.world.encode(row.utterance)[None])
    trained = network.last_layer().values
    mixed = np.stack([trained, -2 * trained, 0 * trained], axis=1)
    logits = logits_of(network, gestalts, mixed)
    alone = logits_of(network, gestalts, trained)
    for particle, factor in zip(logits, (1, -2, 0), strict=True):
        np.testing.assert_allclose(particle, factor * alone, rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def sampled(small_run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    small_run.save(folder)
    sample_posteriors(small_run, folder, lambda *_: None)
    return folder


def test_posteriors_are_kept_and_known_by_their_network(small_run: Run, sampled: Path) -> None:
    files = sorted((sampled / "posteriors").rglob("*.safetensors"))
    assert len(files) == 2
    assert particles_of(sampled, 0).shape[:2] == (len(small_run.world.units), PARTICLES)
    before = [file.stat().st_mtime_ns for file in files]
    sample_posteriors(small_run, sampled, lambda *_: None)
    assert [file.stat().st_mtime_ns for file in files] == before
    first, second = (sampled / "networks" / f"0{index}.safetensors" for index in (0, 1))
    own = first.read_bytes()
    first.write_bytes(second.read_bytes())  # as if trained anew
    with pytest.raises(UserError, match="cannot read a posterior"):
        particles_of(sampled, 0)
    first.write_bytes(own)


def test_a_damaged_posterior_is_named_and_sampled_again(small_run: Run, sampled: Path) -> None:
    first = min((sampled / "posteriors").rglob("*.safetensors"))
    whole = first.read_bytes()
    first.write_bytes(whole[:1000])
    with pytest.warns(UserWarning, match=r"00-.*it is sampled again"):
        sample_posteriors(small_run, sampled, lambda *_: None)
    assert particles_of(sampled, 0).shape[1] == PARTICLES


def test_a_posterior_has_doubts_and_intervals(small_run: Run, sampled: Path, chase: Suite) -> None:
    words = measure_words(
        small_run.networks,
        [chase],
        ["bayesian_surprise", "epistemic_share"],
        lambda n: particles_of(sampled, n),
    )
    shares = words[words["measure"] == "epistemic_share"]
    assert ((shares["value"] > 0) & (shares["value"] < 1)).all()
    assert ((shares["low"] < shares["value"]) & (shares["value"] < shares["high"])).all()
    heard = words[(words["measure"] == "bayesian_surprise") & (words["position"] > 1)]
    assert ((heard["low"] < heard["high"]) & (heard["value"] < heard["high"])).all()


def test_another_sampler_gets_posteriors_of_its_own(
    sampled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert particles_of(sampled, 0).shape[1] == PARTICLES
    monkeypatch.setattr(posteriors, "SAMPLER", SAMPLER.model_copy(update={"tolerance": 0.1}))
    with pytest.raises(UserError, match="cannot read a posterior"):
        particles_of(sampled, 0)


def test_a_posterior_that_did_not_come_to_rest_is_named(small_run: Run, sampled: Path) -> None:
    first = min((sampled / "posteriors").rglob("*.safetensors"))
    at_rest = first.read_bytes()
    posterior = Posterior.load(first)
    replace(posterior, info=replace(posterior.info, converged=False)).save(first)
    with pytest.warns(UserWarning, match="posterior of network 0 did not come to rest"):
        sample_posteriors(small_run, sampled, lambda *_: None)
    first.write_bytes(at_rest)
