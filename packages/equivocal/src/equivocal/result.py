"""The result of an experiment: its tables, its figures, and its report.

An experiment is one public function that takes settings and an output folder and returns a `Result`
with `.tables`; the command line only parses arguments and prints it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import tomli_w

from equivocal.machine import get_package_version
from equivocal.progress import progress
from equivocal.store.files import write_text_atomically
from lastlayer.machine import collect_versions

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from equivocal.report import Picture, Report, Section

__all__ = ["Result", "describe_run", "write_tables"]

MOST_ROWS = 300  # of a table in a report; a longer one is only beside it, as a CSV file
QUICK = (
    "Quick run, only to check that the command works: its numbers mean nothing; do not report them."
)
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
    title, question : str
        Of the report; without a title there is none.
    """

    name: str
    tables: "dict[str, pd.DataFrame]"
    settings: dict[str, Any]
    summary: tuple[str, ...] = ()
    title: ClassVar[str] = ""
    question: ClassVar[str] = ""

    def draw(self) -> Figures:
        """Draw the figures of this result.

        Returns
        -------
        dict of str to Figure
            The figures by name; empty if there is nothing to draw.
        """
        return {}

    def describe_figures(self) -> dict[str, str]:
        """Return what each figure shows, by name; the first stands on the report's first screen.

        The first sentence is its title.
        """
        return {}

    def list_sections(self, pictures: "list[Picture]") -> "list[Section]":
        """List the sections of the report, by default one for each picture that is left."""
        from equivocal.report import Section

        return [Section(title=picture.title, pictures=[picture]) for picture in pictures]

    def describe(self, drawn: Collection[str]) -> "Report":
        """Describe this result in the shape of all reports; `drawn` names its figures."""
        from equivocal.report import Picture, Report, Section, describe_making, list_versions

        described = self.describe_figures().items()
        pictures = [Picture(name, text) for name, text in described if name in drawn]
        answer = [line for line in self.summary if not line.startswith(" ")]  # others are details
        sections = self.list_sections(pictures[1:])
        if quick := bool(self.settings.get("quick")):
            answer = ["Nothing: a quick run only checks that the command works."]
            sections = [replace(one, table=_drop_verdicts(one.table)) for one in sections]
        tables = [
            Section(title=f"Table {name}", table=table)
            for name, table in self.tables.items()
            if len(table) <= MOST_ROWS
        ]
        settings = Section(title="Settings", text=tomli_w.dumps(self.settings))
        return Report(
            title=self.title,
            warning=QUICK if quick else "",
            question=self.question,
            answer=answer,
            picture=pictures[0] if pictures else None,
            made=[describe_making()],
            sections=sections,
            appendix=[*tables, settings, list_versions()],
        )

    def save_figures(self, folder: Path) -> list[str]:
        """Draw the figures, save them as figures/NAME.{svg,png}, and return their names.

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
        return list(figures)

    def write(self, folder: str | Path) -> None:
        """Write tables/NAME.csv, figures/NAME.{svg,png}, report.html and, last, the settings.

        Parameters
        ----------
        folder : str or Path
            The folder of the results.
        """
        folder = Path(folder)
        write_tables(folder / "tables", self.tables)
        drawn = self.save_figures(folder)
        if self.title:
            from equivocal.report import write_report

            write_report(folder, self.describe(drawn))
        write_text_atomically(folder / f"{self.name}.toml", tomli_w.dumps(self.settings))


def _drop_verdicts(table: "pd.DataFrame") -> "pd.DataFrame":
    return table[[name for name in table.columns if not str(name).startswith("verdict")]]


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
