"""Markers that depend on the word: spelled, encoded, parsed back, and checked."""

import pytest

from equivocal.world import World, WorldError, read_example

BY_CLASS = 'markers = { place = "on", agent = { children = "on", dog = "by" } }'
GARDEN = (
    read_example()
    .replace('markers = { place = "on" }', BY_CLASS)
    .replace("[markers]", '[markers]\nby = ["by"]')
)


def problems_of(text: str) -> str:
    with pytest.raises(WorldError) as caught:
        World.from_toml(text, "my.toml")
    return str(caught.value)


def test_each_class_has_its_own_marker_and_others_have_none() -> None:
    world = World.from_toml(GARDEN)
    first = {tuple(world.parse(s.text).tokens[0]) for s in world.sentences}
    assert first == {("by", "dog"), ("on", "girl"), ("on", "boy"), ("cat",), ("mouse",)}
    tree = world.all_derivations.tree
    assert all(tree.find(world.encode(sentence.text)) >= 0 for sentence in world.sentences)
    assert world.sample(200, seed=3).tree.find(world.encode("by dog")) >= 0


def test_a_marker_for_all_is_as_good_as_one_for_each() -> None:
    by_word = read_example().replace('place = "on" }', 'place = { lawn = "on", hedge = "on" } }')
    plain, told = World.from_toml(read_example()), World.from_toml(by_word)
    assert told.sentences == plain.sentences
    assert told.fingerprint != plain.fingerprint  # it is written otherwise


@pytest.mark.parametrize(
    ("markers", "message"),
    [
        ('{ childs = "on" }', "active markers agent: unknown word or class 'childs'"),
        ('{ children = "onn" }', "unknown marker 'onn': did you mean 'on'?"),
        ('{ children = "on", boy = "on" }', "'boy' has two markers as 'agent'; leave it one."),
        ("3", "markers agent: 3 is wrong: this should be a name, a table"),
    ],
)
def test_mistakes_are_told(markers: str, message: str) -> None:
    text = read_example().replace(
        'markers = { place = "on" }', f'markers = {{ place = "on", agent = {markers} }}'
    )
    assert message in problems_of(text)
