"""Stimulus files: what they say, and complaints with row numbers."""

from pathlib import Path

import pytest

from equivocal.world import World
from equivocal.world.items import find_shipped_items, load_stimuli
from lastlayer.errors import UserError

HEADER = "condition,item,sentence,critical_word,tracked_units\n"
GOOD = 'congruent,one,"the dog chases the cat",chases,agent=dog; patient=cat\n'
OTHER = 'reversal,one,"the cat chases the dog",chases,agent=cat; patient=dog\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "stimuli.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_rows_are_parsed(tmp_path: Path, garden: World) -> None:
    stimuli = load_stimuli(written(tmp_path, HEADER + GOOD + OTHER), garden)
    assert stimuli.conditions == ("congruent", "reversal")
    assert stimuli.items == ("one",)
    row = stimuli.rows["reversal", "one"]
    assert row.tracked == {"agent": "cat", "patient": "dog"}
    assert row.critical == 2
    assert row.utterance.words == ("cat", "chases", "dog")
    assert stimuli.tracked_units == ["dog", "cat"]


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("condition,item\n", "row 1: the columns must be .* sentence, critical_word"),
        (HEADER, "no rows below its header"),
        (HEADER + 'a,1,"the dgo chases the cat",chases,agent=dog\n', "row 2: .*'dgo'"),
        (HEADER + 'a,1,"the dog chases the cat",finds,agent=dog\n', "row 2: critical_word 'finds'"),
        (HEADER + 'a,1,"the dog chases the cat",chases,agent\n', "row 2: tracked_units: .*'agent'"),
        (
            HEADER + 'a,1,"the dog chases the cat",chases,agnt=dog\n',
            "row 2: .*'agnt': did you mean 'agent'",
        ),
        (
            HEADER + 'a,1,"the dog chases the cat",chases,agent=dgo\n',
            "row 2: .*'dgo': did you mean 'dog'",
        ),
        (HEADER + 'a,1,"the dog chases the cat",chases,\n', "row 2: tracked_units is empty"),
        (HEADER + "a,1,at dawn, the dog barks,barks,agent=dog\n", "row 2 has more cells than"),
        (HEADER + GOOD + GOOD, "row 3: item 'one' appears twice"),
        (HEADER + GOOD + OTHER.replace("one", "two"), "item 'one' has no row in condition"),
        (
            HEADER + GOOD + OTHER.replace("; patient=dog", ""),
            "item 'one' does not have the same probes",
        ),
    ],
)
def test_mistakes_name_the_row(tmp_path: Path, garden: World, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_stimuli(written(tmp_path, text), garden)


def test_missing_file(tmp_path: Path, garden: World) -> None:
    with pytest.raises(UserError, match="cannot read"):
        load_stimuli(tmp_path / "none.csv", garden)
