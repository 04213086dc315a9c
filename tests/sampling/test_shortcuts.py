"""What saves time must not change an answer: each shortcut against the plain way."""

import jax.numpy as jnp
import numpy as np
import pytest

from equivocal.sampling import diagnostics, sample_posterior
from equivocal.sampling.engine.flow import evaluate_proposal, evaluate_start, propose, start_flow
from equivocal.sampling.engine.problem import Likelihood, Problem
from equivocal.sampling.engine.rows import lay_out
from equivocal.sampling.engine.squares import Shared, form_products
from equivocal.sampling.samplers.mean_field import RULE

pytestmark = pytest.mark.usefixtures("compiled")
RNG = np.random.default_rng(0)
N, D, K = 200, 6, 5
PSI = RNG.standard_normal((N, D)).astype(np.float32)
TARGETS = (RNG.random((N, K)) < 1 / (1 + np.exp(-PSI @ RNG.standard_normal((D, K))))).astype(float)


@pytest.mark.parametrize("own_priors", [False, True])
def test_one_sum_starts_all_outputs(own_priors: bool) -> None:
    """Tolerance: round-off of sums over 200 rows in float32."""
    m0 = RNG.standard_normal((K, D)) if own_priors else 0.0
    problem = Problem.build(PSI, TARGETS, None, m0, 1.0, Likelihood.BERNOULLI, np.float32)
    rows = lay_out(problem, slice(0, K), N)
    shared = Shared(rows.features[0], form_products(rows.features[0]))
    factor = jnp.broadcast_to(jnp.diag(jnp.linspace(0.5, 1, D)), (K, D, D))
    start = start_flow(jnp.zeros((K, D)), factor)
    quick = evaluate_start(start, rows, RULE, shared)
    plain = evaluate_proposal(start, propose(start, RULE)[0], rows, RULE)
    for found, expected in zip(quick.sums, plain.sums, strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-4)
    np.testing.assert_allclose(quick.bound, plain.bound, rtol=1e-5)
    assert not quick.refused.any()


def test_a_last_step_that_is_not_summed_ends_where_more_steps_do() -> None:
    """In units of the posterior sd and variances; 5e-4 is the tolerance of the first."""
    usual = sample_posterior(PSI, TARGETS, seed=0)
    closer = sample_posterior(PSI, TARGETS, seed=0, dtype="float64", tolerance=1e-10)
    sd = np.sqrt(np.diagonal(closer.covariance, axis1=1, axis2=2))
    assert np.abs((usual.mean - closer.mean) / sd).max() < 5e-4
    ratio = np.matmul(np.linalg.inv(closer.covariance), usual.covariance) - np.eye(D)
    assert np.linalg.norm(ratio, axis=(1, 2)).max() < 5e-4


@pytest.mark.parametrize("variance", [0.01, 0.1])
def test_draws_tell_a_slight_shift_as_chains_do(
    variance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a factor of 1.5 or 0.002, as the verdict promises."""
    asked = {"features": PSI[:60], "targets": TARGETS[:60], "prior_variance": variance, "seed": 0}
    by_draws = sample_posterior(**asked).info.covariance_shift
    assert (by_draws < diagnostics.SLIGHT).all(), "or chains were asked after all"
    monkeypatch.setattr(diagnostics, "SLIGHT", 0.0)
    by_chains = sample_posterior(**asked).info.covariance_shift
    near = np.abs(by_draws - by_chains) < 0.002
    near |= np.abs(np.log(by_draws / by_chains)) < np.log(1.5)
    assert near.all(), (by_draws, by_chains)


def test_doubtful_outputs_alone_get_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their shifts are those that they have where all outputs get chains."""
    wide = {"features": 3 * PSI[:30], "targets": TARGETS[:30], "prior_variance": 9.0, "seed": 0}
    wide["targets"] = np.column_stack([wide["targets"], np.full(30, 0.5)])
    some = sample_posterior(**wide).info.covariance_shift
    doubtful = some >= diagnostics.SLIGHT
    monkeypatch.setattr(diagnostics, "SLIGHT", 0.0)
    every = sample_posterior(**wide).info.covariance_shift
    assert 0 < doubtful.sum() < len(some)
    np.testing.assert_allclose(some[doubtful], every[doubtful], rtol=1e-3)
