"""Readings: the trained network's against its activations, the posterior's against its limits."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import logit

from equivocal.measuring.reading import (
    READINGS,
    Reader,
    Readings,
    compute_exact_beliefs,
    count_readings,
    load_readings,
    save_readings,
)
from equivocal.measuring.suite import Construction
from equivocal.network import Run
from equivocal.store.store import Store
from equivocal.world import World
from equivocal.world.items import Item
from lastlayer.errors import UserError

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
            said, asked = {"agent": who, "patient": whom}, {"agent": whom, "patient": who}
            items.append(Item(condition, sentence, garden.parse(sentence), 3, said, asked))
    ball = {"ball": "role:patient"}, {"ball": "role:agent"}
    items.append(Item("a word is asked", "boy ball", garden.parse("boy chases ball"), 3, *ball))
    conditions = dict.fromkeys([*SENTENCES, "a word is asked"], "")
    return Construction("chase", "Chase", garden, (), {}, conditions, tuple(items))


@pytest.fixture(scope="module")
def trained(chase: Construction, small_run: Run) -> pd.DataFrame:
    return Reader(chase, small_run, 0).read_trained().set_index(["condition", "item"])


def test_a_reading_needs_every_question() -> None:
    """Four comprehenders, two questions: both right, both wrong, one of each, a tie."""
    z = np.array([[2.0, -1.0, 2.0, 0.0], [3.0, -9.0, -1.0, 1.0]])
    assert count_readings(z, np.zeros_like(z)) == (0.25, 0.25, 0.5)
    assert count_readings(-z, np.zeros_like(z)) == (0.25, 0.25, 0.5)
    assert count_readings(z[:1], np.zeros_like(z[:1])) == (0.5, 0.25, 0.25)


def test_the_trained_network_reads_as_its_activations_say(
    chase: Construction, small_run: Run, trained: pd.DataFrame
) -> None:
    """`comprehend` computes the same numbers in another way."""
    for item in chase.items:
        last = small_run.networks[0].comprehend(item.utterance, list(item.tracked)).isel(word=-1)
        pairs = [
            tuple(float(last.sel(probe=p, unit=units[p])) for units in (item.tracked, item.rivals))
            for p in item.tracked
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


def test_exact_beliefs_are_the_worlds_and_nan_for_impossible_sentences(
    chase: Construction, garden: World
) -> None:
    for item, pair in zip(chase.items, compute_exact_beliefs(chase), strict=True):
        if item.condition == "impossible":
            assert np.isnan(pair).all()
        else:
            assert pair == (1, 0)
    patient = {"patient": "cat"}, {"patient": "ball"}
    half = Item("", "", garden.parse("dog chases"), 2, *patient)
    made = Construction("x", "X", garden, (), {}, {}, (half,))
    assert compute_exact_beliefs(made)[0] == pytest.approx((0.8, 0.2))


def test_with_a_tiny_prior_particles_read_as_the_trained_network(
    chase: Construction, small_run: Run, trained: pd.DataFrame
) -> None:
    """Prior variance 1e-8 about the trained weights: D = 21 features move a logit by 5e-4."""
    rows = Reader(chase, small_run, 0).read_posterior(1e-8).set_index(["condition", "item"])
    pd.testing.assert_frame_equal(rows[list(READINGS)], trained[list(READINGS)])
    moved = logit(rows["belief"]) - logit(trained["belief"])
    assert moved.abs().max() < 2e-3
    assert (rows["beliefs"] == "posterior").all()


def test_the_fewer_sentences_are_heard_the_more_particles_differ(
    chase: Construction, small_run: Run
) -> None:
    """Where the trained network is sure of a reading, uncertainty makes some particles differ."""
    reader = Reader(chase, small_run, 0)
    many, few = (reader.read_posterior(10.0, heard) for heard in (400, 4))
    assert list(many["heard"].unique()) == [400]
    assert list(few["heard"].unique()) == [4]
    sure = many["condition"] == "possible"
    assert few.loc[sure, "answer"].mean() < many.loc[sure, "answer"].mean() - 0.1
    again = Reader(chase, small_run, 0).read_posterior(10.0, 4)
    pd.testing.assert_frame_equal(few, again)


def test_readings_of_particles_are_stored_with_every_digit(
    chase: Construction, small_run: Run, tmp_path: Path
) -> None:
    first = Reader(chase, small_run, 0, Store(tmp_path)).read_posterior(1.0)
    (path,) = (tmp_path / "readings" / "chase").iterdir()
    written = path.stat().st_mtime_ns
    again = Reader(chase, small_run, 0, Store(tmp_path)).read_posterior(1.0)
    pd.testing.assert_frame_equal(again, first, check_exact=True)
    pd.testing.assert_frame_equal(first, Reader(chase, small_run, 0).read_posterior(1.0))
    assert path.stat().st_mtime_ns == written
    path.write_text(path.read_text().replace("0.", "0.1", 1))
    with pytest.warns(UserWarning, match=rf"{path.name}: checksum mismatch"):
        mended = Reader(chase, small_run, 0, Store(tmp_path)).read_posterior(1.0)
    pd.testing.assert_frame_equal(mended, first, check_exact=True)


def test_other_items_and_other_weights_are_read_anew(
    chase: Construction, small_run: Run, tmp_path: Path
) -> None:
    """Stored readings are used only for the same sentences, probes and weights."""
    store = Store(tmp_path)
    Reader(chase, small_run, 0, store).read_posterior(1.0)
    swapped = [replace(i, tracked=i.rivals, rivals=i.tracked) for i in chase.items]
    for construction, run in (
        (chase, replace(small_run, models=small_run.models[::-1])),
        (replace(chase, items=chase.items[1:]), small_run),
        (replace(chase, items=tuple(swapped)), small_run),
    ):
        alone = Reader(construction, run, 0).read_posterior(1.0)
        found = Reader(construction, run, 0, store).read_posterior(1.0)
        pd.testing.assert_frame_equal(found, alone)


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
def test_readings_that_cannot_be_read_are_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "readings.json"
    path.write_text(text)
    with pytest.raises(UserError, match=r"cannot read .*readings\.json"):
        load_readings(path, 1)
    whole = Readings(np.array([[1, 0, 0, 1 / 3, 0.5]]), converged=False)
    save_readings(whole, path)
    found = load_readings(path, 1)
    np.testing.assert_array_equal(found.values, whole.values)
    assert found.converged is False
