"""Trials as results: the files of a folder, and what may be overwritten there.

    compare.toml: compare.csv, unmatched.csv, trials.csv, lme4.R, brms.R, figures/compare
    truth.toml:   data.csv, measures.csv
    power.toml:   power.csv, figures/power
    answers.toml: data.csv, measures.csv, readings.csv

The TOML file of a folder is written first: it marks the other files as belonging to this run,
even if the run is interrupted. A user's own file of one of these names is never overwritten.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w

from equivocal.errors import UserError
from equivocal.experiments.result import Result
from equivocal.store.files import compute_checksum, write_text_atomically
from equivocal.store.folders import announce_overwrite, refuse_foreign_files

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["TrialsResult", "check_folder", "hash_inputs"]

WRITTEN = {
    "compare": (
        *("compare.csv", "unmatched.csv", "trials.csv", "lme4.R", "brms.R"),
        *("figures/compare.svg", "figures/compare.png"),
    ),
    "truth": ("data.csv", "measures.csv"),
    "power": ("power.csv", "figures/power.svg", "figures/power.png"),
    "answers": ("data.csv", "measures.csv", "readings.csv"),
}
# where the inputs lie is of no matter, what they hold is
PLACES = ("data", "measures", "from", "sentences")


@dataclass(frozen=True, kw_only=True, eq=False)
class TrialsResult(Result):
    """Tables of trials, or of what was found in them; `scripts` are other texts, by file name.

    `compare_trials` has the tables "compare" (a row for each measure alone and together with the
    others), "unmatched" (trials that were left out) and "trials"; `simulate_trials` "data" and
    "measures"; `simulate_power` "power", by participants and items; `simulate_answers` "data",
    "measures" and "readings".
    """

    scripts: dict[str, str] = field(default_factory=dict)

    def draw(self) -> "dict[str, Figure]":
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
    announce_overwrite(mark, settings, [each for each in settings if each not in PLACES])
