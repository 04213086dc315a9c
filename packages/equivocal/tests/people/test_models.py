"""Comparisons of models with and without measures, and the scripts of the same models for R."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from equivocal.people.designs import Model
from equivocal.people.join import join
from equivocal.people.models import check_size, compare_models
from equivocal.people.run_compare import list_columns, write_formula, write_script
from equivocal.people.simulate import Experiment, estimate_power, simulate
from equivocal.statistics import RandomPart, fit_mixed
from lastlayer.errors import UserError
from tests.people.made_up import log_likelihood

TRUTH = Experiment(participants=16, items=12, positions=2, beta=40.0, seed=1)


def made(truth=TRUTH, **changes):
    trials, measures, _ = simulate(truth)
    trials = trials.rename(columns={"rt": "response"}).assign(row=range(len(trials)), **changes)
    return trials, measures


@pytest.fixture(scope="module")
def comparison():
    return compare_models(join(*made()))


def test_the_measure_with_the_effect_wins() -> None:
    """`rival` correlates with it, so it looks good alone; beside it, it adds nothing.

    Twenty experiments. A measure without effect has ΔAIC > 0 where χ² > 2, in 16 % of cases: nine
    or more of twenty with probability 0.002. Five or more intervals of 95 % that miss: 0.003.
    """
    truth = replace(TRUTH, positions=3)
    tables = [
        compare_models(join(*made(replace(truth, seed=seed)))).table.set_index(["measure", "model"])
        for seed in range(20)
    ]
    assert all(table["converged"].all() for table in tables)
    aic = pd.DataFrame([table["delta_aic"] for table in tables])
    assert (aic["surprise", "alone"] > aic["rival", "alone"]).sum() >= 19
    assert (aic["surprise", "together"] > 0).sum() >= 19
    assert (aic["rival", "together"] > 0).sum() < 9
    assert (aic["rival", "alone"] > 0).sum() > (aic["rival", "together"] > 0).sum()
    for measure, beta in (("surprise", truth.beta), ("rival", 0.0)):
        rows = [table.loc[(measure, "together")] for table in tables]
        assert sum(not row["low"] < beta < row["high"] for row in rows) < 5


def test_numbers_follow_from_likelihoods_written_out(comparison) -> None:
    """AIC, BIC and χ² from scipy's multivariate normal at the fitted parameters."""
    trials = comparison.joined.trials
    x = trials["surprise"].to_numpy()
    y = trials["response"].to_numpy()
    z = (x - x.mean()) / x.std(ddof=1)
    parts = [RandomPart(name, pd.factorize(trials[name])[0]) for name in ("participant", "item")]
    n, ones = len(y), np.ones(len(y))
    ll = [
        log_likelihood(y, X, parts, fit_mixed(y, X, parts))
        for X in (ones[:, None], np.column_stack([ones, z]))
    ]
    row = comparison.table.iloc[0]
    assert (row["measure"], row["model"]) == ("surprise", "alone")
    assert row["log_likelihood"] == pytest.approx(ll[1], rel=1e-10)
    assert row["chi2"] == pytest.approx(2 * (ll[1] - ll[0]), abs=1e-5)
    assert row["delta_aic"] == pytest.approx(2 * (ll[1] - ll[0]) - 2, abs=1e-5)
    assert row["delta_bic"] == pytest.approx(2 * (ll[1] - ll[0]) - np.log(n), abs=1e-5)
    assert row["aic"] == pytest.approx(2 * 5 - 2 * ll[1])
    reml = fit_mixed(y, np.column_stack([ones, x]), parts, reml=True)
    assert row["estimate"] == pytest.approx(reml.coefficients[1], rel=1e-6)
    assert (row["low"], row["high"]) == pytest.approx(reml.intervals[1], rel=1e-5)
    for name in ("estimate", "low", "high"):
        standardised = row[name] * x.std(ddof=1) / y.std(ddof=1)
        assert row[f"std_{name}"] == pytest.approx(standardised)


def test_logarithm() -> None:
    """exp(y) analysed with `log` is y; y of the size of log milliseconds."""
    small = replace(TRUTH, intercept=6.0, beta=0.1, participant_sd=0.2, item_sd=0.1, noise_sd=0.3)
    trials, measures = made(small)
    plain = compare_models(join(trials, measures))
    logged = compare_models(
        join(trials.assign(response=np.exp(trials["response"])), measures), log=True
    )
    numeric = plain.table.select_dtypes("number").columns
    pd.testing.assert_frame_equal(plain.table[numeric], logged.table[numeric], rtol=1e-6)
    with pytest.raises(UserError, match="responses above zero"):
        compare_models(join(trials.assign(response=trials["response"] - 6), measures), log=True)


def test_controls_explain_their_share_of_the_response() -> None:
    """A trend over positions is noise unless position is in the model."""
    trials, measures = made()
    trials["response"] += 150 * trials["position"].astype(int)
    loose = compare_models(join(trials, measures, ["surprise"]))
    held = compare_models(join(trials, measures, ["surprise"], ["position"]))
    assert held.table["se"].iloc[0] < 0.9 * loose.table["se"].iloc[0]
    assert held.table["low"].iloc[0] < TRUTH.beta < held.table["high"].iloc[0]
    assert any("2 word positions are taken together" in note for note in loose.notes)
    with pytest.raises(UserError, match="surprise is determined by the controls"):
        compare_models(
            join(trials, measures.assign(copy=measures["surprise"]), ["surprise"], ["copy"])
        )


def test_slopes_make_intervals_honest_where_participants_differ() -> None:
    varied = replace(TRUTH, slope_sd=40.0, participants=12)
    data = join(*made(varied), ["surprise"])
    narrow, wide = (
        compare_models(data).table.iloc[0],
        compare_models(data, slopes=True).table.iloc[0],
    )
    assert wide["se"] > 1.3 * narrow["se"]
    assert wide["df"] < 20  # participants are the sample
    assert wide["low"] < varied.beta < wide["high"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"participant": "p1"}, "all joined trials have the same participant"),
        ({"participant": lambda t: t["row"].astype(str)}, "every participant has one trial only"),
    ],
)
def test_data_that_cannot_be_modelled_are_refused(changes, message: str) -> None:
    trials, measures = made()
    with pytest.raises(UserError, match=message):
        compare_models(join(trials.assign(**changes), measures))


def test_slopes_count_towards_the_limit_of_random_effects() -> None:
    check_size(4988, 12, 0, "")
    check_size(2488, 12, 1, "")
    message = re.escape(
        "4989 participants and 12 items (each with 3) make 15003 random effects, and"
    )
    with pytest.raises(UserError, match=f"{message} at most 5000 can be fitted here; ask fewer."):
        check_size(4989, 12, 2, "ask fewer")
    with pytest.raises(UserError, match="5001 random effects.*; lower --participants or --items"):
        estimate_power(TRUTH, [4, 4989], [12], 1)


def test_constant_and_collinear_measures_are_noted() -> None:
    trials, measures = made()
    found = compare_models(join(trials, measures.assign(flat=1.0, double=2 * measures["surprise"])))
    assert "flat is the same in every joined trial and is left out" in found.notes
    assert (
        "surprise is determined by other measures, so it is fitted alone and not together with "
        "them; choose with --measure" in found.notes
    )
    fitted = {kind: list(own["measure"]) for kind, own in found.table.groupby("model")}
    assert fitted == {"alone": ["surprise", "rival", "double"], "together": ["rival", "double"]}
    with pytest.raises(
        UserError, match="flat is the same in every joined trial, .* with --measure"
    ):
        compare_models(join(trials, measures.assign(flat=1.0), ["flat"]))


def test_scripts_contain_the_fitted_models(comparison) -> None:
    script = write_script(comparison)
    fitted = re.findall(r"^m\d+ <- lmer\((.*), data = trials, REML = FALSE\)$", script, re.M)
    assert fitted == [write_formula(comparison, model) for model in comparison.fits]
    assert fitted == [
        "response ~ 1 + (1 | participant) + (1 | item)",
        "response ~ 1 + z_surprise + (1 | participant) + (1 | item)",
        "response ~ 1 + z_rival + (1 | participant) + (1 | item)",
        "response ~ 1 + z_surprise + z_rival + (1 | participant) + (1 | item)",
    ]
    aics = [float(aic) for aic in re.findall(r"AIC ([-\d.]+),", script)]
    np.testing.assert_allclose(aics, [fit.aic for fit in comparison.fits.values()], atol=1e-4)
    pairs = re.findall(r"^cat\(AIC\(m(\d)\) - AIC\(m(\d)\)", script, re.M)
    deltas = [aics[int(without)] - aics[int(full)] for without, full in pairs]
    np.testing.assert_allclose(deltas, comparison.table["delta_aic"], atol=1e-3)


def test_every_name_in_a_script_is_a_column_of_its_data() -> None:
    """Odd names become valid in R, and labels factors; slopes and logarithms are included."""
    trials, measures = made(replace(TRUTH, noise_sd=10.0))
    measures = measures.rename(columns={"surprise": "½ surprise", "rival": "rival (2)"})
    measures["my kind"] = np.where(np.arange(len(measures)) % 3 == 0, "noun", "verb")
    found = compare_models(join(trials, measures, (), ["my kind"]), log=True, slopes=True)
    script = write_script(found)
    assert 'trials[["my kind"]] <- factor(trials[["my kind"]])' in script
    assert write_formula(found, Model(("rival (2)",), ("rival (2)",))) == (
        "log(response) ~ 1 + `my kind` + `z_rival (2)` + (1 + `z_rival (2)` | participant) + "
        "(1 | item)"
    )
    read = set(map(json.loads, re.findall(r"trials\[\[(\".*?\")\]\]", script)))
    made_there = {f"z_{name}" for name in found.joined.measures}
    assert read - made_there <= set(list_columns(found.joined))
    assert made_there < read
