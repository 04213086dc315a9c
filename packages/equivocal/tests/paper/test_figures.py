"""Figures of effects against the prior and sampler time, and of samplers beside the exact one."""

import numpy as np
import pandas as pd
import pytest

from equivocal.paper.figures import (
    draw_effect,
    draw_exact_comparison,
    draw_known_truth,
    draw_prior_effects,
    draw_rational_map,
    draw_sampler_path,
    tabulate_path,
    tabulate_prior_effects,
)
from equivocal.paper.inference import EXAMPLE, Beliefs
from equivocal.paper.tables import compute_measures, find_rational_levels, tabulate_effects
from equivocal.world import World
from equivocal.world.items import Item
from tests.paper.made_up import ITEMS, activations, exact, path


def test_prior_figure_draws_networks_and_their_mean() -> None:
    dataset = activations()
    agent, patient, other = draw_prior_effects(tabulate_prior_effects(dataset)).axes
    assert [axes.get_title() for axes in (agent, patient)] == [
        "indicated agent",
        "indicated patient",
    ]
    assert other.get_title() == "non-relevant units,\nagent probe"
    here = dataset.sel(condition="reversal", position=3, probe="agent")
    effect = (here["mean"] - here["mle"]).transpose("sampler", "prior", "network", ...)
    by_item = [effect.sel(item=item, unit=unit).values for item, unit in ITEMS.items()]
    expected = np.mean(by_item, axis=0)[0]  # the paper's sampler: (prior, network)
    drawn = [line.get_ydata() for line in agent.lines[:4]]
    np.testing.assert_allclose(drawn[:3], expected.T)
    np.testing.assert_allclose(drawn[3], expected.mean(axis=1))


def test_tau_figure_marks_the_papers_steps_and_the_levels_it_is_given() -> None:
    data = path()
    figure = draw_sampler_path(tabulate_path(data))
    agent, _ = figure.axes
    assert (agent.get_xscale(), agent.get_yscale()) == ("log", "log")
    by_label = {line.get_label(): line for line in agent.lines}
    assert agent.get_title() == "reversal: indicated agent"
    stop = by_label["stopped after 17 steps (τ = 0.0017)"]
    np.testing.assert_allclose(stop.get_xdata(), data["time"].isel(step=17))
    np.testing.assert_allclose(stop.get_ydata(), data["indicated_agent"].isel(step=17).mean("item"))
    mean = data["indicated_agent"].mean(("network", "item"))
    along = by_label["along the paper's sampler"].get_ydata()
    np.testing.assert_allclose(along, mean[1:])
    np.testing.assert_allclose(by_label["before the first step"].get_ydata(), mean[0])
    assert set(by_label["trained network (MLE)"].get_ydata()) == {1e-3}
    assert "Bayesian, converged" in by_label


def test_samplers_of_all_networks_are_drawn_against_the_exact_posterior() -> None:
    data = exact()
    means, widths = draw_exact_comparison(data).axes
    assert means.get_xlabel() == widths.get_xlabel() == "HMC, exact"
    shown = {
        name: tuple(np.reshape(values, (3, 4)) for values in line.get_data())
        for name, line in zip(("paper", "converged", "nuts"), means.lines, strict=False)
    }
    for name, (x, y) in shown.items():
        np.testing.assert_allclose(x[:, 1:], data["exact_mean"][:, 1:])
        np.testing.assert_allclose(y[:, 1:], data[f"{name}_mean"][:, 1:])
    assert shown["paper"][0][0, 0] > 0  # zero is clipped to a value that a logit axis can show
    expected = data["paper_high"] - data["paper_low"]
    np.testing.assert_allclose(widths.lines[0].get_ydata(), expected.values.ravel())


def test_effects_are_drawn_for_every_network_and_estimate() -> None:
    readings = {name: Beliefs(activations(), path(), None, None) for name in ("pairs", "all")}
    effects = tabulate_effects(readings)
    agent, patient = draw_effect(effects).axes
    assert (agent.get_title(), patient.get_title()) == ("indicated agent", "indicated patient")
    assert len(agent.get_yticklabels()) == 5
    rows = compute_measures(activations())
    where = {"measure": "indicated patient", "condition": "reversal", "prior": 1.0}
    own = rows[np.all([rows[name] == value for name, value in where.items()], axis=0)]
    for line, (sampler, column) in zip(
        patient.lines[:6:2],
        (("paper", "mle"), ("paper", "mean"), ("converged", "mean")),
        strict=True,
    ):
        means = own[own["sampler"] == sampler].groupby("network")[column].mean()
        np.testing.assert_allclose(line.get_xdata(), means)


def test_rational_map_has_a_contour_where_a_listener_believes_the_same(paper: World) -> None:
    """The belief α ε: a contour at 0.01 joins the points with this product."""
    alphas, slips = np.geomspace(1e-2, 1e2, 9), np.geomspace(1e-4, 1e-1, 13)
    rows = [(a, e, a * e / (1 + a * e)) for a in alphas for e in slips]
    table = pd.DataFrame(rows, columns=["pseudo_count", "slip", "belief"])
    said = paper.parse("the pizza eats the woman")
    example = Item("reversal", "dinner", said, 3, {"agent": "pizza"})
    levels = [("", "mle", 0.01), ("all", "paper", 0.1), ("pairs", "converged", 1e-3)]
    shown = pd.DataFrame(levels, columns=["reading", "estimate", "belief"])
    axes = draw_rational_map(table, shown, example).axes[0]
    for contour, (_, _, belief) in zip(axes.collections[1:], levels, strict=True):
        points = np.concatenate([path.vertices for path in contour.get_paths()])
        product = 10 ** points.sum(axis=1)
        np.testing.assert_allclose(product / (1 + product), belief, rtol=0.02)
    names = [line.get_label() for line in axes.lines]
    assert names[2] == "Bayesian, converged, N = pairs: 0.001"


def test_levels_of_the_map_are_those_of_the_example(paper: World) -> None:
    data = activations()
    beliefs = Beliefs(data, path(), None, None)
    said = paper.parse("the pizza eats the woman")
    example = Item("reversal", "dinner", said, 3, {"agent": "pizza"})
    table = find_rational_levels(example, dict.fromkeys(("pairs", "all"), beliefs))
    assert table["reading"].tolist() == ["", "pairs", "pairs", "all", "all"]
    assert table["estimate"].tolist() == ["mle", *("paper", "converged") * 2]
    here = {"condition": "reversal", "item": "dinner", "position": 3, "probe": "agent"}
    here |= {"unit": "pizza"}
    assert table["belief"][0] == pytest.approx(float(data["mle"].sel(here).mean()))
    converged = data["mean"].sel(here | {"sampler": "converged", "prior": 1.0}).mean()
    assert table["belief"][4] == pytest.approx(float(converged))


def test_known_truth_has_a_dot_for_each_network_and_a_line_for_the_truth() -> None:
    rows = [
        {"kind": kind, "condition": condition, "item": EXAMPLE, "belief": 0.1 * n, "truth": 0.25}
        for kind in ("trained", "paper", "converged", "half")
        for condition in ("congruent", "reversal")
        for n in range(4)
    ]
    axes, _ = draw_known_truth(pd.DataFrame(rows)).axes
    dots = [line.get_xdata() for line in axes.lines if line.get_marker() == "o"]
    assert [list(xs) for xs in dots] == [[0.0, 0.1, 0.2, pytest.approx(0.3)]] * 3
    assert 0.25 in [line.get_xdata()[0] for line in axes.lines]
