"""R scripts that fit the same models by lme4, and by brms for posteriors.

They are made from templates (`templates/*.R.j2`) and read `trials.csv`, which is written beside
them with the same names of columns. This package needs neither R nor the scripts.
"""

import re
from collections.abc import Iterable

from jinja2 import Environment, PackageLoader, StrictUndefined

from equivocal.people.join import Joined
from equivocal.people.models import Comparison, Model, is_numeric
from equivocal.people.trial_tables import PLACES
from equivocal.people.trial_tables import RESERVED as TAKEN

__all__ = ["SCRIPTS", "name_columns", "write_script"]

SCRIPTS = ("lme4.R", "brms.R")
RESERVED = {"if", "else", "repeat", "while", "function", "for", "next", "break", "in"}
RESERVED |= {"TRUE", "FALSE", "NULL", "Inf", "NaN", "NA"}  # words of R
OURS = {*PLACES, *TAKEN}  # columns of trials.csv other than measures and controls


def choose_r_names(names: Iterable[str]) -> dict[str, str]:
    """Choose valid names in R, all different, and none beginning with `z_`.

    brms refuses `__` anywhere and `_` at the end.

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
