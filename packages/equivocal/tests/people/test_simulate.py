"""Simulated experiments have the stated effect, and analyses find it at the nominal rates."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from equivocal.people.join import join
from equivocal.people.models import compare_models
from equivocal.people.simulate import (
    ANSWERS,
    Experiment,
    analyse_once,
    build_stimuli,
    draw_trials,
    estimate_power,
    simulate,
)
from lastlayer.errors import UserError

SMALL = Experiment(participants=8, items=6, positions=2)


def test_parts_of_the_response_have_the_true_parameters() -> None:
    """Each part alone, while all others are zero or nearly so."""
    quiet = replace(SMALL, participant_sd=0.0, item_sd=0.0, noise_sd=1e-9, intercept=3.0, beta=2.0)
    trials, measures, name = simulate(quiet)
    values = trials.merge(measures, on=["item", "position"])[name]
    np.testing.assert_allclose(trials["rt"], 3 + 2 * values, atol=1e-6)
    people = simulate(replace(quiet, beta=0.0, participant_sd=5.0))[0]
    assert people.groupby("participant")["rt"].std().max() < 1e-6
    assert 1 < people.groupby("participant")["rt"].first().std() < 12
    items = simulate(replace(quiet, beta=0.0, item_sd=5.0))[0]
    assert items.groupby("item")["rt"].std().max() < 1e-6
    slopes = simulate(replace(quiet, beta=0.0, slope_sd=5.0))[0].merge(measures)
    by_person = slopes.groupby("participant")[["rt", name]]
    for _, part in by_person:
        assert abs(np.corrcoef(part["rt"], part[name])[0, 1]) == pytest.approx(1)


def test_participants_read_every_item_once_and_seeds_repeat() -> None:
    trials, _, _ = simulate(SMALL)
    assert len(trials) == 8 * 6 * 2
    assert not trials.duplicated(["participant", "item", "position"]).any()
    pd.testing.assert_frame_equal(trials, simulate(SMALL)[0])
    assert not trials["rt"].equals(simulate(replace(SMALL, seed=1))[0]["rt"])


def test_conditions_rotate_as_in_a_latin_square() -> None:
    rows = [(i, c, w) for i in range(4) for c in ("congruent", "reversal") for w in (1, 2)]
    measures = pd.DataFrame(rows, columns=["item", "condition", "position"]).astype(str)
    measures["update"] = np.arange(len(measures), dtype=float)
    trials, _, name = simulate(replace(SMALL, items=4), measures)
    assert name == "update"
    seen = trials.groupby(["participant", "item"])["condition"].nunique()
    assert len(seen) == 32
    assert (seen == 1).all()
    by_person = trials.groupby(["participant", "condition"])["item"].nunique()
    assert (by_person == 2).all()
    by_item = trials.groupby(["item", "condition"])["participant"].nunique()
    assert (by_item == 4).all()


def test_items_are_repeated_if_more_are_needed() -> None:
    measures = pd.DataFrame({"item": list("abc"), "update": [1.0, 2.0, 4.0]})
    with pytest.raises(UserError, match="have 3 items with a value of update, and 6 are wanted"):
        simulate(SMALL, measures)
    stimuli, _ = build_stimuli(measures)
    fit = analyse_once(SMALL, np.random.default_rng(0), stimuli)
    assert fit.trials == 8 * 6
    alike, _ = build_stimuli(measures.assign(update=[1.0, 1.0, 2.0]))
    with pytest.raises(UserError, match="2 items were drawn that all have the same value"):
        estimate_power(SMALL, [8], [2], 20, stimuli=alike)  # one draw of three


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"participants": 1}, "participants must be 2 or more"),
        ({"noise_sd": 0.0}, "noise_sd must be above zero"),
        ({"item_sd": -1.0}, "item_sd must be 0 or more, got -1"),
        ({"beta": float("nan")}, "beta must be a finite number"),
    ],
)
def test_impossible_experiments(change, message: str) -> None:
    with pytest.raises(UserError, match=message):
        replace(SMALL, **change)


def test_power_grows_and_is_alpha_without_an_effect() -> None:
    """60 runs each; intervals are Clopper and Pearson's, from the counts in the table."""
    weak = replace(SMALL, beta=16.0)
    table = estimate_power(weak, [6, 30], [6, 18], 60)
    power = table.set_index(["participants", "items"])["power"]
    assert power[30, 18] > 0.9
    assert power[6, 6] < 0.5
    assert power[6, 6] < power[30, 6] < power[30, 18]
    hits = (60 * table["power"]).round().to_numpy()
    low, high = stats.beta.ppf(0.025, hits, 61 - hits), stats.beta.ppf(0.975, hits + 1, 60 - hits)
    np.testing.assert_allclose(table["low"], np.where(hits > 0, low, 0))
    np.testing.assert_allclose(table["high"], np.where(hits < 60, high, 1))
    assert (table["not_converged"] == 0).all()
    assert table["mean_estimate"].to_numpy() == pytest.approx(16.0, abs=6.0)
    none = estimate_power(replace(weak, beta=0.0), [10], [8], 100).iloc[0]
    assert none["low"] < 0.05 < none["high"]
    # a point does not depend on which others are asked for
    again = estimate_power(weak, [30], [6], 60).iloc[0]
    before = table[(table["participants"] == 30) & (table["items"] == 6)].iloc[0]
    assert again["mean_estimate"] == before["mean_estimate"]


def test_power_of_answers() -> None:
    """Analyses of yes/no answers keep their level, and find what is there."""
    answers = replace(SMALL, family="binomial", **ANSWERS | {"beta": 0.0})
    none = estimate_power(answers, [20], [12], 100).iloc[0]
    assert none["low"] < 0.05 < none["high"]
    some = estimate_power(replace(answers, beta=0.9), [10, 40], [12], 60, slopes=True)
    assert some["power"].is_monotonic_increasing
    assert some["power"].iloc[1] > 0.9
    assert some["coverage"].min() > 0.8
    trials, _, _ = simulate(answers)
    assert set(trials["answer"]) == {0, 1}
    sure = replace(answers, intercept=50.0)
    assert estimate_power(sure, [8], [6], 5).iloc[0]["not_converged"] == 5
    with pytest.raises(UserError, match="family"):
        replace(answers, family="poisson")


def test_the_analysis_is_that_of_a_comparison() -> None:
    """One simulated experiment analysed by `compare` gives the same numbers per unit."""
    rng = np.random.default_rng(2)
    words = pd.DataFrame({"item": [str(i) for i in range(8)], "update": rng.normal(5, 3000, 8)})
    stimuli, _ = build_stimuli(words)
    truth = replace(SMALL, items=8, beta=0.01, slope_sd=0.02)
    fit = analyse_once(truth, np.random.default_rng(4), stimuli, slopes=True)
    participant, _, row, response = draw_trials(truth, stimuli, np.random.default_rng(4))
    trials = words.loc[row, ["item"]].reset_index(drop=True)
    trials = trials.assign(participant=participant.astype(str), response=response, row=row)
    ours = compare_models(join(trials, words), slopes=True).table.iloc[0]
    low, high = fit.intervals[1]
    mine = [fit.coefficients[1], fit.errors[1], low, high, fit.df[1], fit.p_values[1]]
    theirs = ours[["estimate", "se", "low", "high", "df", "p"]].astype(float)
    np.testing.assert_allclose(mine, theirs, rtol=1e-6)
