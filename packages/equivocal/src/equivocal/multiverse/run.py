"""Grids from end to end: the multiverse of open choices, and the match of the paper's results.

Both lock their folder, run the missing points, write tables and return them. The same call resumes
an interrupted run, also on another machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from equivocal.multiverse import effects, facts
from equivocal.multiverse.grid import Point, load_grid
from equivocal.multiverse.tasks import make_tasks, open_begin, run_missing
from equivocal.paper.claims import find_impossible_numbers
from equivocal.result import Figures, Result, describe_run
from equivocal.store.locks import hold_folder

__all__ = ["MultiverseResult", "match_paper", "run_multiverse"]


@dataclass(frozen=True, kw_only=True, eq=False)
class MultiverseResult(Result):
    """The effect under every specification, in `.tables["multiverse"]`.

    The other table: `effects`, the distribution of the effect.
    """

    def draw(self) -> Figures:
        """Draw a specification curve for each role."""
        table, figures = self.tables["multiverse"], dict[str, Any]()
        for number, role in enumerate(effects.list_roles(table)):
            name = "specification_curve" + f"_{role}" * (number > 0)
            curve = effects.make_curve_table(table, role)
            figures[name] = effects.draw_specification_curve(curve)
        return figures


def run_multiverse(
    grid: Sequence[Point] | str | Path = "small",
    out: str | Path = "runs/multiverse",
    *,
    workers: int | None = 1,
    scheduler: str | None = None,
) -> MultiverseResult:
    """Measure the paper's central effect at every point of a grid of open choices.

    Parameters
    ----------
    grid : sequence of Point, str or Path
        Points, "small", "full", or a grid file.
    out : str or Path
        The folder for tables/, figures/, and finished points.
    workers : int, optional
        How many processes of this machine work; None: one for each core.
    scheduler : str, optional
        The address of a Dask scheduler whose workers share the folder, to use them instead.

    Returns
    -------
    MultiverseResult
        `.tables["multiverse"]` has a row per specification, in the order of the grid.
    """
    began, folder = perf_counter(), Path(out)
    points = load_grid(grid) if isinstance(grid, str | Path) else grid
    tasks = make_tasks(points, everything=False)
    with hold_folder(folder), open_begin(folder, workers, scheduler) as begin:
        records = run_missing(tasks, folder, begin, "multiverse")
        table = effects.tabulate_points(points, records)
        summary = effects.describe_effects(table)
        result = MultiverseResult(
            name="multiverse",
            tables={"multiverse": table, "effects": effects.tabulate_effects(table)},
            settings=_describe(began, points, summary),
            summary=summary,
        )
        result.write(folder)
    return result


def match_paper(
    grid: Sequence[Point] | str | Path = "match",
    out: str | Path = "runs/match",
    *,
    workers: int | None = 1,
    scheduler: str | None = None,
) -> Result:
    """Ask which specifications give which of the paper's results.

    Parameters
    ----------
    grid, out, workers, scheduler
        As in `run_multiverse`.

    Returns
    -------
    Result
        `.tables["matches"]` has a row for each specification, `facts` how many specifications meet
        each, `impossible` printed numbers that no data can give (not counted). The answer is
        `.summary[0]`.
    """
    began, folder = perf_counter(), Path(out)
    points = load_grid(grid) if isinstance(grid, str | Path) else grid
    tasks = make_tasks(points, everything=True)
    with hold_folder(folder), open_begin(folder, workers, scheduler) as begin:
        records = run_missing(tasks, folder, begin, "match")
        matches = facts.tabulate_matches(points, records)
        summary = facts.answer_in_words(matches)
        result = Result(
            name="match",
            tables={
                "matches": matches,
                "facts": facts.tabulate_facts(matches),
                "impossible": find_impossible_numbers(),
            },
            settings=_describe(began, points, summary),
            summary=summary,
        )
        result.write(folder)
    return result


def _describe(began: float, points: Sequence[Point], answer: tuple[str, ...]) -> dict[str, Any]:
    """Describe a run for its TOML file."""
    study = points[0].settings
    networks = study.training_settings.networks
    return describe_run(began, study=study.name, networks=networks, answer=list(answer))
