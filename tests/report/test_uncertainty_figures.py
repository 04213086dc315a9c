"""Entropies, exact beliefs and the exact posterior."""

import numpy as np
from scipy.special import entr

from equivocal.report.learning_figures import draw_calibration_panels
from equivocal.report.uncertainty_figures import draw_exact_comparison, draw_uncertainty
from equivocal.study.summaries import tabulate_calibration, tabulate_entropies
from tests.report.made_up import ITEMS, activations, exact

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


def test_samplers_of_all_networks_stand_against_the_exact_posterior() -> None:
    data = exact()
    means, widths, _ = draw_exact_comparison(data).axes
    assert means.get_xlabel() == widths.get_xlabel() == "HMC, exact"
    shown = {
        name: tuple(np.reshape(values, (3, 4)) for values in line.get_data())
        for name, line in zip(("paper", "converged", "nuts"), means.lines, strict=False)
    }
    for name, (x, y) in shown.items():
        np.testing.assert_allclose(x[:, 1:], data["exact_mean"][:, 1:])
        np.testing.assert_allclose(y[:, 1:], data[f"{name}_mean"][:, 1:])
    assert shown["paper"][0][0, 0] > 0  # zero is moved to where a logit axis can show it
    expected = data["paper_high"] - data["paper_low"]
    np.testing.assert_allclose(widths.lines[0].get_ydata(), expected.values.ravel())


def test_every_question_to_the_first_network_is_named_with_its_intervals() -> None:
    data = exact()
    figure = draw_exact_comparison(data)
    each = figure.axes[2]
    assert [text.get_text() for text in each.get_yticklabels()] == list(data["question"].values)
    first = data.isel(network=0)
    for name, drawn in zip(("exact", "paper", "converged", "nuts"), each.collections, strict=True):
        ends = [segment[:, 0] for segment in drawn.get_segments()]
        np.testing.assert_allclose(ends[1:], np.c_[first[f"{name}_low"], first[f"{name}_high"]][1:])
    assert (
        figure.legends[0].get_title().get_text().startswith("above: 3 networks; below: the first")
    )


def test_the_exact_posterior_is_drawn_without_nuts() -> None:
    data = exact().drop_vars(["nuts_low", "nuts_mean", "nuts_high"]).isel(network=[0])
    figure = draw_exact_comparison(data)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["HMC, exact", "Bayesian, paper's sampler", "Bayesian, converged"]
