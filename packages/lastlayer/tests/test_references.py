"""The Gaussian methods against posteriors known from elsewhere (tests/data/README.md)."""

from functools import cache

import numpy as np
import pytest

from lastlayer import Posterior
from lastlayer.verdict import CALLED_FAR
from problems import GOLD, load_reference, reference, sample_posterior

EVERY = pytest.mark.parametrize(("name", "variance"), GOLD)


@cache
def solve(name: str, variance: str, **options: object) -> Posterior:
    """The posterior of a reference problem, sampled once for all tests."""
    ref = reference(name, variance)
    return sample_posterior(
        ref.features,
        ref.targets,
        prior_mean=ref.prior_mean,
        prior_variance=ref.prior_variance,
        **options,
    )


def distance(posterior: Posterior, mean: np.ndarray, covariance: np.ndarray) -> tuple[float, float]:
    """Worst mean in posterior sd, and relative Frobenius distance of the covariance."""
    sd = np.sqrt(np.diag(covariance))
    worst = np.abs((posterior.mean[0] - mean) / sd).max()
    return worst, np.linalg.norm(posterior.covariance[0] - covariance) / np.linalg.norm(covariance)


@EVERY
@pytest.mark.parametrize(("dtype", "limit"), [("float64", 1e-6), ("float32", 1e-4)])
def test_mean_field_is_the_variational_optimum(
    name: str, variance: str, dtype: str, limit: float
) -> None:
    """The answers have residuals < 1e-10; ours stop at 1e-7 and 5e-4, one step before they end."""
    answers = reference(name, variance).answers
    posterior = solve(name, variance, dtype=dtype)
    assert posterior.info.converged
    mean, covariance = distance(posterior, answers["vi_mean"], answers["vi_cov"])
    assert mean < limit
    assert covariance < limit


@EVERY
def test_exact_flow_predicts_as_nuts_does(name: str, variance: str) -> None:
    """Within 0.02, or where the Gaussian family itself is further away, within what it costs."""
    ref = reference(name, variance)
    posterior = solve(name, variance)
    family = np.abs(ref.answers["vi_pred"] - ref.answers["pred_cv"]).max()
    ours = np.abs(posterior.predict_proba(ref.test_features)[:, 0] - ref.answers["pred_cv"]).max()
    assert ours < max(0.02, family + 1e-4)
    by_particles = 1 / (1 + np.exp(-ref.test_features @ posterior.particles[0].T))
    exact = posterior.predict_proba(ref.test_features)[:, 0]
    # 200 draws: five standard errors, with p(1 − p) the largest variance that a mean p allows
    error = np.sqrt(exact * (1 - exact) / by_particles.shape[1])
    assert (np.abs(by_particles.mean(axis=1) - exact) < 5 * error + 1e-6).all()


@EVERY
def test_laplace_is_laplace(name: str, variance: str) -> None:
    answers = reference(name, variance).answers
    posterior = solve(name, variance, method="laplace")
    mean, covariance = distance(posterior, answers["laplace_mean"], answers["laplace_cov"])
    assert mean < 1e-5  # the stored mode's own residual
    assert covariance < 1e-5


@EVERY
def test_covariance_shift_is_the_true_one(name: str, variance: str) -> None:
    """Within a factor of 1.5 of the excess of variance that NUTS finds, where that is not noise."""
    answers = reference(name, variance).answers
    D = len(answers["cov"])
    true = np.trace(np.linalg.solve(answers["vi_cov"], answers["cov"])) / D - 1
    info = solve(name, variance).info
    if true > 0.002:
        assert 1 / 1.5 < info.covariance_shift[0] / true < 1.5
    assert info.gaussian_enough == (info.covariance_shift[0] <= CALLED_FAR)
    assert ("not enough" in info.message) == (not info.gaussian_enough)


@pytest.mark.parametrize("seed", range(5))
def test_verdict_does_not_depend_on_the_seed(seed: int) -> None:
    assert solve("breast_cancer", "1", seed=seed).info.gaussian_enough
    assert solve("iris_tiny", "5", seed=seed).info.gaussian_enough  # 9 %, by NUTS
    assert not solve("synth_separable", "1", seed=seed).info.gaussian_enough


@pytest.mark.parametrize(
    "file", ["pdb_dogs-dogs_withdrawn.npz", "pdb_own_wells_dist100ars_flat.npz"]
)
def test_posteriors_from_outside(file: str) -> None:
    """posteriordb's: wide priors, hundreds of rows, three weights."""
    data = load_reference(file)
    posterior = sample_posterior(data["X"], data["t"], prior_variance=1e4)
    assert posterior.info.converged
    assert posterior.info.gaussian_enough
    mean, covariance = distance(posterior, data["mean"], data["cov"])
    # a Gaussian's own distance (0.002 sd, 0.4 %) and the Monte Carlo error of 10,000 draws
    assert mean < 0.05
    assert covariance < 0.05
