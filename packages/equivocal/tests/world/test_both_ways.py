"""The world `both_ways`: beliefs by hand, and items that are plausible, unlikely or impossible."""

from collections import Counter
from math import isnan

import pytest

from equivocal.world import World, find_plausibility_items, read_example
from equivocal.world.hearing import find_said_roles
from lastlayer.errors import UserError

RARE, EXCHANGE, DELETION, INSERTION, CASE = 0.1, 0.01, 0.02, 0.01, 0.01


@pytest.fixture(scope="module")
def world() -> World:
    found = World.load("both_ways")
    assert found.parameters | {"odd": 0.05} == {
        "rare": RARE,
        "odd": 0.05,
        "exchange": EXCHANGE,
        "deletion": DELETION,
        "insertion": INSERTION,
        "case": CASE,
    }
    return found


# Who bites: man and dog have rare : 1 − rare. Half of the sentences are actives, a fifth passives,
# a fifth subject first, a tenth object first. (literal, other): weights of the man's and the dog's
# biting behind each sentence, in which the man bites if taken literally.
ONE_ADDED = INSERTION * (1 - INSERTION)
ONE_LOST = DELETION * (1 - DELETION)
BY_HAND = {
    # as meant; the dog's active exchanged, or its passive "man was bitten by dog" with both lost
    "the man bit the dog": (
        RARE * 0.5 * (1 - EXCHANGE - 2 * ONE_ADDED - INSERTION**2),
        (1 - RARE) * (0.5 * EXCHANGE + 0.2 * DELETION**2),
    ),
    # as meant; the dog's passive exchanged, or its active with "was" and "by" added
    "the dog was bitten by the man": (
        RARE * 0.2 * (1 - EXCHANGE - 2 * ONE_LOST - DELETION**2),
        (1 - RARE) * (0.2 * EXCHANGE + 0.5 * INSERTION**2),
    ),
    # as meant; words exchanged in the same order, or cases exchanged in the other
    "der man bit den dog": (
        RARE * 0.2 * (1 - EXCHANGE - CASE),
        (1 - RARE) * (0.2 * EXCHANGE + 0.1 * CASE),
    ),
    "den dog bit der man": (
        RARE * 0.1 * (1 - EXCHANGE - CASE),
        (1 - RARE) * (0.1 * EXCHANGE + 0.2 * CASE),
    ),
}


@pytest.mark.parametrize("sentence", BY_HAND)
def test_unlikely_sentences_are_doubted_by_bayes_rule(world: World, sentence: str) -> None:
    literal, other = BY_HAND[sentence]
    beliefs = world.true_beliefs(sentence, "agent")
    assert beliefs["man"] == pytest.approx(literal / (literal + other))
    assert beliefs["dog"] == pytest.approx(other / (literal + other))
    assert world.literal_beliefs(sentence, "agent")["man"] == 1


def test_items_have_all_versions(world: World) -> None:
    """Eight pairs that go both ways, eight one way with a usual and an odd thing, four times."""
    items = find_plausibility_items(world)
    counts = Counter((item.construction, item.plausibility) for item in items)
    for construction in ("active", "passive", "subject first", "object first"):
        assert counts[construction, "plausible"] == 8 + 16
        assert counts[construction, "unlikely"] == 8
        assert counts[construction, "impossible"] == 16
    by_text = {str(item.sentence): item for item in items}
    assert len(by_text) == len(items) == 4 * 48
    for sentence, (literal, other) in BY_HAND.items():
        item = by_text[str(world.parse(sentence))]
        assert item.literal == pytest.approx(literal / (literal + other))
        assert (item.item, item.plausibility) == ("dog bite man", "unlikely")
        assert (item.agent, item.action, item.patient) == ("man", "bite", "dog")
        assert item.probability == pytest.approx(RARE / 2 / 8)
    pizza = by_text["pizza was eaten by man"]
    assert (pizza.plausibility, pizza.agent) == ("plausible", "man")
    turned = by_text["man was eaten by pizza"]
    assert (turned.plausibility, turned.agent, turned.literal) == ("impossible", "pizza", 0)
    assert turned.item == pizza.item == "man eat pizza"


def test_items_of_other_worlds(paper: World) -> None:
    """In `paper` nothing goes both ways, and a reversal is never heard."""
    items = find_plausibility_items(paper)
    assert {item.plausibility for item in items} == {"plausible", "impossible"}
    assert all(isnan(item.literal) == (item.plausibility == "impossible") for item in items)
    with pytest.raises(UserError, match="has no role patient; use a world that has"):
        find_plausibility_items(World.from_toml(read_example().replace("patient", "theme")))


@pytest.mark.parametrize(
    ("text", "roles"),
    [
        ("the pizza ate the man", {"agent": "pizza", "action": "eat", "patient": "man"}),
        ("the man was eaten by the pizza", {"agent": "pizza", "action": "eat", "patient": "man"}),
        ("den man bit der dog", {"agent": "dog", "action": "bite", "patient": "man"}),
        ("den man", {"patient": "man"}),
        ("the man", {}),  # of an active or of a passive
    ],
)
def test_a_literal_reader_goes_by_constructions_alone(text: str, roles: dict[str, str]) -> None:
    world = World.load("both_ways")
    said = find_said_roles(world.grammar, world.encode(text))
    assert {world.roles[r]: world.lexicon.words[w] for r, w in said.items()} == roles
