"""Does any specification replicate the paper's results? A design of specifications.

Trains the networks of a design, samples the posteriors, judges every printed fact, refines the
design around the best specifications, and summarises the findings. Every result is saved as soon as
it is computed, and the same call reuses it. Specifications are defined in
`equivocal.multiverse.designs`, facts in `equivocal.multiverse.readings`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from equivocal.multiverse import readings
from equivocal.multiverse.answer import answer_in_words
from equivocal.multiverse.cluster import Hire, work_alone
from equivocal.multiverse.designs import Design, load_design, refine_design
from equivocal.multiverse.grid import CHOICES, Specification
from equivocal.multiverse.tasks import run_missing
from equivocal.paper.claims import find_impossible_numbers
from equivocal.progress import Advance
from equivocal.result import Figures, Result, write_tables
from equivocal.statistics.summaries import compute_variance_shares
from equivocal.store.locks import hold_folder
from lastlayer.files import write_text_atomically

__all__ = ["MatchResult", "compute_match_shares", "match_paper", "train_design"]

OUTCOMES = ("effect_agent", "effect_patient", "logit_agent", "logit_patient", "met")


@dataclass(frozen=True, kw_only=True, eq=False)
class MatchResult(Result):
    """Which facts each specification meets: `.tables["matches"]`; the answer is `.summary[0]`.

    The other tables: `facts`, `together` (pairs of facts), `variance` (the share of variance that
    each choice explains) and `impossible` (printed numbers that no data can give; not counted).
    """

    def draw(self) -> Figures:
        """Draw which facts are met together, and the shares of variance."""
        from equivocal.multiverse.figures import draw_facts_together, draw_variance_shares

        figures = {
            "facts_together": draw_facts_together(readings.relate_facts(self.tables["together"]))
        }
        if len(self.tables["variance"]):
            figures["variance_shares"] = draw_variance_shares(self.tables["variance"])
        return figures

    def write(self, folder: str | Path, *, figures: bool = True) -> None:
        """Write matches.csv with all digits, the other tables to tables/, answer.txt, figures."""
        folder, others = Path(folder), dict(self.tables)
        write_text_atomically(folder / "matches.csv", others.pop("matches").to_csv(index=False))
        write_tables(folder / "tables", others)
        write_text_atomically(folder / "answer.txt", "\n".join(self.summary) + "\n")
        if figures:
            self.save_figures(folder)


def match_paper(
    out: str | Path = "runs/match",
    *,
    design: Design | str | Path = "match",
    quick: bool = False,
    figures: bool = True,
    hire: Hire = work_alone,
    on_step: Advance | None = None,
) -> MatchResult:
    """Find out which facts of the paper each specification of a design meets.

    Parameters
    ----------
    out : str or Path
        The folder for matches.csv, tables/, figures/, and finished points.
    design : Design, str or Path
        A design, "match", or a design file.
    quick : bool
        A few small networks, only to check that it works; do not report the results. Has no effect
        on a `Design`.
    figures : bool
        Whether to draw figures; everything else works without Matplotlib.
    hire : callable
        Starts the workers: by default this process does the work, without Dask; `hire_workers`
        starts others.
    on_step : callable, optional
        Called with the number of points done, the total and how many trainings are left, instead
        of showing progress on the terminal.

    Returns
    -------
    MatchResult
        Which facts each specification meets, and which facts can be met together.

    Raises
    ------
    UnfinishedError
        If a point failed; the results of the others are saved.
    """
    design = design if isinstance(design, Design) else load_design(design, quick=quick)
    folder = Path(out)
    with hold_folder(folder):
        matches = _run_rounds(design, folder, hire, on_step)
        result = MatchResult(
            name="match",
            tables=_tabulate(matches),
            settings=_describe(design),
            summary=answer_in_words(matches),
        )
        result.write(folder, figures=figures)
    return result


def train_design(
    out: str | Path = "runs/match",
    *,
    design: Design | str | Path = "match",
    quick: bool = False,
    hire: Hire = work_alone,
    on_step: Advance | None = None,
) -> pd.DataFrame:
    """Train the networks of a design and nothing else; `match_paper` finds them in the folder.

    Use it to train on a faster machine. It needs neither Dask nor Matplotlib. Only the networks of
    the first round are trained; later rounds depend on results of `match_paper`, which trains them.

    Parameters
    ----------
    out, design, quick, hire, on_step
        As in `match_paper`.

    Returns
    -------
    DataFrame
        Scores of the networks: `key`, `network`, `unit_accuracy`, `exact_match`.
    """
    design = design if isinstance(design, Design) else load_design(design, quick=quick)
    with hold_folder(Path(out)):
        done = run_missing(readings.make_training_tasks(design), Path(out), hire, on_step, "match")
    done.check()
    scores = [pd.DataFrame(row).assign(key=key) for key, row in done.results.items()]
    return pd.concat(scores).rename_axis("network").reset_index()


def _run_rounds(design: Design, folder: Path, hire: Hire, on_step: Advance | None) -> pd.DataFrame:
    """Run the design and its refinements; a round depends only on the results of earlier rounds."""
    points: dict[str, Specification] = {}
    rounds: dict[str, int] = {}
    records: dict[str, Any] = {}
    new, matches = list(design.points), pd.DataFrame()
    for number in range(design.size.rounds + 1):
        tasks = readings.make_reading_tasks(design, new)
        for key, point in zip(tasks, new, strict=True):
            points.setdefault(key, point)
            rounds.setdefault(key, number)
        done = run_missing(tasks, folder, hire, on_step, "match")
        done.check()
        records |= done.results
        matches = readings.tabulate_matches(design, points, records, rounds)
        best = [points[key] for key in readings.find_best(matches, design.size.near)]
        seed = design.size.seed + 2 + number
        new = refine_design(design, best, list(points.values()), seed)
        if not new:
            break
    return matches


def _tabulate(matches: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {
        "matches": matches,
        "facts": readings.tabulate_facts(matches),
        "together": readings.tabulate_together(matches),
        "variance": compute_match_shares(matches),
        "impossible": find_impossible_numbers(),
    }


def compute_match_shares(matches: pd.DataFrame, outcomes: Sequence[str] = OUTCOMES) -> pd.DataFrame:
    """Compute the share of variance that each choice explains, over freely drawn posteriors.

    The others are left out: some fix several choices at once as the paper prints them, so the
    effects of these choices are confounded, and refined points do not cover the range of choices.

    Parameters
    ----------
    matches : DataFrame
        As `match_paper` returns it.
    outcomes : sequence of str
        The columns whose variance is decomposed.

    Returns
    -------
    DataFrame
        As `equivocal.statistics.summaries.compute_variance_shares` returns it, for every outcome.
    """
    free, units = matches[matches["free"]], ("training", "key")
    shares = [compute_variance_shares(free, one, CHOICES, units=units) for one in outcomes]
    return pd.concat(shares, ignore_index=True)


def _describe(design: Design) -> dict[str, Any]:
    return {
        "study": design.study.name,
        "quick": design.study.quick_run,
        "networks": design.study.training_settings.networks,
        "design": design.size.model_dump(),
        "levels": design.levels,
        "printed": design.printed,
    }
