"""Networks of an experiment are loaded or trained, and their scores and folds are written."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import equivocal
from equivocal.network import Run, TrainingSettings, train
from equivocal.network.train_or_load import (
    QUICK,
    choose_training,
    save_cross_validation,
    select_best_epochs,
    train_or_load,
)
from equivocal.world import World
from lastlayer.errors import UserError
from tests.conftest import SMALL

TINY = replace(SMALL, epochs=2)  # as in the tests of training, so that JAX compiles once


def test_a_run_is_loaded_and_its_scores_repaired(
    small_run: Run, garden: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small_run.save(tmp_path)
    path = tmp_path / "scores.csv"
    written = path.read_text()
    found = train_or_load(garden, SMALL, tmp_path)
    assert f"{tmp_path} holds this run already" in capsys.readouterr().err.replace("\n", "")
    pd.testing.assert_frame_equal(found.curves, small_run.curves, check_dtype=False, rtol=1e-6)
    for broken in ("", "network,unit_accuracy\n0,0.5\n", written.replace("0.9", "0.1")):
        path.write_text(broken)
        with pytest.warns(UserWarning, match=r"scores\.csv disagrees with the networks"):
            train_or_load(garden, SMALL, tmp_path)
        assert path.read_text() == written
    path.unlink()
    train_or_load(garden, SMALL, tmp_path)
    assert path.read_text() == written


def test_a_run_is_trained_and_saved(
    garden: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = train_or_load(garden, TINY, tmp_path / "run")
    assert "trained 2 in " in capsys.readouterr().err
    pd.testing.assert_frame_equal(Run.load(tmp_path / "run").scores, made.scores)
    with pytest.raises(UserError, match="holds another run"):
        train_or_load(garden, SMALL, tmp_path / "run")


def test_cross_validation_is_written_once(garden: World, tmp_path: Path) -> None:
    curves = save_cross_validation(tmp_path, garden, TINY, folds=2)
    best = select_best_epochs(curves)
    assert best.index.tolist() == [0, 1]
    first = curves.query("fold == 0").groupby("network")["test_loss"].min()
    assert best.loc[0, "test_loss"] == pytest.approx(first.mean())
    written = pd.read_csv(tmp_path / "cross_validation.csv")
    assert (written["weight_decay"] == TINY.weight_decay).all()
    np.testing.assert_allclose(written["test_loss"], curves["test_loss"])
    assert "folds = 2" in (tmp_path / "cross_validation.toml").read_text()
    with pytest.raises(UserError, match="holds results already"):
        save_cross_validation(tmp_path, garden, TINY)


def test_arguments_take_precedence_over_quick() -> None:
    chosen = choose_training(networks=3, quick=True)
    assert (chosen.networks, chosen.epochs) == (3, QUICK["epochs"])
    assert choose_training() == TrainingSettings()


def test_a_generator_is_a_seed(garden: World) -> None:
    one, other = (train(garden, TINY, seed=np.random.default_rng(5)) for _ in range(2))
    assert one.settings.seed == int(np.random.default_rng(5).integers(2**32))
    pd.testing.assert_frame_equal(one.curves, other.curves)
    rng = np.random.default_rng(5)
    assert (
        train(garden, TINY, seed=rng).settings.seed != train(garden, TINY, seed=rng).settings.seed
    )
    assert train(garden, TINY, seed=7).settings.seed == 7
    with pytest.raises(UserError, match="seed must be a whole number between 0 and"):
        train(garden, TINY, seed=-1)
    texts = [garden.sample(9, seed=np.random.default_rng(3)).texts, garden.sample(9, seed=3).texts]
    assert texts[0] == texts[1]
    rng = np.random.default_rng(3)
    assert garden.sample(9, seed=rng).texts != garden.sample(9, seed=rng).texts


def test_public_names_are_imported_when_first_used() -> None:
    assert equivocal.train is train
    assert equivocal.World is World
    with pytest.raises(AttributeError, match="no attribute 'teach'"):
        equivocal.teach  # noqa: B018
    code = "import sys, equivocal; print([m for m in sys.modules if m in ('jax', 'numpy', 'rich')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
