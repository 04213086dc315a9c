"""Estimates pooled over networks, slopes of items, and interactions."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from equivocal.people.join import join
from equivocal.people.models import compare_models
from equivocal.people.simulate import Experiment, simulate
from equivocal.statistics.fits import apply_rubin
from lastlayer.errors import UserError

TRUTH = Experiment(participants=24, items=16, positions=3, beta=30.0, noise_sd=60.0, seed=2)


def made(truth: Experiment = TRUTH) -> tuple[pd.DataFrame, pd.DataFrame]:
    trials, measures, _ = simulate(truth)
    return trials.rename(columns={"rt": "response"}).assign(row=range(len(trials))), measures


def copy_networks(measures: pd.DataFrame, scales, noise: float) -> pd.DataFrame:
    """Return the measures of several networks, whose `surprise` is rescaled and noisy."""
    rng, parts = np.random.default_rng(0), []
    for network, scale in enumerate(scales):
        errors = rng.normal(0, noise, len(measures))
        surprise = scale * (measures["surprise"] + errors)
        parts.append(measures.assign(network=network, surprise=surprise))
    return pd.concat(parts)


def test_rubins_rules_by_hand() -> None:
    q, U = np.array([[1.0, 5.0], [2.0, 5.0], [3.0, 5.0]]), np.full((3, 2), 0.5)
    estimate, error, df, share = apply_rubin(q, U, np.array([50.0, 50.0]))
    assert estimate.tolist() == [2, 5]
    np.testing.assert_allclose(error**2, [0.5 + 4 / 3, 0.5])
    np.testing.assert_allclose(share, [(4 / 3) / (0.5 + 4 / 3), 0])
    observed = 51 / 53 * 50 * (1 - share)
    np.testing.assert_allclose(df, 1 / (share**2 / 2 + 1 / observed))


def test_rescaled_networks_give_the_estimate_of_their_average() -> None:
    trials, measures = made()
    networks = copy_networks(measures, [0.5, 1.0, 1.5], 1e-4)
    plain = compare_models(join(trials, measures, ["surprise", "rival"])).table
    pooled = compare_models(join(trials, networks, ["surprise", "rival"])).table
    columns = ["estimate", "se", "low", "high", "delta_aic"]
    np.testing.assert_allclose(pooled[columns], plain[columns], rtol=1e-2, atol=1e-3)
    of_surprise = pooled[(pooled["measure"] == "surprise") | (pooled["model"] == "together")]
    assert (of_surprise["networks"] == 3).all()
    assert of_surprise["network_share"].max() < 1e-5
    assert plain["networks"].tolist() == [1] * 4


def test_noise_of_networks_widens_the_interval_and_does_not_shrink_the_estimate() -> None:
    """Each network alone would have an effect of 30/(1 + 0.8²) = 18; P(4 of 10 misses) is 0.001."""
    missed = 0
    for seed in range(10):
        trials, measures = made(replace(TRUTH, seed=seed))
        networks = copy_networks(measures, [1.0] * 10, 0.8)
        row = compare_models(join(trials, networks, ["surprise"])).table.iloc[0]
        truth = 30 / (1 + 0.8**2 / 10)  # per unit of the average of ten
        missed += not row["low"] < truth < row["high"]
        assert row["network_share"] > 0.02
    assert missed < 4


def test_slopes_of_items_make_intervals_honest() -> None:
    varied = replace(TRUTH, item_slope_sd=30.0)
    data = join(*made(varied), ["surprise"])
    narrow, wide = (compare_models(data, slopes=way).table.iloc[0] for way in (False, True))
    assert wide["se"] > 1.3 * narrow["se"]
    assert wide["df"] < 30  # items are the sample
    assert wide["low"] < TRUTH.beta < wide["high"]


def test_interactions_with_a_condition() -> None:
    """The slope is 30 in one condition and 50 in the other: their mean, and the difference."""
    trials, measures = made()
    trials["condition"] = np.where(np.arange(len(trials)) // 3 % 2 == 0, "a", "b")
    x = trials.merge(measures, on=["item", "position"])["surprise"]
    trials["response"] += np.where(trials["condition"] == "b", 15 + 20 * x, 0)
    found = compare_models(join(trials, measures, ["surprise"], ["condition"]), by="condition")
    rows = found.table.set_index("measure")
    assert rows.index.tolist() == ["surprise", "surprise:b"]
    for name, truth in (("surprise", 40), ("surprise:b", 20)):
        assert rows.loc[name, "low"] < truth < rows.loc[name, "high"]
    assert rows["se"].max() < 6
    with pytest.raises(UserError, match="--by item: that column has 16 values"):
        compare_models(join(trials, measures, ["surprise"]), by="item")


def test_tables_of_our_networks_enter_one_measure_for_each_potential_together() -> None:
    trials, measures = made()
    renamed = measures.rename(columns={"surprise": "semantic_update", "rival": "p600"})
    table = renamed.assign(surprisal=measures["surprise"] + 1, epistemic=np.nan, belief_agent=1)
    table["bayesian_surprise"] = table["p600"].where(table["position"] != "1")
    compared = compare_models(join(trials, table))
    assert any("some of the words: bayesian_surprise;" in note for note in compared.notes)
    found = compared.table
    assert (found["trials"] == len(trials)).all()
    fitted = {kind: list(own["measure"]) for kind, own in found.groupby("model")}
    assert fitted == {
        "alone": ["semantic_update", "p600", "surprisal"],
        "together": ["semantic_update", "p600"],
    }
