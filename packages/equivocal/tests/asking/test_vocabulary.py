"""Words as answers, and the roles that syntax indicates."""

import pytest

from equivocal.asking.vocabulary import Vocabulary, find_examples, find_indicated_roles
from equivocal.world import World, read_example


def test_every_word_has_a_unit_of_its_own(paper: World) -> None:
    vocabulary = Vocabulary.from_world(paper)
    assert [paper.units[unit] for unit in vocabulary.units] == list(vocabulary.fillers)
    assert vocabulary.participants == ("agent", "patient")
    for role in ("agent", "patient"):
        row = vocabulary.candidates[paper.roles.index(role)]
        considered = {word for word, yes in zip(vocabulary.fillers, row, strict=True) if yes}
        assert {"woman", "pizza"} <= considered
        assert not {"eat", "kitchen"} & considered


def test_a_word_without_a_unit_is_read_off_its_rarest_feature() -> None:
    text = read_example().replace('dog = ["animal", "barks", "dog"]', 'dog = ["animal", "barks"]')
    world = World.from_toml(text)
    vocabulary = Vocabulary.from_world(world)
    assert world.units[vocabulary.units[vocabulary.fillers.index("dog")]] == "barks"


@pytest.mark.parametrize(
    ("sentence", "roles"),
    [
        (
            "during dinner, the pizza eats the woman",
            {"situation": "dinner", "agent": "pizza", "action": "eat", "patient": "woman"},
        ),
        ("the pizza eats", {"agent": "pizza", "action": "eat"}),
        ("the woman", {"agent": "woman"}),
        ("the eats woman", {}),
        ("eats eats", {}),
    ],
)
def test_syntax_indicates_who_does_what(paper: World, sentence: str, roles: dict[str, str]) -> None:
    assert find_indicated_roles(paper, paper.parse(sentence)) == roles


def test_passives_name_the_patient_first(sg2018: World) -> None:
    passive = next(
        sentence.text
        for sentence in sg2018.sentences
        if " by " in sentence.text and len(sg2018.parse(sentence.text)) >= 3
    )
    roles = find_indicated_roles(sg2018, sg2018.parse(passive))
    words = [part.word for part in sg2018.parse(passive)]
    assert words.index(roles["patient"]) < words.index(roles["agent"])


def test_case_indicates_who_does_what_where_a_world_has_it() -> None:
    world = World.load("word_order")
    said = find_indicated_roles(world, world.parse("den Hund jagt der Fuchs"))
    assert said == {"patient": "Hund", "action": "jagen", "agent": "Fuchs"}
    # in a reversed example the articles change with the roles, and none is added
    texts = {example.sentence: example.compare for example in find_examples(world)}
    assert texts["die Maus jagt die Katze"] == "die Katze jagt die Maus"
    assert texts["der Hund ruft den Vater"] == "der Vater ruft den Hund"
