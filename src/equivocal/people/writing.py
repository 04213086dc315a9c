"""What the two commands leave in their folder, each file whole or not there."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import tomli_w

from equivocal.files import write_text_atomically
from equivocal.machine import versions
from equivocal.people.comparing import Comparison
from equivocal.people.figures import comparison_figure, power_figure
from equivocal.people.rscripts import brms_script, lme4_script, r_names
from equivocal.people.simulating import Experiment
from equivocal.report.style import save_figure

__all__ = ["write_comparison", "write_experiment", "write_power"]


def write_comparison(folder: Path, comparison: Comparison, settings: dict[str, Any]) -> None:
    """compare.csv, unmatched.csv, figures, and the scripts for R with their trials.csv."""
    joined = comparison.joined
    _write_table(folder / "compare.csv", comparison.table)
    _write_table(folder / "unmatched.csv", joined.unmatched)
    renamed = joined.trials.rename(columns=r_names([*joined.controls, *joined.measures]))
    _write_table(folder / "trials.csv", renamed)
    write_text_atomically(folder / "lme4.R", lme4_script(comparison))
    write_text_atomically(folder / "brms.R", brms_script(comparison))
    save_figure(comparison_figure(comparison.table), folder / "figures", "compare")
    _write_settings(folder / "compare.toml", settings)


def write_experiment(
    folder: Path, experiment: Experiment, trials: pd.DataFrame, measures: pd.DataFrame, name: str
) -> None:
    """data.csv, the measures behind it, and truth.toml."""
    _write_table(folder / "data.csv", trials)
    _write_table(folder / "measures.csv", measures)
    _write_settings(folder / "truth.toml", {"truth": {"measure": name} | asdict(experiment)})


def write_power(
    folder: Path, experiment: Experiment, table: pd.DataFrame, settings: dict[str, Any]
) -> None:
    """power.csv, its figure, and power.toml."""
    _write_table(folder / "power.csv", table)
    save_figure(power_figure(table), folder / "figures", "power")
    # how many participants and items there were, several perhaps, stands in the settings
    truth = {k: v for k, v in asdict(experiment).items() if k not in ("participants", "items")}
    _write_settings(folder / "power.toml", settings | {"truth": truth})


def _write_table(path: Path, table: pd.DataFrame) -> None:
    write_text_atomically(path, table.to_csv(index=False))


def _write_settings(path: Path, content: dict[str, Any]) -> None:
    told = content | {"versions": versions("equivocal", "numpy", "pandas", "scipy")}
    write_text_atomically(path, tomli_w.dumps(told))
