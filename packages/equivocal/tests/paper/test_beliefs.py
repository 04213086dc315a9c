"""Belief traces and the calibration table, beside the exact truth."""

import numpy as np
import pytest

from equivocal.network import Run
from equivocal.paper.activations import trace_truth
from equivocal.paper.comparisons import summarise_bin, tabulate_fit, trace_beliefs
from equivocal.world import World


def test_traces_stack_the_networks(small_run: Run) -> None:
    trace = trace_beliefs(small_run.networks, "the dog chases the cat", ["agent"], ["dog", "cat"])
    assert trace.dims == ("network", "word", "probe", "unit")
    assert trace.shape == (2, 3, 1, 2)
    alone = small_run.networks[1].comprehend("the dog chases the cat", ["agent"])
    np.testing.assert_array_equal(trace[1], alone.sel(unit=["dog", "cat"]))


def test_truth_ends_where_a_sentence_becomes_impossible(paper: World) -> None:
    text = "during dinner the pizza eats the woman"
    truth = trace_truth(paper, text, ["agent", "patient"], ["woman", "pizza"])
    assert truth.sel(word="during dinner", probe="patient", unit="pizza") == pytest.approx(0.68)
    assert np.isnan(truth.isel(word=slice(1, None))).all()


def test_calibration_bins_cover_all_weight_and_certainty(small_run: Run) -> None:
    table = tabulate_fit(small_run, bins=10)
    queries = small_run.world.all_derivations.queries
    asked = queries.find_role_probes()
    possible = (queries.targets()[asked] > 1e-9).sum(axis=1)
    assert table["weight"].sum() == pytest.approx(queries.weight[asked] @ possible)
    assert table["truth"].is_monotonic_increasing
    assert table["truth"].iloc[-1] == pytest.approx(1)
    assert (table["low"] <= table["high"]).all()


def test_one_calibration_row_by_hand() -> None:
    """Two questions of weight 3 and 1, two networks; quantiles by cumulated weight."""
    row = summarise_bin(
        np.array([0.2, 0.4]), np.array([3.0, 1.0]), np.array([[0.1, 0.9], [0.3, 0.5]])
    )
    assert row == pytest.approx(
        {
            "truth": 0.75 * 0.2 + 0.25 * 0.4,
            "activation": 0.75 * (0.1 + 0.3) / 2 + 0.25 * (0.9 + 0.5) / 2,
            "low": 0.1,  # shares 0.375, 0.375, 0.125, 0.125 at 0.1, 0.3, 0.5, 0.9
            "high": 0.9,
            "weight": 4.0,
        }
    )
