"""The mixed model agrees with dense likelihoods, statsmodels, and equivalent regressions."""

import numpy as np
import pytest
from scipy import stats

from equivocal.people.simulate import Experiment, analyse_once
from equivocal.statistics import RandomPart, fit_mixed
from tests.people.made_up import crossed, dense_covariance, log_likelihood


def with_slopes(seed=3):
    y, X, (people, items) = crossed(12, 10, seed=seed)
    slopes = np.random.default_rng(seed).normal(0, 30, 12)
    y = y + slopes[people.level] * X[:, 1]
    return y, X, [people, items, RandomPart("slope", people.level, X[:, 1])]


@pytest.mark.parametrize("data", [crossed(), crossed(5, 9, seed=1), with_slopes()])
def test_likelihood_agrees_with_the_multivariate_normal(data) -> None:
    y, X, parts = data
    fit = fit_mixed(y, X, parts)
    assert fit.converged
    assert fit.log_likelihood == pytest.approx(log_likelihood(y, X, parts, fit), rel=1e-12)


@pytest.mark.parametrize("response", ["given", "without slopes"])
def test_correlated_effects_agree_with_the_multivariate_normal(response: str) -> None:
    """Also at the edge, where their correlation is one, as lme4's singular fits are."""
    y, X, (people, items) = crossed(20, 10, seed=6)
    if response == "given":
        slopes = np.random.default_rng(6).normal(0, 30, 20)
        y = y + slopes[people.level] * X[:, 1]
    both = RandomPart("participant", people.level, X, ("intercept", "slope"))
    fit = fit_mixed(y, X, [both, items])
    assert fit.converged
    r = fit.correlations["intercept", "slope"]
    sds = np.array([fit.sds["intercept"], fit.sds["slope"]])
    sigma = np.outer(sds, sds) * np.array([[1, r], [r, 1]])
    V = dense_covariance([items], fit.sds, fit.sd_residual, len(y))
    V += (people.level[:, None] == people.level) * (X @ sigma @ X.T)
    dense = stats.multivariate_normal(X @ fit.coefficients, V).logpdf(y)
    assert fit.log_likelihood == pytest.approx(dense, rel=1e-10)
    assert fit.parameters == 2 + 4 + 1
    apart = [people, RandomPart("slope", people.level, X[:, 1]), items]
    assert fit.log_likelihood > fit_mixed(y, X, apart).log_likelihood - 1e-6
    assert (fit.note == "correlations of ±1: intercept and slope") == (response != "given")


def test_restricted_likelihood_agrees_with_that_of_contrasts() -> None:
    """The density of the contrasts Kᵀy with KᵀX = 0, up to log|XᵀX|/2 by the choice of K."""
    y, X, parts = crossed()
    fit = fit_mixed(y, X, parts, reml=True)
    K = np.linalg.svd(X)[0][:, X.shape[1] :]
    V = dense_covariance(parts, fit.sds, fit.sd_residual, len(y))
    written = stats.multivariate_normal(np.zeros(K.shape[1]), K.T @ V @ K).logpdf(K.T @ y)
    by_choice = np.linalg.slogdet(X.T @ X)[1] / 2
    assert fit.log_likelihood == pytest.approx(written - by_choice, rel=1e-10)


def test_the_test_of_a_measure_of_items_equals_regression_over_item_means() -> None:
    """In a balanced design REML with Satterthwaite's df is exactly that regression, I − 2 df."""
    y, X, parts = crossed(12, 9, between=True, seed=4)
    fit = fit_mixed(y, X, parts, reml=True)
    item = parts[1].level
    means, x = (np.array([v[item == i].mean() for i in range(9)]) for v in (y, X[:, 1]))
    exact = stats.linregress(x, means)
    assert fit.sds["item"] > 0
    assert fit.coefficients[1] == pytest.approx(exact.slope, rel=1e-9)
    assert fit.errors[1] == pytest.approx(exact.stderr, rel=1e-6)
    assert fit.df[1] == pytest.approx(7, rel=1e-5)
    assert fit.p_values[1] == pytest.approx(exact.pvalue, rel=1e-5)
    low, high = fit.intervals[1]
    assert (high - low) / 2 == pytest.approx(stats.t.ppf(0.975, 7) * exact.stderr, rel=1e-5)


def test_without_variance_between_groups_it_is_ordinary_regression() -> None:
    """Group means are equal by construction, so both variances are zero, as the note says."""
    y, X, parts = crossed(sds=(0, 0), seed=5)
    grid = y.reshape(8, 6)
    grid = grid - grid.mean(axis=0) - grid.mean(axis=1, keepdims=True)
    y = grid.ravel() + 300
    x = X[:, 1].reshape(8, 6)
    X[:, 1] = (x - x.mean(axis=0) - x.mean(axis=1, keepdims=True)).ravel()
    fit = fit_mixed(y, X, parts, reml=True)
    exact = stats.linregress(X[:, 1], y)
    assert fit.converged
    assert fit.note == "no variance left for participant and item"
    assert fit.coefficients[1] == pytest.approx(exact.slope, rel=1e-9)
    assert fit.errors[1] == pytest.approx(exact.stderr, rel=1e-9)
    assert fit.df[1] == pytest.approx(len(y) - 2)


def test_a_response_without_noise_is_not_called_converged() -> None:
    y, X, parts = crossed(noise=0)
    fit = fit_mixed(y, X, parts)
    assert not fit.converged
    assert "no noise is left" in fit.note


@pytest.mark.parametrize("run", [18, 77, 245, 358])
def test_a_search_that_stops_early_is_repeated(run: int) -> None:
    """Four of four hundred experiments, whose first search stopped far from the maximum."""
    experiment = Experiment(participants=20, items=12)
    assert analyse_once(experiment, np.random.default_rng([0, 20, 12, run])).converged
