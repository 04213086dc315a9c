"""The world `slips`: beliefs about reversals, against Bayes' rule by hand."""

import pytest

from equivocal.world import ImpossibleSentenceError, World, find_role_reversals, read_example
from lastlayer.errors import UserError


@pytest.fixture(scope="module")
def slips() -> World:
    return World.load("slips")


@pytest.mark.parametrize("rare", [0.0, 0.003, 0.03, 0.2])
@pytest.mark.parametrize("slip", [0.0, 0.001, 0.02, 0.49])
def test_beliefs_follow_bayes_rule(rare: float, slip: float) -> None:
    """Of eat: four typical patients act with probability `rare` each, on a man or a woman.

    A woman eats (0.4 of what is left) a pizza in 0.7 of dinners, and dinners are half of the meals.
    The situation is said in half of the sentences, whoever acts, so that this half cancels.
    """
    world = World.load("slips", rare=rare, slip=slip)
    assert sum(sentence.probability for sentence in world.sentences) == pytest.approx(1)
    dinner, woman_eats_pizza = 0.5, (1 - 4 * rare) * 0.4 * 0.7
    pizza_eats_woman = rare * 0.5
    for context, acts_rarely in (("during dinner, ", dinner), ("", 1.0)):  # at breakfast, too
        literal = (1 - slip) * acts_rarely * pizza_eats_woman
        slipped = slip * dinner * woman_eats_pizza
        heard = f"{context}the pizza eats the woman"
        if literal + slipped == 0:
            with pytest.raises(ImpossibleSentenceError):
                world.true_beliefs(heard, "agent")
            continue
        beliefs = world.true_beliefs(heard, "agent")
        assert beliefs["pizza"] == pytest.approx(literal / (literal + slipped))
        assert beliefs["woman"] == pytest.approx(slipped / (literal + slipped))
    literal, slipped = (1 - slip) * dinner * woman_eats_pizza, slip * dinner * pizza_eats_woman
    beliefs = world.true_beliefs("during dinner, the woman eats the pizza", "agent")
    assert beliefs["pizza"] == pytest.approx(slipped / (literal + slipped))


def test_without_rare_events_and_slips_it_is_the_world_of_the_paper(paper: World) -> None:
    world = World.load("slips", rare=0, slip=0)
    expected = {sentence.text: sentence.probability for sentence in paper.sentences}
    found = {sentence.text: sentence.probability for sentence in world.sentences}
    assert found == pytest.approx(expected)


def test_role_reversals_have_both_readings(slips: World) -> None:
    """Man and woman with 24 typical patients, and with 16 of them in their situation."""
    assert len(slips.sentences) == 1_004
    items = find_role_reversals(slips)
    assert len(items) == 2 * (24 + 16)
    assert {item.agent for item in items} == {"man", "woman"}
    (pizza,) = (
        i for i in items if (i.agent, i.patient, i.context) == ("woman", "pizza", ("dinner",))
    )
    assert str(pizza.congruent) == "during dinner woman eats pizza"
    assert str(pizza.reversal) == "during dinner pizza eats woman"
    assert pizza.action == "eat"
    assert pizza.literal == pytest.approx(0.477, abs=5e-4)
    for item in items:
        for heard, acting in ((item.reversal, item.literal), (item.congruent, 0.0)):
            beliefs = slips.true_beliefs(heard, "agent")
            assert beliefs[item.patient] == pytest.approx(acting, abs=2e-3)
            assert beliefs[item.agent] + beliefs[item.patient] == pytest.approx(1)
        assert item.action in [part.word for part in item.reversal]


def test_reversals_that_cannot_be_said_are_refused(paper: World, garden: World) -> None:
    for world in (paper, garden, World.load("slips", rare=0)):
        with pytest.raises(UserError, match="no role reversal can be read in two ways"):
            find_role_reversals(world)
    text = read_example().replace("patient", "theme")
    with pytest.raises(UserError, match="world 'garden' has no role patient"):
        find_role_reversals(World.from_toml(text))


def test_joint_beliefs_add_up_to_those_of_one_role(slips: World) -> None:
    """And two fillers that may both be the agent are never so at once."""
    reversal = "during dinner, the pizza eats the woman"
    for heard in ("during dinner", "during dinner, the pizza eats", reversal):
        alone = slips.true_beliefs(heard, "agent")
        for agent in ("woman", "pizza"):
            patients = [
                slips.true_joint_belief(heard, {"agent": agent, "patient": word})
                for word in slips.lexicon.words
            ]
            assert sum(patients) == pytest.approx(alone[agent], abs=1e-12)
            assert slips.true_joint_belief(heard, {"agent": agent}) == pytest.approx(sum(patients))
    both = [
        slips.true_joint_belief(reversal, {"agent": a, "action": "eat", "patient": p})
        for a, p in (("pizza", "woman"), ("woman", "pizza"), ("pizza", "pizza"))
    ]
    assert both == [pytest.approx(0.477, abs=5e-4), pytest.approx(1 - both[0]), 0]
    with pytest.raises(ImpossibleSentenceError, match="nothing that happens"):
        slips.true_joint_belief("the kitchen eats", {"agent": "woman"})
    with pytest.raises(UserError, match="unknown role 'who'"):
        slips.true_joint_belief(reversal, {"who": "woman"})
