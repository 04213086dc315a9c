"""The rows on which benchmarks are measured."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.sampler.problems import Data, collect_run_rows, make_network_rows, make_plain_rows
from benchmarks.sampler.settings import BenchSettings

from equivocal.errors import UserError
from equivocal.gestalt import Network, Run, features

QUICK = BenchSettings.quick()


def as_set(rows: np.ndarray) -> set[bytes]:
    return {row.tobytes() for row in np.ascontiguousarray(rows)}


def check(data: Data, settings: BenchSettings) -> None:
    assert data.features.dtype == data.held_out.dtype == np.float32
    assert len(data.features) == len(data.targets) == settings.rows
    assert set(np.unique(data.targets)) <= {0, 1}
    assert (data.features[:, -1] == 1).all()  # the bias; scikit-learn fits no intercept
    assert not as_set(data.features) & as_set(data.held_out)


def test_made_up_outputs_are_rare_and_common_weak_and_strong() -> None:
    data = make_network_rows(replace(QUICK, rows=4_000, outputs=12))
    check(data, replace(QUICK, rows=4_000))
    assert data.features.shape == (4_000, 11)
    assert data.two_classes == list(range(12))
    rate = data.targets.mean(axis=0)
    assert rate.min() < 0.2
    assert rate.max() > 0.4
    again = make_network_rows(replace(QUICK, rows=4_000, outputs=12))
    np.testing.assert_array_equal(again.targets, data.targets)


def test_rows_of_a_run_are_questions_of_its_corpus(small_run: Run, tmp_path: Path) -> None:
    small_run.save(tmp_path / "run")
    data = collect_run_rows(tmp_path / "run", QUICK)
    check(data, QUICK)
    network = Network.load(tmp_path / "run", index=0)
    asked = features(network, network.world.sample(10_000, seed=0))
    assert as_set(data.features) | as_set(data.held_out) <= as_set(asked["features"].values)
    assert data.targets.shape[1] == QUICK.outputs
    sizes = data.summary()
    assert sizes["distinct_rows"] < sizes["rows"]  # common questions are repeated
    # certain answers stay certain: a row whose answers are all 0 or all 1 always gets that target
    distinct, group = data.groups
    ones = np.bincount(group, weights=data.targets[:, 0], minlength=len(distinct))
    lookup = {row.tobytes(): i for i, row in enumerate(asked["features"].values)}
    places = [lookup[row.tobytes()] for row in distinct]
    rate = (asked["targets"].values / asked["counts"].values[:, None])[places, 0]
    assert (ones[rate == 0] == 0).all()
    assert (ones[rate == 1] == np.bincount(group)[rate == 1]).all()


def test_a_run_without_rows_to_hold_out_is_refused(small_run: Run, tmp_path: Path) -> None:
    small_run.save(tmp_path / "run")
    with pytest.raises(UserError, match="none is left to hold out"):
        collect_run_rows(tmp_path / "run", replace(QUICK, rows=500_000))


def test_plain_rows_do_not_depend_on_chunks() -> None:
    psi, targets = make_plain_rows(25_000, 3, 4, seed=1)
    assert psi.shape == (25_000, 4)
    assert psi.dtype == np.float32
    assert abs(psi.std() - 1) < 0.01
    # each output depends on the features: the means of its two classes differ
    for t in targets.T:
        assert np.abs(psi[t == 1].mean(axis=0) - psi[t == 0].mean(axis=0)).max() > 0.1
