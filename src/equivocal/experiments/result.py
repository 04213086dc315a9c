"""What every experiment returns: tables by name, the settings behind them, a summary in words.

Results about trials (`TrialsResult`) have a folder of their own form:

    compare.toml: compare.csv, unmatched.csv, trials.csv, lme4.R, brms.R, figures/compare
    truth.toml:   data.csv, measures.csv
    power.toml:   power.csv, figures/power
    answers.toml: data.csv, measures.csv, readings.csv

There the TOML file is written first: it marks the other files as belonging to this run, even if the
run is interrupted. A user's own file of one of these names is never overwritten.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

import tomli_w

from equivocal.errors import UserError
from equivocal.machine import collect_versions, get_package_version
from equivocal.progress import progress
from equivocal.store.files import compute_checksum, write_text_atomically
from equivocal.store.folders import announce_overwrite, refuse_foreign_files
from equivocal.store.locks import hold_folder

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["TrialsResult", "check_folder", "hash_inputs"]

Figures: TypeAlias = "dict[str, Figure]"  # by name; Matplotlib is imported to draw them, not before
WRITTEN = {  # into the folders of results about trials
    "compare": (
        *("compare.csv", "unmatched.csv", "trials.csv", "lme4.R", "brms.R"),
        *("figures/compare.svg", "figures/compare.png"),
    ),
    "truth": ("data.csv", "measures.csv"),
    "power": ("power.csv", "figures/power.svg", "figures/power.png"),
    "answers": ("data.csv", "measures.csv", "readings.csv"),
}
# not compared: paths of inputs (their checksums are), versions and run time
UNCOMPARED = ("data", "measures", "from", "sentences", "versions", "seconds")


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """The outcome of an experiment; each experiment has a subclass that knows how to draw it.

    Attributes
    ----------
    name : str
        The name of the experiment, and of the file NAME.toml that records its settings.
    tables : dict of str to DataFrame
        Everything that was found.
    settings : dict
        Everything that shaped the tables: settings, seed, versions, seconds.
    summary : tuple of str
        What was found, in plain words, the most important sentence first.
    """

    name: str
    tables: "dict[str, pd.DataFrame]"
    settings: dict[str, Any]
    summary: tuple[str, ...] = ()

    def draw(self) -> Figures:
        """Draw the figures of this result, by name."""
        return {}

    def save_figures(self, folder: Path) -> None:
        """Draw the figures and save them as figures/NAME.{svg,png}."""
        from equivocal.report.style import save_figure

        with progress("drawing") as advance:
            figures = self.draw()
            for done, (name, figure) in enumerate(figures.items(), start=1):
                save_figure(figure, folder / "figures", name)
                advance(done, len(figures), name)

    def write(self, folder: str | Path) -> None:
        """Write tables/NAME.csv, figures/NAME.{svg,png} and, last, the record of the settings."""
        folder = Path(folder)
        write_tables(folder / "tables", self.tables)
        self.save_figures(folder)
        write_text_atomically(folder / f"{self.name}.toml", tomli_w.dumps(self.settings))


def describe_run(began: float, **settings: Any) -> dict[str, Any]:
    """Return settings with the versions behind them and the seconds since the run began."""
    made = {"versions": collect_versions(), "seconds": round(perf_counter() - began, 3)}
    return {"version": get_package_version(), **settings, **made}


def write_tables(folder: Path, tables: "Mapping[str, pd.DataFrame]") -> None:
    """Write NAME.csv for each table, with six digits of each number."""
    for name, table in tables.items():
        text = table.to_csv(index=False, float_format="%.6g")
        write_text_atomically(folder / f"{name}.csv", text)


@dataclass(frozen=True, kw_only=True, eq=False)
class TrialsResult(Result):
    """Tables of trials, or of what was found in them; `scripts` are other texts, by file name.

    `compare_trials` has the tables "compare" (a row for each measure alone and together with the
    others), "unmatched" (trials that were left out) and "trials"; `simulate_trials` "data" and
    "measures"; `simulate_power` "power", by participants and items; `simulate_answers` "data",
    "measures" and "readings".
    """

    scripts: dict[str, str] = field(default_factory=dict)

    def draw(self) -> Figures:
        """Draw coefficients and differences in AIC, or power against participants."""
        from equivocal.report.human_figures import draw_comparison, draw_power

        known = {"compare": draw_comparison, "power": draw_power}
        return {name: known[name](table) for name, table in self.tables.items() if name in known}

    def write(self, folder: str | Path) -> None:
        """Write NAME.toml, then a CSV file for each table with all digits, scripts and figures."""
        folder = Path(folder)
        write_text_atomically(folder / f"{self.name}.toml", tomli_w.dumps(self.settings))
        texts = {f"{name}.csv": table.to_csv(index=False) for name, table in self.tables.items()}
        for name, text in (texts | self.scripts).items():
            write_text_atomically(folder / name, text)
        self.save_figures(folder)

    def save(self, folder: Path) -> "TrialsResult":
        """Write into a folder that holds no files of the user's, and return the result."""
        with hold_folder(folder):
            check_folder(folder, self.name, self.settings)
            self.write(folder)
        return self


def hash_inputs(**paths: Path | None) -> dict[str, str]:
    """Return the SHA-256 of each table that is read.

    Parameters
    ----------
    **paths : Path, optional
        The tables by name; None for one that is not given.

    Returns
    -------
    dict
        The SHA-256 by name.
    """
    return {name: compute_checksum(path) or "" for name, path in paths.items() if path}


def check_folder(folder: Path, name: str, settings: dict[str, Any]) -> None:
    """Refuse to overwrite files of the user, and announce that earlier results are overwritten.

    Parameters
    ----------
    folder : Path
        Where the results will be written.
    name : str
        The name of the result, a key of `WRITTEN`.
    settings : dict
        The settings of this run, which are compared with those of the earlier one.

    Raises
    ------
    UserError
        Where a table that is read would be overwritten, or the folder holds files of the user.
    """
    mark = folder / f"{name}.toml"
    refuse_foreign_files(mark, WRITTEN[name])
    there = [path for file in WRITTEN[name] if (path := folder / file).exists()]
    for table in (Path(settings[each]) for each in settings["inputs"]):
        if any(path.samefile(table) for path in there):
            raise UserError(
                f"{table} is read here and would be overwritten; choose another --out, or copy it "
                "to another folder and give that."
            )
    announce_overwrite(mark, settings, [each for each in settings if each not in UNCOMPARED])
