"""Sentences mean what their templates say, and beliefs about them are exact."""

import numpy as np

from equivocal.english.sentences import (
    Surface,
    draw_sentences,
    load_items,
    load_world,
    spell_items,
)


def test_every_construction_is_drawn_and_no_word_of_the_other_lexicon(drawn):
    surface = Surface.load()
    assert {one.construction for one in drawn} == set(surface.content["templates"]) - {
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


def test_the_world_knows_the_truth_about_what_is_drawn(drawn):
    """How often the first noun of "thing …ed" is the patient, among what is drawn."""
    world = load_world()
    begun = [one for one in drawn if one.classes.startswith("thing handled")]
    share = np.mean([one.roles[min(one.roles)] == "patient" for one in begun])
    truth = world.true_beliefs("thing handled", filler="thing")["role:patient"]
    assert len(begun) > 40
    assert abs(share - truth) < 5 * np.sqrt(truth * (1 - truth) / len(begun))  # 5 standard errors


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
