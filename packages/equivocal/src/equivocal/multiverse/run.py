"""Grids of studies from end to end: the multiverse of open choices, and sweeps over any setting.

Both lock their folder, run the missing points on the available workers, write tables and return
them. The same call resumes an interrupted run, also on another machine. What is computed at a point
is defined in `equivocal.multiverse.multiverse`.
"""

import io
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import tomli_w

from equivocal.multiverse import multiverse
from equivocal.multiverse.cluster import Hire, work_alone
from equivocal.multiverse.grid import Grid, load_grid, load_sweep
from equivocal.multiverse.tasks import run_missing
from equivocal.progress import Advance
from equivocal.result import Figures, Result, write_tables
from equivocal.store import TABLE_BYTES, read_toml
from equivocal.store.folders import announce_overwrite
from equivocal.store.locks import hold_folder
from lastlayer.files import UnreadableError, is_plain_name, write_text_atomically
from lastlayer.machine import collect_versions

__all__ = ["MultiverseResult", "SweepResult", "run_multiverse", "run_sweep"]

RECORD = "varied.toml"  # not sweep.toml, a likely name for a user's own sweep file


@dataclass(frozen=True, kw_only=True, eq=False)
class MultiverseResult(Result):
    """The effect under every specification, in `.tables["multiverse"]`.

    The other tables: `effects`, the distribution of the effect, and `variance`, the share of its
    variance that each choice explains.
    """

    def draw(self) -> Figures:
        """Draw a specification curve for each role."""
        from equivocal.multiverse.figures import draw_specification_curve

        table = self.tables["multiverse"]
        return {
            "specification_curve" + (f"_{role}" if number else ""): draw_specification_curve(
                multiverse.make_curve_table(table, role)
            )
            for number, role in enumerate(multiverse.list_roles(table))
        }

    def write(self, folder: str | Path) -> None:
        """Write multiverse.csv with all digits, the other tables to tables/, and the figures."""
        folder, others = Path(folder), dict(self.tables)
        _write_effects(folder, others.pop("multiverse"))
        write_tables(folder / "tables", others)
        self.save_figures(folder)


@dataclass(frozen=True, kw_only=True, eq=False)
class SweepResult(Result):
    """The tables of every study of a sweep, joined; the claims are `.tables["sweep"]`.

    `texts` holds the same tables as CSV text, with every cell as its study wrote it.
    """

    texts: dict[str, str]

    def write(self, folder: str | Path) -> None:
        """Write the record, then sweep.csv and the other tables to tables/.

        So the record names every table present, even if the sweep is killed. Tables that only the
        previous sweep had are removed.
        """
        folder, names = Path(folder), [name for name in self.texts if name != "sweep"]
        for former in set(_list_former_tables(folder / RECORD)) - set(names):
            (folder / "tables" / f"{former}.csv").unlink(missing_ok=True)
        content = {"tables": names, **self.settings, "versions": collect_versions()}
        write_text_atomically(folder / RECORD, tomli_w.dumps(content))
        for name, text in self.texts.items():
            place = folder if name == "sweep" else folder / "tables"
            write_text_atomically(place / f"{name}.csv", text)


def run_multiverse(
    grid: Grid | str | Path = "small",
    out: str | Path = "runs/multiverse",
    *,
    hire: Hire = work_alone,
    on_step: Advance | None = None,
) -> MultiverseResult:
    """Measure the paper's central effect at every point of a grid of open choices.

    Parameters
    ----------
    grid : Grid, str or Path
        A grid, "small", "full", or a grid file.
    out : str or Path
        The folder for multiverse.csv, tables/, figures/, and finished points.
    hire : callable
        Starts the workers: by default this process does the work; `hire_workers` starts others.
    on_step : callable, optional
        Called with the number of points done, the total and how many trainings are left, instead
        of showing progress on the terminal.

    Returns
    -------
    MultiverseResult
        `.tables["multiverse"]` has a row per specification, in the order of the grid.

    Raises
    ------
    UnfinishedError
        If a point failed; the results of the others are saved.
    """
    grid = grid if isinstance(grid, Grid) else load_grid(grid)
    folder, tasks = Path(out), multiverse.make_effect_tasks(grid)
    with hold_folder(folder):
        done = run_missing(tasks, folder, hire, on_step, "multiverse")
        table = pd.DataFrame([{"key": key, **row} for key, row in done.results.items()])
        if len(table):
            _write_effects(folder, table)  # even if some points failed
        done.check()
        networks, converged = table["networks"].iloc[0], table["converged"].sum()
        diverged = (table["diverged"] > 0).sum()
        result = MultiverseResult(
            name="multiverse",
            tables={
                "multiverse": table,
                "effects": multiverse.tabulate_effects(table),
                "variance": multiverse.compute_effect_shares(table),
            },
            settings=_describe(grid),
            summary=(
                f"{networks} networks; of {len(table)} specifications {converged} converged and "
                f"{diverged} diverged in some unit.",
            ),
        )
        result.write(folder)
    return result


def _write_effects(folder: Path, table: pd.DataFrame) -> None:
    write_text_atomically(folder / "multiverse.csv", table.to_csv(index=False))


def run_sweep(
    sweep: Grid | str | Path,
    out: str | Path = "runs/sweep",
    *,
    hire: Hire = work_alone,
    on_step: Advance | None = None,
) -> SweepResult:
    """Run a whole study at every point of a sweep, and join the tables.

    Parameters
    ----------
    sweep : Grid, str or Path
        A grid, as `make_sweep` returns it, or a sweep file.
    out : str or Path
        The folder for sweep.csv, tables/, varied.toml, and finished points.
    hire : callable
        Starts the workers: by default this process does the work; `hire_workers` starts others.
    on_step : callable, optional
        Called with the number of points done, the total and how many trainings are left, instead
        of showing progress on the terminal.

    Returns
    -------
    SweepResult
        `.tables["sweep"]` has a row per point and claim, the varied settings first; the other
        tables are those of the study, joined in the same way.

    Raises
    ------
    UnfinishedError
        If a point failed; the results of the others are saved.
    """
    grid = sweep if isinstance(sweep, Grid) else load_sweep(Path(sweep))
    folder, settings = Path(out), _describe(grid)
    tasks = [multiverse.make_study_task(point.settings) for point in grid.points]
    with hold_folder(folder):
        announce_overwrite(folder / RECORD, settings, list(settings))
        done = run_missing(dict(tasks), folder, hire, on_step, "sweep")
        found = [
            (point.varied, done.results[key])
            for point, (key, _) in zip(grid.points, tasks, strict=True)
            if key in done.results
        ]
        texts = _join(found) if found else {}
        tables = {name: pd.read_csv(io.StringIO(text)) for name, text in texts.items()}
        result = SweepResult(name="sweep", tables=tables, settings=settings, texts=texts)
        if found:
            result.write(folder)
    done.check()
    return result


def _join(found: list[tuple[dict[str, Any], dict[str, Any]]]) -> dict[str, str]:
    """Join the claims and each table of all points; names of tables come from untrusted files."""
    names = dict.fromkeys(name for _, content in found for name in content["tables"])
    claims = ((varied, content["claims"]) for varied, content in found)
    texts = {"sweep": multiverse.join_tables(claims)}
    for name in filter(is_plain_name, names):
        parts = ((varied, content["tables"].get(name, "")) for varied, content in found)
        texts[name] = multiverse.join_tables(parts)
    return texts


def _describe(grid: Grid) -> dict[str, Any]:
    name = grid.points[0].settings.name
    return {"study": name, "quick": grid.quick, "vary": grid.varied}


def _list_former_tables(record: Path) -> list[str]:
    """List the tables that the record of a previous sweep names, if it can be read."""
    with suppress(UnreadableError):
        match read_toml(record, TABLE_BYTES):
            case {"tables": list() as names, "versions": dict()}:
                return [name for name in names if isinstance(name, str) and is_plain_name(name)]
    return []
