"""Shortcuts of the flow against the plain way: they change the time it takes, not the answer."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from scipy.special import expit

from equivocal.sampling.engine.plan import make_plan
from equivocal.sampling.engine.problem import Likelihood, Problem
from equivocal.sampling.engine.queue import run_flow
from equivocal.sampling.engine.settings import Outcome, RunSettings
from equivocal.sampling.engine.starts import start_near_end, start_near_prior
from equivocal.sampling.samplers import laplace
from equivocal.sampling.samplers.mean_field import RULE, run_gaussian

SETTINGS = RunSettings(num_particles=20, num_steps=None, tolerance=5e-4, seed=0, memory_budget=None)


def make_problem(
    num_outputs: int = 3, variance: float = 1.0, strength: float = 1.0, dtype: str = "float32"
) -> Problem:
    """Rows whose classes overlap (strength 1) or are separable (100), with counts."""
    rng = np.random.default_rng(0)
    x = np.concatenate([np.ones((300, 1)), rng.normal(size=(300, 6))], axis=1).astype(dtype)
    counts = rng.integers(1, 20, 300)
    rate = expit(strength * x @ rng.normal(size=(7, num_outputs)))
    targets = rng.binomial(counts[:, None], rate)
    return Problem.build(x, targets, counts, 0.0, variance, Likelihood.BERNOULLI, dtype)


def assert_same(found: Outcome, expected: Outcome, tolerance: float) -> None:
    assert found.converged.all()
    assert expected.converged.all()
    sd = np.linalg.norm(expected.factor, axis=2)
    assert (np.abs(found.mean - expected.mean) / sd).max() < tolerance
    np.testing.assert_allclose(np.linalg.norm(found.factor, axis=2), sd, rtol=tolerance)


@pytest.mark.parametrize("rule", [RULE, laplace.RULE], ids=["mean field", "Laplace"])
@pytest.mark.parametrize(("variance", "strength"), [(1.0, 1.0), (5.0, 100.0)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_shortcuts_give_the_plain_answer(
    rule: object, variance: float, strength: float, dtype: str
) -> None:
    """B kept, and a start near the end: as from the prior with B computed twice.

    Each run is within its tolerance of the fixed point, so they are within twice that of each other
    (in the worst direction; these are smaller). A β ten times too small adds three steps here.
    """
    problem = make_problem(variance=variance, strength=strength, dtype=dtype)
    settings = replace(SETTINGS, tolerance=5e-4 if dtype == "float32" else 1e-7)
    with jax.enable_x64(dtype == "float64"), jax.default_matmul_precision("highest"):
        found = run_gaussian(problem, rule, settings)
        plan = make_plan(problem, None, per_output=1, per_row=1)
        expected = run_flow(
            problem, plan, rule, tolerance=settings.tolerance, num_steps=1_000, report=settings.tell
        )
    assert not plan.keep
    assert_same(found, expected, 2 * settings.tolerance)
    assert found.steps.max() <= expected.steps.max()


def test_outputs_start_alike_whoever_runs_beside_them() -> None:
    problem = make_problem(num_outputs=20)
    alone = replace(problem, targets=problem.targets[:, 18:19])
    every, one = start_near_end(problem, 8), start_near_end(alone, 8)
    for a, b in zip(every(18), one(0), strict=True):
        np.testing.assert_array_equal(a, b)


def test_features_of_very_unequal_size_start_near_the_prior() -> None:
    """Eigenvectors of H̄ would be round-off in the small features."""
    problem = make_problem()
    features = problem.features * np.array([1e9, 1, 1, 1, 1, 1, 1], np.float32)
    problem = replace(problem, features=features)
    for a, b in zip(start_near_end(problem, 8)(0), start_near_prior(problem, 8)(0), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_neighbouring_solution_is_a_start() -> None:
    """Prior variance 1 from 1.1; in weights, since the coordinates w depend on the variance."""
    wider, problem = make_problem(variance=1.1), make_problem()
    near, expected = (run_gaussian(each, RULE, SETTINGS) for each in (wider, problem))
    scaled = near.mean * wider.prior_scale, near.factor * wider.prior_scale[:, None]
    found = run_gaussian(problem, RULE, SETTINGS, start=scaled)
    again = run_gaussian(problem, RULE, SETTINGS, start=(expected.mean, expected.factor))
    assert_same(found, expected, 1e-3)
    assert found.steps.max() <= expected.steps.max()
    assert (again.steps == 1).all()  # the step that was ready when the residual became known


def test_b_is_kept_only_where_it_fits() -> None:
    problem = make_problem()
    sizes = {"per_output": 8 * 15**2, "per_row": 45, "pad": True, "keep": True}
    roomy, tight = (make_plan(problem, budget, **sizes) for budget in (1 << 26, 90_000))
    assert roomy.keep
    assert not tight.keep
    found, expected = (
        run_gaussian(problem, RULE, replace(SETTINGS, memory_budget=budget))
        for budget in (1 << 26, 90_000)
    )
    assert_same(found, expected, 1e-3)
