"""Published numbers about people compared with comprehenders, and `equivocal people published`."""

import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from equivocal.people.comprehenders import Question, ask_about_items, believe_ideal
from equivocal.people.published import (
    compare_people,
    compare_with_people,
    estimate_share,
    load_people,
    select_questions,
    summarise_scores,
    tabulate_readings,
)
from equivocal.world import World
from tests.cli.commands import fails, run
from tests.conftest import SMALL

RATES = 2 * [0.1] + 3 * [0.05] + 3 * [0.18]  # of unusual directions in `both_ways`, by pair
FEW = replace(SMALL, epochs=2, sentences=150)
KINDS = ["ideal", "trained", "paper's sampler", "posterior"]


@pytest.fixture(scope="module")
def both_ways() -> World:
    return World.load("both_ways")


@pytest.fixture(scope="module")
def questions(both_ways: World) -> list[Question]:
    return ask_about_items(both_ways)


@pytest.fixture(scope="module")
def ideal(both_ways: World, questions: list[Question]) -> np.ndarray:
    return believe_ideal(both_ways, questions)


def test_every_human_number_has_a_source_and_a_status() -> None:
    people = load_people()
    texts = ["source", "measure", "construction", "plausibility", "status", "comparable", "note"]
    assert people[texts].notna().all(axis=None)
    assert set(people["comparable"]) == {"yes", "assumption", "no"}


def test_the_ideal_comprehender_has_the_exact_beliefs(questions, ideal: np.ndarray) -> None:
    literal = [question.item.literal for question in questions]
    np.testing.assert_allclose(ideal[0, :, 0], literal, atol=1e-12)
    np.testing.assert_allclose(ideal.sum(axis=-1), 1)
    # half of the sentences of any pair are unlikely
    pairs = select_questions(questions, "passive", "any")
    assert len(pairs) == 2 * len(select_questions(questions, "passive", "unlikely"))


def test_impossible_sentences_have_no_beliefs(sg2018: World) -> None:
    never = ask_about_items(sg2018)
    beliefs = believe_ideal(sg2018, never)
    assert np.isnan(beliefs[0, select_questions(never, "passive", "impossible")]).all()
    table = tabulate_readings(never, {"ideal": beliefs})
    assert set(table["plausibility"]) == {"plausible"}


def test_readings_by_hand(questions: list[Question]) -> None:
    """Two networks that read every unlikely sentence reversed with 0.2 and 0.6."""
    beliefs = np.tile([1.0, 0.0, 0.0], (2, len(questions), 1))
    unlikely = select_questions(questions, "any", "unlikely")
    beliefs[0, unlikely], beliefs[1, unlikely] = [0.7, 0.2, 0.1], [0.3, 0.6, 0.1]
    table = tabulate_readings(questions, {"made up": beliefs})
    found = table.set_index(["construction", "plausibility", "measure"])["value"].sort_index()
    for construction in ("any", "active"):
        assert found[construction, "unlikely", "not literal"] == pytest.approx(0.5)
        assert found[construction, "unlikely", "reversed"] == pytest.approx(0.4)
        assert found[construction, "any", "not literal"] == pytest.approx(0.25)


def test_comparable_numbers_are_scored(questions: list[Question], ideal: np.ndarray) -> None:
    people = load_people()
    beliefs = {"ideal": ideal, "sure": np.tile([1.0, 0.0, 0.0], (2, len(questions), 1))}
    table = compare_with_people(people, tabulate_readings(questions, beliefs))
    assert len(table) == 2 * len(people)
    of = table.set_index(["comprehender", "measure", "construction"])
    # of unlikely passives: exchanged, or an active with "was" and "by" added (`both_ways.toml`)
    meant, other = 0.2 * (1 - 0.01 - 2 * 0.02 * 0.98 - 0.02**2), 0.2 * 0.01 + 0.5 * 0.01**2
    p = np.mean([(1 - r) * other / ((1 - r) * other + r * meant) for r in RATES])
    row = of.loc[("ideal", "reversed", "passive")]
    assert row["found"] == pytest.approx(p, abs=1e-6)
    by_hand = 2 * 48 * (0.25 * np.log(0.25 / p) + 0.75 * np.log(0.75 / (1 - p)))
    assert row["deviance"] == pytest.approx(by_hand, rel=1e-5)
    # sure of what the syntax says, nobody ever misreads
    sure = table[table["comprehender"] == "sure"]
    assert np.isinf(sure.loc[sure["measure"] == "reversed", "deviance"]).all()
    assert table.loc[table["comparable"] == "no", "found"].isna().all()
    scores = summarise_scores(table).set_index("comprehender")
    assert scores.loc["ideal", "shares"] == scores.loc["ideal", "floor"] == 3
    assert scores.loc["sure", "p"] == 0


def test_intervals_cover_the_share_of_all_networks_and_items() -> None:
    """With five networks about 7 % miss, not 5 %; of intervals over items alone more than half."""
    rng = np.random.default_rng(4)

    def draw(networks: int, items: int) -> np.ndarray:
        odds = 1 + rng.normal(size=(networks, 1)) + 0.5 * rng.normal(size=items)
        return 1 / (1 + np.exp(-odds - 0.3 * rng.normal(size=(networks, items))))

    truth, missed = draw(1500, 400).mean(), {"both": 0, "items": 0}
    for seed in range(400):
        shares = draw(5, 16)
        _, low, high = estimate_share(shares, np.arange(16), seed)
        missed["both"] += not low < truth < high
        _, low, high = estimate_share(shares.mean(axis=0)[None], np.arange(16), seed, sample=False)
        missed["items"] += not low < truth < high
    assert missed["both"] < 48
    assert missed["items"] > 160


def test_a_single_comprehender_has_intervals_over_items() -> None:
    """One comprehender that reads half of the items literally: a binomial standard error."""
    shares = np.tile([1.0, 0.0], (1, 50))
    value, low, high = estimate_share(shares, np.arange(100), 0, sample=False)
    assert value == pytest.approx(0.5)
    # 1.96 standard errors of 0.05; the ends of 400 draws are multiples of 1/100
    assert low == pytest.approx(0.4, abs=0.02)
    assert high == pytest.approx(0.6, abs=0.02)
    assert np.isnan(estimate_share(shares, np.arange(100), 0)[1])  # one network is no sample


def test_every_comprehender_is_compared_with_every_number(tmp_path: Path) -> None:
    result = compare_people("both_ways", tmp_path, training=FEW)
    assert {path.name for path in (tmp_path / "figures").glob("*.png")} == {"people.png"}
    for name, table in result.tables.items():
        assert len(pd.read_csv(tmp_path / "tables" / f"{name}.csv")) == len(table), name
    assert tomllib.loads((tmp_path / "people.toml").read_text())["parameters"]["rare"] == 0.1
    table = result.tables["people"]
    assert list(dict.fromkeys(table["comprehender"])) == KINDS
    assert table[table["comparable"] != "no"]["found"].between(0, 1).all()
    networks = result.tables["readings"].groupby("comprehender", sort=False)["networks"].first()
    assert networks.to_dict() == dict(zip(KINDS, (1, 2, 2, 2), strict=True))


def test_the_command(tmp_path: Path) -> None:
    made = run("people", "published", "--networks", "0", "--out", "people", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert made.stdout.startswith(
        "People read about 25 % of unlikely passives the other way round; comprehenders: ideal 10"
    )
    (tmp_path / "mine" / "tables").mkdir(parents=True)
    taken = fails("people", "published", "--networks", "0", "--out", "mine", cwd=tmp_path)
    assert "would be overwritten" in taken


def test_a_world_without_unlikely_sentences_is_compared_where_possible(
    tmp_path: Path, garden: World
) -> None:
    found = compare_people(garden, tmp_path, networks=0)
    assert "has no unlikely passives" in found.summary[0]
    assert found.tables["people"]["found"].isna().all()
