"""The paper's claims, each with its numbers and a verdict by a fixed rule.

Verdicts come from the numbers where the paper stops its sampler (17 steps); those of the converged
posterior stand beside them, and are mentioned where they would be judged otherwise. The claims and
the limits are in `record/claims.toml`, the rules in `equivocal.study.verdicts`.
"""

import tomllib
from collections.abc import Callable
from importlib import resources
from typing import Any

import pandas as pd
import xarray as xr

from equivocal.study import claim_rules, sampler_rules
from equivocal.study.measures import central_prior, measures
from equivocal.study.tables import PRINTED_STUDY
from equivocal.study.verdicts import NOT_RUN, Entry, Facts, Finding, MissingError

__all__ = ["COLUMNS", "claims"]

COLUMNS = ["id", "claim", "where", "printed", "at_paper_steps", "at_convergence", "verdict", "why"]
RULES: dict[str, Callable[[Entry, Facts, str], Finding]] = {
    rule: getattr(module, rule)
    for module in (claim_rules, sampler_rules)
    for rule in module.__all__
}


def claims(
    dataset: xr.Dataset, tables: dict[str, pd.DataFrame], evidence: dict[str, Any]
) -> pd.DataFrame:
    """One row per claim; none for a study that is not the paper's.

    `evidence` is what activations do not hold, any of it: `accuracy` (of units) and `exact_match`,
    lists over networks, `all_zeros`, and `nuts` with `sd_ratio` and `mean_shift` (by sampler, lists
    over questions), `seconds_nuts`, `seconds_paper`, `seconds_converged`, `units` and `network`.
    """
    if dataset.attrs["study"] != PRINTED_STUDY:
        return pd.DataFrame(columns=COLUMNS)
    path = resources.files("equivocal.study") / "record" / "claims.toml"
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    facts = Facts(
        dataset, measures(dataset), central_prior(dataset), tables, evidence, content["limits"]
    )
    return pd.DataFrame([_judged(entry, facts) for entry in content["claims"]], columns=COLUMNS)


def _judged(entry: Entry, facts: Facts) -> dict[str, str]:
    stopped, converged = (_found(entry, facts, sampler) for sampler in ("paper", "converged"))
    why = stopped.why
    if converged.verdict not in (stopped.verdict, NOT_RUN):
        why += f" At convergence the verdict would be: {converged.verdict}. {converged.why}"
    return {
        **{name: entry[name] for name in ("id", "claim", "where", "printed")},
        "at_paper_steps": stopped.text,
        "at_convergence": converged.text,
        "verdict": stopped.verdict,
        "why": why,
    }


def _found(entry: Entry, facts: Facts, sampler: str) -> Finding:
    try:
        return RULES[entry["rule"]](entry, facts, sampler)
    except MissingError as error:
        return Finding("not run", NOT_RUN, str(error))
