"""Readings: the trained network's against its activations, the posterior's against its limits."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import logit

from equivocal.gestalt import Run
from equivocal.suites.construction import READINGS, Construction, Item, Question, Reader
from equivocal.suites.reading import exact_beliefs, reading_shares
from equivocal.suites.readings_store import (
    MEASURED,
    Readings,
    find_readings,
    keep_readings,
    kept_path,
)
from equivocal.world import World

SENTENCES = {
    "possible": ("dog chases cat", "cat chases mouse", "boy chases ball"),
    "impossible": ("cat chases dog", "mouse chases cat", "ball chases boy"),
}


@pytest.fixture(scope="module")
def chase(garden: World) -> Construction:
    """Who chases whom, in the example world."""
    items = []
    for condition, sentences in SENTENCES.items():
        for sentence in sentences:
            who, _, whom = sentence.split()
            roles = (Question("agent", who, whom), Question("patient", whom, who))
            items.append(Item(condition, sentence, garden.parse(sentence), roles))
    ball = (Question("ball", "role:patient", "role:agent"),)
    items.append(Item("a word is asked", "boy ball", garden.parse("boy chases ball"), ball))
    conditions = dict.fromkeys([*SENTENCES, "a word is asked"], "")
    return Construction("chase", "Chase", garden, (), {}, conditions, (), {}, tuple(items))


@pytest.fixture(scope="module")
def trained(chase: Construction, small_run: Run) -> pd.DataFrame:
    return Reader(chase, small_run, 0).trained().set_index(["condition", "item"])


def test_a_reading_needs_every_question() -> None:
    """Four comprehenders, two questions: both right, both wrong, one of each, a tie."""
    z = np.array([[2.0, -1.0, 2.0, 0.0], [3.0, -9.0, -1.0, 1.0]])
    assert reading_shares(z, np.zeros_like(z)) == (0.25, 0.25, 0.5)
    assert reading_shares(-z, np.zeros_like(z)) == (0.25, 0.25, 0.5)
    assert reading_shares(z[:1], np.zeros_like(z[:1])) == (0.5, 0.25, 0.25)


def test_the_trained_network_reads_as_its_activations_say(
    chase: Construction, small_run: Run, trained: pd.DataFrame
) -> None:
    """`comprehend` is another way to the same numbers."""
    for item in chase.items:
        last = small_run.networks[0].comprehend(item.utterance, item.probes).isel(word=-1)
        pairs = [
            tuple(float(last.sel(probe=q.probe, unit=unit)) for unit in (q.answer, q.rival))
            for q in item.questions
        ]
        row = trained.loc[(item.condition, item.name)]
        assert row["belief"] == pytest.approx(pairs[0][0], rel=1e-4)
        assert row["rival_belief"] == pytest.approx(pairs[0][1], rel=1e-4)
        assert row["answer"] == all(answer > rival for answer, rival in pairs)
        assert row["rival"] == all(answer < rival for answer, rival in pairs)
        assert row[list(READINGS)].sum() == 1


def test_possible_sentences_are_read_as_they_are_meant(trained: pd.DataFrame) -> None:
    assert (trained.loc["possible", "answer"] == 1).all()
    assert (trained.loc["a word is asked", "answer"] == 1).all()


def test_exact_beliefs_are_those_of_the_world_and_none_where_it_never_says_so(
    chase: Construction, garden: World
) -> None:
    exact = dict(zip(chase.items, exact_beliefs(chase), strict=True))
    for item, pair in exact.items():
        if item.condition == "impossible":
            assert np.isnan(pair).all()
        else:
            assert pair == (1, 0)
    half = Item("", "", garden.parse("dog chases"), (Question("patient", "cat", "ball"),))
    made = Construction("x", "X", garden, (), {}, {}, (), {}, (half,))
    assert exact_beliefs(made)[0] == pytest.approx((0.8, 0.2))


def test_without_doubt_particles_read_as_the_trained_network(
    chase: Construction, small_run: Run, trained: pd.DataFrame
) -> None:
    """Prior variance 1e-8 about the trained weights: D = 21 features move a logit by 5e-4."""
    rows = Reader(chase, small_run, 0).posterior(1e-8).set_index(["condition", "item"])
    pd.testing.assert_frame_equal(rows[list(READINGS)], trained[list(READINGS)])
    moved = logit(rows["belief"]) - logit(trained["belief"])
    assert moved.abs().max() < 2e-3
    assert (rows["beliefs"] == "posterior").all()


def test_the_fewer_sentences_are_heard_the_more_particles_differ(
    chase: Construction, small_run: Run
) -> None:
    """Where the trained network is sure of a reading, doubt takes some of it away."""
    reader = Reader(chase, small_run, 0)
    many, few = (reader.posterior(10.0, heard) for heard in (400, 4))
    assert list(many["heard"].unique()) == [400]
    assert list(few["heard"].unique()) == [4]
    sure = many["condition"] == "possible"
    assert few.loc[sure, "answer"].mean() < many.loc[sure, "answer"].mean() - 0.1
    again = Reader(chase, small_run, 0).posterior(10.0, 4)
    pd.testing.assert_frame_equal(few, again)


def test_what_particles_read_is_kept_to_the_last_digit(
    chase: Construction, small_run: Run, tmp_path: Path
) -> None:
    """A file that another reader finds is believed; the key tells settings and networks apart."""
    reader = Reader(chase, small_run, 0, tmp_path)
    first = reader.posterior(1.0)
    (path,) = tmp_path.rglob("*.json")
    assert path.parent == tmp_path / "readings" / "chase"
    again = Reader(chase, small_run, 0, tmp_path).posterior(1.0)
    pd.testing.assert_frame_equal(again, first, check_exact=True)
    pd.testing.assert_frame_equal(first, Reader(chase, small_run, 0).posterior(1.0))
    content = json.loads(path.read_text())
    del content["sha256"]
    content["values"][0] = [0.25, 0.5, 0.25, 0.125, 0.75]
    path.write_text(json.dumps(content))
    found = Reader(chase, small_run, 0, tmp_path).posterior(1.0).iloc[0]
    assert list(found[list(MEASURED)]) == [0.25, 0.5, 0.25, 0.125, 0.75]
    settings = {"variance": 1.0}
    twice = [kept_path(tmp_path, chase, small_run, 0, settings) for _ in range(2)]
    others = [
        kept_path(tmp_path, chase, small_run, 0, {"variance": 3.0}),
        kept_path(tmp_path, replace(chase, items=chase.items[1:]), small_run, 0, settings),
        kept_path(tmp_path, chase, replace(small_run, models=small_run.models[::-1]), 0, settings),
    ]
    assert len({*twice, *others}) == 4


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1]",
        '{"values": [[1, 0, 0, 0.5, 0.5]]}',
        '{"values": [[1, 0, 0, 0.5, 7]], "converged": true}',
        f'{{"values": [[1, 0, 0, 0.5, {10**400}]], "converged": true}}',
        '{"values": [[1, 0, 0, 0.5, NaN]], "converged": true}',
        '{"values": [[1, 0, 0, 0.5]], "converged": true}',
        '{"values": [[1, 0, 0, 0.5, 0.5]], "converged": "no"}',
    ],
)
def test_kept_readings_that_are_damaged_are_sampled_again(text: str, tmp_path: Path) -> None:
    path = tmp_path / "00-key.json"
    assert find_readings(path, 1) is None
    path.write_text(text)
    with pytest.warns(UserWarning, match="it is sampled again"):
        assert find_readings(path, 1) is None
    whole = Readings(np.array([[1, 0, 0, 1 / 3, 0.5]]), converged=False)
    keep_readings(path, whole)
    found = find_readings(path, 1)
    assert found is not None
    np.testing.assert_array_equal(found.values, whole.values)
    assert found.converged is False
    path.write_text(path.read_text().replace("0.5", "0.6"))
    with pytest.warns(UserWarning, match="it is not as it was written"):
        assert find_readings(path, 1) is None
