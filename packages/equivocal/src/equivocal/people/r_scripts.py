"""The R script that fits the same models by lme4, for each network too.

It is made from `templates/lme4.R.j2` and reads `trials.csv`, which is written beside it with the
same names of columns. This package needs neither R nor the script.
"""

import re
from collections.abc import Iterable

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from equivocal.people.designs import FACTORS, Model, is_numeric
from equivocal.people.join import Joined
from equivocal.people.models import Comparison
from equivocal.people.trial_tables import PLACES
from equivocal.people.trial_tables import RESERVED as TAKEN

__all__ = ["list_columns", "write_script"]

RESERVED = {"if", "else", "repeat", "while", "function", "for", "next", "break", "in"}
RESERVED |= {"TRUE", "FALSE", "NULL", "Inf", "NaN", "NA"}  # words of R
OURS = {*PLACES, *TAKEN}  # columns of trials.csv other than measures and controls


def choose_r_names(names: Iterable[str]) -> dict[str, str]:
    """Choose valid names in R, all different, and none beginning with `z_`.

    >>> choose_r_names(["semantic_update", "0.5 share", "0,5 share", "if"])
    {'semantic_update': 'semantic_update', '0.5 share': 'x0.5_share', '0,5 share': 'x0_5_share', 'if': 'x_if'}
    """  # noqa: E501
    chosen: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9.]+", "_", name).strip("_")
        if not re.match(r"[A-Za-z]", plain):
            plain = f"x{plain}"
        if plain in RESERVED or plain.startswith("z_"):  # z_NAME is NAME in standard deviations
            plain = f"x_{plain}"
        unused, number = plain, 2
        while unused in chosen.values() or (unused in OURS and unused != name):
            unused, number = f"{plain}_{number}", number + 1
        chosen[name] = unused
    return chosen


def name_columns(joined: Joined) -> dict[str, str]:
    """Return the names in R of all controls and measures."""
    return choose_r_names([*joined.controls, *joined.measures])


def list_columns(joined: Joined) -> pd.DataFrame:
    """Return the trials with names in R, and the measures of networks as NAME.1, NAME.2, …"""
    names = name_columns(joined)
    parts = [joined.trials.rename(columns=names)]
    for number, own in enumerate(joined.networks, start=1):
        parts.append(
            own.rename(columns={name: f"{names[name]}.{number}" for name in map(str, own)})
        )
    return pd.concat(parts, axis=1)


def write_formula(comparison: Comparison, model: Model) -> str:
    """Write the formula of a model for lme4; `z_NAME` is NAME in standard deviations."""
    names = name_columns(comparison.joined)
    fixed = ["1", *(names[name] for name in comparison.joined.controls)]
    fixed += [f"z_{names[name]}" for name in model.measures]
    random = [
        f"({' + '.join(['1', *(f'z_{names[name]}' for name in slopes)])} | {factor})"
        for factor, slopes in zip(FACTORS, model[1:], strict=True)
    ]
    response = "log(response)" if comparison.log else "response"
    return f"{response} ~ {' + '.join([*fixed, *random])}"


def write_script(comparison: Comparison) -> str:
    """Write lme4.R: every model that was fitted, and the pairs that are compared."""
    joined, names = comparison.joined, name_columns(comparison.joined)
    labels = [names[name] for name in joined.controls if not is_numeric(joined.trials[name])]
    used = dict.fromkeys(measure for model in comparison.fits for measure in model.measures)
    models = list(comparison.fits)
    environment = Environment(
        loader=PackageLoader("equivocal.people"),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("lme4.R.j2").render(
        factors=["participant", "item", *labels],
        measures=[names[measure] for measure in used],
        fits=[(write_formula(comparison, model), fit) for model, fit in comparison.fits.items()],
        binomial=comparison.family == "binomial",
        proportions="counts" in joined.trials,
        pairs=[(p, models.index(p.full), models.index(p.without)) for p in comparison.pairs],
        pooled=[
            (write_formula(comparison, model), [names[name] for name in model.measures])
            for model in dict.fromkeys(pair.full for pair in comparison.pairs)
        ],
        networks=len(joined.networks),
    )
