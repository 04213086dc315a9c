"""Words that were read, matched to constituents: every word is accounted for."""

from pathlib import Path

import pandas as pd
import pytest

from equivocal.people.align import align_reading
from equivocal.people.join import join_files
from equivocal.people.trial_tables import Columns
from lastlayer.errors import UserError

DINNER = (("1", ("during", "dinner")), ("2", ("pizza",)), ("3", ("eats",)), ("4", ("woman",)))
SAW = (("1", ("man",)), ("2", ("saw",)), ("3", ("man",)), ("4", ("dont", "care")))


def read(text: str) -> tuple[str, ...]:
    return tuple(text.split("/"))


@pytest.mark.parametrize(
    ("said", "sentence", "positions"),
    [
        ("During/dinner,/the/pizza/eats/the/woman.", DINNER, "1122344"),
        ("During the dinner,/the pizza/eats/the woman.", DINNER, "1234"),
        ("During/the/dinner/Pizza/eats/woman", DINNER, "111234"),
        ("The/man/saw/the/man/—/don’t/care!", SAW, "11233-44"),
        ("The/man/saw/a/man/DON'T/care", SAW, "1123344"),
        ("Then/the/pizza/eats/woman/during/dinner", (*DINNER[1:], DINNER[0]), "-223411"),
        ("the/pizza", DINNER, "22"),
        ("during/dinner/pizza/quickly/eats/the/woman/the", DINNER, "112-344-"),
    ],
)
def test_every_word_has_its_constituent(said, sentence, positions) -> None:
    words = read(said)
    found = align_reading(words, [None] * len(words), sentence)
    assert "".join(place or "-" for place in found.positions) == positions
    assert set(found.reasons) == {""}


@pytest.mark.parametrize(
    ("said", "sentence", "why"),
    [
        ("during/dinner/pizza/ate/woman", DINNER, "'ate' is not in its sentence of the measures"),
        ("woman/eats/pizza", DINNER, "its words are not those of the measures in this order"),
        ("man", SAW, "'man' occurs twice, and either could be meant"),
        ("pizza/eats/pizza/eats/woman", DINNER[1:], "'pizza' occurs twice, and either could be"),
        ("during/dinner/pizza/eats the woman", DINNER, "holds several constituents"),
        ("dinner/pizza", DINNER, "only a part of 'during dinner' is there"),
    ],
)
def test_readings_that_cannot_be_aligned(said: str, sentence, why: str) -> None:
    words = read(said)
    found = align_reading(words, [None] * len(words), sentence)
    assert why in " ".join(found.reasons)
    assert all(not place for place, reason in zip(*found, strict=True) if reason)


def test_numbers_of_the_measures_decide_between_repeated_words() -> None:
    found = align_reading(("man",), ("3",), SAW)
    assert found.positions == ("3",)
    assert align_reading(("eats the woman",), ("4",), DINNER).positions == ("4",)


MEASURES = """item,condition,position,word,update
1,a,1,during dinner,1
1,a,2,the pizza,2
1,a,3,eats,3
"""
TRIALS = "participant,item,condition,n,word,rt\n" + "".join(
    f"{who},1,a,{n},{word},{100 * n}\n"
    for who in "pq"
    for n, word in enumerate(["During", "the", "dinner", "the", "pizza", "eats"], start=1)
)


def join_text(folder: Path, trials: str = TRIALS, **more):
    (folder / "t.csv").write_text(trials)
    (folder / "m.csv").write_text(MEASURES)
    columns = Columns(position="n")
    return join_files(folder / "t.csv", folder / "m.csv", columns, controls=["length"], **more)


def test_regions(tmp_path: Path) -> None:
    """The last word, the sum with the number of words as a control, or each word."""
    last = join_text(tmp_path)
    assert last.trials["response"].tolist() == [300, 500, 600] * 2
    assert last.trials["length"].tolist() == [6, 5, 4] * 2
    assert last.controls == ["length"]
    total = join_text(tmp_path, region="sum")
    assert total.trials["response"].tolist() == [600, 900, 600] * 2
    assert total.trials["length"].tolist() == [15, 8, 4] * 2
    assert total.trials["words_read"].tolist() == [3, 2, 1] * 2
    assert total.controls == ["length", "words_read"]
    each = join_text(tmp_path, region="each")
    assert each.trials["response"].tolist() == [100, 200, 300, 400, 500, 600] * 2
    assert each.trials["update"].tolist() == [1, 1, 1, 2, 2, 3] * 2
    assert not any("repeat" in note for note in each.notes)


def test_the_report_has_every_word(tmp_path: Path) -> None:
    trials = TRIALS.replace("q,1,a,6,eats", "q,1,a,6,ate").replace("p,1,a,4,the", "p,1,a,4,old")
    found = join_text(tmp_path, trials)
    assert len(found.words) == 12
    assert found.words["readings"].tolist() == [1] * 12
    assert found.words["read"].tolist() == pd.read_csv(tmp_path / "t.csv")["word"].tolist()
    why = dict(zip(found.words["read"], found.words["why_not"], strict=True))
    assert why["old"] == "not in the measures"
    assert why["ate"] == "'ate' is not in its sentence of the measures"
    assert found.unmatched["row"].tolist() == list(range(8, 14))
    assert "1 rows have words that the measures have not, and are in no model: old" in found.notes


def test_a_sentence_that_the_measures_lack_is_named_as_such(tmp_path: Path) -> None:
    found = join_text(tmp_path, TRIALS + "p,7,a,1,eats,500\n")
    assert found.unmatched["row"].tolist() == [14]
    assert found.unmatched["reason"].tolist() == [
        "no such sentence (item and condition) in the measures"
    ]
    assert any(note.startswith("13 rows were read; of the words of") for note in found.notes)


def test_a_sum_without_one_of_its_times_is_no_response(tmp_path: Path) -> None:
    found = join_text(
        tmp_path, TRIALS.replace("p,1,a,1,During,100", "p,1,a,1,During,"), region="sum"
    )
    assert found.unmatched["reason"].tolist() == ["no response"]
    with pytest.raises(UserError, match="no trial can be aligned"):
        join_text(tmp_path, TRIALS.replace("eats", "ate"))
