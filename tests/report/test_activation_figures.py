"""Bars are the means of the units and words that their labels name."""

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

from equivocal.errors import UserError
from equivocal.report.activation_figures import draw_activations, draw_word_grid
from equivocal.study.summaries import tabulate_critical, tabulate_words
from tests.report.made_up import ITEMS, OTHERS, PROBES, activations


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
    """Lengths of the error bars."""
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


def test_baseline_sentences_have_no_bars_for_plausible_units_and_short_ones_do_not_count() -> None:
    dataset = activations()
    figure = draw_words(dataset, "congruent", "mle")
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["indicated agent", "indicated patient", "non-relevant (mean)"]
    assert figure.axes[12].get_ylabel() == "word 4:\npatient"
    last = dataset["mle"].sel(condition="congruent", position=4, probe="agent", unit="woman")
    drawn = figure.axes[13].patches[0].get_height()
    assert drawn == pytest.approx(float(last.sel(item=["breakfast", "dinner"]).mean()))


def test_word_grid_leaves_out_words_that_no_sentence_of_the_condition_has() -> None:
    dataset = activations()
    dataset["word"].loc[{"condition": "congruent", "position": 4}] = ""
    for name in ("mle", "mean"):
        dataset[name].loc[{"condition": "congruent", "position": 4}] = np.nan
    assert len(draw_words(dataset, "congruent", "mle").axes) == 3 * len(PROBES)
    assert len(draw_words(dataset, "reversal", "mle").axes) == 4 * len(PROBES)


def test_one_network_and_no_non_relevant_units_are_enough() -> None:
    dataset = activations(networks=1, non_relevant=False)
    figure = draw_words(dataset, "reversal", "paper")
    assert len(figure.axes[0].patches) == 2
    (agent, _) = draw_critical(dataset.isel(item=[1]), "reversal").axes
    pizza = dataset["mle"].sel(item="dinner", condition="reversal", position=3, probe="agent")
    assert agent.patches[0].get_height() == pytest.approx(float(pizza.sel(unit="pizza").mean()))


def test_an_unknown_estimate_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UserError, match="'hmc'; there are mle, paper, converged"):
        draw_words(activations(), "reversal", "hmc")
