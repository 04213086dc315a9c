"""`word_order` and `attachment`: exact beliefs beside Bayes' rule worked out by hand.

All numbers below are written down from the world files, none is asked of the program.
"""

from itertools import product

import pytest

from equivocal.world import ImpossibleSentenceError, World

OBJECT_FIRST = 0.3
INSTRUMENTS = {  # i: how often who does what with which thing
    ("girl", "see"): {"telescope": 0.5},
    ("boy", "see"): {"telescope": 0.2},
    ("girl", "hit"): {"umbrella": 0.3, "hammer": 0.3, "telescope": 0.05},
    ("boy", "hit"): {"umbrella": 0.3, "hammer": 0.3, "telescope": 0.05},
    ("girl", "follow"): {"telescope": 0.1, "umbrella": 0.02},
    ("boy", "follow"): {"telescope": 0.1, "umbrella": 0.02},
}
ATTRIBUTES = {  # a: how often who has what
    "man": {"hat": 0.3, "umbrella": 0.2, "telescope": 0.05, "hammer": 0.05},
    "lady": {"umbrella": 0.6, "hat": 0.3},
    "sailor": {"telescope": 0.5, "hat": 0.3},
    "carpenter": {"hammer": 0.6, "hat": 0.2},
}
THINGS = ("telescope", "umbrella", "hammer", "hat")


@pytest.fixture(scope="module")
def order() -> World:
    return World.load("word_order")


@pytest.fixture(scope="module")
def attachment() -> World:
    return World.load("attachment")


def test_case_tells_the_roles_whatever_the_order(order: World) -> None:
    """Of all sentences: one that shows a case is certain, one that shows none has two readings."""
    open_ones = 0
    for sentence in order.sentences:
        certain = set(order.true_beliefs(sentence.text, "agent")) <= {0.0, 1.0}
        if {"der", "den"} & set(sentence.text.split()):
            assert certain, sentence.text
        open_ones += not certain
    assert open_ones >= 16
    for text in ("der Hund jagt den Fuchs", "den Fuchs jagt der Hund"):
        assert order.true_beliefs(text, "agent")["dog"] == 1
        assert order.true_beliefs(text, "patient")["fox"] == 1


def test_a_first_noun_without_case_leaves_a_doubt_that_bayes_rule_gives(order: World) -> None:
    """P(agent | die Katze) from how often cats act and are acted on, over the four verbs."""
    acts = 0.25 + 0.2 + 0.1 + 1 / 8
    chased = 0.25 * 0.5 + 0.05 * 0.5 + 0.05 * 0.2
    sought = 0.25 * 0.3 + 0.25 * 0.4 + 0.2 * 0.2 + 0.1 * 0.5
    called = 0.4 * 0.2 + 0.4 * 0.4
    suffers = chased + sought + called + 1 / 8
    first, second = (1 - OBJECT_FIRST) * acts, OBJECT_FIRST * suffers
    beliefs = order.true_beliefs("die Katze", filler="Katze")
    assert beliefs["role:agent"] == pytest.approx(first / (first + second))
    assert order.true_beliefs("der Hund", filler="Hund")["role:agent"] == 1
    assert order.true_beliefs("den Hund", filler="Hund")["role:agent"] == 0


@pytest.mark.parametrize(
    ("text", "first", "forth", "back"),
    [
        ("die Katze jagt die Maus", "cat", 0.25 * 0.9, 0.05 * 0.2),
        ("die Maus jagt die Katze", "mouse", 0.05 * 0.2, 0.25 * 0.9),
        ("die Frau sucht die Katze", "woman", 0.25 * 0.4, 0.2 * 0.3),
        ("die Katze ruft die Frau", "cat", 0.1 * 0.5, 0.4 * 0.4),
        ("die Gans sieht die Maus", "goose", 1 / 56, 1 / 56),
        ("die Gans jagt die Frau", "goose", 0, 0.05 * 0.5),
    ],
)
def test_two_readings_have_the_odds_of_their_events_and_orders(
    order: World, text: str, first: str, forth: float, back: float
) -> None:
    """`forth`: how often the first noun does it to the second; `back`: the other way round."""
    subject_first, object_first = (1 - OBJECT_FIRST) * forth, OBJECT_FIRST * back
    expected = subject_first / (subject_first + object_first)
    assert order.true_beliefs(text, "agent")[first] == pytest.approx(expected)


def test_attachment_follows_bayes_rule_in_every_sentence(attachment: World) -> None:
    """P(instrument | sentence) = i / (i + (1 − I) a), for all that can be said."""
    seen = []
    for (agent, verb), patient, thing in product(INSTRUMENTS, ATTRIBUTES, THINGS):
        sentence = f"the {agent} {verb}s the {patient} with the {thing}"
        i = INSTRUMENTS[agent, verb].get(thing, 0)
        rest = 1 - sum(INSTRUMENTS[agent, verb].values())
        a = ATTRIBUTES[patient].get(thing, 0)
        if i + rest * a == 0:
            with pytest.raises(ImpossibleSentenceError):
                attachment.true_beliefs(sentence, filler=thing)
            continue
        beliefs = attachment.true_beliefs(sentence, filler=thing)
        assert beliefs["role:instrument"] == pytest.approx(i / (i + rest * a)), sentence
        assert beliefs["role:attribute"] == pytest.approx(1 - beliefs["role:instrument"])
        seen.append(beliefs["role:instrument"])
    undecided = [chance for chance in seen if 0 < chance < 1]
    assert min(undecided) < 0.05
    assert max(undecided) > 0.95
    assert any(0.4 < chance < 0.6 for chance in undecided)
