"""Sentences mean what their templates say, and beliefs about them are exact."""

import numpy as np
import pytest

from equivocal.english.sentences import (
    ROLES,
    Sentence,
    Surface,
    TruthTable,
    draw_sentences,
    load_items,
    load_world,
    spell_items,
)


@pytest.fixture(scope="module")
def drawn() -> list[Sentence]:
    return draw_sentences(load_world(), Surface.load(), 3_000, seed=5)


def test_every_construction_is_drawn_and_no_word_of_the_other_lexicon(drawn):
    surface = Surface.load()
    assert {one.construction for one in drawn} == set(surface.templates) - {
        "passive cleft",
        "pseudo-cleft",
    }
    held_out = {
        word
        for name, members in surface.content["nouns"].items()
        if isinstance(members, str)
        for word in surface.list_members(name, "held out")
    }
    assert held_out.isdisjoint(word.strip(".?").lower() for one in drawn for word in one.words)


def test_roles_are_those_of_the_words():
    items = load_items().query("agent == 'mouse' and patient == 'cheese'")
    said = spell_items(items, Surface.load(), ["passive", "object cleft", "pseudo-cleft"])
    assert [(one.text, dict(one.roles)) for one in said[3:]] == [
        ("The mouse was eaten by the cheese.", {1: "patient", 6: "agent"}),
        ("It was the mouse that the cheese ate.", {3: "patient", 6: "agent"}),
        ("What the cheese ate was the mouse.", {2: "agent", 6: "patient"}),
    ]


def test_exact_beliefs_are_the_frequencies_of_a_sample(drawn):
    """Beginnings of three words, of which the sample has many."""
    surface = Surface.load()
    truth = TruthTable(load_world(), surface)
    groups: dict[tuple[str, ...], list[str]] = {}
    for one in drawn:
        heads = [number for number, name in enumerate(one.parts) if name]
        same = any(name.endswith("participle") for name in one.parts)
        beginning = (str(same), *(one.parts[number] for number in heads[:2]))
        groups.setdefault(beginning, []).append(one.roles.get(heads[0], ""))
    large = {key: roles for key, roles in groups.items() if len(roles) > 60 and roles[0]}
    assert len(large) > 5
    for (same, *heard), roles in large.items():
        beliefs = truth.compute_beliefs(heard, same_forms=same == "True").iloc[0]
        seen = np.array([roles.count(role) for role in ROLES]) / len(roles)
        # 5 standard errors of a share
        assert np.abs(beliefs - seen).max() < 5 * 0.5 / np.sqrt(len(roles)), heard


def test_a_slip_exchanges_what_is_said_and_not_what_is_meant():
    slipped = draw_sentences(load_world(slip=0.5), Surface.load(), 400, seed=1)
    wrong = [one for one in slipped if one.happened == 0 and "neg" not in one.construction]
    actives = [one for one in wrong if one.construction == "active"]
    assert actives
    assert all(list(one.roles.values())[:2] == ["patient", "agent"] for one in actives)


def test_shares_are_parameters():
    world = load_world(impossible=0.25, unlikely=0.25)
    kinds = [one.kind for one in draw_sentences(world, Surface.load(), 2_000, seed=0)]
    assert abs(kinds.count("impossible") / 2_000 - 0.25) < 0.05
