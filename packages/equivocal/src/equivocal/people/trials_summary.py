"""Describes comparisons and simulations of trials in sentences, and writes R scripts.

Sentences begin with the main result. The scripts fit the same models by lme4, and by brms for
posteriors. They are made from templates (`templates/*.R.j2`) and read `trials.csv`, which is
written beside them with the same names of columns. This package needs neither R nor the scripts.
"""

import re
from collections.abc import Iterable

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from equivocal.people.comparison import Comparison, Model, is_numeric
from equivocal.people.joins import REPEATED, Joined
from equivocal.people.simulation import Experiment
from equivocal.people.tables import PLACES
from equivocal.people.tables import RESERVED as TAKEN

__all__ = [
    "SCRIPTS",
    "describe_comparison",
    "describe_power",
    "describe_simulation",
    "name_columns",
    "write_script",
]

SCRIPTS = ("lme4.R", "brms.R")
WANTED = 0.8  # the power that experiments are usually planned for
RESERVED = {"if", "else", "repeat", "while", "function", "for", "next", "break", "in"}
RESERVED |= {"TRUE", "FALSE", "NULL", "Inf", "NaN", "NA"}  # words of R
OURS = {*PLACES, *TAKEN, *REPEATED}  # columns of trials.csv other than measures and controls


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
    if len(together) and not together["converged"].any():  # each alone may have converged
        together, table = together[:0], table[table["model"] != "together"]
    own = together if len(together) else table
    failed = own[~own["converged"]].to_dict("records")
    lacking = ". ".join(f"{row['measure']}, {row['note']}" for row in failed)
    own = own[own["converged"]]
    if own.empty:
        return f"No estimate: {lacking}."
    unknown = f" No estimate: {lacking}." if lacking else ""
    clear = (own["low"] > 0) | (own["high"] < 0)
    unit = " log odds" if comparison.family == "binomial" else ""
    found, others = (_list_measures(own[chosen], unit) for chosen in (clear, ~clear))
    beyond = " beyond the other measures" if len(together) else ""
    if not found:
        return f"Nothing clearly predicts {response}{beyond}: {'; '.join(others)}.{unknown}"
    text = f"What predicts {response}{beyond}: {'; '.join(found)}."
    return text + (f" Not clearly: {'; '.join(others)}." if others else "") + unknown


def _list_measures(rows: pd.DataFrame, unit: str) -> list[str]:
    """List the effects of measures with their 95 % intervals."""
    return [
        f"{row['measure']}, {row['estimate']:+.3g}{unit} per unit (95 % {row['low']:+.3g} to "
        f"{row['high']:+.3g})"
        for row in rows.to_dict("records")
    ]


def describe_simulation(
    trials: pd.DataFrame, experiment: Experiment, measure: str
) -> tuple[str, ...]:
    """Say which effect simulated trials have, and how much responses vary."""
    rt = trials["rt"]
    return (
        f"In these simulated trials rt changes by {experiment.beta:+g} with each unit of "
        f"{measure}; it has mean {rt.mean():.0f} and standard deviation {rt.std():.0f}.",
        f"{len(trials)} trials of {experiment.participants} participants and "
        f"{experiment.items} items",
    )


def describe_power(table: pd.DataFrame, beta: float) -> str:
    """Say how often the effect is detected, and which experiment is the smallest sufficient one."""
    rows = table.to_dict("records")
    enough = [row for row in rows if row["power"] >= WANTED]
    chosen = min(enough, key=lambda row: row["participants"] * row["items"], default=None)
    chosen = chosen or max(rows, key=lambda row: row["power"])
    share, low, high = (f"{100 * chosen[name]:.0f}" for name in ("power", "low", "high"))
    text = (
        f"{chosen['participants']} participants and {chosen['items']} items detect an "
        f"effect of {beta:g} per unit in {share} % of experiments (95 % {low} to {high} %)"
    )
    if not enough:
        return f"None of these experiments reaches a power of {100 * WANTED:.0f} %: {text}."
    return f"{text}: the smallest of these experiments with a power of {100 * WANTED:.0f} %."


def choose_r_names(names: Iterable[str]) -> dict[str, str]:
    """Choose valid names in R, all different, and none beginning with `z_`.

    brms refuses `__` anywhere and `_` at the end.

    >>> choose_r_names(["semantic_update", "0.5 share", "0,5 share", "if"])
    {'semantic_update': 'semantic_update', '0.5 share': 'x0.5_share', '0,5 share': 'x0_5_share', 'if': 'x_if'}
    """  # noqa: E501
    found: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9.]+", "_", name).strip("_")
        if not re.match(r"[A-Za-z]", plain):
            plain = f"x{plain}"
        if plain in RESERVED or plain.startswith("z_"):  # z_NAME is NAME in standard deviations
            plain = f"x_{plain}"
        unused, number = plain, 2
        while unused in found.values() or (unused in OURS and unused != name):
            unused, number = f"{plain}_{number}", number + 1
        found[name] = unused
    return found


def name_columns(joined: Joined) -> dict[str, str]:
    """Return the names in R of all controls and measures."""
    return choose_r_names([*joined.controls, *joined.measures])


def write_formula(comparison: Comparison, model: Model, *, counted: bool = False) -> str:
    """Write the formula of a model for lme4 and brms; `z_NAME` is NAME in standard deviations.

    `counted` writes proportions in the form that brms needs.
    """
    names = name_columns(comparison.joined)
    fixed = ["1", *(names[name] for name in comparison.joined.controls)]
    fixed += [f"z_{names[name]}" for name in model.measures]
    slopes = [f"(0 + z_{names[name]} | participant)" for name in model.slopes]
    random = ["(1 | participant)", "(1 | item)", *slopes]
    response = "log(response)" if comparison.log else "response"
    if counted:
        response = "ones | trials(counts)"
    return f"{response} ~ {' + '.join([*fixed, *random])}"


def write_script(comparison: Comparison, name: str) -> str:
    """Write lme4.R or brms.R: every model that was fitted, and the pairs that are compared."""
    joined, names = comparison.joined, name_columns(comparison.joined)
    labels = [names[name] for name in joined.controls if not is_numeric(joined.trials[name])]
    used = dict.fromkeys(measure for model in comparison.fits for measure in model.measures)
    models, proportions = list(comparison.fits), "counts" in joined.trials
    environment = Environment(
        loader=PackageLoader("equivocal.people"),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(f"{name}.j2").render(
        factors=["participant", "item", *labels],
        measures=[names[measure] for measure in used],
        fits=[
            (write_formula(comparison, model, counted=proportions and name == "brms.R"), fit)
            for model, fit in comparison.fits.items()
        ],
        binomial=comparison.family == "binomial",
        proportions=proportions,
        pairs=[(p, models.index(p.full), models.index(p.without)) for p in comparison.pairs],
    )
