"""Results about trials, and the folders that they are written to.

    compare.toml: compare.csv, alignment.csv, unmatched.csv, trials.csv, lme4.R, brms.R, figures/
    truth.toml:   data.csv, measures.csv
    power.toml:   power.csv, figures/power

The TOML file is written first: it marks the other files as belonging to this run, even if the run
is interrupted. A user's own file of one of these names is never overwritten.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from equivocal.result import Figures, Result
from equivocal.store.files import compute_checksum, write_text_atomically
from equivocal.store.folders import announce_overwrite, refuse_foreign_files
from equivocal.store.locks import hold_folder
from lastlayer.errors import UserError
from lastlayer.machine import collect_versions

# settings that do not make a run a different one; of inputs the checksums are compared instead
UNCOMPARED = ("data", "measures", "versions", "seconds")


@dataclass(frozen=True, kw_only=True, eq=False)
class TrialsResult(Result):
    """Tables of trials, or of their analysis; `scripts` are other texts to write, by file name.

    `compare_trials` returns the tables "compare" (a row for each measure alone and together with
    the others), "unmatched" (trials that were left out), "trials" and, where
    they were aligned, "alignment" (what became of every word read); `simulate_trials` returns
    "data" and "measures"; `simulate_power` returns "power", by participants and items.
    """

    scripts: dict[str, str] = field(default_factory=dict)

    def draw(self) -> Figures:
        """Draw coefficients and differences in AIC, or power against participants."""
        from equivocal.people.figures import draw_comparison, draw_power

        known = {"compare": draw_comparison, "power": draw_power}
        return {name: known[name](table) for name, table in self.tables.items() if name in known}

    def write(self, folder: str | Path) -> None:
        """Write NAME.toml, then a CSV file for each table with all digits, scripts and figures."""
        folder = Path(folder)
        texts = {f"{name}.csv": table.to_csv(index=False) for name, table in self.tables.items()}
        texts |= self.scripts
        with hold_folder(folder):
            check_folder(folder, self.name, list(texts), self.settings)
            mark = folder / f"{self.name}.toml"
            announce_overwrite(mark, self.settings, [*{*self.settings} - {*UNCOMPARED}])
            write_text_atomically(mark, tomli_w.dumps(self.settings))
            for name, text in texts.items():
                write_text_atomically(folder / name, text)
            self.save_figures(folder)


def record_inputs(**paths: Path | None) -> dict[str, Any]:
    """Return the settings that describe input tables: their paths, checksums, and versions."""
    given = {name: path for name, path in paths.items() if path is not None}
    sums = {name: compute_checksum(path) or "" for name, path in given.items()}
    where = {name: str(path) for name, path in given.items()}
    return {**where, "inputs": sums, "versions": collect_versions()}


def check_folder(folder: Path, name: str, files: list[str], settings: dict[str, Any]) -> None:
    """Refuse to overwrite a user's own files, or the tables that are read."""
    refuse_foreign_files(folder / f"{name}.toml", files)
    written = [path for file in files if (path := folder / file).exists()]
    for table in (Path(settings[each]) for each in settings["inputs"]):
        if any(path.samefile(table) for path in written):
            raise UserError(
                f"{table} is read here and would be overwritten; choose another --out, or copy it "
                "to another folder and give that."
            )
