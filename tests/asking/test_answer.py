"""An answer in the forms that people take it in: JSON, tables, pictures, a sentence."""

import json
from dataclasses import replace

import numpy as np
import pytest

from equivocal.asking import Answer, Comprehender
from equivocal.asking.summary import summarise
from equivocal.errors import UserError


@pytest.fixture(scope="module")
def answer(garden_mind: Comprehender) -> Answer:
    return garden_mind.answer("the mouse <chases> the cat", step=0)


def test_json_has_what_was_promised(answer: Answer) -> None:
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


def test_the_likeliest_come_first(answer: Answer) -> None:
    for top in (1, 2):
        first = answer.beliefs(0, "place", top=top)
        assert len(first) == top
        strength = [max(belief.mle, belief.bayes) for belief in first]
        assert strength == sorted(strength, reverse=True)
    with pytest.raises(UserError, match="top must be a whole number"):
        answer.to_dict(top=0)


def test_what_is_no_candidate_is_said_to_be_none(answer: Answer) -> None:
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
    dataset = answer.to_xarray()
    assert dataset["bayes"].dims == ("word", "role", "filler")
    np.testing.assert_array_equal(dataset["entropy"], answer.entropy)


def test_html_shows_every_word_and_escapes_what_was_typed(answer: Answer) -> None:
    html = answer._repr_html_()
    assert "&lt;chases&gt;" in html
    assert "<chases>" not in html
    assert html.count("scope='col'") == 3
    assert "Bayesian" in html


def test_figure_has_a_panel_for_each_word_and_role(answer: Answer) -> None:
    figure = answer.plot()
    assert len(figure.axes) == 3 * 4
    figure.canvas.draw()
    agent = figure.axes[2]  # after the last word
    assert {"mouse", "cat"} <= {label.get_text() for label in agent.get_yticklabels()}


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
    assert "No event of the world" in answer.summary
    assert "No event of the world" not in unknown.summary


def test_summary_says_where_word_order_contradicts_the_reading(answer: Answer) -> None:
    """One role, two alike and two unlike: a dog is believed, whoever chases."""
    roles = [answer.roles.index(role) for role in ("agent", "patient")]
    fillers = [answer.fillers.index(word) for word in ("mouse", "cat", "dog")]
    values = np.zeros_like(answer.bayes)
    values[-1, roles[0], fillers[2]] = values[-1, roles[1], fillers[2]] = 0.9
    alike = replace(answer, mle=values, bayes=values, low=values, high=values)
    assert "makes the mouse the agent and the cat the patient" in alike.summary
    assert "gives these readings 0 % each." in alike.summary
    values = values.copy()
    values[-1, roles[1], fillers[1]] = 0.2
    unlike = replace(alike, bayes=values)
    assert "these readings 0 % and 20 % (90 % interval 0 %; trained network 0 %)" in unlike.summary
    values = values.copy()
    values[-1, roles[1], fillers[1]] = 0.95
    assert "makes the mouse the agent, but the model gives that reading 0 %." in (
        replace(alike, mle=values, bayes=values, low=values, high=values).summary
    )


def test_summary_names_reading_order_of_words_and_doubt(garden_mind: Comprehender) -> None:
    said = summarise(garden_mind.answer("the cat chases the mouse"))
    assert "the cat as agent" in said
    assert "No event" not in said
    odd = garden_mind.answer("the ball chases the dog")
    assert "No event of the world garden" in summarise(odd)
    assert "of its uncertainty is epistemic" in summarise(odd)
    assert repr(odd).startswith("<Answer to 'the ball chases the dog': The model")
