"""Tables and figures from made-up readings whose means and intervals are known."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from equivocal.constructions import READINGS, belief_table, share_table
from equivocal.constructions.figures import curve_figure, reading_figure

NETWORKS, ITEMS = 4, 5


def made_up(beliefs: str, variance: float, heard: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Two conditions; in the second the world has no belief."""
    rng, rows = np.random.default_rng(seed), []
    for condition in ("said", "never said"):
        for network in range(NETWORKS):
            for item in range(ITEMS):
                answer, rival, neither = rng.dirichlet([3, 2, 1])
                exact = (item + 0.5) / ITEMS if condition == "said" else np.nan
                rows.append(
                    {
                        "construction": "made up",
                        "condition": condition,
                        "item": f"i{item}",
                        "network": network,
                        "answer": answer,
                        "rival": rival,
                        "neither": neither,
                        "belief": (item + 0.5) / ITEMS + 0.1,
                        "rival_belief": 1 - (item + 0.5) / ITEMS,
                        "exact": exact,
                        "rival_exact": 1 - exact,
                        "beliefs": beliefs,
                        "variance": variance,
                        "heard": heard,
                    }
                )
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def readings() -> pd.DataFrame:
    return pd.concat([made_up("trained", 0.0), made_up("posterior", 1.0, seed=1)])


def test_shares_have_intervals_over_networks_and_over_items(readings: pd.DataFrame) -> None:
    table = share_table(readings).set_index(["beliefs", "condition", "reading"])
    assert len(table) == 2 * 2 * 3
    row = table.loc[("posterior", "said", "rival")]
    chosen = (readings["beliefs"] == "posterior") & (readings["condition"] == "said")
    values = readings.loc[chosen, "rival"].to_numpy().reshape(NETWORKS, ITEMS)
    assert row["share"] == pytest.approx(values.mean())
    assert (row["networks"], row["items"]) == (NETWORKS, ITEMS)
    for name, axis, n in (("network", 1, NETWORKS), ("item", 0, ITEMS)):
        means = values.mean(axis=axis)
        half = stats.t.ppf(0.975, n - 1) * means.std(ddof=1) / np.sqrt(n)
        ends = row[f"share_{name}_low"], row[f"share_{name}_high"]
        assert ends == pytest.approx((max(0, means.mean() - half), means.mean() + half))
    shares = table["share"].unstack()[list(READINGS)]
    np.testing.assert_allclose(shares.sum(axis=1), 1)


def test_intervals_of_shares_stay_between_nothing_and_all() -> None:
    readings = made_up("trained", 0.0)
    readings["rival"] = (readings["network"] == 0).astype(float)  # one of four networks
    row = share_table(readings).query("condition == 'said' and reading == 'rival'").iloc[0]
    assert row["share_network_low"] == 0
    assert 0.25 < row["share_network_high"] <= 1
    assert np.isnan(row["share_item_low"])  # all items alike


def test_belief_error_is_the_mean_distance_of_answer_and_rival(readings: pd.DataFrame) -> None:
    table = belief_table(readings).set_index(["beliefs", "condition"])
    said = table.loc[("trained", "said")]
    assert said["error"] == pytest.approx(0.05)  # the answer is 0.1 off, the rival exact
    assert said["correlation"] == pytest.approx(1)
    assert (said["exact_low"], said["exact_high"]) == pytest.approx((0.1, 0.9))
    never = table.loc[("trained", "never said")]
    assert never[["exact", "error", "correlation"]].isna().all()
    assert never["belief"] == pytest.approx(0.6)


def test_the_figure_shows_every_share_and_the_people(readings: pd.DataFrame) -> None:
    shares = share_table(readings)
    figure = reading_figure(shares, readings, "Made up", {"never said": 0.25})
    bars, scatter = figure.axes
    assert [t.get_text() for t in bars.get_yticklabels()] == ["said", "never said"]
    rows = shares.set_index(["beliefs", "reading", "condition"])["share"]
    drawn = [[patch.get_width() for patch in container] for container in bars.containers]
    expected = [
        [rows[kind, reading, c] for c in ("said", "never said")]
        for kind in ("trained", "posterior")
        for reading in ("answer", "neither", "rival")
    ]
    np.testing.assert_allclose(drawn, expected)
    ends = [s.vertices for c in bars.collections for s in c.get_paths()]
    assert any(np.allclose(end[:, 0], 0.75) for end in ends)  # the rival share ends at one
    points = {line.get_label(): line for line in scatter.lines if line.get_label() == "trained"}
    np.testing.assert_allclose(points["trained"].get_ydata(), np.arange(5) / 5 + 0.2)
    alone = reading_figure(shares, readings[readings["exact"].isna()], "Made up", {})
    assert len(alone.axes) == 1  # nothing is open, so nothing to compare with


def test_curves_run_over_variances_and_over_sentences() -> None:
    grid = [(0.1, 1000), (1.0, 1000), (10.0, 1000), (1.0, 100)]
    parts = [made_up("posterior", v, n, seed=i) for i, (v, n) in enumerate(grid)]
    shares = share_table(pd.concat(parts))
    left, right = curve_figure(shares, "Made up", {"said": 0.25}).axes
    assert [list(line.get_xdata()) for line in left.lines if len(line.get_xdata()) == 3] == [
        [0.1, 1.0, 10.0]
    ] * 2
    curve = next(line for line in right.lines if len(line.get_xdata()) == 2)
    own = shares.query("reading == 'rival' and condition == 'said' and variance == 1")
    np.testing.assert_allclose(curve.get_ydata(), own.sort_values("heard")["share"])
    assert any(list(line.get_ydata()) == [0.25, 0.25] for line in left.lines)
