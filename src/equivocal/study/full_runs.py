"""Verdicts of full runs, as data of the package: `record/full_runs.toml`.

A report shows these verdicts next to its own and the answer of the match above them, so that a
reader sees the effect of the training recipe and of the open choices. `python -m
scripts.record_runs` writes the file from finished runs.
"""

from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from equivocal.store import read_toml

__all__ = ["FullRun", "FullRuns", "load_full_runs"]

SHIPPED = resources.files("equivocal.study") / "record" / "full_runs.toml"


@dataclass(frozen=True)
class FullRun:
    """One study, run in full: how, and its verdict on each claim by id."""

    study: str
    recipe: str
    networks: int
    commands: tuple[str, ...]
    verdicts: dict[str, str]


@dataclass(frozen=True)
class FullRuns:
    """All recorded runs; `answer` and `notes` are of the match, empty where it was not run."""

    studies: tuple[FullRun, ...]
    match_command: str
    answer: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def list_others(self, study: str, *, quick: bool = False) -> tuple[FullRun, ...]:
        """List the runs that are shown with a study; for a quick one that includes its full run."""
        return tuple(run for run in self.studies if quick or run.study != study)


@cache
def load_full_runs(path: str | Path | None = None) -> FullRuns:
    """Load what full runs found.

    Parameters
    ----------
    path : str or Path, optional
        A file of the same form as that of the package, which is read otherwise.
    """
    content: dict[str, Any] = read_toml(str(path or SHIPPED))
    studies = (
        FullRun(name, run["recipe"], run["networks"], tuple(run["commands"]), dict(run["verdicts"]))
        for name, run in content["studies"].items()
    )
    match = content["match"]
    told = (tuple(match.get(name, ())) for name in ("answer", "notes"))
    return FullRuns(tuple(studies), match["command"], *told)
