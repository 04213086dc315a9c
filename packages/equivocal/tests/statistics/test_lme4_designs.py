"""Thirteen designs, simulated here and fitted again by lme4, if R has it."""

import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from equivocal.statistics import MixedFit, RandomPart, fit_logistic, fit_mixed
from needs import needs

CLOSE = 1e-3  # of a standard error
LIKELIHOOD = 1e-2

DESIGNS = {  # name: the data, the fixed effects, the random effects of participant and item
    "intercepts": ("rt", "x", "(1 | p) + (1 | i)"),
    "slopes of participants": ("rt", "x", "(1 + x | p) + (1 | i)"),
    "slopes of both": ("rt", "x", "(1 + x | p) + (1 + x | i)"),
    "without correlations": ("rt", "x", "(1 | p) + (0 + x | p) + (1 | i) + (0 + x | i)"),
    "two slopes": ("rt", "x + z", "(1 + x + z | p) + (1 | i)"),
    "two slopes of both": ("rt", "x + z", "(1 + x + z | p) + (1 + x | i)"),
    "interaction": ("rt", "x + kind + x:kind", "(1 + x | p) + (1 | i)"),
    "a slope that does not vary": ("rt", "z", "(1 + z | p) + (1 | i)"),
    "answers": ("said", "x", "(1 | p) + (1 | i)"),
    "answers, slopes of participants": ("said", "x", "(1 + x | p) + (1 | i)"),
    "answers, slopes of both": ("said", "x", "(1 + x | p) + (1 + x | i)"),
    "proportions": ("share", "x", "(1 | p) + (1 + x | i)"),
    "VerbAgg": ("r2", "anger + gender + scold + shout + self", "(1 | p) + (1 | i)"),
}
SCRIPT = """
suppressMessages(library(lmerTest))
options(warn = -1)
given <- commandArgs(TRUE)
trials <- read.csv(given[1])
if (given[3] == "gaussian") {
  fit <- lmer(as.formula(given[2]), trials,
    control = lmerControl(optimizer = "bobyqa", optCtrl = list(rhoend = 1e-10)))
  df <- coef(summary(fit))[, "df"]
} else {
  fit <- lme4::glmer(as.formula(given[2]), trials, family = binomial, weights = counts,
    control = lme4::glmerControl(optimizer = "bobyqa", optCtrl = list(rhoend = 1e-9),
                                 tolPwrss = 1e-12))
  df <- rep(Inf, length(lme4::fixef(fit)))
}
shown <- c(as.numeric(logLik(fit)), lme4::fixef(fit), sqrt(diag(as.matrix(vcov(fit)))), df)
cat(format(shown, digits = 14))
"""


def draw_effects(rng, levels, sds, correlation):
    """Draw correlated effects, (levels, effects)."""
    R = np.full((len(sds),) * 2, correlation) + (1 - correlation) * np.eye(len(sds))
    return rng.multivariate_normal(np.zeros(len(sds)), R * np.outer(sds, sds), levels)


def make_trials(response: str) -> pd.DataFrame:
    """Simulate crossed trials, of which some are missing; VerbAgg's people × items by design."""
    if response == "r2":
        return make_aggression()
    rng, P, items = np.random.default_rng(7), 30, 24
    p, i = np.divmod(np.arange(P * items), items)
    x, z = rng.normal(size=(2, len(p)))
    kind = (p + i) % 2 - 0.5
    people = draw_effects(rng, P, [0.7, 0.4, 0.3], 0.5)[p]
    words = draw_effects(rng, items, [0.5, 0.3, 0.0], -0.4)[i]
    X = np.column_stack([np.ones(len(p)), x, z])
    odds = 0.3 + 0.4 * x + 0.3 * kind * x + ((people + words) * X).sum(axis=1)
    counts = rng.integers(1, 7, len(p)) if response == "share" else np.ones(len(p), int)
    share = rng.binomial(counts, expit(odds)) / counts
    about = {"p": p, "i": i, "x": x, "z": z, "kind": kind, "counts": counts}
    made = {"rt": odds + rng.normal(size=len(p)), "said": share, "share": share}
    if response == "rt":
        made["rt"] -= people[:, 2] * z  # participants do not differ in the slope of z
    return pd.DataFrame(about | made)[rng.random(len(p)) < 0.9]


def make_aggression() -> pd.DataFrame:
    """316 people say of 24 situations (4 × 3 behaviours × want or do) whether they would."""
    rng = np.random.default_rng(8)
    p, i = np.divmod(np.arange(316 * 24), 24)
    made = pd.DataFrame({"p": p, "i": i, "counts": 1})
    made["anger"] = rng.normal(0, 1, 316)[p]
    made["gender"] = (rng.random(316) < 0.25)[p] * 1.0
    made["scold"], made["shout"] = (i % 3 == 1) * 1.0, (i % 3 == 2) * 1.0
    made["self"] = (i // 12) * 1.0
    fixed = 0.5 + 0.3 * made["anger"] + 0.3 * made["gender"] - made["scold"] - 2 * made["shout"]
    odds = fixed - made["self"] + rng.normal(0, 1.3, 316)[p] + rng.normal(0, 0.6, 24)[i]
    return made.assign(r2=(rng.random(len(p)) < expit(odds)) * 1.0)


def fit_here(trials: pd.DataFrame, response: str, fixed: str, random: str) -> MixedFit:
    """Fit the formula with our functions."""
    columns = [np.ones(len(trials))]
    for term in fixed.split(" + "):
        columns.append(np.prod([trials[name] for name in term.split(":")], axis=0))
    parts = []
    for number, term in enumerate(random.split(") + (")):
        slopes, group = term.strip("()").split(" | ")
        names = [name for name in slopes.split(" + ") if name != "0"]
        values = [np.ones(len(trials)) if name == "1" else trials[name] for name in names]
        level = pd.factorize(trials[group])[0]
        effects = tuple(f"{name} by {group} {number}" for name in names)
        parts.append(RandomPart(term, level, np.column_stack(values), effects))
    y, X = trials[response].to_numpy(float), np.column_stack(columns)
    if response == "rt":
        return fit_mixed(y, X, parts, reml=True)
    return fit_logistic(y, X, parts, trials["counts"].to_numpy(float))


@pytest.mark.slow
@pytest.mark.parametrize("name", DESIGNS)
def test_fits_agree_with_lme4(name: str, tmp_path: Path) -> None:
    """Coefficients and standard errors to a thousandth of a standard error."""
    needs("lme4")
    response, fixed, random = DESIGNS[name]
    trials = make_trials(response)
    trials.to_csv(tmp_path / "trials.csv", index=False)
    family = "gaussian" if response == "rt" else "binomial"
    given = [tmp_path / "trials.csv", f"{response} ~ {fixed} + {random}", family]
    command = ["Rscript", "-e", SCRIPT, *map(str, given)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    likelihood, *numbers = map(float, done.stdout.split())
    theirs, errors, df = np.reshape(numbers, (3, -1))
    fit = fit_here(trials, response, fixed, random)
    assert fit.converged
    assert fit.log_likelihood == pytest.approx(likelihood, abs=LIKELIHOOD)
    np.testing.assert_allclose((fit.coefficients - theirs) / errors, 0, atol=CLOSE)
    np.testing.assert_allclose(fit.errors / errors, 1, atol=CLOSE)
    np.testing.assert_allclose(fit.df, df, rtol=0.01)
