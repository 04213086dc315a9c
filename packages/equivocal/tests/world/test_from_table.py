"""Worlds from tables: exact probabilities, defaults in comments, one sentence per mistake."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from equivocal.world import World
from equivocal.world.command import new, show
from equivocal.world.from_table import write_world_from_tables
from lastlayer.errors import UserError

EVENTS = """agent,action,patient,location,frequency
doctor,treat,patient,ward,20
nurse,treat,patient,ward,5
patient,call,nurse,,10.5
nurse,call,doctor,,8
doctor,read,chart,office,6
visitor,visit,patient,ward,9
patient,visit,doctor,office,3
"""


def write(folder: Path, text: str, name: str = "events.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8-sig")
    return path


@pytest.mark.parametrize("german", [False, True])
def test_events_keep_their_probabilities(german: bool, tmp_path: Path) -> None:
    """With commas and points, or semicolons and decimal commas."""
    text = EVENTS.replace(",", ";").replace("10.5", "10,5") if german else EVENTS
    world = World.from_toml(write_world_from_tables(write(tmp_path, text), name="hospital"))
    found = {tuple(event.roles.get(role) for role in world.roles): event for event in world.events}
    rows = [line.split(",") for line in EVENTS.splitlines()[1:]]
    total = sum(float(row[-1]) for row in rows)
    assert len(found) == len(rows)
    for row in rows:
        key = tuple(cell or None for cell in row[:-1])
        assert found[key].probability == pytest.approx(float(row[-1]) / total, abs=1e-9)


def test_joint_probabilities_of_many_events(tmp_path: Path) -> None:
    """Random frequencies, in which every role depends on all before it."""
    rng = np.random.default_rng(0)
    words = [[f"{role}{n}" for n in range(5)] for role in ("a", "v", "p", "i")]
    rows = {tuple(rng.choice(part) for part in words): rng.integers(1, 50) for _ in range(120)}
    table = pd.DataFrame([*rows], columns=["agent", "action", "patient", "instrument"])
    path = tmp_path / "many.csv"
    table.assign(frequency=[*rows.values()]).to_csv(path, index=False)
    world = World.from_toml(write_world_from_tables(path, name="many", passive=True))
    assert len(world.events) == len(rows)
    for event in world.events:
        key = tuple(event.roles[role] for role in table.columns)
        assert event.probability == pytest.approx(rows[key] / sum(rows.values()), abs=1e-9)
    texts = {sentence.text for sentence in world.sentences}
    assert any(" was " in text and " by " in text for text in texts)


def test_orders_and_ratings(tmp_path: Path) -> None:
    text = EVENTS.replace("frequency", "rating").replace("10.5", "2").replace("20", "7")
    toml = write_world_from_tables(write(tmp_path, text), name="x", order="SOV")
    assert "a point doubles" in toml
    world = World.from_toml(toml)
    assert world.file.constructions[0].order == ("agent", "patient", "location", "action")
    chances = {event.roles["agent"]: event.probability for event in world.events}
    treat = [e for e in world.events if e.roles["action"] == "treat"]
    assert chances
    assert treat[0].probability / treat[1].probability == pytest.approx(4)  # 7 and 5 points


def test_features_from_words(tmp_path: Path) -> None:
    words = "word,animate,size,features\n"
    for number, word in enumerate(
        ("doctor", "nurse", "patient", "visitor", "chart", "treat", "call", "read", "visit")
    ):
        words += f"{word},{int(number < 4)},{number}.5,{'in white; here' * (number < 2)}\n"
    words += "ward,0,20.5,\noffice,0,21.5,\n"
    paths = write(tmp_path, EVENTS), write(tmp_path, words, "words.csv")
    world = World.from_toml(write_world_from_tables(*paths, name="hospital"))
    number = world.lexicon.words.index("nurse")
    units = np.array(world.units)[world.lexicon.features[number]]
    assert set(units) == {"in white", "here", "animate", "size low", "nurse"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("agent,action", "agent,verb", "has no column `action`.*its columns are agent, verb"),
        ("doctor,read", "doctor,", "row 6, column action: the cell is empty"),
        ("ward,20", "ward,0", "row 2, column frequency: .*above 0, got '0'; leave out"),
        ("ward,20", 'ward,"1,020"', "row 2, column frequency: .*got '1,020', without marks for"),
        ("ward,20", "ward!,20", "row 2, column location: 'ward!' is no word of a sentence"),
        ("frequency", "count", "row 1: column count holds numbers only, so it is no role"),
        ("doctor,read", "Doctor,read", "row 6, column agent: 'Doctor' is spelt 'doctor' in row 2"),
        ("frequency", "frequency,probability", "columns frequency, probability; keep one"),
        ("ward,20", "ward,20,7", "row 2 has 6 cells and the header 5"),
        ("agent,action,patient,", "agent,action,,", "row 1: column 3 has no name"),
        ("patient,location", "patient,agent", "row 1: column 4 is named 'agent' like another"),
        (EVENTS[EVENTS.index("\n") :], "\n", "has no rows below its header"),
    ],
)
def test_mistakes_name_row_and_column(old: str, new: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path, EVENTS.replace(old, new, 1))
    with pytest.raises(UserError, match=message):
        write_world_from_tables(path, name="x")


WORDS = "word,features,size\n" + "".join(
    f"{word},,{size}.5\n"
    for size, word in enumerate(
        ("doctor", "nurse", "patient", "visitor", "chart", "treat", "call", "read", "visit", "ward")
    )
)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("office", "nothing", "row 6, column location: 'office' is not in .*words.csv; add a row"),
        ("office,,", "Office,,", "row 6, column location: 'office' is spelt 'Office' in"),
        ("office,,", ",,", "words.csv row 12, column word: the cell is empty"),
        ("office,,", "ward,,", "words.csv row 12, column word: 'ward' is there twice"),
        ("nurse,,1.5", "nurse,,tall", "row 3, column size: a feature is a number, got 'tall'"),
        ("nurse,,", "nurse,doctor,", "row 3: the feature 'doctor' of 'nurse' is also a word"),
        ("word,", "noun,", "words.csv has no column `word`"),
    ],
)
def test_mistakes_in_words_name_row_and_column(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    words = write(tmp_path, (WORDS + "office,,10.5\n").replace(old, new, 1), "words.csv")
    with pytest.raises(UserError, match=message):
        write_world_from_tables(write(tmp_path, EVENTS), words, name="x")


def test_what_people_do_to_tables_is_understood(tmp_path: Path) -> None:
    """Capitals in the header, empty rows, and a cell of a feature that does not apply."""
    untidy = EVENTS.replace("agent,action", "Agent, Action").replace(
        "doctor,read", ",,,,\ndoctor,read"
    )
    plain = write_world_from_tables(write(tmp_path, EVENTS), name="x")
    assert write_world_from_tables(write(tmp_path, untidy), name="x") == plain
    words = write(tmp_path, (WORDS + "office,,\n"), "words.csv")
    world = write_world_from_tables(write(tmp_path, EVENTS), words, name="x")
    assert "# Features made of numbers: size: high and low are the outer thirds" in world
    assert World.from_toml(world).file.words["locations"] == {
        "ward": ("size high", "ward"),
        "office": ("office",),
    }


def test_an_event_has_one_rating_and_verbs_are_uninflected(tmp_path: Path) -> None:
    twice = EVENTS.replace("frequency", "rating") + "doctor,treat,patient,ward,3\n"
    with pytest.raises(UserError, match="row 9: the event of row 2 is there again"):
        write_world_from_tables(write(tmp_path, twice), name="x")
    with pytest.warns(UserWarning, match="'visits' looks inflected; if so, write 'visit'"):
        write_world_from_tables(write(tmp_path, EVENTS.replace(",visit,", ",visits,")), name="x")


def test_a_world_of_the_package_is_a_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new(tmp_path / "mine.toml", "slips")
    assert World.load(tmp_path / "mine.toml").fingerprint == World.load("slips").fingerprint
    capsys.readouterr()
    show("slips", toml=True)
    assert capsys.readouterr().out == (tmp_path / "mine.toml").read_text()
