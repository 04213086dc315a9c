"""Entropies, exact beliefs and NUTS."""

import numpy as np
from scipy.special import entr

from equivocal.report.learning_figures import draw_calibration_panels
from equivocal.report.uncertainty_figures import draw_nuts_comparison, draw_uncertainty
from equivocal.study.summaries import tabulate_calibration, tabulate_entropies
from tests.report.made_up import ITEMS, activations, nuts

ESTIMATES = ["mle", "paper", "converged"]


def test_entropy_bars_stand_on_each_other_and_add_up_to_the_total() -> None:
    dataset = activations()
    figure = draw_uncertainty(tabulate_entropies(dataset))
    assert [axes.get_title() for axes in figure.axes] == [
        "congruent: Bayesian, paper's sampler",
        "reversal: Bayesian, paper's sampler",
        "congruent: Bayesian, converged",
        "reversal: Bayesian, converged",
    ]
    chosen = dataset.sel(sampler="paper", prior=1.0, condition="reversal")
    parts = {"total": [], "expected": [], "mle": []}
    for probe in ("agent", "patient"):
        for item, unit in ITEMS.items():
            for name in ("woman", unit):
                one = chosen.sel(probe=probe, item=item, unit=name)
                parts["total"].append(entr(one["mean"]) + entr(1 - one["mean"]))
                parts["mle"].append(entr(one["mle"]) + entr(1 - one["mle"]))
                parts["expected"].append(one["expected"])
    total, expected, trained = (np.mean(values, axis=(0, 1)) for values in parts.values())
    bars = figure.axes[1].patches
    np.testing.assert_allclose([bar.get_height() for bar in bars[:4]], expected)
    np.testing.assert_allclose([bar.get_y() for bar in bars[4:]], expected)
    np.testing.assert_allclose([bar.get_y() + bar.get_height() for bar in bars[4:]], total)
    marks = figure.axes[1].collections[-1].get_offsets()[:, 1]
    np.testing.assert_allclose(marks, trained)


def test_uncertainty_of_one_network_has_no_error_bars() -> None:
    for axes in draw_uncertainty(tabulate_entropies(activations(networks=1))).axes:
        assert axes.containers[-1].errorbar is None


def test_calibration_has_a_point_for_each_bin_with_exact_beliefs() -> None:
    dataset = activations()
    dataset["truth"] = (dataset["truth"] > 0.1).where(dataset["truth"].notnull()).astype(float)
    figure = draw_calibration_panels(tabulate_calibration(dataset), ESTIMATES)
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


def test_calibration_says_when_there_are_no_exact_beliefs() -> None:
    dataset = activations()
    dataset["truth"] = dataset["truth"] * np.nan
    drawn = draw_calibration_panels(tabulate_calibration(dataset), ESTIMATES)
    assert "no exact beliefs" in drawn.axes[0].texts[0].get_text()


def test_nuts_figure_pairs_samplers_with_nuts_and_names_every_question() -> None:
    data = nuts()
    means, widths, each = draw_nuts_comparison(data).axes
    assert [text.get_text() for text in each.get_yticklabels()] == list(data["question"].values)
    np.testing.assert_allclose(means.lines[0].get_xdata()[1:], data["nuts_mean"][1:])
    np.testing.assert_allclose(means.lines[1].get_ydata()[1:], data["converged_mean"][1:])
    expected = data["paper_high"] - data["paper_low"]
    np.testing.assert_allclose(widths.lines[0].get_ydata(), expected)
    ends = [segment[:, 0] for segment in each.collections[0].get_segments()]
    np.testing.assert_allclose(ends[1:], np.c_[data["nuts_low"], data["nuts_high"]][1:])
    assert means.lines[0].get_xdata()[0] > 0  # zero is moved to where a logit axis can show it
