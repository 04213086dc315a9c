"""`equivocal people compare`: do measures predict people's responses, word by word?

Beside its tables it writes the R script that fits the same models by lme4, for each network too. It
is made from `templates/lme4.R.j2` and reads `trials.csv`; this package needs neither R nor the
script.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from equivocal.people.align import Region
from equivocal.people.designs import FACTORS, Model, is_numeric
from equivocal.people.join import Joined, join_files
from equivocal.people.models import Comparison, compare_models
from equivocal.people.trial_tables import Columns, TrialsResult, record_inputs
from equivocal.progress import progress
from lastlayer.errors import UserError

__all__ = ["compare_trials"]

RESERVED = {"if", "else", "repeat", "while", "function", "for", "next", "break", "in"}  # by R


def compare_trials(
    data: str | Path,
    measures: str | Path,
    out: str | Path = "runs/compare",
    *,
    columns: Columns | None = None,
    measure: Sequence[str] = (),
    controls: Sequence[str] = (),
    where: Sequence[str] = (),
    family: str = "gaussian",
    log: bool = False,
    slopes: bool = False,
    spillover: int = 0,
    region: Region = "last",
    by: str | None = None,
) -> TrialsResult:
    """Compare mixed models of people's responses with and without each measure.

    Parameters
    ----------
    data : str or Path
        The trials: a CSV file with a row for each response.
    measures : str or Path
        The measures: a CSV file with a row for each item and word.
    out : str or Path
        Folder for the results.
    columns : Columns, optional
        The names of the columns of the trials, if they differ from the usual names.
    measure : sequence of str
        The measures to compare; by default every column of numbers.
    controls : sequence of str
        Columns of either table that all models include; `length` is counted if no table has it.
    where : sequence of str
        Keep only rows with COLUMN=VALUE, in the tables that have the column.
    family : {"gaussian", "binomial"}
        Linear models of numbers, or logistic models of answers, 0 or 1.
    log : bool
        Model the logarithm of the response.
    slopes : bool
        Let the effect of each measure differ between participants and between items.
    spillover : int
        Also include the measures and numeric controls of this many preceding words.
    region : {"last", "sum", "each"}
        The response to a constituent that was read word by word: that of its last word, the sum, or
        each of them.
    by : str, optional
        A column of either table, such as the condition, with which measures interact.

    Returns
    -------
    TrialsResult
        Already written to `out`.

    Raises
    ------
    UserError
        If a file, a column or a value is wrong, no model can be fitted, or a user's file would be
        overwritten.
    """
    began, data, measures = monotonic(), Path(data), Path(measures)
    if family == "binomial" and region == "sum":
        raise UserError("--region sum adds up times, not answers; give --region last or each.")
    how: dict[str, Any] = {"spillover": spillover, "region": region, "by": by}
    joined = join_files(data, measures, columns or Columns(), measure, controls, where, **how)
    ours = {theirs: role for role, theirs in joined.columns.items()}
    chosen_by = by and ours.get(by, by)
    with progress("models") as advance:
        comparison = compare_models(
            joined, family=family, log=log, slopes=slopes, by=chosen_by, advance=advance
        )
    joined = comparison.joined
    settings = {
        **record_inputs(data=data, measures=measures),
        "columns": joined.columns,
        "measure": joined.measures,
        "where": list(where),
        "controls": joined.controls,
        "family": family,
        "log": log,
        "slopes": slopes,
        **{name: value for name, value in how.items() if value is not None},
        "seconds": round(monotonic() - began, 3),
    }
    trials = list_columns(joined)
    result = TrialsResult(
        name="compare",
        tables={
            "compare": comparison.table,
            "unmatched": joined.unmatched,
            "trials": trials,
            **({} if joined.words.empty else {"alignment": joined.words}),
        },
        settings=settings,
        summary=describe_comparison(comparison),
        scripts={"lme4.R": write_script(comparison)},
    )
    result.write(out)
    return result


def describe_comparison(comparison: Comparison) -> tuple[str, ...]:
    """Say which measures predict the response, which trials were used, and list all notes."""
    joined = comparison.joined
    response = joined.columns["response"]
    response = f"log({response})" if comparison.log else response
    left_out = joined.unmatched["reason"].value_counts().items()
    return (
        _describe_measures(comparison, response),
        f"{len(joined.trials)} of {joined.given} trials joined by {', '.join(joined.keys)}; "
        f"{joined.trials['participant'].nunique()} participants, "
        f"{joined.trials['item'].nunique()} items; response {response}, "
        f"{comparison.family} family",
        *(f"left out: {count}, {reason}" for reason, count in left_out),
        *(f"note: {note}" for note in comparison.notes),
    )


def _describe_measures(comparison: Comparison, response: str) -> str:
    """Say which measures predict the response: those whose 95 % interval excludes zero.

    If there are several, each is judged in the model of all, provided that they can be fitted
    together. A fit that did not converge has no estimate.
    """
    table = comparison.table
    together = table[table["model"] == "together"]
    beyond = bool(together["converged"].any())  # otherwise each alone may have converged
    judged = together if beyond else table[table["model"] == "alone"]
    failed = judged[~judged["converged"]].to_dict("records")
    lacking = ". ".join(f"{row['measure']}, {row['note']}" for row in failed)
    judged = judged[judged["converged"]]
    if judged.empty:
        return f"No estimate: {lacking}."
    clear = (judged["low"] > 0) | (judged["high"] < 0)
    unit = " log odds" if comparison.family == "binomial" else ""
    effects, others = (_list_effects(judged[chosen], unit) for chosen in (clear, ~clear))
    what = f"{response}{' beyond the other measures' if beyond else ''}"
    parts = [f"What predicts {what}: {'; '.join(effects)}."] if effects else []
    if others:
        start = "Not clearly" if effects else f"Nothing clearly predicts {what}"
        parts.append(f"{start}: {'; '.join(others)}.")
    return " ".join([*parts, *([f"No estimate: {lacking}."] if lacking else [])])


def _list_effects(rows: pd.DataFrame, unit: str) -> list[str]:
    """List the effects of measures with their 95 % intervals."""
    return [
        f"{row['measure']}, {row['estimate']:+.3g}{unit} per unit (95 % {row['low']:+.3g} to "
        f"{row['high']:+.3g})"
        for row in rows.to_dict("records")
    ]


# ---- the R script


def quote_name(name: str) -> str:
    """Return the name of a column as formulas of R need it.

    >>> quote_name("z_semantic_update"), quote_name("½ share"), quote_name("repeat")
    ('z_semantic_update', '`½ share`', '`repeat`')
    """
    plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9._]*", name) and name not in RESERVED
    return name if plain else f"`{name.replace('`', '')}`"


def list_columns(joined: Joined) -> pd.DataFrame:
    """Return the trials, and the measures of networks as NAME.1, NAME.2, …"""
    parts = [own.add_suffix(f".{number}") for number, own in enumerate(joined.networks, start=1)]
    return pd.concat([joined.trials, *parts], axis=1).rename(columns=lambda n: n.replace("`", ""))


def write_formula(comparison: Comparison, model: Model) -> str:
    """Write the formula of a model for lme4; `z_NAME` is NAME in standard deviations."""
    fixed = ["1", *map(quote_name, comparison.joined.controls), *_quote_scaled(model.measures)]
    random = [
        f"({' + '.join(['1', *_quote_scaled(slopes)])} | {factor})"
        for factor, slopes in zip(FACTORS, model[1:], strict=True)
    ]
    response = "log(response)" if comparison.log else "response"
    return f"{response} ~ {' + '.join([*fixed, *random])}"


def _quote_scaled(measures: tuple[str, ...]) -> list[str]:
    return [quote_name(f"z_{name}") for name in measures]


def write_script(comparison: Comparison) -> str:
    """Write lme4.R: every model that was fitted, and the pairs that are compared."""
    joined, models = comparison.joined, list(comparison.fits)
    labels = [name for name in joined.controls if not is_numeric(joined.trials[name])]
    environment = Environment(
        loader=PackageLoader("equivocal.people"),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("lme4.R.j2").render(
        factors=[*FACTORS, *labels],
        measures=list(dict.fromkeys(pair.measure for pair in comparison.pairs)),
        fits=[(write_formula(comparison, model), fit) for model, fit in comparison.fits.items()],
        binomial=comparison.family == "binomial",
        pairs=[(p, models.index(p.full), models.index(p.without)) for p in comparison.pairs],
        pooled=[
            (write_formula(comparison, model), model.measures)
            for model in dict.fromkeys(pair.full for pair in comparison.pairs)
        ],
        networks=len(joined.networks),
    )
