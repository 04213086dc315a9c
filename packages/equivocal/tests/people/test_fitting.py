"""Parameters fitted to shares of readings are recovered, or reported as not identified."""

import numpy as np
import pandas as pd
import pytest

from equivocal.people.fitting import WorldFit, fit_world
from equivocal.people.published import load_people, select_shares
from equivocal.people.questions import AskedItems, ask_about_items, believe_ideal
from equivocal.world import World
from lastlayer.errors import UserError

TRUTH = {"rare": 0.2, "exchange": 0.05}


@pytest.fixture(scope="module")
def asked() -> AskedItems:
    return ask_about_items(World.load("both_ways"))


def make_shares(n: int) -> pd.DataFrame:
    """Return the exact shares of a world with other values, as if n people had been asked."""
    there = ask_about_items(World.load("both_ways", **TRUTH))
    literal = believe_ideal(there)[0, :, 0]
    rows = [
        ("not literal", "active", kind, 1 - literal[there.select("active", kind)].mean(), n)
        for kind in ("unlikely", "any")
    ]
    columns = ["measure", "construction", "plausibility", "value", "participants"]
    return pd.DataFrame(rows, columns=columns)


@pytest.fixture(scope="module")
def fitted(asked: AskedItems) -> WorldFit:
    return fit_world(asked, make_shares(20_000), parameters=list(TRUTH), points=7)


def test_values_are_recovered(fitted: WorldFit) -> None:
    assert fitted.deviance == pytest.approx(0, abs=1e-6)
    of = fitted.estimates.set_index("parameter")
    for name, value in TRUTH.items():
        assert of.loc[name, "estimate"] == pytest.approx(value, rel=0.01)
        assert of.loc[name, "low"] < value < of.loc[name, "high"]
        assert of.loc[name, "identified"] == "yes"
    assert of.loc["deletion", "identified"] == "not fitted"
    assert fitted.values["deletion"] == 0.02
    np.testing.assert_allclose(fitted.shares["fitted"], fitted.shares["value"], rtol=1e-3)


def test_a_profile_is_least_at_the_estimate(fitted: WorldFit) -> None:
    for name, own in fitted.profiles.groupby("parameter"):
        at = own["deviance"].to_numpy().argmin()
        estimate = fitted.values[str(name)]
        assert own["value"].iloc[at] == pytest.approx(estimate, rel=1e-6)
        deviance = own["deviance"].to_numpy()
        assert (np.diff(deviance[: at + 1]) <= 1e-6).all()
        assert (np.diff(deviance[at:]) >= -1e-6).all()


def test_parameters_that_are_not_identified_are_reported(asked: AskedItems) -> None:
    """Actives are so rarely passives without "was" and "by" that deletion hardly matters."""
    fit = fit_world(asked, make_shares(20), parameters=["deletion"], points=3)
    row = fit.estimates.set_index("parameter").loc["deletion"]
    assert row["identified"] == "no"
    assert np.isnan([row["low"], row["high"]]).all()
    assert fit.profiles["deviance"].max() - fit.deviance < 3.84
    # but too many exchanges are excluded, by actives that are seldom misread
    fit = fit_world(asked, select_shares(load_people()), parameters=["exchange"], points=5)
    row = fit.estimates.set_index("parameter").loc["exchange"]
    assert 0.02 < row["high"] < 0.3


def test_mistakes_are_explained(asked: AskedItems) -> None:
    shares = select_shares(load_people())
    with pytest.raises(UserError, match="unknown parameter 'rar': did you mean 'rare'"):
        fit_world(asked, shares, parameters=["rar"])
    with pytest.raises(UserError, match="odd of world 'both_ways' does not change how"):
        fit_world(asked, shares, parameters=["odd"])
    with pytest.raises(UserError, match="world 'slips' has no unlikely sentences of construction"):
        fit_world(ask_about_items(World.load("slips")), shares)
    with pytest.raises(UserError, match="world 'word_order' has no parameters to vary"):
        fit_world(ask_about_items(World.load("word_order")), shares)
