"""The paper's claims, each with its numbers and a verdict by a fixed rule.

Verdicts come from the numbers where the paper stops its sampler (17 steps), under the study's own
reading of N; `judge_readings` sets those of both readings beside them. The numbers of the
converged posterior stand beside them, and the explanation says where their verdict would differ.
Claims and limits are in `record/claims.toml`, the rules in `equivocal.paper.verdicts`.
`find_impossible_numbers` finds, by arithmetic, printed numbers that no data can give.

In the paper's world no reversal is possible, so nothing there can show whether doubt is justified;
one claim is judged in the world `slips`, where reversals have a true answer (`compare_with_truth`).

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

from equivocal.network import Run
from equivocal.paper import verdicts
from equivocal.paper.inference import Beliefs, Known
from equivocal.paper.settings import read_record
from equivocal.paper.study import READINGS
from equivocal.paper.tables import (
    compute_measures,
    find_central_prior,
    load_printed_values,
    tabulate,
)
from equivocal.paper.verdicts import NOT_RUN, Entry, Facts, Finding, MissingError
from equivocal.statistics.summaries import compute_largest_p, compute_smallest_p_less
from equivocal.store import read_toml

__all__ = [
    "collect_evidence",
    "find_impossible_numbers",
    "judge",
    "judge_readings",
    "load_full_runs",
]

# keys of `record/claims.toml`
GIVEN = ("id", "kind", "story", "in_short", "claim", "where", "printed")
COLUMNS = [
    *GIVEN,
    *("at_paper_steps", "at_convergence", "verdict", "verdict_at_convergence", "why"),
]
RULES: dict[str, Callable[[Entry, Facts, str], Finding]] = {
    name.removeprefix("judge_"): rule
    for name, rule in vars(verdicts).items()
    if name.startswith("judge_")
}


def collect_evidence(run: Run, beliefs: Beliefs, truth: pd.DataFrame | None) -> dict[str, Any]:
    """Collect the evidence for claims that the answers to the stimuli do not contain.

    Parameters
    ----------
    run : Run
        The trained networks.
    beliefs : Beliefs
        With the comparisons with the exact posterior, where they were made.
    truth : DataFrame or None
        What `compare_with_truth` returned.

    Returns
    -------
    dict of str to Any
        `accuracy` (of units) and `exact_match`: lists over networks. `all_zeros`: the accuracy of a
        model that leaves every unit off. `exact`: `networks`, `posteriors`, `unconverged` and, for
        `paper`, `converged` and `nuts`, ratios of standard deviations and shifts of means over
        networks and questions. `nuts`: `seconds_…` of these three and `units`. `truth`: the table.
    """
    scores, exact = run.scores, beliefs.comparison
    evidence: dict[str, Any] = {
        "accuracy": scores["unit_accuracy"].tolist(),
        "all_zeros": float(scores["all_zeros"].mean()),
        "exact_match": scores["exact_match"].tolist(),
        "truth": truth,
    }
    if exact is not None:
        evidence["exact"] = {**exact.attrs, "networks": exact.sizes["network"]}
        for who in (name for name in ("paper", "converged", "nuts") if f"{name}_sd" in exact):
            sd, shift = exact[f"{who}_sd"], abs(exact[f"{who}_mean"] - exact["exact_mean"])
            ratios = (part / exact["exact_sd"] for part in (sd, shift))
            evidence["exact"][who] = [part.values[sd.notnull()] for part in ratios]
    if beliefs.nuts is not None:
        evidence["nuts"] = beliefs.nuts.attrs
    return evidence


def judge(
    dataset: xr.Dataset, tables: dict[str, pd.DataFrame], evidence: dict[str, Any]
) -> pd.DataFrame:
    """Judge every claim of the paper.

    Parameters
    ----------
    dataset : Dataset
        The answers of a study (`activations`).
    tables : dict of str to DataFrame
        As `tabulate` returns them.
    evidence : dict
        As `collect_evidence` returns it; every entry is optional.

    Returns
    -------
    DataFrame
        A row per claim.
    """
    content = read_record("claims")
    rows, central = compute_measures(dataset), find_central_prior(dataset)
    texts = content["limits"], content["reasons"]
    facts = Facts(dataset, rows, central, tables, evidence, *texts)
    return pd.DataFrame([_judge(entry, facts) for entry in content["claims"]], columns=COLUMNS)


def judge_readings(
    run: Run, own: Known, others: dict[str, Known], tables: dict[str, pd.DataFrame]
) -> pd.DataFrame:
    """Judge every claim under the study's own reading of N, and under each of both readings.

    Parameters
    ----------
    run : Run
        The trained networks.
    own : Known
        Under the study's own reading.
    others : dict of str to Known
        Under the readings of `READINGS` that are not its own.
    tables : dict of str to DataFrame
        The tables of its own reading.

    Returns
    -------
    DataFrame
        As of `judge` for its own reading, with columns verdict_READING (17 steps) and
        verdict_READING_converged for each reading.
    """
    claims = judge(own.beliefs.answers, tables, collect_evidence(run, *own))
    verdicts = {}
    for name in READINGS:
        judged = claims
        if name in others:
            answers = others[name].beliefs.answers
            needed = tabulate(answers, without=("mixed_model", "every_word_models"))
            judged = judge(answers, needed, collect_evidence(run, *others[name]))
        verdicts[f"verdict_{name}"] = judged["verdict"]
        verdicts[f"verdict_{name}_converged"] = judged["verdict_at_convergence"]
    return claims.assign(**verdicts)


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

    `answer` comes from `equivocal multiverse --match`, and is empty where that was not run.
    """

    studies: tuple[FullRun, ...]
    match_command: str
    answer: tuple[str, ...]

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
    return FullRuns(studies, match["command"], tuple(match.get("answer", ())))
