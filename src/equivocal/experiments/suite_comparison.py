"""Runs of the same suites compared with each other and with the published networks of 2018.

`compare_suites` reads what `run_suites` wrote; it trains and measures nothing. Runs are named by
recipe and folder.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from equivocal.errors import UserError
from equivocal.experiments.result import Figures, Result
from equivocal.gestalt.settings import RECIPES
from equivocal.store import read_table, read_toml
from equivocal.store.locks import hold_folder
from equivocal.suites import PARADIGMS, load_suite

__all__ = ["SuiteComparison", "compare_suites"]


@dataclass(frozen=True, kw_only=True, eq=False)
class SuiteComparison(Result):
    """Findings of several runs; `tables` has compared, of the findings that 2018 has ratios of."""

    def draw(self) -> Figures:
        """Draw the ratios of all runs and of 2018 in one figure."""
        from equivocal.report.suite_figures import draw_comparison

        table = self.tables["compared"]
        known = set(table["suite"]) & set(PARADIGMS)
        return {"compared": draw_comparison(table, {s: load_suite(s).title for s in known})}


def compare_suites(folders: Sequence[str | Path], out: str | Path) -> SuiteComparison:
    """Compare runs of suites with each other and with 2018.

    Parameters
    ----------
    folders : sequence of str or Path
        Folders that `run_suites` filled.
    out : str or Path
        Folder for tables/compared.csv and figures/compared.

    Returns
    -------
    SuiteComparison
        Its summary says for each run how many published directions hold, and how many published
        ratios lie inside its 95 % interval over networks.

    Raises
    ------
    UserError
        Where a folder holds no finished run, or one without published findings.
    """
    out = Path(out)
    found = pd.concat([_read_findings(Path(folder)) for folder in folders], ignore_index=True)
    runs = found.groupby("run", sort=False)
    if len(runs) < len(folders):
        raise UserError("two folders have the same name and recipe; rename one, or give it once.")
    summary = tuple(_count_agreement(str(run), own) for run, own in runs)
    settings = {"folders": [str(folder) for folder in folders]}
    tables = {"compared": found}
    result = SuiteComparison(name="compared", tables=tables, settings=settings, summary=summary)
    with hold_folder(out):
        result.write(out)
    return result


def _read_findings(folder: Path) -> pd.DataFrame:
    """Read the findings of a run that were published, named by its recipe and folder."""
    if not (folder / "suites.toml").is_file():
        raise UserError(
            f"{str(folder)!r} holds no finished run of suites; "
            f"`equivocal suites run --out {folder}` makes one."
        )
    training = read_toml(folder / "suites.toml").get("training", {})
    findings = read_table(folder / "tables" / "findings.csv")
    findings = findings[findings["published_ratio"].notna()]
    if findings.empty:
        raise UserError(f"no finding in {str(folder)!r} was published with a ratio; run others.")
    recipe = training.get("recipe", next(iter(RECIPES)))
    return findings.assign(run=f"{recipe} ({folder.resolve().name})")


def _count_agreement(run: str, findings: pd.DataFrame) -> str:
    total = len(findings)
    held = int((findings["effect"] > 0).sum())
    sure = int((findings["verdict"] == "held").sum())
    inside = int(
        findings["published_ratio"].between(findings["ratio_low"], findings["ratio_high"]).sum()
    )
    return (
        f"{run}: {held} of {total} published directions, {sure} of them held over networks and "
        f"items; {inside} of {total} published ratios lie inside the interval"
    )
