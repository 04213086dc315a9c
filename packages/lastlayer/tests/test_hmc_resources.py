"""What the chains take: no program for a new seed, and no more memory than the plan says."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
import pytest

from problems import sample_posterior

RNG = np.random.default_rng(0)
DOSES = np.array([[-0.86], [-0.3], [-0.05], [0.73]]) @ [[1.0, 0.0]] + [[0.0, 1.0]]
SKEWED = {"counts": [5, 5, 5, 5], "prior_variance": [100.0, 25.0]}
DIED = RNG.integers(0, 6, (4, 21)).astype(float)
LABELS = RNG.integers(0, 3, 40)
X = np.c_[RNG.normal(size=(40, 4)), np.ones(40)]


@contextmanager
def count_compilations() -> Iterator[list[str]]:
    """Collect the programs that JAX traces or compiles, of this package or not."""
    seen: list[str] = []

    def note(name: str, duration: float, **_: Any) -> None:
        del duration
        if name.startswith("/jax/core/compile/"):
            seen.append(name)

    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        yield seen
    finally:
        jax.monitoring.unregister_event_duration_listener(note)


CASES: dict[str, tuple[np.ndarray, np.ndarray, dict[str, Any]]] = {
    "outputs": (X, (X[:, :3] > 0).astype(float), {"method": "hmc"}),
    "outputs that end at different times": (DOSES, DIED, SKEWED | {"method": "hmc"}),
    "outputs that end within a round": (DOSES, DIED, SKEWED | {"method": "hmc", "num_steps": 60}),
    "classes": (X, LABELS, {"likelihood": "softmax"}),
    "verdict": (DOSES, DIED, SKEWED),
    # some shifts are near the limit
    "refined": (DOSES, DIED, SKEWED | {"refine": True, "prior_variance": 16.0}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_new_seed_compiles_nothing(name: str) -> None:
    """Seeds differ in how long the chains are, and in which outputs are refined."""
    x, t, options = CASES[name]

    def describe(seed: int) -> tuple[int, int]:
        info = sample_posterior(x, t, seed=seed, **options).info
        return int(info.steps.max()), int(info.refined.sum())

    with count_compilations() as first:
        known = describe(5)
    with count_compilations() as seen:
        others = [describe(0), describe(4)]
    assert seen == []
    if name in ("outputs that end at different times", "refined"):
        assert first, "a compilation is noticed"
        assert any(other > known for other in others)
