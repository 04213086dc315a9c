"""What saves time must not change an answer: each shortcut against the plain way."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lastlayer.flow import evaluate_proposal, evaluate_start, propose, start_flow
from lastlayer.outcome import RunSettings
from lastlayer.problem import Likelihood, Problem
from lastlayer.products import share_rows
from lastlayer.rows import lay_out
from lastlayer.small import is_small
from lastlayer.variational import RULE, run_gaussian
from lastlayer.verdict import (
    CALLED_FAR,
    NEAR,
    SLIGHT,
    diagnose_gaussian,
    shrink_to_mean,
)
from problems import sample_compiled

SETTINGS = RunSettings(
    num_particles=200, num_steps=None, tolerance=5e-4, seed=0, memory_budget=None, compiled=True
)
RNG = np.random.default_rng(0)
N, D, K = 200, 6, 5
PSI = RNG.standard_normal((N, D)).astype(np.float32)
TARGETS = (RNG.random((N, K)) < 1 / (1 + np.exp(-PSI @ RNG.standard_normal((D, K))))).astype(float)


@pytest.mark.parametrize("own_priors", [False, True])
def test_a_start_with_independent_weights_is_summed_as_any_other(own_priors: bool) -> None:
    """Tolerance: round-off of sums over 200 rows in float32."""
    m0 = RNG.standard_normal((K, D)) if own_priors else 0.0
    problem = Problem.build(PSI, TARGETS, None, m0, 1.0, Likelihood.BERNOULLI, np.float32)
    rows = lay_out(problem, slice(0, K), N)
    shared = share_rows(rows.features, parts=8, held=True)
    scales = jnp.linspace(0.5, 1, K * D).reshape(K, D)
    start = start_flow(0.1 * scales, scales[..., None] * jnp.eye(D))
    quick = evaluate_start(start, rows, RULE, shared)
    plain = evaluate_proposal(start, propose(start, RULE)[0], rows, RULE)
    for found, expected in zip(quick.sums, plain.sums, strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-4)
    np.testing.assert_allclose(quick.bound, plain.bound, rtol=1e-5)
    assert not quick.refused.any()


def test_a_last_step_that_is_not_summed_ends_where_more_steps_do() -> None:
    """In units of the posterior sd and variances; 5e-4 is the tolerance of the first."""
    usual = sample_compiled(PSI, TARGETS, seed=0)
    closer = sample_compiled(PSI, TARGETS, seed=0, dtype="float64", tolerance=1e-10)
    sd = np.sqrt(np.diagonal(closer.covariance, axis1=1, axis2=2))
    assert np.abs((usual.mean - closer.mean) / sd).max() < 5e-4
    ratio = np.matmul(np.linalg.inv(closer.covariance), usual.covariance) - np.eye(D)
    assert np.linalg.norm(ratio, axis=(1, 2)).max() < 5e-4


def test_the_last_outputs_end_in_numpy_where_compiled_programs_end() -> None:
    """Up to six of 48 may be left over; in float64, so that nothing but the way can differ."""
    rng = np.random.default_rng(1)
    psi = rng.standard_normal((3_000, 24))
    strength = np.geomspace(0.1, 8, 48)  # the strongest take more steps
    targets = rng.random((3_000, 48)) < 1 / (1 + np.exp(-psi[:, :1] * strength))
    problem = Problem.build(psi, targets, None, 0.0, 9.0, Likelihood.BERNOULLI, np.float64)
    settings = replace(SETTINGS, tolerance=1e-7)
    assert not is_small(problem, RULE, replace(settings, compiled=False)), "or all are NumPy's"
    with jax.enable_x64(True):
        compiled = run_gaussian(problem, RULE, settings)
        told: list[tuple[int, int]] = []
        own = replace(settings, compiled=False, report=lambda *progress: told.append(progress))
        ended = run_gaussian(problem, RULE, own)
    assert told == sorted(told), "progress goes backwards"
    assert told[-1] == (48, 48)
    assert compiled.converged.all()
    assert ended.converged.all()
    assert not np.array_equal(ended.mean, compiled.mean), "or no output was left to NumPy"
    np.testing.assert_allclose(ended.mean, compiled.mean, atol=1e-6)
    assert ended.factor is not None
    assert compiled.factor is not None
    np.testing.assert_allclose(ended.factor, compiled.factor, atol=1e-6)


def _find_shifts(
    features: np.ndarray, targets: np.ndarray, variance: float, slight: float = SLIGHT
) -> np.ndarray:
    """Return the covariance shift of each output: by draws where it is slight, else by chains."""
    problem = Problem.build(
        features, targets, None, 0.0, variance, Likelihood.BERNOULLI, np.float32
    )
    return diagnose_gaussian(
        problem, run_gaussian(problem, RULE, SETTINGS), SETTINGS, slight=slight
    )


@pytest.mark.parametrize("variance", [0.01, 0.1])
def test_draws_tell_a_slight_shift_as_chains_do(variance: float) -> None:
    """Within a factor of 1.5 or 0.002, as the verdict promises."""
    by_draws = _find_shifts(PSI[:60], TARGETS[:60], variance)
    assert (by_draws < SLIGHT).all(), "or chains were asked after all"
    by_chains = _find_shifts(PSI[:60], TARGETS[:60], variance, slight=0.0)
    near = np.abs(by_draws - by_chains) < 0.002
    near |= np.abs(np.log(by_draws / by_chains)) < np.log(1.5)
    assert near.all(), (by_draws, by_chains)


def test_doubtful_outputs_alone_get_chains() -> None:
    """Their shifts are those that they have where all outputs get chains.

    An output next to the limit gets as many chains as others leave it, and hence another estimate:
    some thousand trajectories of relative variance 0.75 make a standard error below 3 %.
    """
    wide = 3 * PSI[:30], np.column_stack([TARGETS[:30], np.full(30, 0.5)]), 9.0
    some, every = _find_shifts(*wide), _find_shifts(*wide, slight=0.0)
    doubtful = some >= SLIGHT
    assert 0 < doubtful.sum() < len(some)
    decided = doubtful & (np.abs(np.log(every / CALLED_FAR)) > np.log(NEAR[0]))
    assert 0 < decided.sum() < doubtful.sum()
    np.testing.assert_allclose(some[decided], every[decided], rtol=1e-3)
    np.testing.assert_allclose(some[doubtful], every[doubtful], rtol=0.1)


def test_identical_outputs_get_one_verdict() -> None:
    """Ten outputs without a yes, and another: chains of their own would differ by their noise."""
    targets = np.column_stack([np.zeros((30, 10)), TARGETS[:30, :1]])
    shifts = _find_shifts(PSI[:30], targets, 1.0, slight=0.0)
    assert len(np.unique(shifts[:10])) == 1
    assert shifts[10] != shifts[0]


def test_estimates_are_drawn_together_by_their_noise_alone() -> None:
    """Equal shifts with noise become nearly equal; what differs by more than noise hardly moves."""
    noise = np.exp(0.2 * RNG.standard_normal(200))
    few = np.full(200, 18)  # trajectories: a relative variance of 0.75 / 18 = 0.2²
    drawn = shrink_to_mean(0.1 * noise, few)
    assert np.abs(np.log(drawn / 0.1)).max() < 0.15 < np.abs(np.log(noise)).max()
    apart = np.geomspace(0.01, 1.0, 200)
    np.testing.assert_allclose(shrink_to_mean(apart, few), apart, rtol=0.1)
    np.testing.assert_array_equal(shrink_to_mean(apart[:2], few[:2]), apart[:2])
