"""The one format of items: which columns count, what they hold, and what is wrong with a row."""

from pathlib import Path

import pytest

from equivocal.world import World
from equivocal.world.items import Items, find_shipped_items, load_items, load_stimuli
from lastlayer.errors import UserError

HEADER = "condition,item,sentence,tracked_units,rival_units\n"
ROW = "a,one,the dog chases the cat,agent=dog; patient=cat,agent=cat; patient=dog\n"


def load(folder: Path, world: World, text: str, **rules: object) -> Items:
    path = folder / "items.csv"
    path.write_text(text, encoding="utf-8")
    return load_items(path, world, **rules)  # type: ignore[arg-type]


def test_a_row_tells_both_readings(tmp_path: Path, garden: World) -> None:
    (item,) = load(tmp_path, garden, HEADER + ROW).rows.values()
    assert (item.condition, item.name) == ("a", "one")
    assert item.tracked == {"agent": "dog", "patient": "cat"}
    assert item.rivals == {"agent": "cat", "patient": "dog"}
    assert item.critical == 3  # no critical word: the last


def test_a_probe_may_be_a_word(tmp_path: Path, garden: World) -> None:
    word = ROW.replace("agent=dog; patient=cat,agent=cat; patient=dog", "cat=role:patient,")
    (item,) = load(tmp_path, garden, HEADER + word).rows.values()
    assert item.tracked == {"cat": "role:patient"}
    assert item.rivals == {}


def test_three_columns_are_enough_and_unknown_ones_are_ignored(
    tmp_path: Path, garden: World
) -> None:
    text = "condition,item,sentence,note\na,one,dog cat dog,mine\n"
    (item,) = load(tmp_path, garden, text).rows.values()
    assert (item.critical, item.tracked) == (3, {})
    critical = text.replace("note", "critical_word").replace("mine", "cat")
    (item,) = load(tmp_path, garden, critical).rows.values()
    assert item.critical == 2


def test_items_need_not_be_in_every_condition(tmp_path: Path, garden: World) -> None:
    two = HEADER + ROW + ROW.replace("a,one", "b,two")
    items = load(tmp_path, garden, two, balanced=False)
    assert (items.conditions, items.items) == (("a", "b"), ("one", "two"))
    with pytest.raises(UserError, match="item 'one' has no row in condition b"):
        load(tmp_path, garden, two)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (HEADER + ROW, "condition,item\na,one\n", "row 1: the columns must be .* sentence"),
        (ROW, ROW * 2, "row 3: item 'one' appears twice"),
        ("agent=cat; ", "", "row 2: rival_units asks patient .* agent, patient"),
        ("agent=cat", "agent=cta", "row 2: rival_units: unknown unit 'cta': did you mean 'cat'"),
        ("agent=dog", "agent", "row 2: tracked_units: write probe=unit"),
        ("agent=dog; patient=cat", "", "row 2: tracked_units is empty"),
        ("the dog chases the cat", "dog " * 31, "row 2: .*at most 30 words"),
    ],
)
def test_mistakes_name_file_and_row(
    old: str, new: str, message: str, tmp_path: Path, garden: World
) -> None:
    with pytest.raises(UserError, match=rf"items\.csv.*{message}"):
        load(tmp_path, garden, (HEADER + ROW).replace(old, new), needs=("tracked_units",))


def test_the_papers_stimuli_are_its_eight_situations(paper: World) -> None:
    stimuli = load_stimuli(find_shipped_items("paper"), paper)
    assert len(stimuli.items) == 8
    for item in stimuli.items:
        plain, reversal = (stimuli.rows[condition, item] for condition in stimuli.conditions)
        assert plain.tracked["agent"] == reversal.tracked["patient"] == "woman"
        assert plain.tracked["patient"] == reversal.tracked["agent"]
        heard = plain.utterance.first(3)
        patient = paper.true_beliefs(heard, "patient")
        objects = [row.tracked["agent"] for row in stimuli.rows.values()]
        assert patient[plain.tracked["patient"]] == max(patient[list(dict.fromkeys(objects))])
