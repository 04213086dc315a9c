"""Networks and particles as participants: their beliefs are those of the network or posterior."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from equivocal.errors import format_number
from equivocal.network import Run
from equivocal.paper.stages import Study
from equivocal.people.participants import believe_answers, open_comprehenders, take_particles
from equivocal.people.questions import list_questions
from equivocal.people.run_comparison import compare_trials
from equivocal.people.run_trials import format_estimate, simulate_answers
from equivocal.people.tables import Columns
from lastlayer import Posterior
from lastlayer.errors import UserError
from tests.cli.commands import fails, run
from tests.paper.test_running import made, quiet


@pytest.fixture(scope="module")
def study(small_run: Run, tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Two networks with posteriors of both samplers, two prior variances each."""
    study = made(tmp_path_factory.mktemp("study"), small_run)
    study.infer(quiet)
    return study


def test_beliefs_of_a_participant_are_those_of_its_network(study: Study) -> None:
    who = open_comprehenders(study.folder)
    questions = list_questions(who.items, who.run.world)
    names, found, about = believe_answers(who, questions, beliefs="trained")
    assert names == ["n00", "n01"]
    assert about == {"beliefs": "trained"}
    assert found.shape == (2, 8, 3)
    at = next(n for n, q in enumerate(questions) if q.literal == "cat" and q.probe == "agent")
    heard = study.run.networks[1].comprehend("the cat chases the dog", ["agent"])
    cat, dog = (float(heard.sel(unit=unit, probe="agent")[-1]) for unit in ("cat", "dog"))
    rest = max(1 - cat - dog, 0)
    np.testing.assert_allclose(
        found[1, at], np.array([cat, dog, rest]) / (cat + dog + rest), atol=1e-6
    )


def test_stored_particles_are_used(study: Study) -> None:
    who = open_comprehenders(study.folder)
    assert set(who.posteriors) == {(s, v) for s in ("paper", "converged") for v in (0.1, 1.0)}
    questions = list_questions(who.items, who.run.world)
    names, found, about = believe_answers(who, questions, participants=20)
    assert about == {"beliefs": "posterior", "sampler": "paper", "prior_variance": 1.0}
    assert len(set(names)) == 20
    stored = Posterior.load(study.folder / "posteriors" / "paper_1" / "00.safetensors")
    first = questions[0]
    psi = study.run.networks[0].probe_features(first.utterance, [first.probe]).values[-1, 0]
    weights = np.asarray(stored.particles)[study.sampled_units.index(first.literal)]
    rivals = np.asarray(stored.particles)[study.sampled_units.index(first.rival)]
    literal, rival = expit(weights @ psi), expit(rivals @ psi)
    total = np.maximum(literal + rival, 1)  # all ten particles, in whatever order
    np.testing.assert_allclose(np.sort(found[:10, 0, 0]), np.sort(literal / total), atol=1e-6)


def test_more_particles_than_are_stored_are_drawn(study: Study) -> None:
    """The converged posterior stores two particles; it is defined by mean and covariance."""
    stored = Posterior.load(study.folder / "posteriors" / "converged_1" / "00.safetensors")
    drawn = take_particles(stored, 4_000, seed=0)
    assert drawn.shape == (len(stored.mean), 4_000, stored.mean.shape[1])
    sd = np.sqrt(np.diagonal(stored.covariance, axis1=1, axis2=2))
    assert np.abs((drawn.mean(axis=1) - stored.mean) / sd).max() < 5.5 / np.sqrt(4_000)
    np.testing.assert_allclose(drawn.std(axis=1), sd, rtol=0.08)
    product = np.cov(drawn[3].T)
    spread = np.outer(sd[3], sd[3])
    np.testing.assert_allclose(product / spread, stored.covariance[3] / spread, atol=0.08)
    with pytest.raises(UserError, match="3 particles of each network are wanted and 2 are stored"):
        take_particles(replace(stored, gaussian=False), 3, seed=0)


def test_answers_are_written_and_can_be_compared(study: Study, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = simulate_answers(study.folder, out, answers=3, participants=16, seed=1)
    data = pd.read_csv(out / "data.csv")
    columns = ["participant", "item", "condition", "question", "repetition", "answer"]
    assert list(data.columns) == columns
    assert len(data) == 16 * 8 * 3
    assert set(data["answer"]) <= {"literal", "plausible", "other"}
    assert not data.duplicated(columns[:-1]).any()
    assert "plausible" not in set(data.loc[data["condition"] == "congruent", "answer"])
    readings = pd.read_csv(out / "readings.csv").set_index(["condition", "measure"])
    for condition, own in data.groupby("condition"):
        share = (own["answer"] == "literal").mean()
        assert readings.loc[(condition, "literal"), "value"] == pytest.approx(share)
        pairs = own.groupby(["participant", "item", "question"])["answer"].agg(
            lambda given: np.mean([a != b for k, a in enumerate(given) for b in given[:k]])
        )
        assert readings.loc[(condition, "w"), "value"] == pytest.approx(pairs.mean())
    # only where it is another reading than the literal one is a plausible one defined
    assert np.isnan(readings.loc[("congruent", "plausible"), "value"])
    defined = data[data["condition"] != "congruent"]
    share = (defined["answer"] == "plausible").mean()
    assert readings.loc[("all conditions", "plausible"), "value"] == pytest.approx(share)
    assert "a participant is a particle of a posterior; they are of 2 networks" in result.summary[1]
    literal, favoured = (
        readings.loc[("all conditions", name), "value"] for name in ("literal", "plausible")
    )
    assert result.summary[0].startswith(f"Of all readings a share of {format_number(literal)} (")
    assert (
        f"favours another reading, the share of that one is {favoured:.3f} (" in result.summary[0]
    )
    again = simulate_answers(study.folder, out, answers=3, participants=16, seed=1)
    pd.testing.assert_frame_equal(again.tables["data"], result.tables["data"])
    steady = simulate_answers(study.folder, tmp_path / "argmax", reader="argmax", answers=2)
    values = steady.tables["readings"].set_index(["condition", "measure"])["value"]
    assert values["congruent", "w"] == 0
    assert len(steady.tables["data"]) == 2 * 5 * 8 * 2  # five particles of each network


def test_undefined_values_are_printed_as_dashes(study: Study, tmp_path: Path) -> None:
    """Particles of one network are no sample of networks; without varying answers, no w/b."""
    one = simulate_answers(study.folder, tmp_path / "one", participants=1, answers=2)
    assert not any("nan" in line for line in one.summary)
    assert one.tables["readings"]["low"].isna().all()
    assert one.summary[2].endswith("b –, w/b –")
    assert " (–) is literal" in one.summary[0]


def test_small_numbers_are_shown_and_no_zero_has_a_sign() -> None:
    """By round-off, and since b is estimated without bias, it may be a little below zero."""
    assert format_estimate(-0.000213, -0.00049, -1e-18) == "−2.13 × 10⁻⁴ (−4.90 × 10⁻⁴ to 0)"
    assert format_estimate(0.9684) == "0.968 (–)"
    assert format_estimate(4e-7, 1e-7, 0.1) == "4.00 × 10⁻⁷ (1.00 × 10⁻⁷ to 0.1)"
    assert format_estimate(-1e-17, -0.0, 0.0) == "0 (0 to 0)"


def test_the_command(study: Study, tmp_path: Path) -> None:
    made = run("simulate", "--from", study.folder, "--answers", "4", "--out", "sim", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert made.stdout.startswith("Of all readings a share of ")
    assert "320 answers of 10 participants to 8 questions" in made.stdout
    congruent = next(line for line in made.stdout.splitlines() if "│ congruent" in line)
    cells = [cell.strip() for cell in congruent.split("│")]
    assert cells[3] == "–", congruent
    readings = pd.read_csv(tmp_path / "sim" / "readings.csv").set_index(["condition", "measure"])
    assert cells[2] == format_number(readings.loc[("congruent", "literal"), "value"])
    found = compare_trials(
        tmp_path / "sim" / "data.csv",
        tmp_path / "sim" / "measures.csv",
        tmp_path / "cmp",
        columns=Columns(response="answer=other"),
        measure=["implausible"],
        family="binomial",
    )
    assert "320 of 320 trials joined by item, condition" in found.summary[1]
    assert not any("are rows there twice" in line for line in found.summary)
    assert {"question", "repetition"} <= set(found.tables["trials"])


def test_posteriors_are_sampled_where_none_are_stored(small_run: Run, tmp_path: Path) -> None:
    small_run.save(tmp_path / "run")
    (tmp_path / "s.csv").write_text(
        "condition,item,sentence,tracked_units,rival_units\n"
        "a,dog,the dog chases the cat,agent=dog,agent=cat\n"
        "b,dog,the cat chases the dog,agent=cat,agent=dog\n"
    )
    who = open_comprehenders(tmp_path / "run", tmp_path / "s.csv")
    questions = list_questions(who.items, who.run.world)
    assert len(believe_answers(who, questions)[0]) == 2  # networks
    names, found, about = believe_answers(who, questions, beliefs="posterior", variance=2.0)
    assert len(names) == 10
    assert about["sampler"] == "sampled now"
    assert found[:5, 0].std(axis=0).max() > 0
    with pytest.raises(
        UserError, match="5 participants are wanted and there are 2 networks; lower"
    ):
        believe_answers(who, questions, participants=5)
    with pytest.raises(UserError, match="this folder has none; leave it out"):
        believe_answers(who, questions, beliefs="posterior", sampler="paper")


def test_mistakes(study: Study, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no folder .*nowhere.*`equivocal train"):
        simulate_answers(tmp_path / "nowhere", tmp_path / "out")
    with pytest.raises(UserError, match="not a complete run"):
        simulate_answers(tmp_path, tmp_path / "out")
    with pytest.raises(UserError, match="must be from 2 to 1000, got 1"):
        simulate_answers(study.folder, tmp_path / "out", answers=1)
    with pytest.raises(UserError, match="prior variance 3; there are 0.1, 1, and"):
        simulate_answers(study.folder, tmp_path / "out", prior_variance=3.0)
    with pytest.raises(UserError, match="--prior-variance. must be above 0, got 0"):
        simulate_answers(study.folder, tmp_path / "out", prior_variance=0.0)
    with pytest.raises(UserError, match="one participant .* or more, got 0"):
        simulate_answers(study.folder, tmp_path / "out", participants=0)
    with pytest.raises(UserError, match="unknown sampler 'papers': did you mean 'paper'"):
        simulate_answers(study.folder, tmp_path / "out", sampler="papers")
    assert not (tmp_path / "out").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "data.csv").write_text("mine")
    with pytest.raises(UserError, match=r"mine holds data\.csv, which would be overwritten"):
        simulate_answers(study.folder, tmp_path / "mine")
    assert (tmp_path / "mine" / "data.csv").read_text() == "mine"
    message = fails("simulate", "--from", "x", "--power", cwd=tmp_path)
    assert message.startswith("--power does nothing with --from; leave one of the two out")
    message = fails("simulate", "--answers", "3", cwd=tmp_path)
    assert message.startswith("--answers does nothing without --from; add that, or leave")
