"""Shares of variance: of a known function, and of choices that explain nothing."""

import numpy as np
import pandas as pd
import pytest

from equivocal.statistics.summaries import compute_variance_shares


def test_shares_of_variance_are_those_of_a_known_function() -> None:
    """Y = 2a + b + e with a, b = ±1 and Var(e) = 1: shares 4/6 and 1/6; c explains nothing."""
    rng = np.random.default_rng(0)
    a, b, c = rng.choice([-1, 1], (3, 2000))
    table = pd.DataFrame({"a": a, "b": b, "c": c, "y": 2 * a + b + rng.normal(size=2000)})
    found = compute_variance_shares(table, "y", ["a", "b", "c"], repeats=40).set_index("choice")
    # standard errors of these shares are below 0.02
    assert found.loc["a", "share"] == pytest.approx(4 / 6, abs=0.06)
    assert found.loc["b", "share"] == pytest.approx(1 / 6, abs=0.06)
    assert abs(found.loc["c", "share"]) < 0.01
    assert (found["low"] < found["share"]).all()
    assert (found["share"] < found["high"]).all()


def test_a_choice_about_training_is_not_credited_with_chance() -> None:
    """Six trainings that differ by chance: a choice with three values explains nothing of it."""
    shares = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        group = np.repeat(np.arange(6), 20)
        y = rng.normal(size=6)[group] + 0.1 * rng.normal(size=120)
        table = pd.DataFrame({"group": group, "choice": group % 3, "y": y})
        found = compute_variance_shares(table, "y", ["choice"], units=["group"], repeats=20)
        shares.append(found.set_index("choice").loc["choice", "share"])
    # without the correction the mean is 2/5; its standard error is about 0.08
    assert abs(np.mean(shares)) < 0.25


def test_a_choice_about_posteriors_is_not_credited_with_chance() -> None:
    """Posteriors that differ by chance, each read four times: six values explain nothing of it."""
    shares = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        key = np.repeat(np.arange(60), 4)
        y = rng.normal(size=60)[key] + 0.1 * rng.normal(size=240)
        table = pd.DataFrame({"group": key // 4, "key": key, "choice": key % 6, "y": y})
        found = compute_variance_shares(table, "y", ["choice"], units=["group", "key"], repeats=20)
        shares.append(found.set_index("choice").loc["choice", "share"])
    # shuffled row by row, their mean is 5/59 − 5/239 = 0.064; its standard error is about 0.01
    assert abs(np.mean(shares)) < 0.035


def test_interval_of_trainings_together_covers_their_share() -> None:
    """Twelve trainings of four posteriors that all differ by chance alone: the share is 0."""
    ends = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        key = np.repeat(np.arange(48), 4)
        y = rng.normal(size=48)[key] + 0.1 * rng.normal(size=192)
        table = pd.DataFrame({"group": key // 4, "key": key, "y": y})
        found = compute_variance_shares(table, "y", [], units=["group", "key"], repeats=60)
        ends.append(found.loc[0, ["low", "high"]].to_list())
    # centred at 0; those of a bootstrap with replacement are centred at −0.08
    assert abs(np.mean(ends)) < 0.05
