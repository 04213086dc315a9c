"""Simulated and compared trials, by the public functions and by the commands."""

import tomllib
from dataclasses import replace
from functools import partial
from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from equivocal.measuring.paradigms import load_paradigm
from equivocal.people.run_compare import compare_trials
from equivocal.people.run_simulate import simulate_trials
from equivocal.people.simulate import Experiment
from equivocal.people.trial_tables import Columns
from equivocal.world.spelling import fold
from lastlayer.errors import UserError
from tests.cli.commands import fails, run

SUITES = resources.files("equivocal.measuring") / "data"
SMALL = Experiment(participants=6, items=4)
SIMULATE = ["people", "simulate", "--participants", "12", "--items", "8", "--beta", "40"]


def test_a_simulated_effect_is_recovered(tmp_path: Path) -> None:
    """Both commands run in real processes, and write complete files."""
    made = run(*SIMULATE, "--out", "sim", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert made.stdout.startswith("In these simulated trials rt changes by +40 with each unit of s")
    assert "288 trials of 12 participants and 8 items" in made.stdout
    truth = tomllib.loads((tmp_path / "sim" / "truth.toml").read_text())["truth"]
    assert (truth["measure"], truth["beta"], truth["seed"]) == ("surprise", 40.0, 0)
    with (tmp_path / "sim" / "data.csv").open("a") as file:
        file.write("p01,99,1,400\n")
    files = ("sim/data.csv", "--measures", "sim/measures.csv")
    found = run("people", "compare", *files, "--out", "cmp", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    answer, _, rest = found.stdout.partition(" Not clearly: ")
    assert answer.startswith("What predicts rt beyond the other measures: surprise, +")
    assert rest.startswith("rival, ")
    joined = "288 of 289 trials joined by item, position; 12 participants, 8 items"
    assert f"{joined}; response rt, gaussian family\n" in found.stdout
    assert "left out: 1, no such word in the measures" in found.stdout
    written = {path.name for path in (tmp_path / "cmp").rglob("*") if path.is_file()}
    tables = {"compare.csv", "compare.toml", "unmatched.csv", "trials.csv", "lme4.R"}
    assert written == tables | {"compare.svg", "compare.png"}
    table = pd.read_csv(tmp_path / "cmp" / "compare.csv").set_index(["measure", "model"])
    settings = tomllib.loads((tmp_path / "cmp" / "compare.toml").read_text())
    assert settings["measure"] == ["surprise", "rival"]
    named = {name: name for name in ("participant", "item", "position")}
    assert settings["columns"] == named | {"response": "rt"}
    row = table.loc[("surprise", "alone")]
    assert row["low"] < truth["beta"] < row["high"]
    assert len(pd.read_csv(tmp_path / "cmp" / "trials.csv")) == row["trials"] == 288
    assert pd.read_csv(tmp_path / "cmp" / "unmatched.csv")["row"].tolist() == [290]


def write_reading_times(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Simulate self-paced reading of a suite: +6 ms per unit of a measure of each constituent.

    Returns reading times of every word that was read, articles too, and of every constituent.
    """
    suite, rng, rows = load_paradigm("cloze_probability"), np.random.default_rng(0), []
    text = pd.read_csv(SUITES / "cloze_probability.csv").set_index(["condition", "item"])
    for (condition, item), row in suite.rows.items():
        said, start = text.loc[(condition, item), "sentence"].split(), 0
        for position, constituent in enumerate(row.utterance.words, start=1):
            final = constituent.split()[-1]
            last = next(n for n in range(start, len(said)) if fold(said[n]) == final)
            about = {"condition": condition, "item": item, "position": position}
            rows.append({**about, "word": constituent, "read": said[start : last + 1]})
            start = last + 1
        assert start == len(said)
    measures = pd.DataFrame(rows)
    measures["update"] = rng.normal(size=len(measures))
    measures.drop(columns="read").to_csv(folder / "measures.csv", index=False)
    number, parts = measures["item"].map(list(suite.items).index), []
    for p, level in enumerate(rng.normal(0, 40, 20)):
        turn = measures["condition"].map(list(suite.conditions).index)
        own = measures[turn == (number + p) % 2]  # a Latin square
        times = 350 + level + 6 * own["update"] + rng.normal(0, 25, len(own))
        parts.append(own.assign(participant=f"p{p}", rt=times))
    regions = pd.concat(parts).drop(columns="update")
    words = regions.drop(columns="word").explode("read").rename(columns={"read": "word"})
    one_by_one = words.groupby(["participant", "condition", "item"]).cumcount() + 1
    return words.assign(position=one_by_one), regions.assign(word=regions["read"].str.join(" "))


def test_reading_times_of_every_word_are_aligned_with_constituents(tmp_path: Path) -> None:
    """Numbered word by word, without numbers, or by constituent: 6 ms per unit."""
    words, regions = write_reading_times(tmp_path)
    data, measures, out = tmp_path / "d.csv", tmp_path / "measures.csv", tmp_path / "out"
    # without words, the sentence is longer than that of the measures
    words.drop(columns="word").to_csv(data, index=False)
    message = fails("people", "compare", data, "--measures", measures, cwd=tmp_path)
    assert message.startswith("item ")
    assert "so the two count words differently; add a column word to both tables" in message
    assert not (tmp_path / "runs").exists()
    tables = {"words": words, "regions": regions, "without": words.drop(columns="position")}
    for name, table in tables.items():
        table.to_csv(data, index=False)
        result = compare_trials(data, measures, out)
        (row,) = result.tables["compare"].to_dict("records")
        # 0.6 ms is the standard error: |t| > 4 in 6 of 100,000 such experiments
        assert abs(row["estimate"] - 6) < 4 * row["se"] < 4, name
        assert row["low"] > 0
        assert row["trials"] == len(regions)
        assert result.tables["unmatched"].empty
    assert (result.tables["alignment"]["why_not"] == "").all()


def test_power_is_written_with_its_figure(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text(
        "item,rival,update\n" + "".join(f"{i},0,{i**2}\n" for i in range(5))
    )
    made = run(
        *SIMULATE[:2], "--power", "--participants", "6,4", "--items", "5", "--runs", "4",
        "--measures", "m.csv", "--measure", "update", "--slopes",
        "--out", "pow", cwd=tmp_path,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    table = pd.read_csv(tmp_path / "pow" / "power.csv")
    assert table["participants"].tolist() == [4, 6]
    assert table["runs"].tolist() == [4, 4]
    assert (tmp_path / "pow" / "figures" / "power.svg").exists()
    settings = tomllib.loads((tmp_path / "pow" / "power.toml").read_text())
    assert settings["truth"]["beta"] == 20.0
    assert (settings["measure"], settings["items"], settings["slopes"]) == ("update", [5], True)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_results_of_other_settings_are_replaced_and_files_of_a_user_are_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    simulate_trials(SMALL, tmp_path / "sim")
    data, measures = tmp_path / "sim" / "data.csv", tmp_path / "sim" / "measures.csv"
    again = partial(compare_trials, measures=measures, out=tmp_path / "sim")  # beside them
    again(data)
    again(data)
    assert "replaced" not in capsys.readouterr().err
    again(data, log=True)
    assert "sim that differ in log" in capsys.readouterr().err
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "trials.csv").write_bytes(data.read_bytes() + b"p1,1,1,400\n")
    before = contents(tmp_path)
    with pytest.raises(UserError, match=r"mine holds trials\.csv, which would be overwritten"):
        again(tmp_path / "mine" / "trials.csv", out=tmp_path / "mine")
    assert contents(tmp_path) == before
    again(tmp_path / "mine" / "trials.csv", log=True)
    assert "that differ in inputs.data" in capsys.readouterr().err


def test_a_table_that_is_read_is_not_replaced(tmp_path: Path) -> None:
    """It is refused even if an earlier run in the folder wrote the table."""
    sim, out = tmp_path / "sim", tmp_path / "out"
    simulate_trials(SMALL, sim)
    compare_trials(sim / "data.csv", sim / "measures.csv", out)
    (tmp_path / "link.csv").symlink_to(out / "trials.csv")
    before = contents(tmp_path)
    for data in (out / "trials.csv", sim / ".." / "out" / "trials.csv", tmp_path / "link.csv"):
        with pytest.raises(
            UserError, match=rf"{data.name} is read here and would be overwritten; "
        ):
            compare_trials(data, sim / "measures.csv", out, columns=Columns(response="response"))
    with pytest.raises(UserError, match=r"measures\.csv is read here and would be overwritten; "):
        simulate_trials(replace(SMALL, items=2), sim, measures=sim / "measures.csv")
    assert contents(tmp_path) == before


def test_mistakes(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("subj,item,rt\np1,1,300\n")
    (tmp_path / "m.csv").write_text("item,update\n1,2\n")
    given = ["people", "compare", "d.csv", "--measures", "m.csv"]
    assert "with --participant: there are subj, item, rt." in fails(*given, cwd=tmp_path)
    assert "is not there" in fails(*given[:2], "x.csv", *given[3:], cwd=tmp_path)
    assert "--measures" in fails(*given[:3], cwd=tmp_path)
    (tmp_path / "d.csv").write_text("participant,item,rt\np1,1,300\np2,1,300\np1,2,310\np2,2,310\n")
    (tmp_path / "m.csv").write_text("item,update\n1,2\n2,3\n")
    assert "has only two values" in fails(*given, cwd=tmp_path)
    for options, message in (
        (["--participants", "ten"], "whole numbers from 2 on"),
        (["--participants", "10,20"], "are for --power; add that"),
        (["--runs", "9"], "are for --power; add that"),
        (["--slopes"], "are for --power; add that"),
        (["--measure", "x"], "--measure names a column of the table --measures"),
        (["--power", "--participants", "4999", "--items", "2"], "at most 5000 can be fitted"),
    ):
        assert message in fails("people", "simulate", *options, cwd=tmp_path)
    assert not (tmp_path / "runs").exists()  # nothing is made before the input is known to be good
