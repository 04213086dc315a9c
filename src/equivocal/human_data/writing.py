"""What the two commands leave in their folder, each file whole or not there.

The settings come first: they say whose the other files are, also where a run is stopped among them.
"""

from pathlib import Path
from typing import Any

import pandas as pd
import tomli_w

from equivocal.errors import UserError
from equivocal.human_data.comparing import Comparison
from equivocal.human_data.rscripts import brms_script, lme4_script, r_names
from equivocal.machine import versions
from equivocal.report.human_figures import comparison_figure, power_figure
from equivocal.report.style import KINDS, save_figure
from equivocal.store.files import compute_checksum, write_text_atomically
from equivocal.store.overwrite import announce_overwrite, refuse_foreign_files

__all__ = [
    "COMPARISON",
    "POWER",
    "TRUTH",
    "inputs_of",
    "keep_others",
    "write_comparison",
    "write_experiment",
    "write_power",
]

COMPARISON, TRUTH, POWER = "compare.toml", "truth.toml", "power.toml"
WRITTEN = {
    COMPARISON: (
        *("compare.csv", "unmatched.csv", "trials.csv", "lme4.R", "brms.R"),
        *(f"figures/compare.{kind}" for kind in KINDS),
    ),
    TRUTH: ("data.csv", "measures.csv"),
    POWER: ("power.csv", *(f"figures/power.{kind}" for kind in KINDS)),
}
PLACES = ("data", "measures")  # where the inputs lie is of no matter, what they hold is


def inputs_of(**paths: Path | None) -> dict[str, str]:
    """The sha256 of each table that is read."""
    return {name: compute_checksum(path) or "" for name, path in paths.items() if path}


def keep_others(folder: Path, mark: str, settings: dict[str, Any]) -> None:
    """Complain if a file of the user's would be replaced; tell of results with other settings."""
    refuse_foreign_files(folder / mark, WRITTEN[mark])
    for table in (Path(settings[name]) for name in settings["inputs"]):
        if any(_is_same(table, folder / name) for name in WRITTEN[mark]):
            raise UserError(
                f"{table} is read here and would be replaced; choose another --out, or copy it to "
                "another folder and give that."
            )
    announce_overwrite(folder / mark, settings, [name for name in settings if name not in PLACES])


def write_comparison(folder: Path, comparison: Comparison, settings: dict[str, Any]) -> None:
    """compare.csv, unmatched.csv, figures, and the scripts for R with their trials.csv."""
    joined = comparison.joined
    _write_settings(folder / COMPARISON, settings)
    _write_table(folder / "compare.csv", comparison.table)
    _write_table(folder / "unmatched.csv", joined.unmatched)
    renamed = joined.trials.rename(columns=r_names([*joined.controls, *joined.measures]))
    _write_table(folder / "trials.csv", renamed)
    write_text_atomically(folder / "lme4.R", lme4_script(comparison))
    write_text_atomically(folder / "brms.R", brms_script(comparison))
    save_figure(comparison_figure(comparison.table), folder / "figures", "compare")


def write_experiment(
    folder: Path, trials: pd.DataFrame, measures: pd.DataFrame, settings: dict[str, Any]
) -> None:
    """truth.toml, data.csv, and the measures behind it."""
    _write_settings(folder / TRUTH, settings)
    _write_table(folder / "data.csv", trials)
    _write_table(folder / "measures.csv", measures)


def write_power(folder: Path, table: pd.DataFrame, settings: dict[str, Any]) -> None:
    """power.toml, power.csv, and its figure."""
    _write_settings(folder / POWER, settings)
    _write_table(folder / "power.csv", table)
    save_figure(power_figure(table), folder / "figures", "power")


def _is_same(path: Path, other: Path) -> bool:
    """Whether they are one file, by whatever names."""
    return path.exists() and other.exists() and path.samefile(other)


def _write_table(path: Path, table: pd.DataFrame) -> None:
    write_text_atomically(path, table.to_csv(index=False))


def _write_settings(path: Path, content: dict[str, Any]) -> None:
    told = content | {"versions": versions("equivocal", "numpy", "pandas", "scipy")}
    write_text_atomically(path, tomli_w.dumps(told))
