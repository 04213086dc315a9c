"""Many studies: one study with some of its settings varied, in all combinations.

    study = "paper"                     a preset, or a file beside this one
    quick = true                        as `reproduce --quick`
    [vary]
    "training.seed" = [0, 1, 2]
    "inference.samplers.paper.num_particles" = [50, 100]

Each point is a whole study without its report. From the results (see `many`) are written

    DIR/sweep.csv           claims: one row per point and claim, the varied settings in front
    DIR/tables/NAME.csv     each table of the study likewise
    DIR/varied.toml         what was varied (see `sweep_record`)

cell by cell as the studies wrote them, so an interrupted sweep ends with the same bytes.
"""

import csv
import io
import tomllib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from equivocal.errors import UserError, explain_validation
from equivocal.progress import Advance
from equivocal.store import is_plain_name, read_toml, resolve_inside
from equivocal.store.files import write_text_atomically
from equivocal.store.locks import hold_folder
from equivocal.store.parcels import Parcel
from equivocal.store.stages import hash_content
from equivocal.study.cluster import Hire, alone
from equivocal.study.many import Task, do_missing, scratch_folder
from equivocal.study.opening import check_nuts, check_questions, prepare
from equivocal.study.running import Study
from equivocal.study.settings import StudySettings, load_study, parse_changes
from equivocal.study.stimuli import load_stimuli
from equivocal.study.sweep_record import SweepRecord

__all__ = ["Point", "Sweep", "load_sweep", "make_sweep", "parse_varied", "run_sweep"]

GIVEN = "given.csv"  # the stimuli, beside the study's own copy
Row = dict[str, str]
MOST_POINTS = 100_000


@dataclass(frozen=True)
class Point:
    """One combination of the varied settings, and the study that it makes."""

    varied: dict[str, Any]
    settings: StudySettings


@dataclass(frozen=True)
class Sweep:
    """All points, the last setting varying fastest."""

    points: tuple[Point, ...]

    @property
    def quick(self) -> bool:
        """Whether its studies are small ones."""
        return any(point.settings.quick_run for point in self.points)

    @property
    def varied(self) -> dict[str, list[Any]]:
        """Each setting that is varied, with its values."""
        found: dict[str, dict[str, Any]] = {}
        for point in self.points:
            for name, value in point.varied.items():
                found.setdefault(name, {})[repr(value)] = value  # some values have no hash
        return {name: list(values.values()) for name, values in found.items()}


class _SweepFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    study: str = "paper"
    quick: bool = False
    vary: dict[str, Any] = {}


def load_sweep(path: Path) -> Sweep:
    """A sweep from a user's file; every point is checked."""
    try:
        file = _SweepFile(**read_toml(path))
    except ValidationError as error:
        raise UserError(f"{path}: {explain_validation(error, _SweepFile, 'key')}") from None
    beside = resolve_inside(path.parent, file.study, "study")
    study = beside if beside.is_file() or beside.suffix == ".toml" else file.study
    return make_sweep(study, dict(_dotted(file.vary)), quick=file.quick, from_file=True)


def _dotted(tables: dict[str, Any], before: str = "") -> Iterable[tuple[str, Any]]:
    """`training.seed = […]`, which TOML reads as a table in a table, as the name it was."""
    for name, value in tables.items():
        if isinstance(value, dict):
            yield from _dotted(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def parse_varied(pairs: list[str]) -> dict[str, list[Any]]:
    """`name=value,value` as TOML would read the values; what it cannot read is taken as text.

    >>> parse_varied(["training.seed=0,1", "inference.rows=every word,last word"])
    {'training.seed': [0, 1], 'inference.rows': ['every word', 'last word']}
    """
    varied: dict[str, list[Any]] = {}
    for pair in pairs:
        name, sign, text = (part.strip() for part in pair.partition("="))
        if not (sign and name and text):
            raise UserError(f"--vary takes name=value,value, as training.seed=0,1, got {pair!r}.")
        if name in varied:
            raise UserError(f"{name} is varied twice; list its values once, with commas.")
        try:
            varied[name] = tomllib.loads(f"values = [{text}]")["values"]
        except tomllib.TOMLDecodeError:
            each = (parse_changes([f"{name}={part}"]) for part in text.split(","))
            varied[name] = [change[name] for change in each]
    return varied


def make_sweep(
    study: str | Path, varied: dict[str, Any], *, quick: bool = False, from_file: bool = False
) -> Sweep:
    """All combinations of the varied settings of a study, each checked before any work.

    Values that come `from_file` may name no files elsewhere.
    """
    if not varied:
        raise UserError("a sweep varies something: give --vary training.seed=0,1, or a file.")
    for name, values in varied.items():
        if not isinstance(values, list) or not values:
            raise UserError(f"{name} = {values!r} is wrong: give a list of values, as [0, 1].")
        if any(value in values[:index] for index, value in enumerate(values)):
            raise UserError(f"{name} = {values!r} has a value twice; give each once.")
    if (total := prod(map(len, varied.values()))) > MOST_POINTS:
        raise UserError(
            f"these are {total:,} studies, and at most {MOST_POINTS:,} are swept; vary less."
        )
    points = []
    for values in product(*varied.values()):
        changes = dict(zip(varied, values, strict=True))
        settings = load_study(study, changes, quick=quick, from_file=from_file)
        points.append(Point(changes, settings))
    return Sweep(tuple(points))


def run_sweep(sweep: Sweep, folder: Path, on_step: Advance, hire: Hire = alone) -> list[Row]:
    """Every point that is not there yet; returns the rows of `sweep.csv`."""
    keyed = [(*_task(point.settings), point) for point in sweep.points]
    study = sweep.points[0].settings.name
    settings = {"study": study, "quick": sweep.quick, "vary": sweep.varied}
    with hold_folder(folder):
        record = SweepRecord.begin(folder, settings)
        done = do_missing({key: task for key, task, _ in keyed}, folder, hire, on_step)
        found = [(point, done.results[key]) for key, _, point in keyed if key in done.results]
        claims = _in_front((point.varied, content["claims"]) for point, content in found)
        names = dict.fromkeys(name for _, content in found for name in content["tables"])
        tables = list(filter(is_plain_name, names))  # a store may come from strangers
        if found:
            record.write(tables)
            _write(folder / "sweep.csv", claims)
        for name in tables:
            parts = [(point.varied, content["tables"].get(name, "")) for point, content in found]
            _write(folder / "tables" / f"{name}.csv", _in_front(parts))
    done.check()
    return claims


def _task(settings: StudySettings) -> tuple[str, Task]:
    """A point as a call that needs no file of this machine, and its key."""
    source = settings.stimuli_path
    world = Study(settings, source.parent).world
    check_questions(world, load_stimuli(source, world), settings)
    training = settings.training_settings
    there = settings.model_copy(
        update={
            "world": "world.toml",  # comes with the networks
            "stimuli": settings.stimuli.model_copy(update={"file": GIVEN}),
            "training": asdict(training),
            "folder": "",
            "given": (),
        }
    )
    stimuli = source.read_text(encoding="utf-8-sig")
    key = hash_content("study", there.model_dump(mode="json"), stimuli, world.text)
    return key, Task(
        world, training, _study, (there, stimuli), _is_study, partial(check_nuts, there)
    )


def _is_study(content: Any) -> bool:
    """Whether something found in a store is what `_study` gives."""
    match content:
        case {"claims": str() as claims, "tables": dict() as tables}:
            return all(
                isinstance(text, str) and _is_table(text) for text in [claims, *tables.values()]
            )
    return False


def _is_table(text: str) -> bool:
    try:
        return all(None not in row and None not in row.values() for row in _rows(text))
    except csv.Error:
        return False


def _rows(text: str) -> "csv.DictReader[str]":
    return csv.DictReader(io.StringIO(text, newline=""))


def _study(networks: Parcel, settings: StudySettings, stimuli: str) -> dict[str, Any]:
    """On a worker: a whole study on trained networks, its tables as text."""
    with scratch_folder() as folder:
        networks.unpack(folder)
        (folder / GIVEN).write_text(stimuli, encoding="utf-8")
        study = prepare(settings.model_copy(update={"folder": str(folder)}), folder)
        study.infer(_unwatched)
        study.probe(_unwatched)
        study.analyse()
        tables = {
            path.stem: path.read_text(encoding="utf-8")
            for path in sorted((folder / "tables").glob("*.csv"))
        }
        claims = (folder / "claims.csv").read_text(encoding="utf-8")
        return {"settings": settings.model_dump(mode="json"), "claims": claims, "tables": tables}


def _unwatched(done: int, total: int, state: str) -> None:
    """Progress that nobody watches: a point is one step of the sweep."""


def _in_front(parts: Iterable[tuple[dict[str, Any], str]]) -> list[Row]:
    """Rows of tables, given as text, behind the settings that they were made with.

    A table without rows, as the claims of a study that is not the paper's, gives one for its point.
    """
    rows = []
    for varied, text in parts:
        front = {name: str(value) for name, value in varied.items()}
        rows += [front | row for row in _rows(text)] or [front]
    return rows


def _write(path: Path, rows: list[Row]) -> None:
    """Cells are kept as they are: no number is read and printed again."""
    names = dict.fromkeys(name for row in rows for name in row)
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text_atomically(path, text.getvalue())
