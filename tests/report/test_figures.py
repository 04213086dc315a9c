"""Figures show what they are given; files are whole and the same each time."""

from pathlib import Path

import numpy as np
import pytest

from equivocal.gestalt import Run
from equivocal.report.activation_figures import draw_beliefs
from equivocal.report.learning_figures import draw_calibration, draw_learning
from equivocal.report.style import save_figure
from equivocal.study import tabulate_fit, trace_beliefs, trace_truth
from equivocal.study.summaries import append_means, tabulate_traces


def test_learning_figure_draws_every_network_and_the_mean(small_run: Run) -> None:
    loss, accuracy = draw_learning(append_means(small_run.curves, "epoch"), all_zeros=0.87).axes
    assert len(loss.lines) == len(accuracy.lines) - 1 == 2 * (2 + 1)
    assert set(accuracy.lines[-1].get_ydata()) == {0.87}
    drawn = loss.lines[2].get_ydata()
    expected = small_run.curves.groupby("epoch")["train_loss"].mean()
    np.testing.assert_allclose(drawn, expected)


def test_calibration_figure_draws_means_and_ranges(small_run: Run) -> None:
    table = tabulate_fit(small_run)
    (axes,) = draw_calibration(table, 0.0123).axes
    assert axes.get_title().endswith("mean absolute error 0.0123")
    np.testing.assert_allclose(axes.lines[1].get_ydata(), table["activation"])
    ends = [segment[:, 1] for segment in axes.collections[0].get_segments()]
    np.testing.assert_allclose(ends, table[["low", "high"]])


def test_belief_figure_has_bars_for_networks_and_ticks_for_the_truth(small_run: Run) -> None:
    texts = {"one": "the dog chases the cat", "other": "the cat chases the dog"}
    where = (["agent", "patient"], ["dog", "cat"])
    traces = {name: trace_beliefs(small_run.networks, text, *where) for name, text in texts.items()}
    truths = {name: trace_truth(small_run.world, text, *where) for name, text in texts.items()}
    figure = draw_beliefs(tabulate_traces(traces, truths))
    assert len(figure.axes) == 4
    heights = [bar.get_height() for bar in figure.axes[0].patches]
    expected = traces["one"].sel(probe="agent").mean("network")
    np.testing.assert_allclose(heights, expected.transpose("unit", "word").values.ravel())
    by_label = {drawn.get_label(): drawn for drawn in figure.axes[3].collections}
    exact = truths["other"].sel(probe="patient", unit="dog")
    np.testing.assert_allclose(by_label["exact belief"].get_offsets()[:, 1], exact)


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_saved_figures_are_the_same_each_time(small_run: Run, tmp_path: Path, kind: str) -> None:
    for name in ("a", "b"):
        save_figure(draw_learning(append_means(small_run.curves, "epoch"), 0.87), tmp_path, name)
    first, second = ((tmp_path / f"{name}.{kind}").read_bytes() for name in ("a", "b"))
    assert len(first) > 5_000
    assert first == second
