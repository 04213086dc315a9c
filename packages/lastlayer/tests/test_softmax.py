"""Exact draws of a softmax: against integrals on a grid, one output instead of two, and itself."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from lastlayer import Posterior
from lastlayer.errors import UserError
from lastlayer.problem import Likelihood, Problem
from lastlayer.sklearn import BayesianLogistic
from lastlayer.softmax import ClassRows, find_gaussian
from problems import sample_posterior

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 3, 60)
X = np.c_[RNG.normal(size=(60, 3)) + np.eye(3)[LABELS], np.ones(60)]
DRAWS = 3_200
AGAIN = np.array([2, 0, 1])  # the names of classes 0, 1, 2 after they are given others


def sample(x: np.ndarray, targets: np.ndarray, **options: object) -> Posterior:
    return sample_posterior(x, targets, likelihood="softmax", num_particles=DRAWS, **options)


def build(x: np.ndarray, labels: np.ndarray, variance: float = 1.0) -> Problem:
    return Problem.build(x, labels, None, 0.0, variance, Likelihood.SOFTMAX, None)


@pytest.fixture(scope="module")
def drawn() -> Posterior:
    return sample(X, LABELS)


def test_hmc_is_the_method_of_a_softmax(drawn: Posterior) -> None:
    assert drawn.info.method == "hmc"
    assert drawn.info.converged
    np.testing.assert_allclose(drawn.predict_proba(X).sum(axis=1), 1, rtol=1e-6)
    assert drawn.entropies(X).total.shape == (60, 1)


@pytest.mark.parametrize("method", ["exact-flow", "laplace", "dropout-deterministic"])
def test_other_methods_are_refused_with_a_way_out(method: str) -> None:
    with pytest.raises(UserError, match=rf"'{method}'.*exact draws; leave method out"):
        sample(X, LABELS, method=method)


def test_weights_of_one_feature_are_those_of_an_integral() -> None:
    """Contrasts of three classes are two numbers: sums over a grid are exact.

    With an effective size of 1,000, sds have a relative error of 2.2 %, and means of 3 % of an sd;
    a Gaussian for each class gives contrasts that are 15 to 40 % too wide.
    """
    x, labels = X[:20, :1], LABELS[:20]
    posterior = sample(x, labels, prior_variance=4.0)
    axis = np.linspace(-8, 8, 321)
    first, second = (part.ravel() for part in np.meshgrid(axis, axis))
    # θ₁ − θ₀ and θ₂ − θ₀ have the variances 2 v and the covariance v
    precision = np.linalg.inv(4.0 * (np.eye(2) + 1))
    contrasts = np.stack([first, second], axis=1)
    logits = np.stack([0 * first, first, second], axis=1)[:, None] * x
    logs = logits - np.log(np.exp(logits).sum(axis=2, keepdims=True))
    density = logs[:, range(20), labels].sum(axis=1)
    density -= 0.5 * np.einsum("gi,ij,gj->g", contrasts, precision, contrasts)
    p = np.exp(density - density.max())
    p /= p.sum()
    mean = p @ contrasts
    sd = np.sqrt(p @ (contrasts - mean) ** 2)
    found = posterior.particles[1:, :, 0] - posterior.particles[0, :, 0]
    assert posterior.info.ess.min() > 1000
    assert (np.abs(found.mean(axis=1) - mean) < 5 * sd / np.sqrt(1000)).all()
    assert (np.abs(found.std(axis=1) / sd - 1) < 5 / np.sqrt(2000)).all()
    y = np.exp(logs)
    np.testing.assert_allclose(posterior.predict_proba(x), np.einsum("g,gnk->nk", p, y), atol=0.02)
    total = -(np.einsum("g,gnk->nk", p, y) * np.log(np.einsum("g,gnk->nk", p, y))).sum(axis=1)
    information = total + np.einsum("g,gnk,gnk->n", p, y, logs)
    np.testing.assert_allclose(posterior.entropies(x).information[:, 0], information, atol=0.01)


def test_two_classes_are_one_yes_or_no() -> None:
    """θ₁ − θ₀ of a softmax with variance v has the posterior of an output with variance 2v."""
    some = LABELS < 2
    x, two, m0 = X[some], LABELS[some], np.array([[0.5, 0, 0, 0], [0, 0, 0, -0.5]])
    both = sample(x, two, prior_mean=m0)
    one = sample_posterior(
        x, two, prior_mean=m0[1] - m0[0], prior_variance=2.0, method="hmc", num_particles=DRAWS
    )
    assert both.info.converged
    difference = both.particles[1] - both.particles[0]
    sd = np.sqrt(np.diag(one.covariance[0]))
    assert min(both.info.ess.min(), one.info.ess.min()) > 1000
    # effective sizes of 1,000 each: five standard errors of the difference of two means, or sds
    assert (np.abs(both.mean[1] - both.mean[0] - one.mean[0]) < 5 * sd * np.sqrt(2 / 1000)).all()
    assert (np.abs(difference.std(axis=0) / sd - 1) < 5 * np.sqrt(2 / 2000)).all()
    error = np.abs(both.entropies(x).information - one.entropies(x).information)
    assert error.max() < 0.1 * one.entropies(x).information.max()


def test_names_of_the_classes_change_nothing_but_the_draws(drawn: Posterior) -> None:
    """Means have no more than the error that control variates leave; predictions that of draws."""
    named = sample(X, AGAIN[LABELS])
    sd = np.sqrt(np.diagonal(drawn.covariance, axis1=1, axis2=2))
    assert np.abs((named.mean[AGAIN] - drawn.mean) / sd).max() < 0.03
    np.testing.assert_allclose(named.covariance[AGAIN], drawn.covariance, atol=0.05 * sd.max() ** 2)
    np.testing.assert_allclose(named.predict_proba(X)[:, AGAIN], drawn.predict_proba(X), atol=0.02)


def test_counts_stand_for_repeated_rows(drawn: Posterior) -> None:
    """To the round-off of the Gaussian, in whose coordinates the draws are."""
    repeats = np.tile([1, 2, 3], 20)
    counted = sample(X, np.eye(3)[LABELS] * repeats[:, None], counts=repeats)
    repeated = sample(np.repeat(X, repeats, axis=0), np.repeat(LABELS, repeats))
    np.testing.assert_allclose(counted.mean, repeated.mean, atol=1e-5)
    assert np.abs(counted.mean - drawn.mean).max() > 0.01


def test_the_mode_is_the_penalised_maximum() -> None:
    """Scikit-learn's multinomial regression with C = prior variance, about zero."""
    mode = np.sqrt(2) * ClassRows.lay_out(build(X, LABELS, 2.0)).find_mode(np.zeros((3, 4)))
    theirs = LogisticRegression(C=2, fit_intercept=False, tol=1e-10, max_iter=10_000)
    np.testing.assert_allclose(mode, theirs.fit(X, LABELS).coef_, atol=1e-2)


@pytest.mark.parametrize("variance", [1.0, 50.0, 2500.0])
def test_a_gaussian_is_found_for_separable_classes(variance: float) -> None:
    """Single precision and a wide prior, where P⁻¹ at the mode is thousands of times too small."""
    digits, numbers = load_digits(return_X_y=True)
    rows = np.c_[digits[:200].reshape(-1, 4, 2, 8).mean(axis=(2, 3)) / 16, np.ones(200)]
    problem = build(rows.astype(np.float32), numbers[:200], variance)
    m, G = find_gaussian(problem)
    logits = rows @ (np.sqrt(variance) * m).T
    assert (logits.argmax(axis=1) == numbers[:200]).mean() > 0.5
    assert np.isfinite(G).all()


def test_a_softmax_that_is_too_large_names_the_way_out() -> None:
    """The limit counts K D (N + K D): here 3.6e9. One output per class is taken."""
    rows, names = np.ones((100, 3_000), np.float32), np.arange(100) % 20
    wide = BayesianLogistic(fit_intercept=False, prior_variance=1.0)
    for refused in (
        lambda: sample_posterior(rows, names, likelihood="softmax"),
        lambda: wide.fit(rows, names),
    ):
        with pytest.raises(UserError) as caught:
            refused()
        for part in ("20 classes, 3000 features", "bernoulli", "multi_class='one-vs-rest'"):
            assert part in str(caught.value)
    with pytest.raises(UserError, match=r"memory_budget of 9,999.*targets of shape \(N, 3\)"):
        sample_posterior(X, LABELS, likelihood="softmax", memory_budget=9_999)
    few = BayesianLogistic(multi_class="one-vs-rest", prior_variance=1.0)
    assert few.fit(X, LABELS).predict_proba(X).shape == (60, 3)
