"""Text to constituents: what people type, and what they mistype."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equivocal.world import UnknownWordError, World
from lastlayer.errors import UserError


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        (
            "During dinner, the woman eats pizza in the kitchen",
            [("during/at", "dinner"), ("woman",), ("eat",), ("pizza",), ("in", "kitchen")],
        ),
        ("The WOMAN ate a Pizza!", [("woman",), ("eat",), ("pizza",)]),
        (
            "at breakfast the egg eats the man",
            [("during/at", "breakfast"), ("egg",), ("eat",), ("man",)],
        ),
        ("the man is drinking iced tea", [("man",), ("drink",), ("iced tea",)]),
        ("a boy looked at the living room", [("boy",), ("look at",), ("living room",)]),
        # "in", "at" and "on" go by the word that follows: a time or a place
        (
            "in the morning the man fishes at the lake",
            [("during/at", "morning"), ("man",), ("fish",), ("in", "lake")],
        ),
        ("on Sunday", [("during/at", "Sunday")]),
        ("iced-tea and-toast", None),
        ("the man writes text messages", [("man",), ("write",), ("SMS",)]),
        ("iced-teas", [("iced tea",)]),
        ("during/at dinner", [("during/at", "dinner")]),
        # any order of words, however odd
        (
            "pizza eats woman dinner kitchen",
            [("pizza",), ("eat",), ("woman",), ("dinner",), ("kitchen",)],
        ),
        ("in the pizza", [("during/at", "pizza")]),
        ("he said", None),
    ],
)
def test_paper_sentences(paper: World, text: str, tokens: list | None) -> None:
    if tokens is None:
        with pytest.raises(UnknownWordError):
            paper.parse(text)
    else:
        assert list(paper.parse(text).tokens) == tokens


def test_passive_and_progressive_are_told_apart(sg2018: World) -> None:
    passive = sg2018.parse("the pizza was eaten by the woman")
    assert passive.tokens == (("pizza",), ("was", "eat"), ("by", "woman"))
    assert sg2018.parse("the woman was eating").tokens == (("woman",), ("eat",))


def test_words_are_labelled_as_typed(paper: World) -> None:
    assert paper.parse("During dinner, the pizza eats").words == ("during dinner", "pizza", "eats")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("the woman eats piza", "unknown word 'piza': did you mean 'pizza'"),
        ("the woman eats qqqq", "equivocal world show paper"),
        ("", "is empty"),
        ("the woman eats pizza in", "'in' is the last word"),
        ("during in kitchen", "'during' is followed by 'in'"),
        ("woman " * 1000, "at most 2000; shorten it"),
        ("the pizza was eaten", "unknown word 'was': .*active sentences only.*sg2018; .*first"),
        ("женщина ест пиццу", "unknown word"),
    ],
)
def test_bad_text_gets_one_clear_sentence(paper: World, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        paper.parse(text)
    assert "\n" not in str(caught.value)


def test_every_sentence_of_a_world_is_read_back(paper: World, sg2018: World, garden: World) -> None:
    for world in (paper, sg2018, garden):
        tree = world.all_derivations.tree
        for sentence in world.sentences:
            node = tree.find(world.encode(sentence.text))
            assert node >= 0, sentence.text


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=80))
def test_any_text_parses_or_is_a_users_mistake(paper: World, text: str) -> None:
    try:
        assert len(paper.parse(text)) >= 1
    except UserError as error:
        assert str(error)
