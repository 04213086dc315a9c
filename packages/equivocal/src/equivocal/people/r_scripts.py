"""The R script that fits the same models by lme4, for each network too.

It is made from `templates/lme4.R.j2` and reads `trials.csv`, which is written beside it. This
package needs neither R nor the script.
"""

import re

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from equivocal.people.designs import FACTORS, Model, is_numeric
from equivocal.people.join import Joined
from equivocal.people.models import Comparison

__all__ = ["list_columns", "write_script"]

RESERVED = {"if", "else", "repeat", "while", "function", "for", "next", "break", "in"}  # by R


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
        proportions="counts" in joined.trials,
        pairs=[(p, models.index(p.full), models.index(p.without)) for p in comparison.pairs],
        pooled=[
            (write_formula(comparison, model), model.measures)
            for model in dict.fromkeys(pair.full for pair in comparison.pairs)
        ],
        networks=len(joined.networks),
    )
