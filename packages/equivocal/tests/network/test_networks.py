"""Seeds of networks, and names that are imported when first used."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import equivocal
from equivocal.network import train
from equivocal.world import World
from lastlayer.errors import UserError
from tests.conftest import SMALL

TINY = replace(SMALL, epochs=2)  # as in the tests of training, so that JAX compiles once


def test_a_generator_is_a_seed(garden: World) -> None:
    one, other = (train(garden, TINY, seed=np.random.default_rng(5)) for _ in range(2))
    assert one.settings.seed == int(np.random.default_rng(5).integers(2**32))
    pd.testing.assert_frame_equal(one.curves, other.curves)
    with pytest.raises(UserError, match="seed must be a whole number between 0 and"):
        train(garden, TINY, seed=-1)


def test_public_names_are_imported_when_first_used() -> None:
    assert equivocal.train is train
    assert equivocal.World is World
    with pytest.raises(AttributeError, match="no attribute 'teach'"):
        equivocal.teach  # noqa: B018
    code = "import sys, equivocal; print([m for m in sys.modules if m in ('jax', 'numpy', 'rich')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
