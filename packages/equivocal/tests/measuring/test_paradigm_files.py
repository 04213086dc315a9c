"""A user's own paradigm: how it is read, and one sentence for each mistake."""

from pathlib import Path

import pytest

from equivocal.measuring.check_items import find_warnings
from equivocal.measuring.paradigms import load_paradigm, load_table
from equivocal.world import World
from equivocal.world.from_table import write_world_from_tables
from lastlayer.errors import UserError

TOML = """
title = "Who is chased"
world = "sg2018"

[conditions]
likely = ""
odd = ""

[[findings]]
says = "odd words move more"
larger = "odd"
smaller = "likely"
"""
CSV = """condition,item,sentence,critical_word
likely,play,the man plays chess,chess
odd,play,the man plays soup,soup
"""


def write(folder: Path, toml: str = TOML, items: str = CSV) -> Path:
    (folder / "mine.csv").write_text(items)
    path = folder / "mine.toml"
    path.write_text(toml)
    return path


def test_a_paradigm_of_ones_own_is_read(tmp_path: Path) -> None:
    paradigm = load_paradigm(write(tmp_path))
    assert paradigm.name == "mine"
    assert paradigm.items == ("play",)
    assert paradigm.findings[0].weights == {"odd": 1, "likely": -1}
    assert paradigm.rows["odd", "play"].critical == 3


@pytest.mark.parametrize(
    ("sources", "short"),
    [
        ('["Rugg (1985), Psychophysiology 22, 642–647", "b"]', "Rugg (1985)"),
        ('["an example"]', "an example"),
        ("[]", ""),
    ],
)
def test_a_source_is_shortened_to_authors_and_year(
    sources: str, short: str, tmp_path: Path
) -> None:
    world = 'world = "sg2018"'
    paradigm = load_paradigm(
        write(tmp_path, toml=TOML.replace(world, f"{world}\nsources = {sources}"))
    )
    assert paradigm.cite() == paradigm.cite(paradigm.findings[0]) == short


def test_the_last_of_two_equal_words_is_critical(tmp_path: Path) -> None:
    twice = CSV.replace("the man plays chess", "chess the man plays chess")
    assert load_paradigm(write(tmp_path, items=twice)).rows["likely", "play"].critical == 4


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("larger", "largr", r"unknown key 'findings.0.largr': did you mean 'larger'\?"),
        ('larger = "odd"', 'larger = "od"', r"unknown condition 'od': did you mean 'odd'\?"),
        ('larger = "odd"', 'larger = "likely"', "findings.0: name two conditions, larger and"),
        ('larger = "odd"\n', "", "or give a contrast"),
        ('larger = "odd"', 'larger = "odd"\ncontrast = { odd = 1 }', "or give a contrast"),
        ('larger = "odd"\nsmaller = "likely"', "contrast = { odd = 1 }", "must sum to zero"),
        ('larger = "odd"\nsmaller = "likely"', "contrast = { odd = 0 }", "not all be zero"),
        ('larger = "odd"\nsmaller = "likely"', "contrast = { odd = nan }", "must sum to zero"),
        ('title = "Who is chased"', "", "'title' is missing"),
        ('world = "sg2018"', 'world = "sg2017.toml"', "sg2017.toml"),
        ('world = "sg2018"', 'world = "../w.toml"', "leads out of its folder"),
        ('odd = ""\n', "", "conditions = .* at least 2 items"),
        (
            'odd = ""',
            'odd = "violatoin"',
            r"'odd': unknown published condition 'violatoin': did you mean 'violation'\?",
        ),
        ('odd = ""', 'odd = "bogus"', "'bogus'; there are cat_viol, high_cloze, "),
    ],
)
def test_a_mistake_in_the_toml_file_is_one_sentence(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        load_paradigm(write(tmp_path, toml=TOML.replace(old, new)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("critical_word", "critical", "critical_word is missing, found"),
        ("odd,play,the man plays soup,soup\n", "", "no row in condition odd"),
        ("odd,play", "likely,play", "row 3: item 'play' appears twice"),
        ("odd,play", "od,play", r"row 3: unknown condition 'od': did you mean 'odd'\?"),
        ("odd,play", "odd,a/b", "row 3: item 'a/b' has a slash"),
        ("plays soup,soup", "plays soup,egg", "row 3: critical_word 'egg' is not in the sentence"),
        (
            "plays soup,soup",
            "plays sup,soup",
            r"row 3: sentence: unknown word 'sup': did you mean 'soup'",
        ),
        ("plays soup,soup", "plays soup,", "row 3: critical_word is empty"),
        ("the man plays", "at dinner, the man plays", "row 2 has more cells than the header"),
        ("the man plays soup", "soup " * 40, "at most 30 words"),
    ],
)
def test_a_mistake_in_the_items_is_one_sentence(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        load_paradigm(write(tmp_path, items=CSV.replace(old, new)))
    assert "\n" not in str(caught.value)


def test_an_unknown_name_and_a_missing_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="paradigm 'reversal': did you mean"):
        load_paradigm("reversal")
    with pytest.raises(UserError, match="none.toml"):
        load_paradigm(tmp_path / "none.toml")
    path = write(tmp_path)
    (tmp_path / "mine.csv").unlink()
    with pytest.raises(UserError, match="mine.csv: it is not there; check its name"):
        load_paradigm(path)
    (tmp_path / "mine.csv").write_text("\n")
    with pytest.raises(UserError, match="mine.csv: it is empty; give a table with a header"):
        load_paradigm(path)
    path.write_text("")
    with pytest.raises(UserError, match="mine.toml: it is empty; write it first"):
        load_paradigm(path)


def test_a_table_of_items_needs_neither_every_condition_nor_a_critical_word(
    sg2018: World, tmp_path: Path
) -> None:
    (tmp_path / "items.csv").write_text(
        "condition,item,sentence\na,one,man plays\nb,two,man eats\n"
    )
    table = load_table(tmp_path / "items.csv", sg2018)
    assert (list(table.conditions), table.items) == (["a", "b"], ("one", "two"))
    assert table.rows["a", "one"].critical == 2
    assert not table.findings


def test_warnings_say_what_would_embarrass_later(sg2018: World, tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text(
        "condition,item,sentence,critical,roles\n"
        "real,one,the man plays chess,2,\n"
        "real,two,the man eats the egg,4,\n".replace(",4,", ",egg,")
        + "unreal,one,the man chess plays,2,agent=man\n"
    )
    table = load_table(tmp_path / "items.csv", sg2018)
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
    items = "condition,item,sentence\na,one,the dog chases the cat\na,two,the dog finds the cat\n"
    (tmp_path / "items.csv").write_text(items)
    (line,) = find_warnings([load_table(tmp_path / "items.csv", world)])
    assert "verbs that decide the agent: chase (dog);" in line


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a,one,the man plays chess,5,", "row 2: critical 5 is not the number of a constituent"),
        ("a,one,the man plays chess,egg,", "row 2: critical 'egg' is not in the sentence"),
        ("a,one,the man plays chess,,agnt=man", "row 2: roles: unknown role 'agnt'"),
        ("a,one,the man plays chess,,man", "row 2: roles: write role=word"),
        ("a,one,,,", "row 2: sentence is empty"),
    ],
)
def test_mistakes_in_items_name_row_and_column(
    row: str, message: str, sg2018: World, tmp_path: Path
) -> None:
    (tmp_path / "items.csv").write_text(f"condition,item,sentence,critical,roles\n{row}\n")
    with pytest.raises(UserError, match=message):
        load_table(tmp_path / "items.csv", sg2018)
