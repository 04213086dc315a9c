"""The shipped constructions: generated as shipped, with conditions that hold in their world."""

from pathlib import Path

import numpy as np
import pytest
from scripts.make_construction_items import MAKERS, make_csv

from equivocal.measuring.reading import compute_exact_beliefs
from equivocal.measuring.suite import (
    CONSTRUCTION_DATA,
    CONSTRUCTIONS,
    Construction,
    load_construction,
)
from lastlayer.errors import UserError


@pytest.fixture(scope="module")
def shipped() -> dict[str, Construction]:
    return {name: load_construction(name) for name in CONSTRUCTIONS}


def exact(construction: Construction, condition: str) -> np.ndarray:
    """Return exact beliefs in answer and rival, (items, 2)."""
    found = zip(construction.items, compute_exact_beliefs(construction), strict=True)
    return np.array([truth for item, truth in found if item.condition == condition])


def test_every_shipped_file_is_listed_and_generated() -> None:
    files = {
        Path(entry.name).stem
        for entry in CONSTRUCTION_DATA.iterdir()
        if entry.name.endswith(".toml")
    }
    assert files == set(CONSTRUCTIONS) == set(MAKERS)


@pytest.mark.parametrize("name", CONSTRUCTIONS)
def test_items_are_those_generated_from_the_world(name: str) -> None:
    assert (CONSTRUCTION_DATA / f"{name}.csv").read_text(encoding="utf-8") == make_csv(name)


@pytest.mark.parametrize("name", CONSTRUCTIONS)
def test_conditions_units_and_probes_are_known(name: str, shipped: dict[str, Construction]) -> None:
    construction = shipped[name]
    assert {item.condition for item in construction.items} == set(construction.conditions)
    assert set(construction.curves) | set(construction.people) <= set(construction.conditions)
    assert len({(item.condition, item.name) for item in construction.items}) == len(
        construction.items
    )
    for item in construction.items:
        assert item.tracked.keys() == item.rivals.keys()
        assert {*item.tracked.values(), *item.rivals.values()} <= set(construction.units)


def test_plausible_sentences_are_true_and_implausible_ones_are_never_said(
    shipped: dict[str, Construction],
) -> None:
    passive = shipped["passive"]
    for voice in ("active", "passive"):
        np.testing.assert_array_equal(exact(passive, f"plausible {voice}"), [[1, 0]] * 16)
        assert np.isnan(exact(passive, f"implausible {voice}")).all()
    by_name = {(item.condition, item.name): item for item in passive.items}
    good, odd = (by_name[f"{how} passive", "eat egg"] for how in ("plausible", "implausible"))
    assert str(good.utterance) == "egg was eaten by man"
    assert str(odd.utterance) == "man was eaten by egg"
    assert odd.tracked == {"agent": "egg", "patient": "man"}
    assert odd.rivals == {"agent": "man", "patient": "egg"}


def test_word_order_is_certain_open_or_impossible_as_its_conditions_say(
    shipped: dict[str, Construction],
) -> None:
    order = shipped["word_order"]
    certain = ("first noun der", "first noun den", "subject first", "object first")
    for condition in (*certain, "object first, told late", "decided by the world"):
        np.testing.assert_array_equal(np.unique(exact(order, condition), axis=0), [[1, 0]])
    for condition in ("first noun die", "undecided"):
        both = exact(order, condition)
        np.testing.assert_allclose(both.sum(axis=1), 1)
        assert ((both > 0) & (both < 1)).all()
    assert np.ptp(exact(order, "undecided")[:, 0]) > 0.8
    for condition in order.curves:
        assert np.isnan(exact(order, condition)).all()


def test_attachments_are_open_or_decided_as_their_conditions_say(
    shipped: dict[str, Construction],
) -> None:
    attachment = shipped["attachment"]
    undecided = exact(attachment, "undecided")
    np.testing.assert_allclose(undecided.sum(axis=1), 1)
    assert undecided.min() < 0.05
    assert undecided.max() > 0.95
    for condition in ("decided by the world", "instrument by place", "attribute by word"):
        np.testing.assert_array_equal(np.unique(exact(attachment, condition), axis=0), [[1, 0]])


def test_an_unknown_name_proposes_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'passive'"):
        load_construction("pasive")
