"""Our fits agree with those of lme4, which `tests/data/lme4/fit.R` wrote to a table."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from equivocal.statistics import RandomPart, fit_logistic, fit_mixed

FOLDER = Path(__file__).parents[1] / "data" / "lme4"
THEIRS = pd.read_csv(FOLDER / "fits.csv").to_dict("records")
ESTIMATES, LIKELIHOOD = 1e-3, 1e-2  # in log odds, or standard deviations of the response


@pytest.mark.parametrize(
    "theirs", THEIRS, ids=[" ".join((fit["size"], fit["kind"], fit["family"])) for fit in THEIRS]
)
def test_fits_agree_with_lme4(theirs: dict[str, float]) -> None:
    """All 240 trials, or 96 of them; one of the fits has a variance of zero."""
    trials = pd.read_csv(FOLDER / "trials.csv")
    if theirs["size"] == "small":
        trials = trials[(trials["participant"] < 8) & (trials["item"] < 6)]
    assert len(trials) == theirs["trials"]
    person, item, x = (trials[name].to_numpy() for name in ("participant", "item", "x"))
    parts = [RandomPart("participant", person), RandomPart("item", item)]
    if theirs["kind"] == "slopes":
        parts.append(RandomPart("slope", person, x))
    X, unit = np.column_stack([np.ones(len(x)), x]), 1.0
    if theirs["family"] == "binomial":
        found = likeliest = fit_logistic(trials["said"].to_numpy(float), X, parts)
    else:
        y, unit = trials["rt"].to_numpy(), float(trials["rt"].std())
        likeliest, found = (fit_mixed(y, X, parts, reml=reml) for reml in (False, True))
    assert found.converged
    assert likeliest.log_likelihood == pytest.approx(theirs["logLik"], abs=LIKELIHOOD)
    wanted = [[theirs["intercept"], theirs["x"]], [theirs["intercept_error"], theirs["x_error"]]]
    ours = np.array([found.coefficients, found.errors])
    np.testing.assert_allclose(ours / unit, np.array(wanted) / unit, rtol=0, atol=ESTIMATES)
