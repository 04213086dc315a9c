"""Experiments from end to end: train or load networks, compute, write tables, draw figures.

Each is one public function that takes settings and an output folder and returns a `Result` with
`.tables`. The packages it imports compute and draw; this one runs their steps in order, and the
command line only parses arguments and prints the result.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

import tomli_w

from equivocal.machine import get_package_version
from equivocal.progress import progress
from equivocal.store.files import write_text_atomically
from lastlayer.machine import collect_versions

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["Result", "describe_run", "write_tables"]

Figures: TypeAlias = "dict[str, Figure]"  # by name; Matplotlib is imported only to draw them


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """The outcome of an experiment; each experiment has a subclass that knows how to draw it.

    Attributes
    ----------
    name : str
        The name of the experiment, and of the file NAME.toml that records its settings.
    tables : dict of str to DataFrame
        The results, by name.
    settings : dict
        Everything that the tables depend on: settings, seed and versions; and the run time.
    summary : tuple of str
        The findings in plain words, the most important sentence first.
    """

    name: str
    tables: "dict[str, pd.DataFrame]"
    settings: dict[str, Any]
    summary: tuple[str, ...] = ()

    def draw(self) -> Figures:
        """Draw the figures of this result.

        Returns
        -------
        dict of str to Figure
            The figures by name; empty if there is nothing to draw.
        """
        return {}

    def save_figures(self, folder: Path) -> None:
        """Draw the figures and save them as figures/NAME.{svg,png}.

        Parameters
        ----------
        folder : Path
            The folder of the results.
        """
        from equivocal.figure_style import save_figure

        with progress("drawing") as advance:
            figures = self.draw()
            for done, (name, figure) in enumerate(figures.items(), start=1):
                save_figure(figure, folder / "figures", name)
                advance(done, len(figures), name)

    def write(self, folder: str | Path) -> None:
        """Write tables/NAME.csv, figures/NAME.{svg,png} and, last, the record of the settings.

        Parameters
        ----------
        folder : str or Path
            The folder of the results.
        """
        folder = Path(folder)
        write_tables(folder / "tables", self.tables)
        self.save_figures(folder)
        write_text_atomically(folder / f"{self.name}.toml", tomli_w.dumps(self.settings))


def describe_run(began: float, **settings: Any) -> dict[str, Any]:
    """Return settings with the versions behind them and the seconds since the run began.

    Parameters
    ----------
    began : float
        The time at which the run began, by `perf_counter`.
    **settings
        Everything that the results depend on.

    Returns
    -------
    dict
        The version of this package, the settings, the versions of other packages, the seconds.
    """
    made = {"versions": collect_versions(), "seconds": round(perf_counter() - began, 3)}
    return {"version": get_package_version(), **settings, **made}


def write_tables(folder: Path, tables: "Mapping[str, pd.DataFrame]") -> None:
    """Write NAME.csv for each table, with six digits of each number.

    Parameters
    ----------
    folder : Path
        The folder to write to.
    tables : mapping of str to DataFrame
        The tables, by file name.
    """
    for name, table in tables.items():
        text = table.to_csv(index=False, float_format="%.6g")
        write_text_atomically(folder / f"{name}.csv", text)
