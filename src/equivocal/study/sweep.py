"""A whole study at every point of a grid, and its tables joined over the points.

    DIR/sweep.csv           claims: a row per point and claim, the varied settings in front
    DIR/tables/NAME.csv     each table of the study likewise

Cells are copied as the studies wrote them, and no number is read and printed again, so that an
interrupted sweep ends with the same bytes. The networks come from `equivocal.study.tasks`.
"""

import io
from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from typing import Any

import pandas as pd

from equivocal.store.store import hash_content
from equivocal.study.checks import check_nuts, check_questions, check_samplers
from equivocal.study.claims import COLUMNS
from equivocal.study.settings import StudySettings
from equivocal.study.stages import prepare
from equivocal.study.stimuli import load_stimuli
from equivocal.study.tasks import Parcel, Task, make_scratch_folder
from equivocal.world import World

__all__ = ["join_tables", "make_study_task"]

GIVEN = "given.csv"  # the stimuli, beside the study's own copy


def make_study_task(settings: StudySettings) -> tuple[str, Task]:
    """Make the task of one point of a sweep, which needs no file of this machine.

    Parameters
    ----------
    settings : StudySettings
        What the study is run with.

    Returns
    -------
    str
        A hash of all that the result depends on.
    Task
        The call.
    """
    source, world = settings.stimuli_path, World.load(settings.world_source)
    check_questions(world, load_stimuli(source, world), settings)
    training = settings.training_settings
    # the world comes with the networks
    changes = {"world": "world.toml", "stimuli.file": GIVEN, "training": asdict(training)}
    there = settings.change(changes).model_copy(update={"folder": "", "given": ()})
    stimuli = source.read_text(encoding="utf-8-sig")
    key = hash_content("study", there.model_dump(mode="json"), stimuli, world.text)
    check = partial(_check_before_training, there)
    return key, Task(world, training, _run_study, (there, stimuli), _is_study, check)


def _check_before_training(settings: StudySettings) -> None:
    """Refuse, on a worker, what could not be sampled once the networks are trained."""
    check_samplers(settings)
    check_nuts(settings)


def _run_study(networks: Parcel, settings: StudySettings, stimuli: str) -> dict[str, Any]:
    """Run a study on trained networks, on a worker, and return its tables as text."""
    with make_scratch_folder() as folder:
        networks.unpack(folder)
        (folder / GIVEN).write_text(stimuli, encoding="utf-8")
        study = prepare(settings.model_copy(update={"folder": str(folder)}), folder)
        study.infer(lambda *_: None)  # a point is one step of the sweep
        study.probe(lambda *_: None)
        study.analyse()
        tables = {
            path.stem: path.read_text(encoding="utf-8")
            for path in sorted((folder / "tables").glob("*.csv"))
        }
        claims = (folder / "claims.csv").read_text(encoding="utf-8")
        return {"settings": settings.model_dump(mode="json"), "claims": claims, "tables": tables}


def _is_study(content: Any) -> bool:
    """Return whether something is what `_run_study` returns."""
    try:
        tables = [_read_cells(text) for text in content["tables"].values()]
        return list(_read_cells(content["claims"])) == COLUMNS and len(tables) > 0
    except (AttributeError, KeyError, TypeError, ValueError):
        return False


def _read_cells(text: str) -> pd.DataFrame:
    """Read a table, with every cell as the text that it is."""
    return pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)


def join_tables(parts: Iterable[tuple[dict[str, Any], str]]) -> str:
    """Join tables, given as text, with the settings of each in front of its rows.

    A table without rows, as the claims of a study that is not the paper's, gives one for its point.
    """
    joined = []
    for varied, text in parts:
        front = {name: str(value) for name, value in varied.items()}
        cells = dict(_read_cells(text).items()) if text else {}
        rows = len(next(iter(cells.values()), ()))
        joined.append(pd.DataFrame(front | cells if rows else [front]))
    return pd.concat(joined).to_csv(index=False)
