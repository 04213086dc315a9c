"""A seed is a whole number, or drawn from a generator."""

import inspect

import numpy as np
import pytest

from equivocal import inference, metrics
from equivocal.result import answers, frontier, learning, people, signals, suites, uncertainty
from equivocal.statistics.calibration import bootstrap_interval, calibration_interval
from equivocal.statistics.scores import brier_score
from lastlayer.errors import UserError
from lastlayer.seeds import choose_seed

T, P = np.array([0, 1, 1, 0, 1]), np.array([0.2, 0.7, 0.9, 0.4, 0.3])


def test_generators_in_the_same_state_give_the_same_seed() -> None:
    first, second = (choose_seed(np.random.default_rng(5)) for _ in range(2))
    assert first == second != choose_seed(np.random.default_rng(6))
    assert choose_seed(np.int64(7)) == 7


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, True, "7", None])
def test_anything_else_is_refused(seed: object) -> None:
    with pytest.raises(UserError, match="seed.*numpy.random.Generator"):
        choose_seed(seed)


def test_intervals_take_a_generator() -> None:
    for find in (
        lambda **how: bootstrap_interval(brier_score, T, P, **how),
        lambda **how: calibration_interval(T, P, **how),
    ):
        drawn = find(seed=np.random.default_rng(5), draws=20)
        assert drawn == find(seed=choose_seed(np.random.default_rng(5)), draws=20)


@pytest.mark.parametrize(
    "module",
    [answers, frontier, inference, learning, metrics, people, signals, suites, uncertainty],
)
def test_every_public_seed_may_be_a_generator(module: object) -> None:
    for name in module.__all__:
        if inspect.isfunction(function := getattr(module, name)):
            seed = inspect.signature(function).parameters.get("seed")
            assert seed is None or "Generator" in str(seed.annotation), name
