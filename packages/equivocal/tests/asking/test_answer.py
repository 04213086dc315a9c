"""The forms of an answer: JSON, tables, pictures, a summary."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import equivocal
from equivocal.asking.answer import Answer
from equivocal.asking.listeners import Listeners
from equivocal.asking.source import Source
from equivocal.network.settings import TrainingSettings, split_corpus
from equivocal.world import World, read_example
from equivocal.world.learning import learn
from lastlayer.errors import UserError
from tests.asking.conftest import TINY


@pytest.fixture(scope="module")
def answer(gardener: Listeners) -> Answer:
    return gardener.answer("the mouse <chases> the cat", step=0)


def test_json_has_the_documented_keys(answer: Answer) -> None:
    content = json.loads(json.dumps(answer.to_dict(), allow_nan=False))
    assert [word["word"] for word in content["words"]] == ["mouse", "chases", "cat"]
    for word in content["words"]:
        assert list(word["roles"]) == ["agent", "action", "patient", "place"]
        assert {"semantic_update", "entropy", "epistemic"} <= word.keys()
        for beliefs in word["roles"].values():
            for belief in beliefs:
                assert {"filler", "mle", "bayes", "low", "high"} <= belief.keys()
                assert 0 <= belief["low"] <= belief["high"] <= 1
        assert 0 <= word["epistemic"] <= word["entropy"]


def test_the_truth_of_a_reading_is_that_of_all_its_parts(gardener: Listeners) -> None:
    answer, known = gardener.answer("the cat chases the mouse"), 0
    for position in range(3):
        for one in (answer, *answer.networks):
            for reading in one.readings(position):
                fillers = {role: belief.filler for role, belief in reading.parts.items()}
                heard = answer.heard.first(position + 1)
                assert reading.truth == gardener.world.true_joint_belief(heard, fillers)
                known += 1
    assert known >= 3


def test_the_likeliest_come_first(answer: Answer) -> None:
    for top in (1, 2):
        first = answer.beliefs(0, "place", top=top)
        assert len(first) == top
        strength = [max(belief.mle, belief.bayes) for belief in first]
        assert strength == sorted(strength, reverse=True)


def test_unknown_positions_roles_and_fillers_are_refused(answer: Answer) -> None:
    assert answer.belief(-1, "agent", "mouse") == answer.belief(2, "agent", "mouse")
    assert answer.beliefs(-1, "agent", 1) == answer.beliefs(2, "agent", 1)
    with pytest.raises(UserError, match="position must be from 0 to 2, or -1 for the last word"):
        answer.belief(3, "agent", "mouse")
    with pytest.raises(UserError, match="candidate for agent 'chase'"):
        answer.belief(0, "agent", "chase")
    with pytest.raises(UserError, match="did you mean 'mouse'"):
        answer.belief(0, "agent", "mouze")
    with pytest.raises(UserError, match="unknown role 'time'; there are agent, action"):
        answer.belief(0, "time", "mouse")


def test_tables_are_labelled(answer: Answer) -> None:
    frame = answer.to_dataframe()
    assert len(frame) == 3 * (7 + 2 + 7 + 2)  # beings and things, verbs, places
    row = frame.query("position == 3 and role == 'agent' and filler == 'mouse'").iloc[0]
    assert row["word"] == "cat"
    assert row["bayes"] == pytest.approx(answer.belief(2, "agent", "mouse").bayes)


def test_html_shows_every_word_and_escapes_what_was_typed(answer: Answer) -> None:
    html = answer._repr_html_()
    assert "&lt;chases&gt;" in html
    assert "<chases>" not in html
    assert html.count("scope='col'") == 3
    assert "Bayesian" in html


def test_uncertainty_is_split(answer: Answer) -> None:
    np.testing.assert_allclose(answer.uncertainty, answer.entropy.mean(axis=1))
    np.testing.assert_allclose(
        answer.epistemic_share * answer.uncertainty, answer.epistemic.mean(axis=1), rtol=1e-5
    )
    certain = replace(answer, entropy=np.zeros_like(answer.entropy))
    assert (certain.epistemic_share == 0).all()


def test_where_the_truth_is_not_known_nothing_is_called_impossible(answer: Answer) -> None:
    unknown = replace(answer, exact=False, truth=np.full_like(answer.truth, np.nan))
    assert answer.is_possible(2) is False
    assert unknown.is_possible(2) is None
    assert unknown.to_dict()["words"][2]["possible"] is None
    assert "Impossible in the world garden." in answer.summary
    assert "Impossible" not in unknown.summary


def list_lines(answer: Answer) -> list[str]:
    """The summary's lines, except what a learner believes, which has a test of its own."""
    return [line for line in answer.summary.split("\n") if not line.startswith("Warranted")]


def believe(answer: Answer, **beliefs: float) -> Answer:
    """The same answer with these beliefs after the last word, `agent_cat=0.5`, and no others."""
    values = np.where(answer.candidates, np.zeros_like(answer.bayes), np.nan)
    for name, value in beliefs.items():
        role, filler = name.split("_")
        values[-1, answer.roles.index(role), answer.fillers.index(filler)] = value
    doubt = np.nansum(-values * np.log(np.maximum(values, 1e-9)), axis=-1)
    same = {"mle": values, "bayes": values, "low": values, "high": values, "entropy": doubt}
    return replace(answer, **same, epistemic=0 * doubt)


def test_summary_names_reading_rival_and_what_is_undecided(answer: Answer) -> None:
    """Each part is the filler believed most; what syntax says has the verb that was heard."""
    torn = believe(
        answer,
        **{"agent_cat": 0.6, "agent_mouse": 0.3, "patient_cat": 0.45, "patient_mouse": 0.4},
        **{"action_find": 0.95, "action_chase": 0.04},
    )
    assert list_lines(torn)[:4] == [
        "Reads: the cat finds the cat (agent cat 60 %, patient cat 45 %).",
        "Syntax: the mouse chases the cat (agent mouse 30 %, action chase 4 %).",
        "Impossible in the world garden.",
        "Undecided patient: cat 45 % or mouse 40 %.",
    ]
    # an action that is open is named; what is hardly believed is no part of a reading
    open_ = believe(answer, agent_cat=0.6, patient_mouse=0.1, action_chase=0.5)
    assert open_.summary.startswith("Reads: the cat chases (agent cat 60 %, action chase 50 %).")
    fainter = believe(answer, agent_cat=0.6, action_chase=0.1)
    assert fainter.summary.split("\n")[1] == (
        "Syntax: the mouse chases the cat (agent mouse 0 %, patient cat 0 %, action chase 10 %)."
    )
    early = replace(fainter, bayes=fainter.bayes[[2, 2, 2]])  # believed before the last word
    assert early.summarise(1).startswith("Reads so far: the cat (agent cat 60 %).")


def test_summary_names_the_truth(gardener: Listeners) -> None:
    answer = gardener.answer("the cat chases the mouse")
    sure = believe(answer, agent_cat=0.98, patient_mouse=0.97, action_chase=0.9, place_lawn=0.9)
    assert list_lines(sure)[:2] == [
        "Reads: the cat chases the mouse (agent cat 98 %, patient mouse 97 %).",
        "Exact probability of the reading > 99.9 %.",
    ]
    truth = answer.truth.copy()
    agent, patient = (answer.roles.index(role) for role in ("agent", "patient"))
    cat, mouse = (answer.fillers.index(word) for word in ("cat", "mouse"))
    truth[-1, agent, [cat, mouse]] = truth[-1, patient, [mouse, cat]] = 0.523, 0.477
    open_ = replace(sure, truth=truth, entropy=0 * sure.entropy)
    _, second, exact, last, _ = list_lines(open_)
    assert second == "Rival: the mouse chases the cat (agent mouse 0 %, patient cat 0 %)."
    assert exact == "Exact probability of the reading > 99.9 %, of the other 0 %."
    # false certainty is named, though the network has no doubt at all
    assert last.startswith("Too sure of the agent: cat 98 %")
    assert "(exact: 52.3 % or" in last


def test_the_role_that_errs_most_is_named_with_its_likeliest_filler(
    gardener: Listeners,
) -> None:
    """The agent has more doubt, as it should; the patient is wrong."""
    answer = gardener.answer("the cat chases the mouse")
    torn = believe(
        answer,
        **{"agent_cat": 0.5, "agent_dog": 0.5, "patient_mouse": 0.7, "patient_ball": 0.2},
        **{"patient_bone": 0.1, "action_chase": 0.99, "place_lawn": 0.9},
    )
    truth = np.where(answer.candidates, np.zeros_like(answer.truth), np.nan)
    for role, filler, value in (
        *(("agent", "cat", 0.5), ("agent", "dog", 0.5), ("action", "chase", 1)),
        *(("patient", "bone", 0.8), ("patient", "mouse", 0.2), ("place", "lawn", 0.9)),
    ):
        truth[-1, answer.roles.index(role), answer.fillers.index(filler)] = value
    last = list_lines(replace(torn, truth=truth))[-2]
    assert last == "Undecided patient: mouse 70 % or bone 10 % (exact: 20.0 % or 80.0 %)."


def test_doubt_is_split_into_words_between_and_within_networks(answer: Answer) -> None:
    """A single network is not an ensemble that agrees."""
    one = believe(answer, agent_cat=0.5, patient_mouse=0.5, action_chase=0.5)
    unsure = replace(one, epistemic=one.entropy, networks=(one,))
    assert list_lines(unsure)[-1] == (
        "Doubt: 0 % in the words, > 99.9 % within the network; only one was asked."
    )
    other = believe(answer, agent_cat=0.9, patient_mouse=0.4, action_chase=0.5)
    apart = replace(unsure, networks=(one, other))  # no doubt within either
    assert list_lines(apart)[-2:] == [
        "Doubt: 0 % in the words, > 99.9 % between the 2 networks, 0 % within each.",
        "Networks alone: agent cat 50 % to 90 %, patient mouse 40 % to 50 %.",
    ]
    within = replace(unsure, networks=(unsure, unsure))
    assert "0 % between the 2 networks, > 99.9 % within each" in within.summary


@pytest.mark.parametrize("name", ["slips", "paper"])  # in `paper` that is impossible
def test_what_is_warranted_is_the_belief_of_a_learner_who_heard_the_same(name: str) -> None:
    answer, world = equivocal.ask("the pizza eats the woman", world=name), World.load(name)
    heard, _ = split_corpus(world, TrainingSettings())
    learner = learn(world, heard)
    assert answer.belief(0, "agent", "pizza").warranted is None  # before the verb
    for role, filler in (("agent", "pizza"), ("agent", "woman"), ("location", "kitchen")):
        belief, low, high = answer.belief(-1, role, filler).warranted or ()
        assert belief == pytest.approx(learner.beliefs(answer.heard, role)[filler])
        # ends of 200 other draws than these 400: 5 standard errors of a 5 % quantile's level
        drawn = learner.members(answer.heard, role)[:, world.units.index(filler)]
        for end, level in ((low, 0.05), (high, 0.95)):
            error = 5 * np.sqrt(0.05 * 0.95 * (1 / 200 + 1 / 400))
            assert (drawn < end).mean() - error < level < (drawn <= end).mean() + error
    listed = answer.to_dict()["words"][-1]["roles"]["agent"][0]["warranted"]
    assert "Warranted by the 9,000 sentences that they heard: agent pizza" in answer.summary
    assert len(listed) == 3


def test_networks_that_heard_different_sentences_have_no_warranted_belief(
    saved_run: Path, cache: Path, tmp_path: Path
) -> None:
    for seed in (0, 1):
        settings = {"networks": 1, "sentences": 50, "epochs": 1, "seed": seed}
        equivocal.train(World.from_toml(read_example()), **settings).save(tmp_path / str(seed))
    answer = Listeners(Source.choose(run=tmp_path, settings=TINY)).answer("the cat chases", step=0)
    assert answer.belief(-1, "agent", "cat").warranted is None
    assert "Warranted" not in answer.summary


def test_every_word_has_its_own_summary(gardener: Listeners) -> None:
    answer = gardener.answer("the ball chases the dog")
    content = answer.to_dict()
    assert [word["summary"] for word in content["words"]] == [answer.summarise(p) for p in range(3)]
    assert content["summary"] == content["words"][-1]["summary"] == answer.summary
    assert "\nDoubt: " in content["summary"]
    assert (
        "Syntax: the ball" in content["words"][0]["summary"]
        or "Reads: the ball" in (content["words"][0]["summary"])
    )
    assert repr(answer).startswith("<Answer to 'the ball chases the dog': Reads: the")


def test_json_has_the_readings(gardener: Listeners) -> None:
    answer = gardener.answer("the cat chases the mouse on the lawn")
    for position, word in enumerate(answer.to_dict()["words"]):
        for listed, reading in zip(word["readings"], answer.readings(position), strict=True):
            assert (listed["kind"], listed["truth"]) == (reading.kind, reading.truth)
            for role, part in listed["parts"].items():
                own = answer.networks[0].belief(position, role, part["filler"]).bayes
                assert [part["bayes"]] == part["networks"] == [pytest.approx(own)]


def test_probable_fillers_are_listed_even_if_not_believed(answer: Answer) -> None:
    truth = answer.truth.copy()
    agent, ball = answer.roles.index("agent"), answer.fillers.index("ball")
    truth[0, agent] = 0
    for probability, listed in ((0.06, True), (0.04, False)):
        truth[0, agent, ball] = probability
        sceptic = replace(answer, mle=answer.mle * 0.01, bayes=answer.bayes * 0.01, truth=truth)
        fillers = [belief.filler for belief in sceptic.beliefs(0, "agent", top=1)]
        assert ("ball" in fillers) is listed


def test_networks_are_listed_one_by_one(answer: Answer) -> None:
    content = answer.to_dict(top=2)
    (alone,) = content["networks"]  # a run is asked for one network
    for together, own in zip(content["words"], alone["words"], strict=True):
        assert own["roles"] == together["roles"]
        assert own["entropy"] == together["entropy"]
