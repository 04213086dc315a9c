"""Shared products, nearer starts and fewer rows give the posterior of the plain flow."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit

from lastlayer import laplace
from lastlayer.approach import start_nearby
from lastlayer.errors import UserError
from lastlayer.flow import evaluate_start, start_flow
from lastlayer.outcome import Outcome, RunSettings
from lastlayer.plan import make_plan
from lastlayer.problem import Likelihood, Problem, start_near_prior
from lastlayer.products import rotate, share_rows
from lastlayer.queue import run_flow
from lastlayer.rows import lay_out
from lastlayer.variational import RULE, run_gaussian

SETTINGS = RunSettings(
    num_particles=20, num_steps=None, tolerance=5e-4, seed=0, memory_budget=None, compiled=True
)


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
def test_shared_products_give_the_posterior_of_separate_ones(
    rule: object, variance: float, strength: float, dtype: str
) -> None:
    """Products shared by all outputs: as with products that each output has for itself.

    Each run is within its tolerance of the fixed point, so they are within twice that of each other
    (in the worst direction; these are smaller).
    """
    problem = make_problem(variance=variance, strength=strength, dtype=dtype)
    settings = replace(SETTINGS, tolerance=5e-4 if dtype == "float32" else 1e-7)
    with jax.enable_x64(dtype == "float64"), jax.default_matmul_precision("highest"):
        found = run_gaussian(problem, rule, settings)
        plan = make_plan(problem, None, per_output=1, per_row=1)
        expected = run_flow(
            problem, plan, rule, tolerance=settings.tolerance, num_steps=1_000, report=settings.tell
        )
    assert not plan.shared
    assert_same(found, expected, 2 * settings.tolerance)
    assert found.steps.max() <= expected.steps.max() + 1


def test_the_flow_starts_nearer_than_the_prior() -> None:
    """Separable rows, where the curvature at the prior is far too large: the bound starts higher.

    An output does not depend on which others start with it.
    """
    problem, _ = rotate(make_problem(num_outputs=5, variance=5.0, strength=100.0))
    plan = make_plan(problem, None, per_output=1, per_row=1, share=True)
    rows = lay_out(problem, slice(0, 5), plan.block_rows)
    starts = start_nearby(problem, RULE, plan, rows), start_near_prior(problem, 7)
    shared = share_rows(rows.features, parts=1, held=True)
    near, far = (
        evaluate_start(
            start_flow(*map(np.stack, zip(*map(start_of, range(5)), strict=True))),
            rows,
            RULE,
            shared,
        )
        for start_of in starts
    )
    assert (near.bound > far.bound).all()
    two = lay_out(problem, slice(0, 2), plan.block_rows)
    again = start_nearby(problem, RULE, replace(plan, slots=2), two)
    for k in range(5):
        np.testing.assert_allclose(again(k)[0], starts[0](k)[0], rtol=1e-4, atol=1e-4)


def test_a_flow_starts_from_the_solution_for_a_similar_prior() -> None:
    """Prior variance 1 from 1.1; in weights, since the coordinates w depend on the variance."""
    wider, problem = make_problem(variance=1.1), make_problem()
    near, expected = (run_gaussian(each, RULE, SETTINGS) for each in (wider, problem))
    scaled = near.mean * wider.prior_scale, near.factor * wider.prior_scale[:, None]
    found = run_gaussian(problem, RULE, SETTINGS, start=scaled)
    again = run_gaussian(problem, RULE, SETTINGS, start=(expected.mean, expected.factor))
    assert_same(found, expected, 1e-3)
    # one more where no step before the first says how fast residuals fall
    assert found.steps.max() <= expected.steps.max() + 1
    assert (again.steps == 0).all()  # it is within the tolerance where it starts


def test_products_are_shared_where_the_problem_is_not_too_large() -> None:
    """Whatever the budget: it decides whether products are held."""
    sizes = {"per_output": 8 * 15**2, "per_row": 45, "pad": True, "share": True}
    problem = make_problem()
    # 300 rows of 7 features have products of 34 kB, and everything else takes 86 kB
    plans = [make_plan(problem, budget, **sizes) for budget in (None, 125_000, 95_000)]
    assert [(plan.shared, plan.parts, plan.held) for plan in plans] == [
        (True, 8, True),
        (True, 8, True),
        (True, 8, False),
    ]
    with pytest.raises(UserError, match="memory_budget of 80,000 bytes is too small"):
        make_plan(problem, 80_000, **sizes)
    for num_rows, expected in ((105_000, (True, 0)), (1_000_000, (False, 0))):
        large = replace(  # products of more than 2 GB, and rows of more than 1
            problem,
            features=np.broadcast_to(np.float32(1), (num_rows, 101)),
            targets=np.broadcast_to(np.float32(1), (num_rows, 1)),
        )
        plan = make_plan(large, 1 << 32, **sizes)
        assert (plan.shared, plan.parts) == expected


def test_outputs_that_shared_products_cannot_solve_use_separate_ones() -> None:
    """Features of sizes 1 and 1e9: in float32 H has no digit left of the small ones."""
    problem = make_problem()
    features = problem.features * np.array([1e9, 1, 1, 1, 1, 1, 1], np.float32)
    problem = replace(problem, features=features)
    with jax.default_matmul_precision("highest"):
        found = run_gaussian(problem, RULE, SETTINGS)
        plan = make_plan(problem, None, per_output=1, per_row=1)
        expected = run_flow(
            problem, plan, RULE, tolerance=5e-4, num_steps=1_000, report=SETTINGS.tell
        )
    assert_same(found, expected, 2e-3)


@pytest.mark.parametrize(("parts", "held"), [(8, True), (8, False), (0, False)])
def test_products_give_variances_and_curvatures(parts: int, held: bool) -> None:
    """(26) against the plain formulas; float64, so that only round-off is allowed."""
    rng = np.random.default_rng(0)
    psi, G, w = rng.normal(size=(40, 5)), rng.normal(size=(3, 5, 5)), rng.random((3, 40))
    with jax.enable_x64(True):
        rows = jnp.asarray(psi)
        shared = share_rows(rows[None], parts, held)
        v = shared.compute_variances(jnp.asarray(G))
        H = shared.compute_curvatures(jnp.asarray(w))
    P = G @ G.swapaxes(1, 2)
    np.testing.assert_allclose(v, np.einsum("ni,kij,nj->kn", psi, P, psi), rtol=1e-12)
    np.testing.assert_allclose(H, np.einsum("kn,ni,nj->kij", w, psi, psi), rtol=1e-12, atol=1e-12)


def test_rotation_changes_only_coordinates() -> None:
    """Logits of prior mean and weights are the same, and the prior of w' is N(0, I)."""
    problem = replace(make_problem(variance=3.0), prior_mean=np.full((1, 7), 0.5, np.float32))
    turned, U = rotate(problem)
    w = np.random.default_rng(1).normal(size=(2, 7)).astype(np.float32)
    np.testing.assert_allclose(U.T @ U, np.eye(7), atol=1e-6)
    for part in (problem, turned):
        assert part.prior_scale.shape == (7,)
    plain = problem.features @ problem.to_weights(w)[0]
    np.testing.assert_allclose(turned.features @ turned.to_weights(w @ U)[0], plain, rtol=1e-4)
