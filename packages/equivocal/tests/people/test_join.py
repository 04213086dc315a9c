"""Trials and measures are joined by item and word; every trial left out has a reason."""

from pathlib import Path

import pytest

from equivocal.people.join import join_files
from equivocal.people.trial_tables import Columns
from lastlayer.errors import UserError

MEASURES = """item,condition,position,word,update,note
1,congruent,1,woman,0.5,a
1,congruent,2,eats,1.5,a
1,reversal,1,pizza,2.5,b
1,reversal,2,eats,3.5,b
2,congruent,1,man,4.5,a
2,congruent,2,drinks,,a
"""
TRIALS = """participant,item,condition,position,word,rt
p1,1,congruent,1,Woman,300
p1,1,congruent,2,eats,310
p2,1,reversal,1,Pizza.,320
p2,1,reversal,2,eats,
p1,2,congruent,1,man,340
p1,2,congruent,2,drinks,350
p2,3,congruent,1,dog,360
p2,1.0,reversal,2,eats,slow
,2,congruent,1,man,370
"""


def joined(folder: Path, trials=TRIALS, measures=MEASURES, *, columns=None, where=(), **more):
    (folder / "t.csv").write_text(trials)
    (folder / "m.csv").write_text(measures)
    files = (folder / "t.csv", folder / "m.csv")
    return join_files(*files, columns or Columns(), where=where, **more)


def refused(folder: Path, **changes) -> str:
    with pytest.raises(UserError) as caught:
        joined(folder, **changes)
    return str(caught.value)


def test_every_trial_gets_the_measure_of_its_word_or_a_reason(tmp_path: Path) -> None:
    found = joined(tmp_path)
    assert found.keys == ["item", "condition", "position"]
    assert found.measures == ["update"]
    assert found.trials["row"].tolist() == [2, 3, 4, 6]
    assert found.trials["update"].tolist() == [0.5, 1.5, 2.5, 4.5]
    assert found.trials["response"].tolist() == [300, 310, 320, 340]
    assert found.given == 9
    assert found.unmatched.set_index("row")["reason"].to_dict() == {
        5: "no response",
        7: "update is empty",
        8: "no such sentence (item and condition) in the measures",
        9: "the response is not a number",
        10: "no participant",
    }
    assert found.notes == []  # capitals and full stops make no other word


@pytest.mark.parametrize(
    ("read", "measured"),
    [
        ("Pizza.", "pizza"),
        ("the pizza", "pizza"),
        ("“The pizza,”", "Pizza"),
        ("during dinner", "during+dinner"),
        ("X-ray", "x ray"),
        ("The", "the"),
        ("—", "—"),
    ],
)
def test_words_are_the_same_if_the_region_contains_the_constituent(
    tmp_path: Path, read: str, measured: str
) -> None:
    trials = f'participant,item,position,word,rt\np1,1,1,"{read}",300\n'
    found = joined(tmp_path, trials, f'item,position,word,update\n1,1,"{measured}",2\n')
    assert found.trials["update"].tolist() == [2]
    assert found.notes == []


@pytest.mark.parametrize(
    ("read", "measured"),
    [
        ("the", "pizza"),
        ("during", "during+dinner"),
        ("ate", "eats"),
        ("—", "pizza"),
    ],
)
def test_other_words_have_no_measure(tmp_path: Path, read: str, measured: str) -> None:
    trials = f"participant,item,position,word,rt\np1,1,1,{read},300\np1,1,2,eats,300\n"
    trials += "p2,2,1,man,300\n"
    measures = f"item,position,word,update\n1,1,{measured},2\n1,2,eats,3\n2,1,man,4\n"
    found = joined(tmp_path, trials, measures)
    assert set(found.trials["update"]) <= {3, 4}
    accounted = found.words.set_index("read").loc[read]
    assert accounted["why_not"] or accounted["position"] == "2"  # an article of the next word


def test_without_positions_words_are_joined_by_the_word(tmp_path: Path) -> None:
    trials = "participant,item,word,rt\np1,1,eats,300\np2,1,woman,310\n"
    measures = "item,word,update\n1,woman,0.5\n1,eats,1.5\n"
    found = joined(tmp_path, trials, measures)
    assert found.keys == ["item", "word"]
    assert found.trials["update"].tolist() == [1.5, 0.5]
    written = "participant,item,word,rt\np1,1,Eats.,300\np2,1,WOMAN,310\np1,1,—,320\np2,1,,330\n"
    found = joined(tmp_path, written, measures.replace("woman", "“Woman”") + "1,…,2.5\n")
    assert found.trials["update"].tolist() == [1.5, 0.5]
    assert found.unmatched["reason"].tolist() == ["no such word in the measures", "no word"]
    found = joined(tmp_path, trials.replace(",eats", ",the eats"), measures)  # articles are ignored
    assert found.trials["update"].tolist() == [1.5, 0.5]


def test_networks_are_averaged_and_a_missing_value_is_not(tmp_path: Path) -> None:
    measures = "network,item,position,update\n0,1,1,1\n1,1,1,2\n2,1,1,6\n0,1,2,1\n1,1,2,\n2,1,2,4\n"
    trials = "participant,item,position,rt\np1,1,1,300\np2,1,2,310\n"
    found = joined(tmp_path, trials, measures)
    assert found.trials["update"].tolist() == [3]
    assert found.unmatched["reason"].tolist() == ["update is empty"]
    assert found.notes[1] == "the measures are of 3 networks"


@pytest.mark.parametrize(("mark", "decimal"), [("\t", "."), (";", "."), (";", ","), ("\t", ",")])
def test_tables_may_have_other_marks(tmp_path: Path, mark: str, decimal: str) -> None:
    trials, measures = (text.replace(",", mark) for text in (TRIALS, MEASURES))
    found = joined(tmp_path, trials, measures.replace(".5", f"{decimal}5"))
    assert found.trials["update"].tolist() == [0.5, 1.5, 2.5, 4.5]


def test_repeated_rows_are_refused(tmp_path: Path) -> None:
    twice = MEASURES.replace("note\n", "probe\n") + "1,congruent,1,woman,0.7,b\n"
    message = refused(tmp_path, measures=twice)
    assert message == (
        "the measures have 2 rows for item 1, condition congruent, position 1; they differ in "
        "probe, which the trials lack: name their column (--position, …), or keep one kind with "
        "--where probe=a."
    )
    found = joined(tmp_path, measures=twice, where=["probe=b"])
    assert found.trials["update"].tolist() == [0.7, 2.5]
    (note,) = joined(tmp_path, TRIALS + "p1,1,congruent,1,woman,300\n").notes
    assert note == "1 trials repeat a participant and word; are rows there twice?"


def test_columns_of_the_user_with_reserved_names(tmp_path: Path) -> None:
    """A trial table may have columns `row` and `item` with another meaning."""
    trials = "row,participant,item,sentence,position,rt\n7,p1,x,1,1,300\n9,p2,y,1,1,310\n"
    measures = "item,position,row,update\n1,1,5,2.5\n"
    found = joined(tmp_path, trials, measures, columns=Columns(item="sentence"))
    assert found.trials["row"].tolist() == [2, 3]
    assert found.trials["item"].tolist() == ["1", "1"]
    assert found.measures == ["update"]


def test_controls_come_from_either_table(tmp_path: Path) -> None:
    found = joined(tmp_path, controls=["note", "position"])
    assert found.trials["note"].tolist() == ["a", "a", "b", "a"]
    message = refused(tmp_path, controls=["lenght"])
    assert message.startswith("--control: unknown column 'lenght'")


def test_trials_that_cannot_be_aligned_are_named(tmp_path: Path) -> None:
    other = TRIALS.replace(",Woman,", ",ghost,")
    found = joined(tmp_path, other)
    (note,) = found.notes
    why = "'ghost' is not in its sentence of the measures"
    assert note == (
        f"1 sentences were not aligned, all or in part: participant p1, item 1, line 2 ({why})"
    )
    assert found.unmatched.set_index("row")["reason"].to_dict() | {2: why, 3: why} == (
        found.unmatched.set_index("row")["reason"].to_dict()
    )
    assert (found.given, len(found.trials)) == (9, 2)
    none = "participant,item,position,word,rt\np1,1,1,ghost,300\np1,1,2,sings,310\n"
    assert refused(tmp_path, trials=none, measures="item,position,word,x\n1,1,man,1\n") == (
        "no trial can be aligned with the measures: in line 2 (column word, 'ghost', item 1), "
        f"{why}; correct the words, the items or the conditions."
    )


def test_words_that_cannot_be_compared_are_noted(tmp_path: Path) -> None:
    """Unless the sentence has no such position."""
    trials, measures = (t.replace(",word", ",text") for t in (TRIALS, MEASURES))
    for given, who in (
        ((trials, MEASURES), "the trials"),
        ((TRIALS, measures), "the measures"),
        ((trials, measures), "the trials and the measures"),
    ):
        (note,) = joined(tmp_path, *given).notes
        assert note.startswith(f"{who} have no column word, so nothing shows whether positions cou")
    longer = "p1,2,congruent,3,water,300\n"
    assert refused(tmp_path, trials=trials + longer).startswith(
        "item 2 has position 3 in line 11 of the trials, and its sentence ends at 2 in the measures"
    )
    fewer = MEASURES.replace("1,congruent,1,woman,0.5,a\n", "")  # a first word has no measure
    assert len(joined(tmp_path, trials, fewer).trials) == 3
    assert len(joined(tmp_path, TRIALS + longer).trials) == 4  # words show that it goes on


def test_columns_are_those_that_the_user_names(tmp_path: Path) -> None:
    names = {"participant": "subject", "item": "sentence", "position": "region", "response": "RT"}
    trials = TRIALS
    for ours, theirs in (names | {"rt": "RT"}).items():
        trials = trials.replace(ours, theirs, 1)
    message = refused(tmp_path, trials=trials)
    assert message.endswith(
        "t.csv has no column 'participant' or 'participant_id'; name the column of the participant "
        "with --participant: there are subject, sentence, condition, region, word, RT."
    )
    found = joined(tmp_path, trials, columns=Columns(**names), controls=["region"])
    assert (len(found.trials), found.keys) == (4, ["item", "condition", "position"])
    assert (found.controls, found.columns["position"]) == (["position"], "region")
    one = joined(tmp_path, trials, columns=Columns(**names), where=["region=1"])
    assert one.trials["row"].tolist() == [2, 4, 6]
    message = refused(tmp_path, trials=trials, columns=Columns(**names | {"position": "regon"}))
    assert "has no column 'regon'; name the column of the position with --position: " in message
    message = refused(tmp_path, trials=trials, columns=Columns(**names | {"response": "sentence"}))
    assert message.startswith("--item and --response name the same column 'sentence'; give each")
    for control in ("subject", "RT"):
        message = refused(tmp_path, trials=trials, columns=Columns(**names), controls=[control])
        assert "participants, items and the response are in the models already" in message


def test_the_codebook_of_psychling_is_read_as_it_is(tmp_path: Path) -> None:
    trials = (
        "participant_id,trial_id,stimulus,response,rt,accuracy,condition\n"
        "s1,0,The pizza eats the man.,man,900,1,reversal\n"
        "s2,0,The pizza eats the man.,pizza,850,0,reversal\n"
    )
    measures = "stimulus,condition,update\nThe pizza eats the man.,reversal,2.5\n"
    found = joined(tmp_path, trials, measures)
    assert found.keys == ["item", "condition"]
    assert found.trials["response"].tolist() == [900, 850]
    assert found.trials["update"].tolist() == [2.5, 2.5]
    for response in ("accuracy", "response=man"):
        found = joined(tmp_path, trials, measures, columns=Columns(response=response))
        assert found.trials["response"].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"chosen": ["note"]}, "unknown column of numbers of the measures 'note'"),
        ({"where": ["position"]}, "--where takes name=value"),
        ({"where": ["positon=1"]}, "'positon': did you mean 'position'?"),
        ({"measures": "item,position\n1,1\n"}, "no column of numbers"),
        ({"measures": "itm,update\n1,1\n"}, "joined to trials: there are itm, update."),
        ({"trials": "participant,item,rt\np1,1,the,300\n"}, "row 2 has more cells than the head"),
        ({"measures": "item,update\n1,2\n"}, "column position with several values"),
        (
            {"measures": MEASURES.replace("\n1,", "\nx1,").replace("\n2,", "\nx2,")},
            "item is 1, 2, 3 in the trials and x1, x2 in the measures",
        ),
        ({"controls": ["item"]}, "are in the models already; leave it out"),
    ],
)
def test_mistakes_are_explained_in_one_sentence(tmp_path: Path, changes, message: str) -> None:
    assert message in refused(tmp_path, **changes)
