"""A whole study at every point of a grid, and its tables joined over the points.

    DIR/sweep.csv           claims: a row per point and claim, the varied settings in front
    DIR/tables/NAME.csv     each table of the study likewise

Cells are copied as the studies wrote them, and no number is read and printed again, so that an
interrupted sweep ends with the same bytes. The networks come from `equivocal.study.tasks`.
"""

import csv
import io
from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from typing import Any

from equivocal.store.store import hash_content
from equivocal.study.grids import Grid
from equivocal.study.settings import StudySettings
from equivocal.study.stages import check_nuts, check_questions, prepare
from equivocal.study.stimuli import load_stimuli
from equivocal.study.tasks import Parcel, Task, make_scratch_folder
from equivocal.world import World

__all__ = ["format_rows", "join_tables", "make_study_tasks"]

GIVEN = "given.csv"  # the stimuli, beside the study's own copy
Row = dict[str, str]


def make_study_tasks(grid: Grid) -> list[tuple[str, Task]]:
    """Make a task for each point of a sweep, with a key of all that its result depends on."""
    return [_make_task(point.settings) for point in grid.points]


def _make_task(settings: StudySettings) -> tuple[str, Task]:
    """Make a call that needs no file of this machine, and its key."""
    source, world = settings.stimuli_path, World.load(settings.world_source)
    check_questions(world, load_stimuli(source, world), settings)
    training = settings.training_settings
    # the world comes with the networks
    changes = {"world": "world.toml", "stimuli.file": GIVEN, "training": asdict(training)}
    there = settings.change(changes).model_copy(update={"folder": "", "given": ()})
    stimuli = source.read_text(encoding="utf-8-sig")
    key = hash_content("study", there.model_dump(mode="json"), stimuli, world.text)
    check = partial(check_nuts, there)
    return key, Task(world, training, _run_study, (there, stimuli), _is_study, check)


def _run_study(networks: Parcel, settings: StudySettings, stimuli: str) -> dict[str, Any]:
    """Run a study on trained networks, on a worker, and return its tables as text."""
    with make_scratch_folder() as folder:
        networks.unpack(folder)
        (folder / GIVEN).write_text(stimuli, encoding="utf-8")
        study = prepare(settings.model_copy(update={"folder": str(folder)}), folder)
        study.infer(_ignore_progress)
        study.probe(_ignore_progress)
        study.analyse()
        tables = {
            path.stem: path.read_text(encoding="utf-8")
            for path in sorted((folder / "tables").glob("*.csv"))
        }
        claims = (folder / "claims.csv").read_text(encoding="utf-8")
        return {"settings": settings.model_dump(mode="json"), "claims": claims, "tables": tables}


def _ignore_progress(done: int, total: int, state: str) -> None:
    """Report nothing: a point is one step of the sweep."""


def _is_study(content: Any) -> bool:
    """Tell whether something is what `_run_study` returns."""
    match content:
        case {"claims": str() as claims, "tables": dict() as tables}:
            return all(
                isinstance(text, str) and _is_table(text) for text in [claims, *tables.values()]
            )
    return False


def _is_table(text: str) -> bool:
    try:
        return all(None not in row and None not in row.values() for row in _read_rows(text))
    except csv.Error:
        return False


def _read_rows(text: str) -> "csv.DictReader[str]":
    return csv.DictReader(io.StringIO(text, newline=""))


def join_tables(parts: Iterable[tuple[dict[str, Any], str]]) -> list[Row]:
    """Join tables, given as text, with the settings of each in front of its rows.

    A table without rows, as the claims of a study that is not the paper's, gives one for its point.
    """
    rows = []
    for varied, text in parts:
        front = {name: str(value) for name, value in varied.items()}
        rows += [front | row for row in _read_rows(text)] or [front]
    return rows


def format_rows(rows: list[Row]) -> str:
    """Format rows as CSV, with every column that any of them has."""
    names = dict.fromkeys(name for row in rows for name in row)
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
