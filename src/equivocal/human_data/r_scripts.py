"""The same models for R: lme4, and brms where a posterior is wanted.

Both scripts read `trials.csv` beside them, which has the names used here. Neither is needed by us,
and neither package is a part of this one.
"""

import re
from collections.abc import Iterable

from equivocal.human_data.comparison import Comparison, Model, is_numeric
from equivocal.human_data.joins import Joined
from equivocal.human_data.tables import PLACES
from equivocal.human_data.tables import RESERVED as TAKEN

__all__ = ["name_columns", "write_brms", "write_lme4"]

RESERVED = {"if", "else", "repeat", "while", "function", "for", "next", "break", "in"}
RESERVED |= {"TRUE", "FALSE", "NULL", "Inf", "NaN", "NA"}
OURS = {*PLACES, *TAKEN}  # columns of trials.csv beside measures and controls


def choose_r_names(names: Iterable[str]) -> dict[str, str]:
    """Choose names that R takes as they are, each different, and none beginning with `z_`.

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


def write_formula(comparison: Comparison, model: Model) -> str:
    """Write a model as lme4 and brms read it; `z_NAME` is NAME in standard deviations."""
    names = name_columns(comparison.joined)
    fixed = ["1", *(names[name] for name in comparison.joined.controls)]
    fixed += [f"z_{names[name]}" for name in model.measures]
    slopes = [f"(0 + z_{names[name]} | participant)" for name in model.slopes]
    random = ["(1 | participant)", "(1 | item)", *slopes]
    response = "log(response)" if comparison.log else "response"
    return f"{response} ~ {' + '.join([*fixed, *random])}"


def write_lme4(comparison: Comparison) -> str:
    """Write a script with every model that was fitted, the AIC we found, and the differences."""
    lines = [
        "# The models of `equivocal compare`, fitted again: Rscript lme4.R, beside trials.csv.",
        "# lmerTest adds Satterthwaite's degrees of freedom to lme4's summaries.",
        "library(lmerTest)",
        *_write_reading(comparison),
    ]
    for number, (model, fit) in enumerate(comparison.fits.items()):
        lines += [
            f"# ours: logLik {fit.log_likelihood:.4f}, AIC {fit.aic:.4f}, BIC {fit.bic:.4f}",
            f"m{number} <- lmer({write_formula(comparison, model)}, data = trials, REML = FALSE)",
        ]
    lines += ["", "# How much lower AIC and BIC are with the measure, and its coefficient by REML"]
    numbers = {model: number for number, model in enumerate(comparison.fits)}
    for pair in comparison.pairs:
        a, b = numbers[pair.full], numbers[pair.without]
        lines += [
            f"# {pair.measure.splitlines()[0]} {pair.kind}",
            f"cat(AIC(m{b}) - AIC(m{a}), BIC(m{b}) - BIC(m{a}), '\\n')",
            f"print(anova(m{b}, m{a}))",
        ]
    for full in dict.fromkeys(pair.full for pair in comparison.pairs):
        lines.append(f"print(summary(update(m{numbers[full]}, REML = TRUE)))")
    return "\n".join(lines) + "\n"


def write_brms(comparison: Comparison) -> str:
    """Write a script with the models as posteriors, compared by LOO."""
    lines = [
        "# The models of `equivocal compare` as posteriors: Rscript brms.R, beside trials.csv.",
        "# Priors are those of brms; set your own before you rely on a Bayes factor.",
        "library(brms)",
        *_write_reading(comparison),
    ]
    for number, model in enumerate(comparison.fits):
        lines.append(
            f"b{number} <- add_criterion(brm({write_formula(comparison, model)}, data = trials, "
            'cores = 4, seed = 1), "loo")'
        )
    lines.append("")
    numbers = {model: number for number, model in enumerate(comparison.fits)}
    for pair in comparison.pairs:
        lines.append(f"print(loo_compare(b{numbers[pair.without]}, b{numbers[pair.full]}))")
    for full in dict.fromkeys(pair.full for pair in comparison.pairs):
        lines.append(f"print(fixef(b{numbers[full]}))")
    return "\n".join(lines) + "\n"


def _write_reading(comparison: Comparison) -> list[str]:
    """Write the lines that read the trials and standardise the measures."""
    joined, names = comparison.joined, name_columns(comparison.joined)
    labels = [names[name] for name in joined.controls if not is_numeric(joined.trials[name])]
    used = dict.fromkeys(name for model in comparison.fits for name in model.measures)
    return [
        'trials <- read.csv("trials.csv")',
        *(f"trials${name} <- factor(trials${name})" for name in ("participant", "item", *labels)),
        *(f"trials$z_{names[n]} <- as.numeric(scale(trials${names[n]}))" for n in used),
        "",
    ]
