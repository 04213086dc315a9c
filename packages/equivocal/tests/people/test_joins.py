"""Trials and measures are joined by item and word; every trial left out has a reason."""

import gzip
from pathlib import Path

import pandas as pd
import pytest

from equivocal.people.joins import join_files
from equivocal.people.tables import Columns, read_measures, read_trials
from equivocal.store import read_table
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
        8: "no such word in the measures",
        9: "the response is not a number",
        10: "no participant",
    }
    assert found.notes == []  # capitals and full stops make no other word


@pytest.mark.parametrize(
    ("read", "measured"),
    [
        ("pizza", "pizza"),
        ("Pizza.", "pizza"),
        ("the pizza", "pizza"),
        ("pizza", "the pizza"),
        ("“The pizza,”", "Pizza"),
        ("during dinner", "during+dinner"),
        ("During the dinner,", "during dinner"),
        ("in the morning", "in morning"),
        ("eats the pizza", "pizza"),
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
        ("the", "the pizza"),
        ("the", "a"),
        ("during", "during+dinner"),
        ("dinner", "during dinner"),
        ("dinner during", "during dinner"),
        ("pizzas", "pizza"),
        ("pineapple", "apple"),
        ("ate", "eats"),
        ("—", "pizza"),
        ("pizza", "—"),
    ],
)
def test_trials_of_other_words_are_refused(tmp_path: Path, read: str, measured: str) -> None:
    trials = f"participant,item,position,word,rt\np1,1,1,{read},300\np1,1,2,eats,300\n"
    measures = f"item,position,word,update\n1,1,{measured},2\n1,2,eats,3\n"
    message = refused(tmp_path, trials=trials, measures=measures)
    said = f"in 1 of 2 joined trials the words are not those of the measures: {read!r} in line 2 "
    assert message.startswith(f"{said}for {measured!r}; number the words as the measures do")


def test_the_commonest_words_that_differ_are_listed(tmp_path: Path) -> None:
    shifted = TRIALS.replace(",Woman,", ",during,").replace(",Pizza.,", ",the,") + (
        "p3,1,reversal,1,the,320\np3,1,congruent,2,he,320\np3,2,congruent,1,she,320\n"
    )
    message = refused(tmp_path, trials=shifted)
    assert message.startswith("in 5 of 7 joined trials the words are not those of the measures: 't")
    assert "'the' in line 4 for 'pizza', 'during' in line 2 for 'woman', " in message
    assert message.count(" in line ") == 3
    assert ", …; number the words" in message


def test_words_that_cannot_be_compared_are_noted(tmp_path: Path) -> None:
    """Unless the sentence has no such position."""
    trials, measures = (t.replace(",word", ",text") for t in (TRIALS, MEASURES))
    for given, who in (
        ((trials, MEASURES), "the trials have no"),
        ((TRIALS, measures), "the measures have no"),
        ((trials, measures), "neither table has a"),
    ):
        (note,) = joined(tmp_path, *given).notes
        assert note.startswith(f"{who} column word, so nothing shows whether positions count the s")
    head, *rows = MEASURES.split()
    two = "\n".join([f"{head},network", *(f"{row},{n}" for row in rows for n in (0, 1))])
    first, *others = joined(tmp_path, trials, two, controls=["length"]).notes
    assert first.startswith("the trials have no column word, so nothing shows whether")
    assert len(others) == 2
    message = refused(tmp_path, trials=trials + "p1,2,congruent,3,water,300\n")
    assert message.startswith(
        "item 2 has position 3 in line 11 of the trials, and its sentence has 1 to 2 in the measure"
    )
    zero = trials.replace("congruent,1", "congruent,0").replace("congruent,2", "congruent,1")
    # also of one word, as long as the table has the others
    message = refused(tmp_path, trials=zero, where=["position=1"])
    assert message.startswith("item 1 has position 0 in line 2 of the trials, and its sentence has")
    fewer = MEASURES.replace("1,congruent,1,woman,0.5,a\n", "")  # a first word has no measure
    assert len(joined(tmp_path, trials, fewer).trials) == 3
    longer = TRIALS + "p1,2,congruent,3,water,300\n"  # words show that it is the same sentence
    assert len(joined(tmp_path, longer).trials) == 4


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
    assert found.notes[1] == "measures are averages over 3 networks"


def test_a_row_for_each_measure_as_suites_write_them(tmp_path: Path) -> None:
    measures = (
        "suite,item,position,word,critical,network,measure,value,low,high\n"
        "a,1,1,man,False,0,update,1,0,2\na,1,1,man,False,1,update,3,0,2\n"
        "a,1,1,man,False,0,surprise,10,,\na,1,1,man,False,1,surprise,20,,\n"
        "b,1,1,man,True,0,update,7,,\nb,1,1,man,True,0,surprise,8,,\n"
    )
    trials = "participant,item,position,rt\np1,1,1,300\n"
    found = joined(tmp_path, trials, measures, where=["suite=a"])
    assert found.measures == ["surprise", "update"]
    assert found.trials[["update", "surprise"]].to_numpy().tolist() == [[2, 15]]
    assert "they differ in suite, critical" in refused(tmp_path, trials=trials, measures=measures)
    again = measures + "a,1,1,man,False,1,update,4,0,2\n"
    assert "of the same word twice" in refused(tmp_path, trials=trials, measures=again)


def test_repeated_rows_are_refused(tmp_path: Path) -> None:
    twice = MEASURES.replace("note\n", "probe\n") + "1,congruent,1,woman,0.7,b\n"
    message = refused(tmp_path, measures=twice)
    assert message == (
        "the measures have 2 rows for item 1, condition congruent, position 1; they differ in "
        "probe, so keep one kind with --where probe=a."
    )
    found = joined(tmp_path, measures=twice, where=["probe=b"])
    assert found.trials["update"].tolist() == [0.7, 2.5]
    (note,) = joined(tmp_path, TRIALS + "p1,1,congruent,1,woman,300\n").notes
    assert note == "1 trials repeat a participant and word; are rows there twice?"


def test_conditions_that_only_the_measures_have(tmp_path: Path) -> None:
    message = refused(tmp_path, trials="participant,item,position,rt\np1,1,1,300\n")
    assert "2 rows for item 1, position 1; they differ in condition" in message


def test_other_names_of_columns(tmp_path: Path) -> None:
    trials = TRIALS.replace("participant,item", "subject,sentence").replace(",rt", ",RT")
    message = refused(tmp_path, trials=trials)
    assert "has no column 'participant': did you mean 'subject'? Name it with --partic" in message
    columns = Columns(participant="subject", item="sentence", response="RT")
    assert len(joined(tmp_path, trials, columns=columns).trials) == 4
    columns = Columns(participant="subject", item="sentence", response="RT", position="regon")
    assert "no column 'regon'" in refused(tmp_path, trials=trials, columns=columns)
    same = Columns(participant="subject", item="sentence", response="sentence")
    message = refused(tmp_path, trials=trials, columns=same)
    assert message.startswith("--item and --response name the same column 'sentence'; give each")


PLACED = "participant,item,{},rt\np1,1,1,300\np1,1,2,310\np2,1,1,320\np2,1,2,330\n"
SUMMARY = "suite,condition,item,position,measure,mean,ci_low\na,congruent,1,1,update,2.5,2\n"
SURPRISAL = "item,position,surprisal\n1,1,0.5\n1,2,1.5\n"


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("word_position", "--position word_position"),
        ("Word Position", "--position 'Word Position'"),
        ("Position", "--position Position"),
        ("region", "--position region"),
        ("cond", "--condition cond"),
        ("Word", "--word Word"),
    ],
)
def test_places_under_another_name_are_not_ignored(tmp_path: Path, name, option) -> None:
    message = refused(tmp_path, trials=PLACED.format(name), measures=SURPRISAL)
    role = option[2:].split()[0]
    assert f"t.csv has no column {role!r}; found {name!r}, so add {option}, or rename" in message


def test_columns_of_places_can_be_named(tmp_path: Path) -> None:
    columns = Columns(position="word_position")
    found = joined(tmp_path, PLACED.format("word_position"), SURPRISAL, columns=columns)
    assert found.keys == ["item", "position"]
    assert found.trials["surprisal"].tolist() == [0.5, 1.5, 0.5, 1.5]
    words = SURPRISAL.replace("position", "word")
    found = joined(tmp_path, PLACED.format("region"), words, columns=Columns(word="region"))
    assert found.keys == ["item", "word"]  # it is a region no more


def test_one_word_of_the_measures_is_not_every_word_of_the_trials(tmp_path: Path) -> None:
    """The column of positions has an unknown name; without it, each trial would be one word."""
    for place in ("position", "word_position"):
        measures = SURPRISAL.replace("position", place)
        where = [f"{place}=1"]
        message = refused(tmp_path, trials=PLACED.format("p"), measures=measures, where=where)
        assert message == (
            f"--where {place}=1 holds for the measures only, since the trials have no column "
            "position, and 2 of them repeat a participant and item, so that others would get "
            "that measure; name their column with --position, or add it."
        )
    once = "participant,item,rt\np1,1,300\np2,1,310\n"
    found = joined(tmp_path, once, SURPRISAL, where=["position=2"])
    assert found.trials["surprisal"].tolist() == [1.5, 1.5]
    assert found.notes == ["the trials have no column position; all are taken to have position=2"]
    again = PLACED.format("position") + "p1,1,2,310\n"
    for where in ("position=2", "word=eats"):  # positions are joined, so the word is known
        words = "item,position,word,surprisal\n1,1,she,0.5\n1,2,eats,1.5\n"
        found = joined(tmp_path, again, words, where=[where])
        assert found.trials["surprisal"].tolist() == [1.5] * 3
        assert found.notes[1:] == ["1 trials repeat a participant and word; are rows there twice?"]


def test_the_response_is_rt_or_else_response(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("participant,item,position,response\np1,1,1,300\n")
    trials, names = read_trials(path, Columns())
    assert (trials["response"].tolist(), names["response"]) == ([300], "response")
    with pytest.raises(UserError, match="no column 'rt': did you mean 'response'"):
        read_trials(path, Columns(response="rt"))
    path.write_text("participant,item,response,rt\np1,1,7,300\n")
    trials, names = read_trials(path, Columns())
    assert (trials["response"].tolist(), names["response"]) == ([300], "rt")
    path.write_text("participant,item,response,RT\np1,1,7,300\n")
    with pytest.raises(UserError, match="has response, RT, and either may be meant; choose with"):
        read_trials(path, Columns())


@pytest.mark.parametrize(
    ("items", "value", "kept"),
    [
        (["12", "1_2"], "1_2", ["1_2"]),
        (["12", "13"], "1_2", None),
        (["01", "1", "x"], "01", ["01"]),
        (["1", "2"], "01", ["1"]),
        (["1", "2"], "1.0", ["1"]),
        (["infinity", "inf.", "x"], "infinity", ["infinity"]),
        (["0.5", "1.5"], "1.50", ["1.5"]),
        (["1.1e19", "1"], "1.0", ["1"]),
    ],
)
def test_values_are_kept_as_written_or_else_as_numbers(tmp_path: Path, items, value, kept) -> None:
    trials = "participant,item,rt\n" + "".join(f"p1,{item},300\n" for item in items)
    (tmp_path / "t.csv").write_text(trials)
    if kept is None:
        with pytest.raises(UserError, match=r"'12'\? Values of item are 12, 13"):
            read_trials(tmp_path / "t.csv", Columns(), [f"item={value}"])
    else:
        found, _ = read_trials(tmp_path / "t.csv", Columns(), [f"item={value}"])
        assert found["item"].tolist() == kept


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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"chosen": ["updte"]}, "'updte': did you mean 'update'?"),
        ({"chosen": ["note"]}, "'note' cannot be a measure"),
        ({"where": ["position"]}, "--where takes name=value"),
        ({"where": ["position=7"]}, "no row has it; values of position are 1, 2"),
        ({"where": ["condition=reversl"]}, "no row has it: did you mean 'reversal'? Values of"),
        ({"measures": SUMMARY}, "are read from 'value'; give the words of every network, "),
        ({"measures": "item,position\n1,1\n"}, "no column of numbers"),
        ({"measures": "item,measure,value\n1,item,2\n"}, "a measure called 'item', as a column"),
        ({"measures": "itm,update\n1,1\n"}, "no column 'item': did you mean 'itm'?"),
        (
            {"measures": "item;update\n1;1\n"},
            "separated by semicolons or tabs, and must be by commas",
        ),
        ({"measures": "item,update\n"}, "no rows below its header"),
        ({"measures": "item,update\n1,2\n"}, "column position with several values"),
        (
            {"measures": MEASURES.replace("\n1,", "\nx1,").replace("\n2,", "\nx2,")},
            "item is 1, 2, 3 in the trials and x1, x2 in the measures",
        ),
        ({"controls": ["item"]}, "is the item, which the models already include; leave it out"),
        ({"controls": ["found"]}, "that name is taken"),
    ],
)
def test_mistakes_are_explained_in_one_sentence(tmp_path: Path, changes, message: str) -> None:
    assert message in refused(tmp_path, **changes)


def test_packed_tables_are_read_and_broken_ones_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.csv.gz"
    path.write_bytes(gzip.compress(MEASURES.encode()))
    plain = tmp_path / "m.csv"
    plain.write_text(MEASURES)
    packed = read_measures(path, Columns())
    pd.testing.assert_frame_equal(packed, read_measures(plain, Columns()))
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(UserError, match="cannot read .*; pack or copy it again"):
        read_measures(path, Columns())
    path.write_text(MEASURES)
    with pytest.raises(UserError, match="it is not packed by gzip; rename it"):
        read_measures(path, Columns())
    path.write_bytes(gzip.compress(b"item;update\n1;2\n"))
    with pytest.raises(UserError, match="separated by semicolons or tabs, and must be by commas"):
        read_measures(path, Columns())
    path.write_bytes(gzip.compress(MEASURES.encode() * 100))
    with pytest.raises(UserError, match="more than .* bytes of text"):
        read_table(path, most=10 * len(MEASURES))


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("m.csv", b"", "it is empty; give a table"),
        ("m.csv", b" \n\n", "it is empty; give a table"),
        ("m.csv.gz", b"", "it is empty; give a table"),
        ("m.csv", None, "it is not there; check its name"),
        ("m.csv.gz", None, "it is not there; check its name"),
        ("m.csv", gzip.compress(b"item,x\n", mtime=0), ".*gzip; unpack it first"),
        ("m.xlsx", b"PK\x03\x04\xff", ".*zip, as spreadsheets are.*; unpack it first"),
        ("m.csv.gz", b"PK\x03\x04\xff", ".*zip, as spreadsheets are.*; unpack it"),
    ],
)
def test_files_that_are_not_tables_are_refused_by_name(
    tmp_path: Path, name, data, message: str
) -> None:
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(UserError, match=f"^cannot read .*{name}: {message}"):
        read_measures(tmp_path / name, Columns())


@pytest.mark.parametrize("rows", ["p1,1,300,\np2,1,310,\n", "p1,1,the,300\np2,1,310\n"])
def test_rows_with_more_cells_than_the_header_are_refused(tmp_path: Path, rows: str) -> None:
    """By default pandas would take the first column as an index and shift all others."""
    text = f"participant,item,rt\n{rows}"
    (tmp_path / "t.csv").write_text(text)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("t.csv", "t.csv.gz"):
        with pytest.raises(UserError, match=f"{name}: row 2 has more cells than the header; "):
            read_trials(tmp_path / name, Columns())


def test_a_condition_on_an_unknown_column_names_it(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("participant,item,position,rt\np1,1,1,300\n")
    (tmp_path / "m.csv").write_text("suite,item,position,x\na,1,1,2\n")
    files = (tmp_path / "d.csv", tmp_path / "m.csv", Columns())
    assert len(join_files(*files, where=["position=1", "suite=a"]).trials) == 1
    with pytest.raises(UserError, match=r"'positon': did you mean 'position'\?"):
        join_files(*files, where=["positon=1"])
    with pytest.raises(UserError, match=r"--where takes name=value, as .* got 'position'"):
        join_files(*files, where=["position"])
    with pytest.raises(UserError, match="unknown column 'suite'"):
        read_trials(files[0], Columns(), ["suite=a"])


@pytest.mark.parametrize(
    ("text", "name"),
    [("participant;item;rt\np1;1;300,5\n", "semicolons"), ("item\trt\n1\t3\n", "tabs")],
)
def test_other_separators_are_named(tmp_path: Path, text: str, name: str) -> None:
    (tmp_path / "d.csv").write_text(text)
    with pytest.raises(UserError, match=f"d.csv: .*{name}.* by commas; save it as CSV"):
        read_trials(tmp_path / "d.csv", Columns())


def test_controls_have_their_names_in_the_trials(tmp_path: Path) -> None:
    trials = "subject,item,region,ms,position\np1,1,1,300,9\np1,1,2,310,9\np2,1,1,320,9\n"
    (tmp_path / "t.csv").write_text(trials)
    (tmp_path / "m.csv").write_text("item,position,update\n1,1,2\n1,2,3\n")
    columns = Columns(participant="subject", position="region", response="ms")
    files = (tmp_path / "t.csv", tmp_path / "m.csv", columns)
    found = join_files(*files, controls=["region"])
    assert (found.controls, found.columns["position"]) == (["position"], "region")
    assert found.trials["position"].tolist() == ["1", "2", "1"]
    for control, what in (("subject", "participant"), ("item", "item"), ("ms", "response")):
        with pytest.raises(UserError, match=f"--control {control} is the {what}, which the models"):
            join_files(*files, controls=[control])
    with pytest.raises(UserError, match="--control position: .* column 'region'"):
        join_files(*files, controls=["position"])
