"""Tables and figures from made-up readings whose means and intervals are known."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import betainc

from equivocal.measuring.construction_tables import (
    tabulate_beliefs,
    tabulate_items,
    tabulate_shares,
)
from equivocal.measuring.figures import draw_curves, draw_readings
from equivocal.measuring.reading import READINGS
from equivocal.measuring.suite import Construction
from equivocal.world import World

NETWORKS, ITEMS = 4, 5


def make_readings(beliefs: str, variance: float, heard: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Make readings in two conditions; in the second there is no exact belief."""
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
    return pd.concat([make_readings("trained", 0.0), make_readings("posterior", 1.0, seed=1)])


def test_shares_have_intervals_over_networks_and_over_items(readings: pd.DataFrame) -> None:
    table = tabulate_shares(readings).set_index(["beliefs", "condition", "reading"])
    assert len(table) == 2 * 2 * 3
    row = table.loc[("posterior", "said", "rival")]
    chosen = (readings["beliefs"] == "posterior") & (readings["condition"] == "said")
    values = readings.loc[chosen, "rival"].to_numpy().reshape(NETWORKS, ITEMS)
    assert row["share"] == pytest.approx(values.mean())
    assert (row["networks"], row["items"]) == (NETWORKS, ITEMS)
    for name, axis, n in (("network", 1, NETWORKS), ("item", 0, ITEMS)):
        k = values.mean(axis=axis).sum()
        low, high = row[f"share_{name}_low"], row[f"share_{name}_high"]
        assert betainc(k, n - k + 1, low) == pytest.approx(0.025)  # P(as many or more | low)
        assert 1 - betainc(k + 1, n - k, high) == pytest.approx(0.025)  # P(as many or fewer | high)
    shares = table["share"].unstack()[list(READINGS)]
    np.testing.assert_allclose(shares.sum(axis=1), 1)


def test_intervals_of_shares_that_are_counts_are_exact_binomial_ones() -> None:
    readings = make_readings("trained", 0.0)
    readings["rival"] = (readings["network"] == 0).astype(float)  # one of four networks
    row = tabulate_shares(readings).query("condition == 'said' and reading == 'rival'").iloc[0]
    exact = stats.binomtest(1, 4).proportion_ci(0.95, "exact")
    ends = row["share_network_low"], row["share_network_high"]
    assert ends == pytest.approx((exact.low, exact.high))
    # items are all alike at 0.25 of 5: between one and two of five
    one, two = (stats.binomtest(k, 5).proportion_ci(0.95, "exact") for k in (1, 2))
    assert one.low < row["share_item_low"] < two.low
    assert one.high < row["share_item_high"] < two.high


@pytest.mark.parametrize(
    ("share", "networks", "items"),
    [  # Clopper & Pearson: ten of ten networks are 69.2 to 100 %, twenty of twenty items 83.2
        (1.0, (0.691503, 1), (0.831566, 1)),
        (0.0, (0, 0.308497), (0, 0.168434)),
    ],
)
def test_where_all_agree_the_interval_is_the_exact_binomial_one(
    share: float, networks: tuple[float, float], items: tuple[float, float]
) -> None:
    rows = pd.DataFrame({"network": np.repeat(range(10), 20), "item": np.tile(range(20), 10)})
    about = {"construction": "x", "condition": "c", "beliefs": "posterior", "heard": 1}
    rows = rows.assign(**about, variance=1.0, answer=1 - share, rival=share, neither=0.0)
    row = tabulate_shares(rows).query("reading == 'rival'").iloc[0]
    assert tuple(row[["share_network_low", "share_network_high"]]) == pytest.approx(
        networks, abs=1e-6
    )
    assert tuple(row[["share_item_low", "share_item_high"]]) == pytest.approx(items, abs=1e-6)
    rows.loc[0, "rival"] = abs(share - 0.02)  # of 200 cells: 99.99 %, and nothing jumps
    near = tabulate_shares(rows).query("reading == 'rival'").iloc[0]
    for over in ("network", "item"):
        for end in (f"share_{over}_low", f"share_{over}_high"):
            assert near[end] == pytest.approx(row[end], abs=1e-3)


def test_intervals_of_shares_hold_the_mean_at_least_as_often_as_they_say() -> None:
    """Ten networks whose share is 0 or a; each outcome j of ten has its interval and its chance."""
    sizes, counts = (0.02, 0.1, 0.3, 0.5, 0.8, 1.0), range(11)
    rows = [
        {"condition": f"{a} {j}", "network": n, "item": i, "rival": a * (n < j)}
        for a, j, n, i in product(sizes, counts, range(10), range(2))
    ]
    about = {"construction": "x", "beliefs": "posterior", "heard": 1, "variance": 1.0}
    frame = pd.DataFrame(rows).assign(**about, neither=0.0)
    table = tabulate_shares(frame.assign(answer=1 - frame["rival"])).query("reading != 'neither'")
    p = np.linspace(0.001, 0.999, 999)
    for a, reading in product(sizes, ("rival", "answer")):
        own = table[table["reading"] == reading].set_index("condition")
        ends = own.loc[[f"{a} {j}" for j in counts]]
        mean = (a * p if reading == "rival" else 1 - a * p)[:, None]
        holds = (ends["share_network_low"].to_numpy() <= mean) & (
            mean <= ends["share_network_high"].to_numpy()
        )
        chance = stats.binom.pmf(np.arange(11), 10, p[:, None])
        assert (holds * chance).sum(axis=1).min() >= 0.95


def test_a_single_network_has_no_interval() -> None:
    rows = (
        make_readings("trained", 0.0)
        .query("network == 0")
        .assign(answer=1.0, rival=0.0, neither=0.0)
    )
    table = tabulate_shares(rows)
    assert (table["networks"] == 1).all()
    assert table[["share_network_low", "share_network_high"]].isna().all(axis=None)
    assert table["share_item_high"].notna().all()


def test_belief_error_is_the_mean_distance_of_answer_and_rival(readings: pd.DataFrame) -> None:
    table = tabulate_beliefs(readings).set_index(["beliefs", "condition"])
    said = table.loc[("trained", "said")]
    assert said["error"] == pytest.approx(0.05)  # the answer is 0.1 off, the rival exact
    assert said["correlation"] == pytest.approx(1)
    assert (said["exact_low"], said["exact_high"]) == pytest.approx((0.1, 0.9))
    noisy = readings.query("beliefs == 'trained' and condition == 'said'").copy()
    noisy["belief"] = noisy["item"].map({"i0": 0, "i1": 0.5, "i2": 0.25, "i3": 0.75, "i4": 1})
    row = tabulate_beliefs(noisy).iloc[0]
    assert row["correlation"] == pytest.approx(0.9)
    ends = np.tanh(np.arctanh(0.9) + np.array([-1, 1]) * stats.norm.ppf(0.975) / np.sqrt(2))
    assert (row["correlation_item_low"], row["correlation_item_high"]) == pytest.approx(ends)
    never = table.loc[("trained", "never said")]
    assert never[["exact", "error", "correlation"]].isna().all()
    assert never["belief"] == pytest.approx(0.6)


@pytest.fixture(scope="module")
def construction(garden: World) -> Construction:
    return Construction(
        name="made up",
        title="Made up",
        world=garden,
        sources=("Somebody (1999), A Journal 1, 2–3",),
        readings={"answer": "as said", "rival": "exchanged"},
        conditions={"said": "the dog chases the cat: always", "never said": "the ball chases"},
        curves=("said", "never said"),
        people={"never said": 0.25},
        items=(),
    )


def test_the_figure_shows_every_share_and_the_people(
    readings: pd.DataFrame, construction: Construction
) -> None:
    shares = tabulate_shares(readings)
    figure = draw_readings(shares, tabulate_items(readings), construction)
    bars, scatter = figure.axes
    assert [t.get_text() for t in bars.get_yticklabels()] == [
        "said\n“the dog chases the cat”",
        "never said\n“the ball chases”",
    ]
    rows = shares.set_index(["beliefs", "reading", "condition"])["share"]
    drawn = [[patch.get_width() for patch in container] for container in bars.containers]
    expected = [
        [rows[kind, reading, c] for c in ("said", "never said")]
        for kind in ("trained", "posterior")
        for reading in ("rival", "neither", "answer")
    ]
    np.testing.assert_allclose(drawn, expected)
    named = {c.get_label(): [s.vertices for s in c.get_paths()] for c in bars.collections}
    people = named["people: about 25 % (Somebody 1999)"]
    np.testing.assert_allclose(people[0][:, 0], 0.25)
    assert people[0][:, 1].mean() == 1  # the second condition
    ends = shares.query("reading == 'rival'")[["share_network_low", "share_network_high"]]
    lines = [line[:, 0] for line in named["95 % interval of the hatched share"]]
    np.testing.assert_allclose(lines, ends)
    told = [text.get_text() for text in figure.legends[0].get_texts()]
    assert told[:3] == ["exchanged", "neither (answers that do not fit together)", "as said"]
    points = next(line for line in scatter.lines if str(line.get_label()).startswith("trained"))
    np.testing.assert_allclose(points.get_ydata(), np.arange(5) / 5 + 0.2)
    both = readings.assign(answer=readings["answer"] + readings["neither"], neither=0.0)
    closed = both[both["exact"].isna()]
    alone = draw_readings(tabulate_shares(both), tabulate_items(closed), construction)
    assert len(alone.axes) == 1  # nothing is open, so nothing to compare with
    assert "neither" not in " ".join(t.get_text() for t in alone.legends[0].get_texts())


def test_curves_run_over_variances_and_over_sentences(construction: Construction) -> None:
    grid = [(0.1, 1000), (1.0, 1000), (10.0, 1000), (1.0, 100)]
    parts = [make_readings("posterior", v, n, seed=i) for i, (v, n) in enumerate(grid)]
    shares = tabulate_shares(pd.concat(parts))
    figure = draw_curves(shares, construction)
    left, right = figure.axes
    lines = [line for line in left.lines if line.get_linestyle() == "-"]
    drawn = [np.array(line.get_xdata(), float) for line in lines]
    np.testing.assert_allclose(drawn[0], [0.1, 1.0, 10.0])
    np.testing.assert_allclose(drawn[1], [0.1, 1.0, 10.0], rtol=0.1)  # beside the first
    curve = next(line for line in right.lines if line.get_linestyle() == "-")
    own = shares.query("reading == 'rival' and condition == 'said' and variance == 1")
    np.testing.assert_allclose(curve.get_ydata(), own.sort_values("heard")["share"])
    assert any(list(line.get_ydata()) == [0.25, 0.25] for line in left.lines)
    assert "exchanged" in left.get_ylabel()
    assert [axes.get_title("left") for axes in (left, right)] == [
        "a  after 1,000 sentences",
        "b  at prior variance 1",
    ]


def test_a_curve_of_a_single_network_has_no_bars(construction: Construction) -> None:
    parts = [make_readings("posterior", v) for v in (0.1, 1.0, 10.0)]
    readings = pd.concat(parts)
    for networks in (1, 2):
        shares = tabulate_shares(readings[readings["network"] < networks])
        drawn = draw_curves(shares, construction).axes[0].containers
        assert len(drawn) == 2  # conditions
        for line, caps, (bars,) in drawn:
            assert np.isfinite(line.get_ydata()).all()
            ends = [np.asarray(cap.get_ydata(), float) for cap in caps]
            ends += [np.reshape(bar, (-1, 2))[:, 1] for bar in bars.get_segments()]
            assert np.isfinite(np.concatenate(ends)).all() == (networks == 2)
            assert np.isfinite(np.concatenate(ends)).any() == (networks == 2)
