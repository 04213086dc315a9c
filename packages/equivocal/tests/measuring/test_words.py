"""The table of words, measured by small trained networks, against the networks' own answers."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit

from equivocal.measuring.exact import build_warrant
from equivocal.measuring.measures import MEASURES, average_networks, compute_bayesian_surprise
from equivocal.measuring.paradigms import Paradigm, load_paradigm
from equivocal.measuring.readings import SAMPLER, sample_particles
from equivocal.measuring.words import average_beliefs, measure_words
from equivocal.network import Run
from equivocal.network.runs import split_corpus
from equivocal.store.store import Store
from equivocal.world.learner import CountingLearner
from lastlayer.errors import UserError


@pytest.fixture(scope="module")
def words(small_run: Run, chase: Paradigm) -> pd.DataFrame:
    return measure_words(small_run.networks, [chase])


def test_sentences_of_all_lengths_are_heard_as_the_network_hears_them(
    small_run: Run, chase: Paradigm, words: pd.DataFrame
) -> None:
    own = words[words["network"] == 1].set_index(["condition", "item"])
    for place, row in chase.rows.items():
        gestalts = small_run.networks[1].gestalts(row.utterance).values
        silence = np.zeros_like(gestalts[:1])
        wanted = np.abs(np.diff(gestalts, axis=0, prepend=silence)).sum(axis=1)
        np.testing.assert_allclose(own.loc[place]["semantic_update"], wanted, rtol=1e-5)
    critical = words[words["critical"]].set_index(["condition", "item"])["position"]
    assert critical["odd", "cat"].unique().tolist() == [3]  # bone finds BONE
    assert critical["likely", "cat"].unique().tolist() == [3]  # not the last word
    assert own.loc[("likely", "cat"), "word"].tolist() == [
        "the cat",
        "chases",
        "the mouse",
        "on the lawn",
    ]
    assert own.loc[("likely", "cat"), "constituent"].tolist()[1:] == ["chase", "mouse", "on+lawn"]


def test_every_measure_has_a_column_and_exact_ones_are_the_worlds(
    chase: Paradigm, words: pd.DataFrame
) -> None:
    assert set(MEASURES) <= set(words.columns)
    assert words["epistemic"].isna().all()  # of one last layer
    assert set(words.columns) >= {"belief_agent", "exact_belief_patient", "belief_reading"}
    row = words.query("condition == 'likely' and item == 'dog' and position == 3").iloc[0]
    assert row["cloze"] == pytest.approx(0.8)
    assert row["surprisal"] == pytest.approx(-np.log(0.8))
    assert row["exact_surprise"] == pytest.approx(-np.log(0.8))


def test_beliefs_in_fillers_and_the_literal_reading_are_those_of_the_network(
    small_run: Run, chase: Paradigm, words: pd.DataFrame
) -> None:
    """In a world without noise the literal reading is what was heard: JS of y and 0 or 1."""
    asked = "condition == 'odd' and item == 'dog' and network == 0"
    answers = small_run.networks[0].comprehend("the dog chases the bone")
    own = words.query(asked)
    for role, word in (("agent", "dog"), ("action", "chase"), ("patient", "bone")):
        wanted = answers.sel(probe=role, unit=word)
        np.testing.assert_allclose(own[f"belief_{role}"], wanted, rtol=1e-4)
    features, units = chase.world.lexicon.features, features_of(chase, "dog")
    y = answers.sel(probe="agent").values[0][features.any(axis=0)].astype(float)
    mean = (y + units[features.any(axis=0)]) / 2
    entropy = lambda p: -(p * np.log(p) + (1 - p) * np.log1p(-p)).sum()  # noqa: E731
    assert own["p600"].iloc[0] == pytest.approx(entropy(mean) - entropy(y) / 2, rel=1e-3)


def features_of(paradigm: Paradigm, word: str) -> np.ndarray:
    return paradigm.world.lexicon.features[paradigm.world.lexicon.words.index(word)]


def test_averages_have_intervals_over_networks(words: pd.DataFrame) -> None:
    wide = average_networks(words)
    assert len(wide) == len(words) / 2
    row = wide.query("condition == 'odd' and item == 'dog' and position == 3").iloc[0]
    values = words.query("condition == 'odd' and item == 'dog' and position == 3")
    for name in ("semantic_update", "p600"):
        first, second = values[name]
        assert [row[f"{name}_network_{n}"] for n in (0, 1)] == [first, second]
        half = 12.7062047 * abs(first - second) / 2  # t₀.₉₇₅ with 1 df
        assert row[name] == pytest.approx((first + second) / 2)
        assert row[f"{name}_high"] - row[name] == pytest.approx(half)
    assert "cloze_low" not in wide
    assert row["cloze"] == values["cloze"].iloc[0]


def test_uncertainty_between_networks_is_that_of_their_mixture(
    small_run: Run, chase: Paradigm, words: pd.DataFrame
) -> None:
    assert (words["between_networks"] > 0).all()
    network = small_run.networks[0]
    same = measure_words([network, network], [chase])
    np.testing.assert_allclose(same["between_networks"], 0, atol=1e-6)
    assert measure_words([network], [chase])["between_networks"].isna().all()


def test_particles_that_agree_are_one_comprehender(
    small_run: Run, chase: Paradigm, words: pd.DataFrame
) -> None:
    """Particles with the trained weights: trained beliefs and no epistemic uncertainty."""
    layers = [np.repeat(n.last_layer().values[:, None], 5, axis=1) for n in small_run.networks]
    same = measure_words(small_run.networks, [chase], layers)
    for name in ("semantic_update", "bayesian_surprise", "uncertainty"):
        np.testing.assert_allclose(same[name], words[name], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(same["epistemic"], 0, atol=1e-4)


def test_surprise_and_epistemic_uncertainty_are_those_of_the_mean_belief() -> None:
    """Two particles that exchange beliefs: each is surprised, but their mean remains 0.5."""
    y = np.array([[0.9, 0.1, 0.9], [0.1, 0.9, 0.3]])[..., None, None]  # particles, words
    mean = average_beliefs(logit(y))
    np.testing.assert_allclose(expit(mean)[:, 0, 0], [0.5, 0.5, 0.6])
    surprise = compute_bayesian_surprise(mean)
    assert surprise[1] == pytest.approx(0, abs=1e-12)
    assert surprise[2] == pytest.approx(0.6 * np.log(1.2) + 0.4 * np.log(0.8))


def test_networks_of_another_world_are_refused(small_run: Run) -> None:
    with pytest.raises(UserError, match="is of world 'sg2018', the networks of 'garden'"):
        measure_words(small_run.networks, [load_paradigm("cloze_probability")])


def test_the_p600_of_a_network_beside_itself_is_zero(small_run: Run, chase: Paradigm) -> None:
    same = measure_words(small_run.networks, [chase], literal=small_run.networks)
    assert (same["p600"] == 0).all()
    other = measure_words(small_run.networks, [chase], literal=small_run.networks[::-1])
    assert (other["p600"] > 0).all()


@pytest.fixture(scope="module")
def sampled(small_run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    for index in (0, 1):
        sample_particles(small_run, index, Store(folder))
    return folder


def test_posteriors_are_stored_and_belong_to_their_network(
    small_run: Run, sampled: Path, tmp_path: Path
) -> None:
    files = sorted((sampled / "posteriors").rglob("0*"))
    before = [file.stat().st_mtime_ns for file in files]
    particles = sample_particles(small_run, 0, Store(sampled))
    assert particles.shape[:2] == (len(small_run.world.units), SAMPLER.num_particles)
    assert [file.stat().st_mtime_ns for file in files] == before
    shutil.copytree(sampled, tmp_path, dirs_exist_ok=True)
    other = replace(small_run, models=small_run.models[::-1])  # as if trained anew
    assert not np.array_equal(sample_particles(other, 0, Store(tmp_path)), particles)


def test_particles_have_epistemic_uncertainty(
    small_run: Run, sampled: Path, chase: Paradigm
) -> None:
    layers = [sample_particles(small_run, n, Store(sampled)) for n in (0, 1)]
    words = measure_words(small_run.networks, [chase], layers)
    assert ((words["epistemic"] > 0) & (words["epistemic"] < words["uncertainty"])).all()


def test_a_posterior_that_did_not_converge_is_named(small_run: Run, tmp_path: Path) -> None:
    one_step = SAMPLER.model_copy(update={"num_steps": 1, "tolerance": 1e-9})
    for _ in range(2):  # sampled, then loaded
        with pytest.warns(UserWarning, match="posterior of network 0 did not converge"):
            sample_particles(small_run, 0, Store(tmp_path), one_step)


def test_warranted_beliefs_are_those_of_the_learner_who_heard_the_corpus(
    small_run: Run, chase: Paradigm
) -> None:
    heard = split_corpus(small_run.world, small_run.settings)[0]
    table = measure_words(small_run.networks[:1], [chase], warrant=build_warrant(heard))
    own = table.query("condition == 'odd' and item == 'dog'")
    learner = CountingLearner(small_run.world, heard, draws=200)
    for position, said in enumerate(("the dog", "the dog chases", "the dog chases the bone")):
        wanted = learner.beliefs(said, "patient")["bone"]
        assert own["warranted_belief_patient"].iloc[position] == pytest.approx(wanted)
    ends = learner.interval("the dog chases the bone", "patient").loc["bone"]
    for kind in ("low", "high"):
        column = own[f"warranted_{kind}_patient"]
        assert column.iloc[2] == pytest.approx(ends[kind])
        assert column.isna().tolist() == [True, False, False]  # not before the verb
    assert own["exact_belief_patient"].isna().iloc[2]  # impossible in this world
    assert own["warranted_belief_patient"].iloc[2] > 0.5
