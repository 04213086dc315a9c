"""Grids from end to end: the multiverse of open choices, and the match of the paper's results.

Both lock their folder, run the missing points, write tables and return them. The same call resumes
an interrupted run, also on another machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from equivocal.multiverse import effects, readings
from equivocal.multiverse.answer import answer_in_words
from equivocal.multiverse.designs import Design, load_design
from equivocal.multiverse.grid import Point, load_grid
from equivocal.multiverse.tasks import open_begin, run_missing
from equivocal.paper.claims import find_impossible_numbers
from equivocal.result import Figures, Result, write_tables
from equivocal.store.files import write_text_atomically
from equivocal.store.locks import hold_folder

__all__ = [
    "GridResult",
    "MultiverseResult",
    "match_paper",
    "run_multiverse",
]


@dataclass(frozen=True, kw_only=True, eq=False)
class GridResult(Result):
    """A result whose main table, of the same name, is written beside tables/ with all digits."""

    def write(self, folder: str | Path) -> None:
        """Write NAME.csv with all digits, the other tables to tables/, and the figures."""
        folder, others = Path(folder), dict(self.tables)
        text = others.pop(self.name).to_csv(index=False)
        write_text_atomically(folder / f"{self.name}.csv", text)
        write_tables(folder / "tables", others)
        write_text_atomically(folder / "answer.txt", "\n".join(self.summary) + "\n")
        self.save_figures(folder)


@dataclass(frozen=True, kw_only=True, eq=False)
class MultiverseResult(GridResult):
    """The effect under every specification, in `.tables["multiverse"]`.

    The other table: `effects`, the distribution of the effect.
    """

    def draw(self) -> Figures:
        """Draw a specification curve for each role."""
        from equivocal.multiverse.figures import draw_specification_curve

        table = self.tables["multiverse"]
        return {
            "specification_curve" + (f"_{role}" if number else ""): draw_specification_curve(
                effects.make_curve_table(table, role)
            )
            for number, role in enumerate(effects.list_roles(table))
        }


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
        The folder for multiverse.csv, tables/, figures/, and finished points.
    workers : int, optional
        How many processes of this machine work; None: one for each core.
    scheduler : str, optional
        The address of a Dask scheduler whose workers share the folder, to use them instead.

    Returns
    -------
    MultiverseResult
        `.tables["multiverse"]` has a row per specification, in the order of the grid.
    """
    points = load_grid(grid) if isinstance(grid, str | Path) else grid
    folder, tasks = Path(out), effects.make_effect_tasks(points)
    with hold_folder(folder), open_begin(folder, workers, scheduler) as begin:
        done = run_missing(tasks, folder, begin, "multiverse")
        table = pd.DataFrame([{"key": key, **row} for key, row in done.items()])
        result = MultiverseResult(
            name="multiverse",
            tables={
                "multiverse": table,
                "effects": effects.tabulate_effects(table),
            },
            settings=points[0].settings.to_dict(),
            summary=effects.describe_effects(table),
        )
        result.write(folder)
    return result


def match_paper(
    out: str | Path = "runs/match",
    *,
    design: Design | str | Path = "match",
    quick: bool = False,
    workers: int | None = 1,
    scheduler: str | None = None,
) -> GridResult:
    """Ask which specifications give which of the paper's results.

    Parameters
    ----------
    out : str or Path
        The folder for matches.csv, tables/, figures/, and finished specifications.
    design : Design, str or Path
        A design, "match", or a file of a design.
    quick : bool
        A few small networks, only to check that it works; do not report the results.
    workers, scheduler
        As in `run_multiverse`.

    Returns
    -------
    GridResult
        `.tables["matches"]` has a row for each specification and reading, `facts` how many
        specifications meet each, `impossible` printed numbers that no data can give (not counted).
        The answer is `.summary[0]`.
    """
    design = design if isinstance(design, Design) else load_design(design, quick=quick)
    folder, tasks = Path(out), readings.make_reading_tasks(design)
    with hold_folder(folder), open_begin(folder, workers, scheduler) as begin:
        records = run_missing(tasks, folder, begin, "match")
        points = dict(zip(tasks, design.points, strict=True))
        matches = readings.tabulate_matches(points, records)
        result = GridResult(
            name="matches",
            tables={
                "matches": matches,
                "facts": readings.tabulate_facts(matches),
                "impossible": find_impossible_numbers(),
            },
            settings=design.study.to_dict(),
            summary=answer_in_words(matches),
        )
        result.write(folder)
    return result
