"""Records of runs of suites: what `suites.toml` and `constructions.toml` hold, and runs compared.

If a run depends on something new, add it to `describe_suites` or `describe_construction`: what is
not recorded cannot be compared. `compare_suites` compares runs of the same suites, named by recipe
and folder, with each other and with the published networks of 2018; it reads what `run_suites`
wrote, and trains and measures nothing.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from equivocal.errors import UserError
from equivocal.experiments.result import Figures, Result
from equivocal.gestalt import TrainingSettings
from equivocal.gestalt.settings import RECIPES
from equivocal.progress import announce
from equivocal.store import UnreadableError, read_table, read_toml
from equivocal.store.files import explain_write_errors
from equivocal.store.locks import hold_folder
from equivocal.study.word_measures import MEASURES
from equivocal.suites import (
    CONSTRUCTIONS,
    PARADIGMS,
    Construction,
    Suite,
    findings,
    load_suite,
    reading,
)
from equivocal.suites.measurement import ROWS, SAMPLER, VARIANCE, choose_measures

__all__ = ["SuiteComparison", "compare_suites"]

VARIANCES = (0.1, 0.3, 1.0, 3.0, 10.0)
# what makes a run another one; versions and the time it took do not
COMPARED = ("suites", "measures", "beliefs", "worlds", "networks", "seed", "training", "posterior")
HEARD = (100, 300, 1_000, 3_000, 10_000)  # sentences; no more than the networks were trained on


@dataclass(frozen=True, kw_only=True, eq=False)
class SuiteComparison(Result):
    """Findings of several runs; `tables["compared"]` holds those with a ratio published in 2018."""

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


def is_from_particles(measure: str, beliefs: str) -> bool:
    """Return whether a measure is computed from particles, given whose `beliefs` are measured."""
    reads = MEASURES[measure].reads
    return reads == "ensemble" or (reads == "beliefs" and beliefs == "posterior")


def describe_suites(
    suites: Sequence[Suite],
    measures: Sequence[str],
    beliefs: str,
    training: TrainingSettings,
    *,
    by_role: bool,
) -> dict[str, Any]:
    """Return what shaped a run of paradigms; without `measures` they are the suites' own."""
    by_suite = [
        choose_measures(measures or [suite.measure], suite.world.roles if by_role else ())
        for suite in suites
    ]
    posterior = {
        "particles": SAMPLER.num_particles,
        "prior_variance": VARIANCE,
        "rows": ROWS,
        "seed": training.seed,  # of the first network; each has the next
        "sampler": SAMPLER.model_dump(exclude_none=True),
    }
    sampled = any(
        is_from_particles(name, beliefs) for suite in suites for name in measures or [suite.measure]
    )
    return {
        "suites": [suite.name for suite in suites],
        "measures": list(dict.fromkeys(name for chosen in by_suite for name in chosen)),
        "beliefs": beliefs,
        "networks": training.networks,
        "seed": training.seed,
        "worlds": {suite.world.name: suite.world.fingerprint for suite in suites},
        "training": asdict(training),
        **({"posterior": posterior} if sampled else {}),
    }


def list_posteriors(construction: Construction, sentences: int) -> list[tuple[float, int]]:
    """List prior variance and sentences heard of each posterior, the usual one first."""
    usual = [(VARIANCE, sentences)]
    if not construction.curves:
        return usual
    usual += [(variance, sentences) for variance in VARIANCES if variance != VARIANCE]
    return usual + [(VARIANCE, heard) for heard in HEARD if heard < sentences]


def describe_construction(
    construction: Construction, training: TrainingSettings, curve_networks: int
) -> dict[str, Any]:
    """Return what shaped the tables and figures of one construction."""
    posteriors = list_posteriors(construction, training.sentences)
    curves = {
        "conditions": list(construction.curves),
        "networks": curve_networks,  # the first ones
        "prior_variances": sorted(v for v, heard in posteriors if heard == training.sentences),
        "sentences_heard": sorted(heard for v, heard in posteriors if v == VARIANCE),
    }
    return {
        "world": construction.world.name,
        "fingerprint": construction.world.fingerprint,
        "items": len(construction.items),
        "prior_variance": VARIANCE,  # of all tables and figures but the curves
        **({"curves": curves} if construction.curves else {}),
        "training": asdict(training),
        "sampler": reading.SAMPLER.model_dump(exclude_none=True),
    }


def remove_earlier(folder: Path) -> None:
    """Remove an earlier run of paradigms, its record first, so that no results are ever mixed.

    Figures of a user's own suites stay: they cannot be told from other pictures.
    """
    from equivocal.report.style import KINDS

    earlier = [folder / "suites.toml"]
    earlier += [folder / "tables" / f"{name}.csv" for name in findings.TABLES]
    earlier += [folder / "figures" / f"{name}.{kind}" for name in PARADIGMS for kind in KINDS]
    for path in earlier:
        with explain_write_errors(path):
            path.unlink(missing_ok=True)


def load_constructions_settings(path: Path) -> dict[str, Any]:
    """Load what a folder records of constructions that were run before."""
    try:
        found = read_toml(path) if path.exists() else {}
    except UnreadableError:
        announce(f"{path} cannot be read; its records of other constructions are lost")
        return {}
    return {name: table for name, table in found.items() if name in CONSTRUCTIONS}
