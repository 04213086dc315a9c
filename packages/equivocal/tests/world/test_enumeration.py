"""Events, sentences and beliefs against cases by hand, a slow enumeration and a large sample."""

import pytest

from equivocal.world import ImpossibleSentenceError, World
from equivocal.world.grammar import NO_FILLER

ONE_TWELFTH = 1 / 12


def probability_of(world: World, text: str) -> float:
    (sentence,) = [s for s in world.sentences if s.text == text]
    return sentence.probability


@pytest.mark.parametrize(
    ("text", "probability"),
    [
        ("woman wears shirt", ONE_TWELFTH * 0.4 * 0.7),
        ("during dinner woman eats pizza in kitchen", ONE_TWELFTH * 0.4 * 0.5 * 0.7 * 0.5),
        ("boy likes eel", ONE_TWELFTH / 4 / 36),
        ("during Sunday man plants rose in garden", ONE_TWELFTH * 0.4 * 0.7 * 0.5),
    ],
)
def test_sentence_probabilities_by_hand(paper: World, text: str, probability: float) -> None:
    assert probability_of(paper, text) == pytest.approx(probability, rel=1e-12)


def test_weights_and_absent_roles_by_hand(garden: World) -> None:
    """Chasing is twice as frequent as finding; a quarter of the findings have no place at all."""
    assert probability_of(garden, "dog chases cat") == pytest.approx(2 / 3 * 0.6 * 0.8 * 0.5)
    found = 1 / 3 * 1 / 5 * 1 / 2  # find, by one of five beings, one of two things
    assert probability_of(garden, "girl finds ball") == pytest.approx(found * (0.25 + 0.75 / 2))
    assert probability_of(garden, "girl finds ball on hedge") == pytest.approx(found * 0.25 / 2)


def test_probabilities_sum_to_one(paper: World, sg2018: World, garden: World) -> None:
    for world in (paper, sg2018, garden):
        assert sum(s.probability for s in world.sentences) == pytest.approx(1, abs=1e-12)
        assert sum(e.probability for e in world.events) == pytest.approx(1, abs=1e-12)


def slow_events(world: World) -> dict[tuple[int, ...], float]:
    """Enumerate event by event and role by role, to compare the vectorised enumeration with."""
    found: dict[tuple[int, ...], float] = {}

    def fill(event: dict[int, int], rest: tuple, probability: float) -> None:
        if not rest:
            key = tuple(event.get(role, NO_FILLER) for role in range(len(world.roles)))
            found[key] = found.get(key, 0) + probability
            return
        (role, choices), *later = rest
        choice = next(c for c in choices if all(event[r] in ok for r, ok in c.when))
        for word, chance in zip(choice.fillers, choice.probabilities, strict=True):
            fill({**event, role: int(word)}, tuple(later), probability * chance)

    for action in world.grammar.actions:
        start = {world.grammar.action_role: action.word}
        fill(start, action.choices, action.probability)
    return found


def test_enumeration_agrees_with_a_slow_walk(paper: World, garden: World) -> None:
    for world in (paper, garden):
        slow = slow_events(world)
        fast: dict[tuple[int, ...], float] = {}
        derivations = world.all_derivations.derivations
        for row, weight in zip(derivations.fillers.tolist(), derivations.weight, strict=True):
            fast[tuple(row)] = fast.get(tuple(row), 0) + weight
        assert fast.keys() == slow.keys()
        for key, probability in slow.items():
            assert fast[key] == pytest.approx(probability, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "role", "beliefs"),
    [
        # after "woman eats" both situations are open, each with its own pair of patients
        ("the woman eats", "patient", {"pizza": 0.35, "egg": 0.35, "soup": 0.15, "food": 1.0}),
        ("the woman eats", "situation", {"dinner": 0.5, "breakfast": 0.5, "situation": 1.0}),
        ("during dinner", "agent", {"woman": 0.4, "girl": 0.1, "person": 1.0}),
        # P(pizza | dinner) = 0.8 * 0.7 + 0.2 * 0.6 over adults and children
        ("during dinner", "patient", {"pizza": 0.68, "soup": 0.32}),
        ("during dinner", "action", {"eat": 1.0, "drink": 0.0, "role:action": 1.0}),
        ("the woman eats pizza in the kitchen", "location", {"kitchen": 1.0, "balcony": 0.0}),
        # `situation` is asked only of events that have one: six actions, "woman" in 0.4 of each
        ("the woman", "situation", {"breakfast": 1 / 12, "holiday": 1 / 6}),
        # `like` has equally likely agents; six actions open with their situation half of the time
        ("the boy", "action", {"like": 0.25 / (0.25 + 5 * 0.1 + 6 * 0.1 * 0.5)}),
    ],
)
def test_true_beliefs_by_hand(paper: World, text: str, role: str, beliefs: dict) -> None:
    found = paper.true_beliefs(text, role)
    assert list(found.index) == list(paper.units)
    for unit, probability in beliefs.items():
        assert found[unit] == pytest.approx(probability, abs=1e-12), unit
    assert found["role:" + role] == pytest.approx(1)


def test_filler_probes_are_exact_patterns(sg2018: World) -> None:
    """A plain filler is an active agent; the feature that a passive adds is part of the probe."""
    assert sg2018.true_beliefs("during dinner", filler="woman")["passive voice"] == 0
    beliefs = sg2018.true_beliefs("during dinner", filler="woman + passive voice")
    assert beliefs["passive voice"] == 1
    assert beliefs["role:agent"] == 1
    with pytest.raises(ImpossibleSentenceError, match="asked there: .*woman \\+ passive voice"):
        sg2018.true_beliefs("the pizza was eaten by the woman", filler="woman")
    with pytest.raises(ValueError, match="unknown feature 'pasive voice'.*did you mean"):
        sg2018.true_beliefs("during dinner", filler="woman + pasive voice")


def test_impossible_sentences_have_no_true_belief(paper: World) -> None:
    with pytest.raises(ImpossibleSentenceError, match="begins with 'during dinner pizza eats'"):
        paper.true_beliefs("During dinner, the pizza eats", "agent")
    with pytest.raises(
        ImpossibleSentenceError, match="'situation' is never asked after 'woman likes'"
    ):
        paper.true_beliefs("the woman likes", "situation")
