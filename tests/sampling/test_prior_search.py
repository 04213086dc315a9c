"""Priors chosen by the evidence or for each output, and posteriors mixed with a network."""

import numpy as np
import pytest

from equivocal.errors import UserError
from equivocal.sampling import sample_posterior
from equivocal.sampling.engine.problem import Likelihood, Problem
from equivocal.sampling.held_out import measure_noise, predict_network
from equivocal.sampling.prior_contest import INTERCEPT
from equivocal.sampling.prior_search import choose_values, compute_bound

RNG = np.random.default_rng(5)
N, D = 200, 9
X = np.column_stack([RNG.standard_normal((N, D - 1)), np.ones(N)])


def draw_labels(rng, weights):
    return (rng.random((len(X), len(weights))) < 1 / (1 + np.exp(-X @ weights.T))).astype(float)


def sample(targets, **options):
    return sample_posterior(X, targets, prior_variance="auto", diagnose=False, **options)


# by the evidence


@pytest.mark.parametrize("true", [0.02, 2.0])
def test_the_evidence_finds_the_variance_that_weights_were_drawn_with(true):
    """Of 24 outputs with 8 weights each: the sd of log v is about √(2/192), a tenth."""
    rng = np.random.default_rng(0)
    weights = rng.normal(0, np.sqrt(true), (24, D))
    found = sample(draw_labels(rng, weights), prior_choice="evidence").info
    assert true / 3 < found.settings["prior_variance"] < 3 * true
    assert "about zero, by the evidence bound" in found.message
    assert found.settings["intercept_variance"] == INTERCEPT


def test_the_bound_is_highest_at_the_variance_chosen():
    rng = np.random.default_rng(1)
    targets = draw_labels(rng, rng.normal(0, 1, (4, D)))
    settings = sample(targets, prior_choice="evidence").info.settings

    def bound(v):
        variance = np.append(np.full(D - 1, v), INTERCEPT)
        fit = sample_posterior(X, targets, prior_variance=variance, diagnose=False)
        problem = Problem.build(X, targets, None, 0.0, variance, Likelihood.BERNOULLI, None)
        return compute_bound(problem, fit.mean, np.linalg.cholesky(fit.covariance)).sum()

    best = bound(settings["prior_variance"])
    assert settings["evidence_bound"] == pytest.approx(best, abs=0.01)
    assert best > max(bound(settings["prior_variance"] * 10 ** (0.5 * sign)) for sign in (1, -1))


def test_the_evidence_is_misled_by_rows_that_features_were_trained_on():
    """Features that are the labels of the rows, with noise: on new rows they say nothing."""
    rng = np.random.default_rng(3)
    targets = (rng.random((N, 4)) < 0.5).astype(float)
    known = np.column_stack([2 * targets - 1 + rng.standard_normal((N, 4)), np.ones(N)])
    new = np.column_stack([rng.choice([-1, 1], (N, 4)) + rng.standard_normal((N, 4)), np.ones(N)])
    beside = (new, (rng.random((N, 4)) < 0.5).astype(float))
    options = {"prior_variance": "auto", "validation": beside, "diagnose": False}
    by_rows = sample_posterior(known, targets, **options).info.settings
    weights = np.column_stack([np.eye(4), np.zeros(4)])
    by_evidence = sample_posterior(known, targets, prior_choice="evidence", **options).info.settings
    assert by_evidence["prior_variance"] > 30 * by_rows["prior_variance"]
    assert by_evidence["held_out_nll"] > 1.5 * by_rows["held_out_nll"]
    del options["validation"]
    with pytest.warns(UserWarning, match="probably trained on them"):
        sample_posterior(known, targets, prior_choice="evidence", trained=weights, **options)


# for each output


def test_outputs_with_flat_scores_take_the_value_of_the_others():
    """Steep scores have the last word, flat ones none, those between are drawn to the others."""
    values = 10.0 ** np.arange(-3, 3.1, 0.5)
    x = np.log10(values)[:, None]
    centres, steepness = np.array([-1, -0.5, 0, 0.5, 1, 2, 0]), np.array([9, 9, 9, 9, 9, 1, 0])
    which = choose_values(-steepness * (x - centres) ** 2, values)
    found = np.log10(values)[which]
    np.testing.assert_allclose(found[:5], centres[:5], atol=0.01)
    assert 0 < found[5] < 2  # its own scores say 2
    assert abs(found[6]) <= 0.5
    agreed = choose_values(np.repeat(-2 * (x - 1) ** 2, 6, axis=1), values)
    np.testing.assert_array_equal(np.log10(values)[agreed], np.ones(6))


@pytest.mark.parametrize("choice", ["held-out", "evidence"])
def test_each_output_has_a_variance_of_its_own(choice):
    rng = np.random.default_rng(4)
    sd = np.array([0.05] * 3 + [3.0] * 3)
    weights = rng.normal(0, sd[:, None], (6, D))
    weights[:, -1] = 0
    targets = draw_labels(rng, weights)
    found = sample(targets, prior_choice=choice, prior_per_output=True)
    v = np.array(found.info.settings["prior_variance"])
    assert v.shape == (6,)
    assert v[:3].max() < v[3:].min() / 10
    assert f"prior variance {v.min():.3g} to {v.max():.3g} about zero" in found.info.message
    variances = np.column_stack([np.repeat(v[:, None], D - 1, axis=1), np.full(6, INTERCEPT)])
    again = sample_posterior(X, targets, prior_variance=variances, diagnose=False)
    np.testing.assert_allclose(again.mean, found.mean, atol=1e-5)


# mixed with a network


@pytest.fixture(scope="module")
def network():
    """Weights that are right but for noise, and labels of as many new rows."""
    rng = np.random.default_rng(6)
    weights = rng.normal(0, 1, (5, D))
    return weights + rng.normal(0, 0.4, weights.shape), draw_labels(rng, weights)


@pytest.mark.parametrize("method", ["exact-flow", "hmc"])
def test_a_mixture_lies_between_fit_and_network(network, method):
    trained, targets = network
    found = sample(targets, trained=trained, method=method)
    settings = found.info.settings
    s = settings["network_share"]
    assert 0 < s < 1
    assert f"mixed with {s:.0%} of the network" in found.info.message
    assert settings["held_out_nll"] < settings["network_nll"]
    variance = np.append(np.full(D - 1, settings["prior_variance"]), INTERCEPT)
    plain = sample_posterior(X, targets, prior_variance=variance, method=method, diagnose=False)
    np.testing.assert_allclose(found.mean, (1 - s) * plain.mean + s * trained, atol=1e-5)
    np.testing.assert_allclose(found.covariance, (1 - s) ** 2 * plain.covariance, atol=1e-5)
    np.testing.assert_allclose(
        found.particles.mean(axis=1), found.mean, atol=1e-4 if method == "exact-flow" else 0.02
    )


@pytest.mark.parametrize("likelihood", list(Likelihood))
def test_noise_is_the_variance_over_redrawn_answers(likelihood):
    """Of 4,000 drawn sets of answers; a variance over these has an error of about 2.2 %."""
    rng = np.random.default_rng(7)
    rows = Problem.build(X, np.eye(3)[np.arange(N) % 3], None, 0.0, 1.0, likelihood, None)
    both = [predict_network(rows, rng.normal(0, sd, (3, D))) for sd in (0.5, 0.1)]
    noise, drawn = measure_noise(rows, *both), []
    for logs in both:
        y = np.exp(logs)
        u = rng.random((4_000, *y.shape[:2], 1))
        answers = np.diff((u < y.cumsum(axis=-1)).astype(float), axis=-1, prepend=0)
        drawn.append((answers * (both[0] - both[1])).sum(axis=(1, 2, 3)).var())
    assert noise == pytest.approx(max(drawn), rel=0.1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prior_choice": "bayes"}, "prior_choice must be one of.*got 'bayes'"),
        ({"prior_variance": 1.0, "prior_choice": "evidence"}, "are for prior_variance='auto'"),
        ({"prior_variance": 1.0, "prior_per_output": True}, "are for prior_variance='auto'"),
        ({"prior_per_output": True, "likelihood": "softmax"}, "classes share their prior"),
        ({"prior_choice": "evidence", "likelihood": "softmax"}, "leave it out"),
        ({"prior_per_output": True, "method": "aldi"}, "not for method 'aldi'"),
    ],
)
def test_mistakes_are_named(options, message):
    targets = np.arange(N) % 3 if "likelihood" in options else np.arange(N) % 2
    with pytest.raises(UserError, match=message):
        sample_posterior(X, targets, **({"prior_variance": "auto"} | options))
