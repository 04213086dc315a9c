"""The paper's claims, each with its numbers and a verdict by a fixed rule.

Verdicts come from the numbers where the paper stops its sampler (17 steps); those of the converged
posterior stand beside them, and are mentioned where the verdict would differ. Claims and limits are
in `record/claims.toml`, the rules in `equivocal.study.verdicts`. Printed numbers that no data can
give are found here too, by arithmetic.

A new claim of a known kind is an entry in `record/claims.toml` and needs no code.
"""

import tomllib
from collections.abc import Callable, Iterator
from importlib import resources
from typing import Any

import pandas as pd
import xarray as xr
from scipy import stats

from equivocal.study import verdicts
from equivocal.study.measures import compute_measures, find_central_prior
from equivocal.study.nearer import judge_nearer_to_truth
from equivocal.study.statistics import compute_largest_p
from equivocal.study.tables import PRINTED_STUDIES, load_printed_values
from equivocal.study.verdicts import NOT_RUN, Entry, Facts, Finding, MissingError

__all__ = ["find_impossible_numbers"]

GIVEN = ("id", "story", "in_short", "claim", "where", "printed")  # in `record/claims.toml`
COLUMNS = [
    *GIVEN,
    *("at_paper_steps", "at_convergence", "verdict", "verdict_at_convergence", "why"),
]
RULES: dict[str, Callable[[Entry, Facts, str], Finding]] = {
    name.removeprefix("judge_"): rule
    for name, rule in vars(verdicts).items()
    if name.startswith("judge_")
} | {
    "nearer_to_truth": lambda _, facts, sampler: judge_nearer_to_truth(
        facts.evidence.get("frontier"), sampler, facts.limits["alpha"]
    )
}


def judge_claims(
    dataset: xr.Dataset, tables: dict[str, pd.DataFrame], evidence: dict[str, Any]
) -> pd.DataFrame:
    """Judge every claim of the paper; a study that is not the paper's makes none.

    Parameters
    ----------
    dataset : Dataset
        As `activations.nc` holds it.
    tables : dict of str to DataFrame
        As `compute_tables` returns them.
    evidence : dict
        What activations do not hold, any of it: `accuracy` (of units) and `exact_match`, lists over
        networks, `all_zeros`; `exact` with `networks`, `posteriors`, `unconverged` and, for
        `paper`, `converged` and `nuts`, ratios of standard deviations and shifts of means over
        networks and questions; `nuts` with `seconds_…` of these three and `units`; `frontier`, the
        table of that name of networks in the world `slips`.

    Returns
    -------
    DataFrame
        A row per claim.
    """
    if dataset.attrs["study"] not in PRINTED_STUDIES:
        return pd.DataFrame(columns=COLUMNS)
    path = resources.files("equivocal.study") / "record" / "claims.toml"
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    rows, central = compute_measures(dataset), find_central_prior(dataset)
    texts = content["limits"], content["reasons"]
    facts = Facts(dataset, rows, central, tables, evidence, *texts)
    return pd.DataFrame([_judge(entry, facts) for entry in content["claims"]], columns=COLUMNS)


def _judge(entry: Entry, facts: Facts) -> dict[str, str]:
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
            facts = {"n": n, "df": n - 1, "bound": bound, "printed": cell["p"]}
            who = "trained network" if column == "mle" else "sampler"
            row = f"{content['labels'][measure]}, {who}"
            yield _describe_number(content, name, row, f"p = {cell['p']}", "above_bound", facts)


def _find_p_unlike_t(content: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Find upper limits on p that the t printed for the same test does not meet."""
    sizes = {who: content["where"][f"paired_{who}"]["n"] for who in ("models", "items")}
    networks, items = sizes.values()
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
    texts = content["impossible"][kind]
    return {
        "where": f"{content['where'][table]['place']}: {row}",
        "printed": printed,
        "why": texts["why"].format(**facts),
        "arithmetic": texts["arithmetic"].format(**facts),
    }
