"""The sentences that are asked about, and which reading is plausible in the world."""

from pathlib import Path

import pytest

from equivocal.measuring.suite import load_construction
from equivocal.people.questions import find_sentences, list_questions, load_sentences
from equivocal.world import World
from lastlayer.errors import UserError

HEAD = "condition,item,sentence,tracked_units,rival_units\n"


def ask(folder: Path, world: World, rows: str):
    (folder / "s.csv").write_text(HEAD + rows)
    return list_questions(load_sentences(folder / "s.csv", world), world)


def test_the_plausible_reading_is_the_likelier_event(tmp_path: Path, garden: World) -> None:
    """Dogs chase cats, never the other way round; boys chase, and nobody is chased by a ball."""
    asked = ask(
        tmp_path,
        garden,
        "a,dog,the dog chases the cat,agent=dog; patient=cat,agent=cat; patient=dog\n"
        "b,dog,the cat chases the dog,agent=cat; patient=dog,agent=dog; patient=cat\n"
        "a,ball,the boy chases the ball,ball=role:patient,ball=role:agent\n"
        "b,ball,the ball chases the boy,ball=role:agent,ball=role:patient\n"
        "b,odd,the bone chases the ball,agent=bone; patient=ball,agent=ball; patient=bone\n",
    )
    found = {(q.condition, q.item, q.probe): (q.literal, q.rival, q.plausible) for q in asked}
    assert found["a", "dog", "agent"] == ("dog", "cat", False)
    assert found["b", "dog", "agent"] == ("cat", "dog", True)
    assert found["b", "dog", "patient"] == ("dog", "cat", True)
    assert found["b", "odd", "agent"] == ("bone", "ball", False)  # neither can be
    assert found["a", "ball", "ball"] == ("role:patient", "role:agent", False)
    assert found["b", "ball", "ball"] == ("role:agent", "role:patient", True)


def test_rivals_are_the_tracked_units_of_another_condition(tmp_path: Path, garden: World) -> None:
    asked = ask(
        tmp_path,
        garden,
        "a,dog,the dog chases the cat,agent=dog; action=chase,\n"
        "b,dog,the cat chases the dog,agent=cat; action=chase,\n"
        "a,alone,the girl finds the bone,agent=girl,\n",
    )
    assert [(q.item, q.probe, q.rival, q.plausible) for q in asked] == [
        ("dog", "agent", "cat", False),
        ("dog", "action", None, False),  # the same in both
        ("dog", "agent", "dog", True),
        ("dog", "action", None, True),
        ("alone", "agent", None, False),
    ]


def test_conditions_of_the_passives_match_their_names() -> None:
    construction = load_construction("passive")
    asked = list_questions(construction.items, construction.world)
    assert {(q.condition.split()[0], q.plausible) for q in asked} == {
        ("plausible", False),
        ("implausible", True),
    }


def test_shipped_sentences(paper: World, sg2018: World, garden: World) -> None:
    assert find_sentences(sg2018)[1] == "passive"
    items, source = find_sentences(paper)
    assert (len(items), source) == (16, "the stimuli of study paper")
    with pytest.raises(UserError, match="world 'garden'; give some with --sentences FILE.csv"):
        find_sentences(garden)


def test_worlds_in_which_reversals_are_unlikely_have_sentences() -> None:
    """They are used by `simulate --from`; the rival is plausible if the world favours it."""
    world = World.load("both_ways")
    items, source = find_sentences(world)
    assert source == "all sentences of world 'both_ways' in both directions"
    questions = list_questions(items, world)
    assert len(questions) == 192 * 2
    for question in questions:
        assert question.plausible == (not question.condition.startswith("plausible"))
    heard = world.parse("the man bit the dog").tokens
    (one,) = (q for q in questions if q.utterance.tokens == heard and q.probe == "agent")
    assert (one.condition, one.literal, one.rival) == ("unlikely active", "man", "dog")
