"""Readings: the trained network's against its activations, tables against hand-made readings."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import betainc

from equivocal.measuring.figures import draw_readings
from equivocal.measuring.paradigms import Paradigm
from equivocal.measuring.readings import (
    READINGS,
    count_readings,
    read_items,
    summarise_shares,
    tabulate_shares,
)
from equivocal.network import Run
from equivocal.world import World
from equivocal.world.items import Item

SENTENCES = {
    "possible": ("dog chases cat", "cat chases mouse", "boy chases ball"),
    "impossible": ("cat chases dog", "mouse chases cat", "ball chases boy"),
}
NETWORKS, ITEMS = 4, 5


@pytest.fixture(scope="module")
def chasing(garden: World) -> Paradigm:
    """Who chases whom, in the example world."""
    rows = {}
    for condition, sentences in SENTENCES.items():
        for sentence in sentences:
            who, _, whom = sentence.split()
            said, asked = {"agent": who, "patient": whom}, {"agent": whom, "patient": who}
            heard = garden.parse(sentence)
            rows[condition, sentence] = Item(condition, sentence, heard, 3, said, asked)
    ball = {"ball": "role:patient"}, {"ball": "role:agent"}
    heard = garden.parse("boy chases ball")
    rows["a word", "boy ball"] = Item("a word", "boy ball", heard, 3, *ball)
    return Paradigm("chase", "Chase", garden, rows)


def test_a_reading_needs_every_question() -> None:
    """Four comprehenders, two questions: both right, both wrong, one of each, a tie."""
    z = np.array([[2.0, -1.0, 2.0, 0.0], [3.0, -9.0, -1.0, 1.0]])
    assert count_readings(z, np.zeros_like(z)) == (0.25, 0.25, 0.5)
    assert count_readings(-z, np.zeros_like(z)) == (0.25, 0.25, 0.5)
    assert count_readings(z[:1], np.zeros_like(z[:1])) == (0.5, 0.25, 0.25)


def test_the_trained_network_reads_as_its_activations_say(
    chasing: Paradigm, small_run: Run
) -> None:
    """`comprehend` computes the same numbers in another way."""
    network = small_run.networks[0]
    layer = network.last_layer().values[:, None]
    trained = read_items(chasing, network, layer).set_index(["condition", "item"])
    for place, item in chasing.rows.items():
        last = network.comprehend(item.utterance, list(item.tracked)).isel(word=-1)
        pairs = [
            tuple(float(last.sel(probe=p, unit=units[p])) for units in (item.tracked, item.rivals))
            for p in item.tracked
        ]
        row = trained.loc[place]
        assert row["answer"] == all(answer > rival for answer, rival in pairs)
        assert row["rival"] == all(answer < rival for answer, rival in pairs)
        assert row[list(READINGS)].sum() == 1
    assert (trained.loc["possible", "answer"] == 1).all()
    turned = np.concatenate([layer, -layer], axis=1)  # two of opposite minds
    both = read_items(chasing, network, turned).set_index(["condition", "item"])
    assert (both.loc["possible", ["answer", "rival"]] == 0.5).all(axis=None)


def make_readings(beliefs: str, seed: int = 0) -> pd.DataFrame:
    rng, rows = np.random.default_rng(seed), []
    for condition, network, item in product(("said", "never said"), range(NETWORKS), range(ITEMS)):
        shares = dict(zip(READINGS, rng.dirichlet([3, 2, 1]), strict=True))
        about = {"paradigm": "made up", "condition": condition, "item": f"i{item}"}
        rows.append(about | shares | {"network": network})
    return pd.DataFrame(rows).assign(beliefs=beliefs)


@pytest.fixture(scope="module")
def readings() -> pd.DataFrame:
    return pd.concat([make_readings("trained"), make_readings("posterior", seed=1)])


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


def test_intervals_of_shares_hold_the_mean_at_least_as_often_as_they_say() -> None:
    """Ten networks whose share is 0 or a; each outcome j of ten has its interval and its chance."""
    sizes, counts = (0.02, 0.1, 0.3, 0.5, 0.8, 1.0), range(11)
    rows = [
        {"condition": f"{a} {j}", "network": n, "item": i, "rival": a * (n < j)}
        for a, j, n, i in product(sizes, counts, range(10), range(2))
    ]
    frame = pd.DataFrame(rows).assign(paradigm="x", beliefs="posterior", neither=0.0)
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
    table = tabulate_shares(make_readings("trained").query("network == 0"))
    assert (table["networks"] == 1).all()
    assert table[["share_network_low", "share_network_high"]].isna().all(axis=None)
    assert table["share_item_high"].notna().all()


def test_figure_and_summary_show_every_share_and_the_people(
    readings: pd.DataFrame, garden: World
) -> None:
    construction = Paradigm(
        name="made up",
        title="Made up",
        world=garden,
        rows={
            (condition, "one"): Item(condition, "one", garden.parse(sentence), 2)
            for condition, sentence in (("said", "the dog chases"), ("never said", "ball chases"))
        },
        sources=("Somebody (1999), A Journal 1, 2–3",),
        readings={"answer": "as said", "rival": "exchanged"},
        people={"never said": 0.25},
    )
    shares = tabulate_shares(readings)
    (bars,) = draw_readings(shares, construction).axes
    rows = shares.set_index(["beliefs", "reading", "condition"])["share"]
    drawn = [[patch.get_width() for patch in container] for container in bars.containers]
    expected = [
        [rows[kind, reading, c] for c in ("said", "never said")]
        for kind in ("trained", "posterior")
        for reading in ("rival", "neither", "answer")
    ]
    np.testing.assert_allclose(drawn, expected)
    title, _, last = summarise_shares(shares, construction)
    assert title == "Made up: share of the reading “exchanged”"
    assert last.endswith("; people about 25%, Somebody (1999)")
    draw_readings(shares[shares["beliefs"] == "trained"], construction)
