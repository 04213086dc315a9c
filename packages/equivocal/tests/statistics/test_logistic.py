"""The logistic mixed model agrees with Laplace's formula and with plain regression."""

import numpy as np
import pytest
from scipy.special import expit

from equivocal.statistics import RandomPart, find_separation, fit_logistic
from equivocal.statistics.blocks import Layout
from equivocal.statistics.logistic import LogisticProblem
from lastlayer.errors import UserError
from tests.statistics.made_up_answers import answered, build_z, laplace

DATA = {
    "intercepts": answered(),
    "more items": answered(7, 16, seed=1),
    "slopes": answered(12, 12, slope_sd=0.8, seed=2),
    "slopes, more items": answered(6, 20, slope_sd=0.8, seed=3),
}


@pytest.mark.parametrize("name", DATA)
def test_likelihood_is_the_maximum_of_laplaces_approximation(name: str) -> None:
    y, X, parts = DATA[name]
    fit = fit_logistic(y, X, parts)
    assert fit.converged
    best = laplace(y, X, parts, fit.coefficients, fit.sds)
    assert fit.log_likelihood == pytest.approx(best, abs=1e-6)
    for factor in (0.95, 1.05):
        for part in fit.sds:
            if fit.sds[part] > 0.1:
                moved = fit.sds | {part: fit.sds[part] * factor}
                assert laplace(y, X, parts, fit.coefficients, moved) < best
        for j in range(2):
            moved = fit.coefficients * np.where(np.arange(2) == j, factor, 1)
            assert laplace(y, X, parts, moved, fit.sds) < best


@pytest.mark.parametrize("correlated", [False, True])
def test_gradient_agrees_with_differences_of_the_criterion(correlated: bool) -> None:
    y, X, parts = DATA["slopes"]
    at = np.array([-0.3, 0.5, 0.7, 0.9, 0.4])
    if correlated:
        parts = [RandomPart(part.name, part.level, X) for part in parts[:2]]
        at = np.array([-0.3, 0.5, 0.7, 0.4, 0.9, 0.3, -0.2, 0.5])
    problem = LogisticProblem(y, X, parts, np.ones(len(y)))
    _, gradient = problem.compute_criterion(at)
    slopes = [
        problem.compute_criterion(at + d)[0] - problem.compute_criterion(at - d)[0]
        for d in 1e-5 * np.eye(len(at))
    ]
    np.testing.assert_allclose(gradient, np.array(slopes) / 2e-5, atol=1e-5)


@pytest.mark.parametrize("name", DATA)
def test_blocks_agree_with_the_dense_matrix(name: str) -> None:
    _, _, parts = DATA[name]
    rng = np.random.default_rng(0)
    n, sds = len(parts[0].level), np.array([0.8, 1.3, 0.6])[: len(parts)]
    weight = rng.random(n)
    Z = np.hstack([sd * z for sd, z in zip(sds, build_z(parts), strict=True)])
    H = Z.T @ (weight[:, None] * Z) + np.eye(Z.shape[1])
    layout = Layout(parts)
    values = layout.scale([np.array([[sd]]) for sd in sds])
    blocks = layout.build(weight, values)
    assert blocks.log_determinant == pytest.approx(np.linalg.slogdet(H)[1])
    ends = np.cumsum([part.level.max() + 1 for part in parts])[:-1]
    right = rng.normal(size=len(H))
    np.testing.assert_allclose(
        np.concatenate(blocks.solve(np.split(right, ends))), np.linalg.solve(H, right)
    )
    expected = np.einsum("ij,jk,ik->i", Z, np.linalg.inv(H), Z)
    variances = sum(v * P for v, P in zip(values, blocks.project(values), strict=True))
    np.testing.assert_allclose(variances, expected)


def test_proportions_give_the_estimates_of_single_answers() -> None:
    """Estimates are equal; likelihoods differ by a constant, the number of orders of answers."""
    rng = np.random.default_rng(5)
    _, X, parts = answered(8, 6, seed=5)
    counts = rng.integers(1, 5, len(X)).astype(float)
    odds = 0.8 * X[:, 1] + rng.normal(size=8)[parts[0].level]
    ones = rng.binomial(counts.astype(int), expit(odds))
    fit = fit_logistic(ones / counts, X, parts, counts)
    rows = np.repeat(np.arange(len(X)), counts.astype(int))
    first = np.concatenate([np.arange(int(c)) for c in counts])
    single = [RandomPart(part.name, part.level[rows]) for part in parts]
    whole = fit_logistic((first < ones[rows]) * 1.0, X[rows], single)
    np.testing.assert_allclose(fit.coefficients, whole.coefficients, atol=1e-5)
    np.testing.assert_allclose(fit.errors, whole.errors, rtol=1e-4)
    written = laplace(ones / counts, X, parts, fit.coefficients, fit.sds, counts)
    assert fit.log_likelihood == pytest.approx(written, abs=1e-6)
    assert fit.log_likelihood > whole.log_likelihood


def test_without_groups_it_is_logistic_regression() -> None:
    y, X, parts = answered(sds=(0, 0), seed=4)
    fit = fit_logistic(y, X, parts)
    assert fit.note == "no variance left for participant and item"
    score = X.T @ (y - expit(X @ fit.coefficients))
    np.testing.assert_allclose(score, 0, atol=1e-3)
    mu = expit(X @ fit.coefficients)
    information = X.T @ ((mu * (1 - mu))[:, None] * X)
    np.testing.assert_allclose(fit.covariance, np.linalg.inv(information), rtol=1e-3)


def test_intervals_cover_and_criteria_count() -> None:
    """P(seven or more of 40 intervals of 95 % miss) is 0.003."""
    missed = 0
    for seed in range(40):
        y, X, parts = answered(30, 20, seed=100 + seed)
        fit = fit_logistic(y, X, parts)
        low, high = fit.intervals[1]
        missed += not low < 0.8 < high
    assert missed < 7
    assert fit.parameters == 4
    assert fit.aic == pytest.approx(8 - 2 * fit.log_likelihood)
    low, high = fit.intervals[1]
    assert high - low == pytest.approx(2 * 1.959964 * fit.errors[1], rel=1e-6)


def test_separation_is_found() -> None:
    y, X, _ = answered(seed=6)
    assert find_separation(y, X) is None
    x = np.array(
        [-900, -800, -700, -0.1, 0.1, 700, 800, 900]
    )  # log odds are steep, and yet overlap
    steep = np.column_stack([np.ones(8), x])
    assert find_separation(np.array([0, 0, 0, 1, 0, 1, 1, 1.0]), steep) is None
    assert find_separation(np.array([0, 0, 0, 0, 1, 1, 1, 1.0]), steep) is not None
    complete = find_separation((X[:, 1] > 0.1) * 1.0, X)
    assert complete is not None
    assert complete[1] > 0.5
    level = (np.arange(len(y)) % 4 == 0) * 1.0  # one level with ones only
    partial = find_separation(np.maximum(y, level), np.column_stack([X, level]))
    assert partial is not None
    assert partial[2] > 0.5
    assert abs(partial[1]) < 1e-6


def test_an_infinite_variance_is_not_called_converged() -> None:
    """Participants never vary, so the likelihood increases with their variance."""
    _, X, parts = answered(20, 12, seed=7)
    y = (parts[0].level % 2) * 1.0
    fit = fit_logistic(y, X[:, :1], parts)
    assert not fit.converged


def test_too_few_trials_are_refused() -> None:
    y, X, parts = answered()
    short = [part._replace(level=part.level[:2]) for part in parts]
    with pytest.raises(UserError, match="2 trials are too few for 2 coefficients"):
        fit_logistic(y[:2], X[:2], short)
