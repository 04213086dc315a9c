"""`equivocal measure` as a user runs it, and `measure` in Python."""

import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from equivocal.measuring.command import measure as command
from equivocal.measuring.run import COMPARED, MeasureResult, measure
from equivocal.network import Run
from equivocal.store.folders import announce_overwrite
from lastlayer.errors import UserError


@pytest.fixture(scope="module")
def finished(
    chase_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[MeasureResult, Path]:
    """A quick run with posteriors, and its folder."""
    folder = tmp_path_factory.mktemp("finished")
    return measure(chase_file, out=folder, quick=True), folder


def test_a_run_returns_what_it_writes(finished: tuple[MeasureResult, Path]) -> None:
    result, folder = finished
    assert list(result.tables) == ["words", "wide", "columns", "findings"]
    for name, table in result.tables.items():
        pd.testing.assert_frame_equal(
            pd.read_csv(folder / "tables" / f"{name}.csv"),
            table.replace("", np.nan),
            check_dtype=False,
            rtol=1e-5,
        )
    assert (result.tables["words"]["epistemic"] > 0).all()
    assert {path.stem for path in (folder / "figures").iterdir()} == {"overview", "chase"}
    report = (folder / "report.html").read_text(encoding="utf-8")
    assert "Quick run" in report
    assert report.count("<img") == 2
    assert result.tables["findings"]["finding"].iloc[0] in report
    made_of = tomllib.loads((folder / "measure.toml").read_text())
    assert made_of == result.settings
    assert made_of["posterior"]["prior_variance"] == 1
    assert made_of["versions"]["jax"] == metadata.version("jax")
    assert result.summary[0] == "measured every word of 4 sentences with 2 networks"


def test_a_run_is_resumed_and_results_of_another_are_not_replaced_silently(
    chase_file: Path, finished: tuple[MeasureResult, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    result, folder = finished
    again = measure([chase_file], out=folder, quick=True)
    pd.testing.assert_frame_equal(again.tables["words"], result.tables["words"])
    assert "holds this run already" in capsys.readouterr().err
    announce_overwrite(folder / "measure.toml", result.settings | {"seed": 1}, COMPARED)
    assert "that differ in seed" in capsys.readouterr().err
    before = (folder / "measure.toml").read_bytes()
    with pytest.raises(UserError, match="seed"):  # networks with another seed
        measure(chase_file, out=folder, quick=True, seed=3)
    assert (folder / "measure.toml").read_bytes() == before


def test_a_table_of_items_is_measured_by_trained_networks(
    small_run: Run, chase_file: Path, tmp_path: Path
) -> None:
    small_run.save(tmp_path / "train")
    where: dict[str, Any] = {
        "run": tmp_path / "train",
        "folder": tmp_path / "words.csv",
        "beliefs": "trained",
    }
    command(items=[chase_file], **where)
    words = pd.read_csv(tmp_path / "words.csv")
    wanted = (
        "item condition position word constituent network semantic_update bayesian_surprise p600 "
        "uncertainty epistemic surprisal cloze"
    )
    assert set(wanted.split()) <= set(words.columns)
    assert len(words) == 2 * (3 + 4 + 3 + 3)
    command(items=[chase_file], **where, wide=True)
    assert len(pd.read_csv(tmp_path / "words.csv")) == 13
    assert not (tmp_path / "words" / "networks").exists()
    columns = pd.read_csv(tmp_path / "words_columns.csv")
    assert set(columns["column"]) > {"item", "cloze", "p600_low", "belief_reading"}
    assert (tmp_path / "words" / "figures" / "chase.svg").stat().st_size > 1000


def test_nothing_need_be_written(
    small_run: Run, chase_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EQUIVOCAL_CACHE", str(tmp_path / "cache"))
    small_run.save(tmp_path / "train")
    before = {path.name for path in tmp_path.iterdir()}
    result = measure(chase_file, run=tmp_path / "train", beliefs="trained")
    assert len(result.tables["words"]) == 26
    assert {path.name for path in tmp_path.iterdir()} - before <= {"cache"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"paradigms": ["reversal"]}, r"did you mean 'reversal_anomaly'\?"),
        ({"paradigms": ["pasive"]}, r"did you mean 'passive'\?"),
        ({"items": [Path("x.toml")]}, r"give the table of items \(.csv\)"),
        ({"items": [Path("x.csv")]}, r"x.csv does not say in which world .*\(--world\)"),
        ({"networks": 20_000}, "networks must be from 1 to 10,000"),
    ],
)
def test_a_mistake_is_seen_before_anything_is_made(
    arguments: dict, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        command(**arguments, folder=tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_beliefs_are_trained_or_posterior_and_names_differ(
    chase_file: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="'exact'"):
        measure(chase_file, out=tmp_path / "out", beliefs="exact")
    assert not list(tmp_path.iterdir())
    for file in chase_file.parent.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    with pytest.raises(UserError, match="the same name"):
        measure([chase_file, tmp_path / "chase.csv"], out=tmp_path / "out")


@pytest.mark.longer
def test_noise_and_readings_are_measured_together(tmp_path: Path) -> None:
    result = measure(
        ["unlikely_reversals", "attachment"], out=tmp_path, quick=True, beliefs="trained"
    )
    assert {"words", "findings", "readings", "shares"} <= result.tables.keys()
    findings = result.tables["findings"].set_index("measure")
    assert findings.loc["exact_p600", "verdict"] == "held"
    assert result.tables["words"].query("paradigm == 'unlikely_reversals'")["p600"].gt(0).all()
    assert result.draw().keys() == {"overview", "unlikely_reversals", "attachment"}
    literal = tmp_path / "networks" / "both_ways_literal"
    assert literal.is_dir()
