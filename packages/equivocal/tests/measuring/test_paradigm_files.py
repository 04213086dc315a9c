"""Tables of items and what is expected of them: how they are read, and one sentence per mistake."""

from pathlib import Path

import pytest

from equivocal.measuring.paradigms import Paradigm, find_warnings, load_paradigm
from equivocal.world import World
from equivocal.world.from_table import write_world_from_tables
from lastlayer.errors import UserError

EXPECTATIONS = """
[mine]
world = "sg2018"

[[mine.expected]]
says = "odd words move more"
larger = "odd"
smaller = "likely"
"""
CSV = """condition,item,sentence,critical
likely,play,the man plays chess,chess
odd,play,the man plays soup,soup
"""


def write(folder: Path, expectations: str = EXPECTATIONS, items: str = CSV) -> Path:
    (folder / "expectations.toml").write_text(expectations)
    path = folder / "mine.csv"
    path.write_text(items)
    return path


def test_expectations_beside_a_table_are_read(tmp_path: Path, sg2018: World) -> None:
    paradigm = load_paradigm(write(tmp_path))
    assert (paradigm.name, paradigm.items) == ("mine", ("play",))
    (expected,) = paradigm.expected
    assert expected.weights == {"odd": 1, "likely": -1}
    assert expected.measures == ("semantic_update", "bayesian_surprise", "exact_surprise")
    assert paradigm.rows["odd", "play"].critical == 3
    others = EXPECTATIONS.replace("mine", "other")
    with pytest.warns(UserWarning, match=r"no part \[mine\], .* of mine\.csv; there are other\."):
        other = load_paradigm(write(tmp_path, others), sg2018)
    assert (other.expected, other.title) == ((), "mine")
    (tmp_path / "expectations.toml").unlink()
    with pytest.raises(UserError, match="does not say in which world its sentences are"):
        load_paradigm(tmp_path / "mine.csv")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("larger", "largr", r"\[mine\]: unknown key 'expected.0.largr': did you mean 'larger'\?"),
        ('larger = "odd"', 'larger = "od"', r"unknown condition 'od': did you mean 'odd'\?"),
        ('larger = "odd"', 'larger = "likely"', "expected.0: name two conditions, larger and"),
        ('larger = "odd"', 'larger = "odd"\ncontrast = { odd = 1 }', "or give a contrast"),
        ('larger = "odd"\nsmaller = "likely"', "contrast = { odd = 1 }", "must sum to zero"),
        ('larger = "odd"\nsmaller = "likely"', "contrast = { odd = nan }", "must sum to zero"),
        ("larger", 'measures = ["N400"]\nlarger', "'odd words move more': unknown measure 'N400'"),
        ('world = "sg2018"', 'world = "../w.toml"', "leads out of its folder"),
        ("[mine]", "[mine", "expectations.toml: it is not TOML"),
    ],
)
def test_a_mistake_in_expectations_is_one_sentence(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        load_paradigm(write(tmp_path, EXPECTATIONS.replace(old, new)))
    assert "\n" not in str(caught.value)


def test_an_unknown_name_and_a_missing_file_are_named(tmp_path: Path, sg2018: World) -> None:
    with pytest.raises(UserError, match="paradigm 'reversal': did you mean"):
        load_paradigm("reversal")
    with pytest.raises(UserError, match="none.csv: it is not there; check its name"):
        load_paradigm(tmp_path / "none.csv", sg2018)
    (tmp_path / "mine.csv").write_text("\n")
    with pytest.raises(UserError, match="mine.csv: it is empty; give a table with a header"):
        load_paradigm(tmp_path / "mine.csv", sg2018)


def load_rows(folder: Path, rows: str, world: World) -> Paradigm:
    (folder / "items.csv").write_text(f"Condition,Item,Sentence,critical,roles\n{rows}\n")
    return load_paradigm(folder / "items.csv", world)


def test_a_table_needs_neither_every_condition_nor_a_critical_word(
    sg2018: World, tmp_path: Path
) -> None:
    table = load_rows(tmp_path, "a,one,man plays,,\nb,two,man eats,,", sg2018)
    assert (table.conditions, table.items) == (("a", "b"), ("one", "two"))
    assert table.rows["a", "one"].critical == 2
    (tmp_path / "one.csv").write_text("item,sentence\nfirst,man plays\n")
    assert load_paradigm(tmp_path / "one.csv", sg2018).conditions == ("all",)


def test_warnings_say_what_would_embarrass_later(sg2018: World, tmp_path: Path) -> None:
    rows = (
        "real,one,the man plays chess,2,\n"
        "real,two,the man eats the egg,egg,\n"
        "unreal,one,the man chess plays,2,agent=man"
    )
    table = load_rows(tmp_path, rows, sg2018)
    assert table.rows["unreal", "one"].roles == {"agent": "man"}
    assert table.rows["real", "one"].critical == 2
    found = list(find_warnings([table]))
    assert len(found) == 3
    assert "in 1 of 2 items the critical word differs between conditions (one: chess" in found[0]
    assert "never heard at their position in world 'sg2018': plays (3);" in found[1]
    assert "1 in unreal" in found[2]
    assert not list(find_warnings([load_paradigm("semantic_incongruity")]))


def test_a_verb_that_decides_the_agent_is_named(tmp_path: Path) -> None:
    events = "agent,action,patient\ndog,chase,cat\ndog,chase,mouse\ndog,find,cat\ncat,find,mouse\n"
    (tmp_path / "events.csv").write_text(events)
    world = World.from_toml(write_world_from_tables(tmp_path / "events.csv", name="pets"))
    rows = "a,one,the dog chases the cat,,\na,two,the dog finds the cat,,"
    (line,) = find_warnings([load_rows(tmp_path, rows, world)])
    assert "verbs that decide the agent: chase (dog);" in line


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a,one,the man plays chess,5,", "row 2: critical 5 is not the number of a constituent"),
        ("a,one,the man plays chess,,agnt=man", "row 2: roles: unknown role 'agnt'"),
        ("a,one,the man plays sup,,", "row 2: sentence: unknown word 'sup': did you mean 'soup'"),
        ("a,one,,,", "row 2: sentence is empty"),
        ("a,one,at dinner, the man plays,,", "row 2 has more cells than the header"),
        ("a,one,man plays,,\na,one,man eats,,", "row 3: item 'one' appears twice"),
    ],
)
def test_mistakes_in_items_name_row_and_column(
    row: str, message: str, sg2018: World, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        load_rows(tmp_path, row, sg2018)
