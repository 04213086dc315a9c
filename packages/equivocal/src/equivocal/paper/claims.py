"""The paper's claims, each with its numbers and a verdict by a fixed rule.

Verdicts come from the numbers where the paper stops its sampler (17 steps). The numbers of the
converged posterior stand beside them, and the explanation says where their verdict would differ.
Claims and limits are in `record/claims.toml`, the rules in `equivocal.paper.verdicts`.
`find_impossible_numbers` finds, by arithmetic, printed numbers that no data can give.

In the paper's world no reversal is possible, so nothing there can show whether doubt is justified.
In the world `slips` reversals are possible: `tables/frontier.csv` of `equivocal doubt --world
slips` gives the distance of each network from the exact beliefs (docs/doubt.md), from which
`judge_nearer_to_truth` judges a claim, paired over networks.

Verdicts of full runs are data of the package (`record/full_runs.toml`). A report shows them next to
its own, below the answer of `equivocal multiverse --match`, so that a reader sees what depends on
the training recipe and on the choices that the paper leaves open. `python -m scripts.record_runs`
writes the file.

A new claim of a known kind is an entry in `record/claims.toml` and needs no code.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr
from scipy import stats

from equivocal.paper import verdicts
from equivocal.paper.settings import read_record
from equivocal.paper.tables import (
    PRINTED_STUDIES,
    compute_measures,
    find_central_prior,
    load_printed_values,
)
from equivocal.paper.verdicts import NOT_RUN, Entry, Facts, Finding, MissingError, grade_error
from equivocal.statistics.summaries import compute_largest_p, compute_smallest_p_less
from equivocal.store import read_toml

__all__ = ["find_impossible_numbers", "load_full_runs"]

GIVEN = (
    "id",
    "kind",
    "story",
    "in_short",
    "claim",
    "where",
    "printed",
)  # keys of `record/claims.toml`
COLUMNS = [
    *GIVEN,
    *("at_paper_steps", "at_convergence", "verdict", "verdict_at_convergence", "why"),
]
KINDS = {"paper": "paper's sampler", "converged": "posterior"}  # names in `tables/frontier.csv`
RULES: dict[str, Callable[[Entry, Facts, str], Finding]] = {
    name.removeprefix("judge_"): rule
    for name, rule in vars(verdicts).items()
    if name.startswith("judge_")
} | {
    "nearer_to_truth": lambda _, facts, sampler: judge_nearer_to_truth(
        facts.evidence.get("frontier"), sampler, facts.limits
    )
}


def judge_claims(
    dataset: xr.Dataset, tables: dict[str, pd.DataFrame], evidence: dict[str, Any]
) -> pd.DataFrame:
    """Judge every claim of the paper; a study that does not replicate the paper has none.

    Parameters
    ----------
    dataset : Dataset
        As `activations.nc` holds it.
    tables : dict of str to DataFrame
        As `compute_tables` returns them.
    evidence : dict
        Evidence that the activations do not contain; every entry is optional. `accuracy` (of units)
        and `exact_match`: lists over networks. `all_zeros`: the accuracy of a model that leaves
        every unit off. `exact`: `networks`, `posteriors`, `unconverged` and, for `paper`,
        `converged` and `nuts`, ratios of standard deviations and shifts of means over networks and
        questions. `nuts`: `seconds_…` of these three and `units`. `frontier`: the table of that
        name, of networks in the world `slips`.

    Returns
    -------
    DataFrame
        A row per claim.
    """
    if dataset.attrs["study"] not in PRINTED_STUDIES:
        return pd.DataFrame(columns=COLUMNS)
    content = read_record("claims")
    rows, central = compute_measures(dataset), find_central_prior(dataset)
    texts = content["limits"], content["reasons"]
    facts = Facts(dataset, rows, central, tables, evidence, *texts)
    return pd.DataFrame([_judge(entry, facts) for entry in content["claims"]], columns=COLUMNS)


def _judge(entry: Entry, facts: Facts) -> dict[str, str]:
    """Return a row of `claims.csv`: the numbers and verdicts of both samplers."""
    stopped, converged = (_apply_rule(entry, facts, who) for who in ("paper", "converged"))
    why = stopped.why
    if converged.verdict not in (stopped.verdict, NOT_RUN):
        why += f" At convergence the verdict would be: {converged.verdict}. {converged.why}"
    return {
        **{name: entry[name] for name in GIVEN},
        "at_paper_steps": stopped.text,
        "at_convergence": converged.text,
        "verdict": stopped.verdict,
        "verdict_at_convergence": converged.verdict,
        "why": why,
    }


def _apply_rule(entry: Entry, facts: Facts, sampler: str) -> Finding:
    """Judge a claim for one sampler; "not run" where its rule lacks evidence."""
    try:
        return RULES[entry["rule"]](entry, facts, sampler)
    except MissingError as error:
        return Finding("not run", NOT_RUN, str(error))


def find_impossible_numbers() -> pd.DataFrame:
    """Find the printed numbers that the stated test cannot give.

    Returns
    -------
    DataFrame
        A row per number: where, printed, why (in two sentences), arithmetic.
    """
    content = load_printed_values()
    rows = [*_find_p_above_bound(content), *_find_p_unlike_t(content)]
    return pd.DataFrame(rows, columns=["where", "printed", "why", "arithmetic"])


def _find_p_above_bound(content: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Find p-values against zero that no non-negative numbers can give."""
    for name, n, measure, column, cell in _list_cells(content, "against_zero"):
        bound = compute_largest_p(n)
        if not cell["p"].startswith("<") and float(cell["p"]) > bound:
            least = compute_smallest_p_less(n)
            facts = {"n": n, "df": n - 1, "bound": bound, "printed": cell["p"]}
            facts |= {"least": least, "most": bound / 2}
            kind = "above_bound" if float(cell["p"]) >= least else "under_no_alternative"
            who = "trained network" if column == "mle" else "sampler"
            row = f"{content['labels'][measure]}, {who}"
            yield _describe_number(content, name, row, f"p = {cell['p']}", kind, facts)


def _find_p_unlike_t(content: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Find upper limits on p that the t printed for the same test does not meet."""
    networks, items = (content["where"][f"paired_{who}"]["n"] for who in ("models", "items"))
    many = networks * items - 1
    for name, n, measure, column, cell in _list_cells(content, "paired", "priors"):
        t = (content[cell["t_in"]][measure]["paper"] if "t_in" in cell else cell).get("t")
        if t is None or not cell["p"].startswith("<"):
            continue
        size = abs(float(t))
        p, p_many = (float(2 * stats.t.sf(size, df)) for df in (n - 1, many))
        if p >= float(cell["p"].removeprefix("<")):
            facts = {"n": n, "df": n - 1, "p": p, "p_many": p_many, "many": many, "size": size}
            facts |= {"t": t, "printed": cell["p"], "networks": networks, "items": items}
            prior = f", prior {column} I" if name == "priors_models" else ""
            row = content["labels"][measure] + prior
            yield _describe_number(content, name, row, f"t = {t}, p {cell['p']}", "p_of_t", facts)


def _list_cells(
    content: dict[str, Any], *kinds: str
) -> Iterator[tuple[str, int, str, str, dict[str, str]]]:
    """Yield table, sample size, measure, column and cell of the printed tables of some kinds."""
    for name in (name for kind in kinds for name in content["where"] if name.startswith(kind)):
        for measure, columns in content[name].items():
            for column, cell in columns.items():
                yield name, content["where"][name]["n"], measure, column, cell


def _describe_number(
    content: dict[str, Any], table: str, row: str, printed: str, kind: str, facts: dict[str, Any]
) -> dict[str, str]:
    """Return a row of `find_impossible_numbers`, with the texts of its kind filled in."""
    texts = content["impossible"][kind]
    return {
        "where": f"{content['where'][table]['place']}: {row}",
        "printed": printed,
        "why": texts["why"].format(**facts),
        "arithmetic": texts["arithmetic"].format(**facts),
    }


@dataclass(frozen=True)
class FullRun:
    """A full run of one study: how it was run, and its verdict on each claim by id."""

    study: str
    recipe: str
    networks: int
    commands: Sequence[str]
    verdicts: dict[str, str]


@dataclass(frozen=True)
class FullRuns:
    """All recorded runs.

    `answer` and `notes` come from `equivocal multiverse --match`, and are empty where that was not
    run.
    """

    studies: tuple[FullRun, ...]
    match_command: str
    answer: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def list_others(self, study: str, *, quick: bool = False) -> tuple[FullRun, ...]:
        """List the runs to show with a study; with a quick run, its own full run is among them."""
        return tuple(run for run in self.studies if quick or run.study != study)


@cache
def load_full_runs(path: str | Path | None = None) -> FullRuns:
    """Load the recorded verdicts of full runs.

    Parameters
    ----------
    path : str or Path, optional
        A file in the format of `record/full_runs.toml`, which is read by default.
    """
    content = read_record("full_runs") if path is None else read_toml(path)
    studies = tuple(FullRun(name, **run) for name, run in content["studies"].items())
    match = content["match"]
    sentences = (tuple(match.get(name, ())) for name in ("answer", "notes"))
    return FullRuns(studies, match["command"], *sentences)


def select_kinds(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Select the rows of the trained networks, the paper's sampler at its end, and the posterior.

    Parameters
    ----------
    table : DataFrame
        `tables/frontier.csv`.

    Returns
    -------
    dict of str to DataFrame
        By "trained", "paper" and "converged"; empty tables where there are no such rows.
    """
    found = {"trained": table[table["kind"] == "trained"]}
    for sampler, kind in KINDS.items():
        own = table[(table["kind"] == kind) & (table["prior_variance"] == 1)]
        found[sampler] = own[own["value"] == (own["value"].max() if sampler == "paper" else 1)]
    return found


def judge_nearer_to_truth(
    table: pd.DataFrame | None, sampler: str = "paper", limits: dict[str, float] | None = None
) -> Finding:
    """Judge whether the Bayesian model is closer to the truth on reversals.

    Parameters
    ----------
    table : DataFrame or None
        `tables/frontier.csv`, or None if the run did not make it.
    sampler : {"paper", "converged"}
        The paper's sampler at its last step, or the converged posterior with all the evidence.
    limits : dict of str to float, optional
        The level of the paired test over networks and the smallest share of interest; by default
        those of `record/claims.toml`.

    Raises
    ------
    MissingError
        Where there is no table, or it lacks the sampler.
    """
    if table is None:
        raise MissingError("Networks of the world `slips` were not asked in this run.")
    kinds = select_kinds(table)
    own, trained = kinds[sampler], kinds["trained"]
    if own.empty or trained.empty:
        raise MissingError(f"The table of errors lacks the {KINDS[sampler]} with prior variance 1.")
    bayes, mle = (rows.set_index("network")["kl_reversal"] for rows in (own, trained))
    what = "its beliefs are nearer to the exact ones where a reversal has a true answer"
    congruent = (rows["kl_congruent"].mean() for rows in (own, trained))
    more = f"; of the trained networks {mle.mean():.3g} nats, all of one corpus"
    more += "; on congruent sentences {:.3g}, trained {:.3g}".format(*congruent)
    name = "divergence from the exact beliefs"
    limits = limits or read_record("claims")["limits"]
    return grade_error(bayes.loc[mle.index], mle, name, what, more, limits)
