"""Words as answers, what the order of words says, and sentences to begin with."""

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


def test_a_word_without_one_is_read_off_its_rarest_feature() -> None:
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
def test_order_of_words_says_who_does_what(
    paper: World, sentence: str, roles: dict[str, str]
) -> None:
    assert find_indicated_roles(paper, paper.parse(sentence)) == roles


def test_passives_turn_the_order_round(sg2018: World) -> None:
    passive = next(
        sentence.text
        for sentence in sg2018.sentences
        if " by " in sentence.text and len(sg2018.parse(sentence.text)) >= 3
    )
    roles = find_indicated_roles(sg2018, sg2018.parse(passive))
    words = [part.word for part in sg2018.parse(passive)]
    assert words.index(roles["patient"]) < words.index(roles["agent"])


def test_examples_come_from_the_world(paper: World, garden: World) -> None:
    examples = find_examples(paper)
    groups = list(dict.fromkeys(example.group for example in examples))
    assert groups == ["The paper's pair", "Congruent", "Reversed", "An early belief is taken back"]
    for example in examples:
        paper.parse(example.sentence)  # every one can be asked
    usual = next(example for example in examples if example.group == "Congruent")
    turned = next(example for example in examples if example.group == "Reversed")
    assert turned.compare == usual.sentence
    assert usual.label == "the woman wears the shirt"
    was = find_indicated_roles(paper, paper.parse(usual.sentence))
    now = find_indicated_roles(paper, paper.parse(turned.sentence))
    assert (now["agent"], now["patient"]) == (was["patient"], was["agent"])
    assert "The paper's pair" not in {example.group for example in find_examples(garden)}


def test_misleading_sentences_make_sure_of_what_is_then_not_so(paper: World) -> None:
    texts = [example.sentence for example in find_examples(paper) if "taken back" in example.group]
    assert texts
    for text in texts:
        utterance = paper.parse(text)
        led = 0.0
        for role in paper.roles:
            try:
                end = paper.true_beliefs(utterance, role)
                led = max(
                    led,
                    *(
                        (paper.true_beliefs(utterance.first(size), role) - end).max()
                        for size in range(1, len(utterance))
                    ),
                )
            except ValueError:
                continue
        assert led >= 0.6


def test_case_says_who_does_what_where_a_world_has_it() -> None:
    world = World.load("word_order")
    said = find_indicated_roles(world, world.parse("den Hund jagt der Fuchs"))
    assert said == {"patient": "Hund", "action": "jagen", "agent": "Fuchs"}
