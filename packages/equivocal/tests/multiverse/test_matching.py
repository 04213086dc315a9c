"""Designs, facts and matching: made-up tables, and a tiny design of the example world."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.multiverse.test_multiverse import write_grid

from equivocal.beliefs import NUM_PAIRS, collect_last_layer
from equivocal.multiverse.facts import (
    RULES,
    Reading,
    answer_in_words,
    find_nearest,
    judge_facts,
    load_facts,
)
from equivocal.multiverse.grid import CHOICES, TRAINING, load_grid
from equivocal.multiverse.run import match_paper
from equivocal.multiverse.tasks import move_critical_word
from equivocal.network import Run
from equivocal.paper.claims import find_impossible_numbers
from equivocal.paper.settings import load_study
from equivocal.paper.tables import load_printed_values
from equivocal.result import Result
from equivocal.world import World
from equivocal.world.items import load_stimuli
from lastlayer.errors import UserError

DESIGN = """
study = "study.toml"
networks = 2
[design]
trainings = 3
posteriors = 2
[levels]
recipe = ["fast", "paper"]
weight_decay = [1e-5, 1e-4, 1e-2]
num_steps = [2, 3]
step_size = [1e-3, "automatic"]
rows = ["every word", "drawn pairs"]
evidence = [1.0, "sentence"]
critical_word = ["verb", "last"]
"""


def test_design_covers_what_the_paper_leaves_open_and_shares_trainings() -> None:
    grid = load_grid("match", networks=4)
    own, *points = (point.varied for point in grid)
    assert own["weight_decay"] == 1e-7  # the study itself
    varied = {name for name in CHOICES if len({point[name] for point in points}) > 1}
    assert not varied & {"epochs", "num_steps", "dropout_rate", "prior_variance", "evidence"}
    assert {"recipe", "batch", "hidden", "num_particles", "rows", "critical_word"} < varied
    counts = pd.Series([point["step_size"] for point in points]).value_counts()
    assert len(counts) == 4
    assert counts.between(56, 64).all()  # 64 each, but for points that are drawn twice
    trainings = {tuple(point[name] for name in TRAINING) for point in points}
    assert len(trainings) <= 32 < len(points) / 4
    assert load_grid("match", networks=4) == grid
    for point in grid:  # a recipe brings its own training
        training = point.settings.training_settings
        assert {name: getattr(training, name) for name in TRAINING} == {
            name: point.varied[name] for name in TRAINING
        }
        assert training.second_moment == (0.95 if training.recipe == "fast" else 0.999)
        assert training.networks == 4


def test_every_printed_number_is_a_fact_or_impossible() -> None:
    facts = load_facts()
    assert len({fact["id"] for fact in facts}) == len(facts)
    assert {fact["rule"] for fact in facts} == set(RULES)
    assert all(fact["where"] and fact["kind"] in ("claim", "number") for fact in facts)
    content = load_printed_values()
    cells = {fact.get("cell") for fact in facts}
    impossible = set(find_impossible_numbers()["where"])
    for table, where in content["where"].items():
        for measure, columns in content[table].items():
            for column in columns:
                row = f"{where['place']}: {content['labels'][measure]}"
                known = f"{table}/{measure}/{column}" in cells
                assert known or any(one.startswith(row) for one in impossible)


def test_tolerance_of_t_is_its_sampling_error() -> None:
    for fact in load_facts():
        if "t" in fact:
            n = 10 if fact["by"] == "networks" else 8
            error = 1.96 * np.sqrt(1 + fact["t"] ** 2 / (2 * (n - 1)))
            assert fact["tolerance"] == pytest.approx(error, abs=0.006)
            printed = load_printed_values()
            table, measure, column = fact["cell"].split("/")
            assert float(printed[table][measure][column]["t"]) == fact["t"]


def make_reading(indicated: float, plausible: float, change: float) -> Reading:
    """Ten networks and eight items that differ a little, with the same change everywhere."""
    noise = np.random.default_rng(0).normal(0, 1e-3, (10, 8))
    levels = {"indicated": indicated, "plausible": plausible, "non-relevant": indicated / 10}
    cells = {}
    for condition in ("congruent", "reversal"):
        for measure in (
            *("indicated agent", "indicated patient", "plausible agent", "plausible patient"),
            "non-relevant agent",
        ):
            kind = measure.split()[0]
            level = 0.9 if (condition, kind) == ("congruent", "indicated") else levels[kind]
            sign = 1 if (condition, kind) == ("reversal", "indicated") else -1
            mle = np.full((10, 8), level) + abs(noise) * level
            for name, size in (("mle", 0.0), ("0.01", 0.01), ("1.0", 1.0), ("5.0", 2.0)):
                moved = sign * size * (change + noise) * (0.01 if kind == "non-relevant" else 1)
                cells[condition, measure, name] = mle + moved
    scores = {"unit_accuracy": [0.979] * 10, "exact_match": [0.7] * 10}
    return Reading(scores, cells)


def test_facts_are_judged_by_hand() -> None:
    facts = judge_facts(make_reading(indicated=1e-3, plausible=0.9, change=0.02))
    for name in (
        *("accuracy", "congruent-high-agent", "mle-plausible-patient", "bayes-plausible-agent"),
        *("order-bayes-agent", "paired-agent-networks", "paired-other-items", "specific"),
        *("prior-large-agent", "prior-nearer-patient", "zero-bayes-agent-items"),
    ):
        assert facts[name] == 1, name
    for name in ("zero-mle-agent-networks", "t-agent-networks", "prior-small-agent"):
        assert facts[name] == 0, name  # the noise is small, so every test is significant
    wrong = judge_facts(make_reading(indicated=0.8, plausible=0.3, change=-0.02))
    for name in ("mle-plausible-agent", "order-mle-agent", "paired-patient-items", "specific"):
        assert wrong[name] == 0, name


def test_a_fact_without_data_is_undecided() -> None:
    facts = judge_facts(Reading({"unit_accuracy": [0.5], "exact_match": [0.5]}, {}))
    assert facts.pop("accuracy") == 0
    assert all(np.isnan(value) for value in facts.values())


def make_matches(**values: list[float]) -> pd.DataFrame:
    """Two specifications that meet everything but what is given; one for each reading of N."""
    facts = load_facts()
    table = pd.DataFrame({fact["id"]: values.get(fact["id"], [1.0, 1.0]) for fact in facts})
    claims = [fact["id"] for fact in facts if fact["kind"] == "claim"]
    counts = {"met": table.sum(axis=1), "claims_met": table[claims].sum(axis=1)}
    counts["numbers_met"] = counts["met"] - counts["claims_met"]
    own = load_grid("match")[0].varied | {"rows": ["every word", "drawn pairs"]}
    return table.assign(key=["a", "b"], diverged=values.get("diverged", [0, 0]), **counts, **own)


def test_answer_counts_posteriors_that_do_not_diverge_for_each_reading_of_n() -> None:
    assert answer_in_words(make_matches())[0].startswith("Yes: of 2 distinct posteriors")
    part = make_matches(accuracy=[0.0, 0.0])
    assert answer_in_words(part)[0].startswith("In part")
    part = make_matches(accuracy=[0.0, 1.0], diverged=[0, 3])
    assert answer_in_words(part)[0].startswith("In part: of 1 distinct posteriors")
    assert answer_in_words(make_matches(diverged=[1, 1]))[0].startswith("Unknown")
    none = make_matches(specific=[0.0, 1.0], **{"order-mle-agent": [1.0, 0.0], "accuracy": [1, 0]})
    none["num_particles"] = [50, 20]
    first, pairs, sentences = answer_in_words(none)
    assert first.startswith("No: of 2 distinct posteriors")
    assert pairs.startswith("If N = 10,000 (constituent, probe) pairs (1 posteriors), the nearest")
    assert "but for: num particles 20." in pairs
    assert "all questions about them" in sentences
    assert "but for: nothing. Claims that it misses: what the Bayesian model adds" in sentences
    assert find_nearest(none)["key"] == "a"


def test_verb_and_last_word(paper: World) -> None:
    study = load_study("paper")
    own = load_stimuli(study.stimuli_path, paper)
    verbs, last = (move_critical_word(own, paper, to) for to in ("verb", "last"))
    assert {row.critical for row in verbs.rows.values()} == {3}
    assert last.rows == own.rows


def test_drawn_pairs_are_a_sample_of_all_questions(small_run: Run) -> None:
    network = small_run.networks[0]
    every, drawn = (
        collect_last_layer(small_run, network, rows) for rows in ("every word", "drawn pairs")
    )
    size = min(NUM_PAIRS, every.counts.sum())
    assert drawn.counts.sum() == size
    assert len(drawn.counts) <= len(every.counts)
    assert ((drawn.targets >= 0) & (drawn.targets <= drawn.counts[:, None])).all()
    again = collect_last_layer(small_run, network, "drawn pairs")
    np.testing.assert_array_equal(drawn.targets, again.targets)


@pytest.fixture(scope="module")
def matched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    folder = tmp_path_factory.mktemp("match")
    return folder, match_paper(write_grid(folder, DESIGN), folder / "out")


def test_design_is_run_and_summarised(matched: tuple[Path, Result]) -> None:
    folder, result = matched
    table = result.tables["matches"]
    assert len(table) == table["key"].nunique() == 7  # the study, and 3 × 2
    assert set(table["critical_word"]) == {"study", "verb", "last"}
    facts = [fact["id"] for fact in load_facts()]
    assert (table["met"] == (table[facts] == 1).sum(axis=1)).all()
    assert table["met"].max() > 0
    # changes of the main analysis, by the numbers of a record
    key = table["key"].iloc[0]
    record = json.loads((folder / "out" / "results" / f"{key}.json").read_text())
    cell = next(
        each
        for each in record["cells"]
        if (each["condition"], each["measure"]) == ("reversal", "indicated agent")
    )
    change = np.mean(cell["1.0"]) - np.mean(cell["mle"])
    assert table["effect_agent"].iloc[0] == pytest.approx(change)
    assert cell["0.01"] != cell["1.0"] != cell["5.0"]
    assert result.summary[0].split(":")[0] in ("Yes", "No", "In part", "Unknown")
    written = tomllib.loads((folder / "out" / "match.toml").read_text())
    assert written["answer"] == list(result.summary)
    weights = {Run.load(path).settings.weight_decay for path in (folder / "out/networks").iterdir()}
    assert weights == set(table["weight_decay"])


def test_wrong_design_is_explained(tmp_path: Path) -> None:
    for text, message in (
        (DESIGN.replace("weight_decay", "weigth_decay"), "unknown choice 'weigth_decay'"),
        (DESIGN.replace("trainings = 3", "trainings = 0"), "trainings"),
    ):
        with pytest.raises(UserError, match=message):
            load_grid(write_grid(tmp_path, text))
