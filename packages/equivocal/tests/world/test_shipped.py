"""The worlds `paper` and `sg2018`, against what is published about them."""

import json
from pathlib import Path

import numpy as np
import pytest

from equivocal.world import World, find_role_reversals

DATA = Path(__file__).parents[1] / "data"


def test_paper_world_has_the_published_sizes(paper: World) -> None:
    assert len(paper.tokens) == 72
    assert len(paper.units) == 176
    assert len(paper.grammar.actions) == 12
    assert sum(len(paper.file.words[cls]) for cls in paper.file.groups["objects"]) == 36
    assert len(paper.file.words["locations"]) == 10
    assert len(paper.file.words["situations"]) == 8
    assert paper.roles == ("agent", "action", "patient", "location", "situation")


def test_active_sentences_of_2018_have_the_published_counts(sg2018: World) -> None:
    """340 sentences, 613 beginnings, 5,835 pairs of a beginning and a probe."""
    everything = sg2018.all_derivations
    active = everything.take(np.flatnonzero(everything.derivations.construction == 0))
    assert len(set(active.texts)) == 340
    assert len(active.tree.parent) == 613
    assert len(active.queries) == 5_835
    assert len(sg2018.tokens) == 74
    assert len(sg2018.units) == 176


@pytest.mark.parametrize("name", ["paper", "sg2018"])
def test_event_statistics_are_those_of_2018(name: str) -> None:
    """Every patient, situation and location probability of the published environment."""
    statistics = json.loads((DATA / "event_statistics_2018.json").read_text())
    world = World.load(name)
    children = {"girl", "boy"}
    for action, entries in statistics["patients"].items():
        events = [event for event in world.events if event.roles["action"] == action]
        total = sum(event.probability for event in events)
        assert total == pytest.approx(1 / 12)
        for entry in entries:
            for group, key in (("child", "p_given_child"), ("adult", "p_given_adult")):
                who = [e for e in events if (e.roles["agent"] in children) == (group == "child")]
                mine = [e for e in who if e.roles["patient"].lower() == entry["patient"]]
                expected = entry[key] * entry["p_situation"]
                share = sum(e.probability for e in mine) / sum(e.probability for e in who)
                assert share == pytest.approx(expected)
                assert {e.roles.get("location") for e in mine} == {entry["location"]}
                found = {(e.roles.get("situation") or "").lower() or None for e in mine}
                assert found == {entry["situation"]}
        for agent, probability in statistics["agents"]["default"].items():
            of_agent = sum(e.probability for e in events if e.roles["agent"] == agent)
            assert of_agent / total == pytest.approx(probability)


def test_passives_are_a_tenth_of_six_actions(sg2018: World) -> None:
    derivations = sg2018.all_derivations.derivations
    passive = derivations.weight[derivations.construction == 1].sum()
    assert passive == pytest.approx(6 / 12 * 0.1)


def test_true_beliefs_about_reversals_of_graded_spread() -> None:
    """So that no single answer is near all of them, and neither is anything shrunk towards one."""
    world = World.load("graded")
    literal = np.array([item.literal for item in find_role_reversals(world)])
    assert len(literal) == 80
    assert literal.min() < 0.02
    assert literal.max() > 0.98
    assert (np.histogram(literal, np.linspace(0, 1, 5))[0] >= 8).all()
    heard = world.sample(10_000, seed=0).to_dataframe().set_index(["action", "agent", "patient"])
    counts = heard["count"].groupby(level=[0, 1, 2]).sum()
    triples = {(item.action, item.patient, item.agent) for item in find_role_reversals(world)}
    times = np.array([counts.get(triple, 0) for triple in triples])
    assert (times == 0).any()
    assert (times == 1).any()
    assert (times >= 10).any()
