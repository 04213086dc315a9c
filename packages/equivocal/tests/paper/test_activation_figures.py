"""Bars show the means of the units and words that their labels name."""

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

from equivocal.paper.activation_figures import (
    draw_activations,
    draw_calibration,
    draw_word_grid,
    tabulate_calibration,
    tabulate_critical,
    tabulate_words,
)
from tests.paper.made_up import ITEMS, OTHERS, PROBES, activations


def draw_critical(dataset: xr.Dataset, condition: str, **how) -> Figure:
    return draw_activations(tabulate_critical(dataset, condition, **how), condition)


def draw_words(dataset: xr.Dataset, condition: str, estimate: str) -> Figure:
    return draw_word_grid(tabulate_words(dataset, condition, estimate), condition, estimate)


def test_bars_at_the_critical_word_are_means_over_networks_and_items() -> None:
    dataset = activations()
    for condition, sampler in (("congruent", "paper"), ("reversal", "converged")):
        agent, patient = draw_critical(dataset, condition, sampler=sampler).axes
        estimates = (dataset["mle"], dataset["mean"].sel(sampler=sampler, prior=1.0))
        for axes, probe in ((agent, "agent"), (patient, "patient")):
            expected, spreads = [], []
            for values in estimates:
                for role in ("agent", "patient"):
                    by_item = [
                        values.sel(
                            condition=condition,
                            item=item,
                            probe=probe,
                            unit=unit
                            if (role == "agent") == (condition == "reversal")
                            else "woman",
                            position=int(dataset["critical"].sel(condition=condition, item=item)),
                        ).mean()
                        for item, unit in ITEMS.items()
                    ]
                    expected.append(np.mean(by_item))
                    spreads.append(np.std(by_item, ddof=1))
            np.testing.assert_allclose([bar.get_height() for bar in axes.patches], expected)
            lines = [s for c in axes.containers if hasattr(c, "errorbar") for s in _ends(c)]
            np.testing.assert_allclose(lines, 2 * np.array(spreads))
            assert axes.get_title("left") == f"{probe} probe"


def _ends(container) -> list[float]:
    """Return the lengths of the error bars."""
    (bars,) = container.errorbar.lines[2]
    return [np.ptp(segment[:, 1]) for segment in bars.get_segments()]


@pytest.mark.parametrize("estimate", ["mle", "paper", "converged"])
def test_word_grid_has_a_row_for_each_word_and_a_column_for_each_probe(estimate: str) -> None:
    dataset = activations()
    figure = draw_words(dataset, "reversal", estimate)
    grid = np.array(figure.axes).reshape(4, 4)
    assert [axes.get_title() for axes in grid[0]] == [f"{probe} probe" for probe in PROBES]
    rows = ["word 1", "word 2:\nagent", "word 3:\ncritical word", "word 4:\npatient"]
    assert [axes.get_ylabel() for axes in grid[:, 0]] == rows
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert set(labels) == {
        "indicated agent = plausible patient",
        "indicated patient = plausible agent",
        "non-relevant (mean)",
    }
    values = dataset["mle"] if estimate == "mle" else dataset["mean"].sel(sampler=estimate, prior=1)
    here = values.sel(condition="reversal", position=2, probe="agent").mean("network")
    named = np.mean([here.sel(item=item, unit=unit) for item, unit in ITEMS.items()])
    rest = np.mean([
        here.sel(item=item, unit=[u for u in (*ITEMS.values(), *OTHERS) if u != unit]).mean()
        for item, unit in ITEMS.items()
    ])  # fmt: skip
    heights = [bar.get_height() for bar in grid[1, 1].patches]
    np.testing.assert_allclose(heights, [named, here.sel(unit="woman").mean(), rest])


ESTIMATES = ["mle", "paper", "converged"]


def test_calibration_has_a_point_for_each_bin_with_exact_beliefs() -> None:
    dataset = activations()
    dataset["truth"] = (dataset["truth"] > 0.1).where(dataset["truth"].notnull()).astype(float)
    figure = draw_calibration(tabulate_calibration(dataset), ESTIMATES)
    assert [axes.get_title().split("\n")[0] for axes in figure.axes] == [
        "trained network (MLE)",
        "Bayesian, paper's sampler",
        "Bayesian, converged",
    ]
    axes = figure.axes[0]
    points = np.transpose(axes.lines[1].get_data())
    one = float(dataset["mle"].where(dataset["truth"] == 1).mean())
    tracked = [
        dataset["mle"].where(dataset["truth"] == 0).sel(item=item, unit=["woman", unit]).values
        for item, unit in ITEMS.items()
    ]
    np.testing.assert_allclose(points, [(0, np.nanmean(tracked)), (1, one)])
