"""Sentences to begin with, found in the world itself."""

from equivocal.asking.description import find_examples
from equivocal.asking.vocabulary import find_indicated_roles
from equivocal.world import World


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


def test_misleading_sentences_build_up_a_belief_and_take_it_back(paper: World) -> None:
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
