"""`prior_variance="auto"`: chosen by rows that were held out, and never worse than the network."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

import lastlayer
from lastlayer import LastLayer
from lastlayer.errors import UserError
from lastlayer.prior import INTERCEPT, Fit
from lastlayer.problem import Likelihood, Problem
from lastlayer.sklearn import BayesianMultilabel
from problems import sample_posterior

RNG = np.random.default_rng(0)
D, K = 6, 3
X = np.column_stack([RNG.standard_normal((300, D - 1)), np.ones(300)])
WEIGHTS = RNG.standard_normal((K, D))
T = (RNG.random((300, K)) < 1 / (1 + np.exp(-X @ WEIGHTS.T))).astype(float)
FIT, HELD = slice(0, 60), slice(60, 300)


def compute_nll(probability, targets):
    """Per yes/no answer; per row where targets are class numbers."""
    p = np.clip(probability, 1e-7, 1 - 1e-7)
    if targets.ndim == 1:
        return -np.log(p[np.arange(len(p)), targets]).mean()
    return -(targets * np.log(p) + (1 - targets) * np.log1p(-p)).mean()


def widen(v):
    """A variance for each weight, the intercept's wide."""
    return np.append(np.full(D - 1, v), INTERCEPT)


def test_the_chosen_variance_is_nearly_the_best():
    """Beside a finer grid on the same held-out rows; half a decade of v costs next to nothing."""
    held = (X[HELD], T[HELD])
    found = sample_posterior(X[FIT], T[FIT], prior_variance="auto", validation=held, diagnose=False)
    losses = {}
    for v in 10.0 ** np.arange(-3, 3.1, 0.25):
        fit = sample_posterior(X[FIT], T[FIT], prior_variance=widen(v), diagnose=False)
        losses[v] = compute_nll(fit.predict_proba(X[HELD]), T[HELD])
    loss = compute_nll(found.predict_proba(X[HELD]), T[HELD])
    assert loss <= 1.005 * min(losses.values())
    assert losses[min(losses)] > 1.05 * loss
    assert losses[max(losses)] > 1.02 * loss
    settings = found.info.settings
    # the path's fit beside the posterior; seen: 0.2 %
    assert settings["held_out_nll"] == pytest.approx(loss, rel=0.02)
    assert f"prior variance {settings['prior_variance']:.3g} about zero, by 240 held-out rows" in (
        found.info.message
    )
    assert settings["intercept_variance"] == INTERCEPT
    again = sample_posterior(X[FIT], T[FIT], prior_variance=widen(settings["prior_variance"]))
    np.testing.assert_allclose(again.mean, found.mean, atol=1e-5)


def test_the_grid_goes_on_where_features_have_unlike_scales():
    """Raw columns from 0.001 to 4,000: the best variance is far beyond the usual ones."""
    x, y = load_breast_cancer(return_X_y=True)
    x = np.column_stack([x, np.ones(len(x))])
    options = {"prior_variance": "auto", "diagnose": False}
    found = sample_posterior(x, y, **options)
    assert "(wider than usual: standardise the features)" in found.info.message
    # seen: 596 and 0.082; the usual grid ends at 0.006, with 0.136
    assert found.info.settings["prior_variance"] > 1
    assert found.info.settings["held_out_nll"] < 0.11


def test_the_grid_ends_where_classes_can_be_separated():
    """Standardised wines: losses fall for ever, and a variance of 10⁸ was chosen for these rows."""
    x, y = load_wine(return_X_y=True)
    some = np.random.default_rng(1).permutation(len(x))[:118]
    x = np.column_stack([(x - x.mean(axis=0)) / x.std(axis=0), np.ones(len(x))])[some]
    options = {"likelihood": "softmax", "prior_variance": "auto", "diagnose": False}
    found = sample_posterior(x, y[some], **options)
    assert found.info.converged
    assert found.info.settings["prior_variance"] < 1e4


@pytest.mark.parametrize("likelihood", ["bernoulli", "softmax"])
def test_rows_are_left_out_in_turn_without_validation_rows(likelihood):
    drawn = (X @ WEIGHTS.T + RNG.gumbel(size=(300, K))).argmax(axis=1)
    targets = T if likelihood == "bernoulli" else drawn
    options = {"likelihood": likelihood, "prior_variance": "auto", "diagnose": False}
    found = sample_posterior(X[FIT], targets[FIT], **options)
    assert "by 60 of 60 rows, left out in turn; held-out NLL" in found.info.message
    assert 0.01 < found.info.settings["prior_variance"] < 100
    again = sample_posterior(X[FIT], targets[FIT], **options)
    np.testing.assert_array_equal(again.mean, found.mean)


def test_copies_stay_on_one_side_of_a_split():
    """Five near copies of each row: apart they seem to say that the prior may be wide."""
    rng = np.random.default_rng(2)
    x = np.column_stack([rng.standard_normal((100, 20)), np.ones(100)])
    t = (rng.random((100, 3)) < 1 / (1 + np.exp(-x @ rng.normal(0, 1, (3, 21)).T))).astype(float)
    noise = 1e-3 * rng.standard_normal((5, *x.shape)) * (np.arange(21) < 20)
    copies, targets = (x + noise).reshape(-1, 21), np.tile(t, (5, 1))
    names = np.tile([f"row {n}" for n in range(100)], 5)

    def choose(**options):
        found = sample_posterior(
            copies, targets, prior_variance="auto", diagnose=False, **options
        ).info
        return found.settings["prior_variance"], found.settings["held_out_nll"]

    once = sample_posterior(x, t, prior_variance="auto", diagnose=False).info.settings
    apart, together = choose(), choose(groups=names)
    assert together[1] == pytest.approx(once["held_out_nll"], rel=0.15)
    assert apart[1] < 0.7 * together[1]
    assert together[0] < apart[0]


def test_a_calibrated_network_is_kept_and_an_overconfident_one_is_not():
    options = {"prior_variance": "auto", "diagnose": False}
    right = sample_posterior(X[FIT], T[FIT], trained=WEIGHTS, **options)
    assert "of the network, " in right.info.message or "held to the network" in right.info.message
    network = 1 / (1 + np.exp(-X[HELD] @ WEIGHTS.T))
    best = compute_nll(network, T[HELD])
    assert compute_nll(right.predict_proba(X[HELD]), T[HELD]) < 1.05 * best
    sure = sample_posterior(X[FIT], T[FIT], trained=4 * WEIGHTS, **options)
    loud = compute_nll(1 / (1 + np.exp(-4 * X[HELD] @ WEIGHTS.T)), T[HELD])
    assert compute_nll(sure.predict_proba(X[HELD]), T[HELD]) < 0.7 * loud
    assert sure.info.settings["network_nll"] > 1.3 * sure.info.settings["held_out_nll"]


# rows that the network was trained on


def test_training_rows_of_the_network_choose_no_prior():
    """Weights with as many features as rows: they answer noise better than they expect to."""
    rows = RNG.standard_normal((40, 40))
    noise = (RNG.random((40, K)) < 0.5).astype(float)
    known = np.linalg.solve(rows, 3 * noise - 1.5).T
    options = {"trained": known, "diagnose": False}
    with pytest.warns(UserWarning, match=r"its weights are kept: .* validation="):
        held = sample_posterior(rows, noise, prior_variance="auto", **options)
    np.testing.assert_allclose(held.mean, known, atol=1e-6)
    size = (known**2).mean()
    assert f"prior variance {size:.3g} about zero, as wide as the trained weights" in (
        held.info.message
    )
    plain = sample_posterior(rows, noise, prior_variance=size, diagnose=False)
    np.testing.assert_allclose(held.covariance, plain.covariance, rtol=1e-4, atol=1e-8)


def test_too_few_rows_choose_no_prior():
    found = sample_posterior(X[:29], T[:29], prior_variance="auto")
    note = "prior variance 1 about zero; 29 distinct rows or groups, where 30 are needed"
    assert note in found.info.message
    held = sample_posterior(X[:29], T[:29], prior_variance="auto", trained=WEIGHTS)
    np.testing.assert_allclose(held.mean, WEIGHTS, atol=1e-6)
    assert (
        "mean held to the network; 29 distinct rows or groups, where 30 are needed"
        in held.info.message
    )
    v = (WEIGHTS**2).mean()
    plain = sample_posterior(X[:29], T[:29], prior_variance=widen(v))
    np.testing.assert_allclose(held.covariance, plain.covariance, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prior_variance": "wide"}, "prior_variance must be 'auto' or numbers, got 'wide'"),
        ({"validation": [(X, T), (X, T)]}, r"\(features, targets, counts\), got a list of tuples"),
        ({"validation": (X / [1, 1, 1, 1, 1, np.nan], T)}, "^validation features .* got nan"),
        (
            {"validation": (X[:29], T[:29]), "prior_variance": "auto"},
            "at least 30 rows to choose a prior by, and got 29; pass more, or leave it out",
        ),
        ({"validation": (X, T), "prior_variance": 1.0}, "validation and groups are for"),
        ({"groups": np.arange(300)}, "validation and groups are for prior_variance='auto'"),
        (
            {"groups": np.arange(300), "prior_variance": "auto", "validation": (X, T)},
            "with validation leave them out",
        ),
        ({"groups": np.ones(300), "prior_variance": "auto"}, "at least two groups, got one"),
        ({"trained": WEIGHTS[:2]}, r"trained must have shape \(3, 6\), .* got \(2, 6\)"),
        ({"validation": X}, r"validation must be \(features, targets\).*got ndarray"),
        (
            {"validation": (X[:, 1:], T)},
            "validation must have 6 features and 3 outputs.*got 5 and 3",
        ),
        (
            {"counts": np.ones((300, 3)), "method": "dropout-deterministic"},
            "counts of shape .* 'dropout-deterministic' takes",
        ),
        ({"diagnose": False, "refine": True}, "refine=True is for Gaussian methods"),
    ],
)
def test_mistakes_are_named(options, message):
    auto = {"prior_variance": "auto"} if "validation" in options else {}
    with pytest.raises(UserError, match=message):
        sample_posterior(**{"features": X, "targets": T} | auto | options)


# outputs with priors and counts of their own


def test_missing_labels_are_ignored():
    counts = (RNG.random((300, K)) < 0.6).astype(float)
    gaps = np.where(counts > 0, T, np.nan)
    found = sample_posterior(X, gaps, counts=counts)
    for k in range(K):
        kept = counts[:, k] > 0
        alone = sample_posterior(X[kept], T[kept, k])
        np.testing.assert_allclose(found.mean[k], alone.mean[0], atol=1e-6)
        np.testing.assert_allclose(found.covariance[k], alone.covariance[0], atol=1e-6)
    rows = counts[:, 0]
    whole = sample_posterior(X, np.where(rows > 0, T[:, 0], np.nan), counts=rows)
    np.testing.assert_allclose(whole.mean[0], found.mean[0], atol=1e-6)
    exact = sample_posterior(X, gaps, counts=counts, method="hmc")
    # standard errors of 1,600 draws are 0.025 sd; the Gaussian is close on 180 rows
    sd = np.sqrt(np.diagonal(found.covariance, axis1=1, axis2=2))
    assert (np.abs(exact.mean - found.mean) / sd).max() < 0.3


def test_each_output_has_its_own_prior():
    variances = np.array([[0.1], [2.0], [0.1]])
    found = sample_posterior(X, T, prior_variance=variances, seed=3)
    for k in range(K):
        alone = sample_posterior(X, T[:, k], prior_variance=float(variances[k, 0]))
        np.testing.assert_allclose(found.mean[k], alone.mean[0], atol=1e-6)
        np.testing.assert_allclose(found.covariance[k], alone.covariance[0], atol=1e-6)
        np.testing.assert_allclose(np.cov(found.particles[k].T), found.covariance[k], atol=1e-8)
    full = sample_posterior(X, T, prior_variance=np.repeat(variances, D, axis=1))
    np.testing.assert_array_equal(full.mean, found.mean)
    assert found.info.steps.shape == (K,)


# the promise


def split(x, y, seed):
    order = np.random.default_rng(seed).permutation(len(x))
    first, second = int(0.6 * len(x)), int(0.8 * len(x))
    return [(x[i], y[i]) for i in (order[:first], order[first:second], order[second:])]


def load(name):
    load_rows = {"cancer": load_breast_cancer, "wine": load_wine, "digits": load_digits}[name]
    x, y = load_rows(return_X_y=True)
    x = x / 16 if name == "digits" else (x - x.mean(axis=0)) / x.std(axis=0)
    y = y[:, None] if name == "cancer" else np.eye(y.max() + 1)[y]
    return x.astype(np.float32), y.astype(np.float32)


@jax.jit
def descend(weights, state, rows, targets):
    """Take one step of Adam."""

    def loss(weights):
        logits = extract(rows, weights) @ weights[2] + weights[3]
        return optax.sigmoid_binary_cross_entropy(logits, targets).mean()

    updates, state = optax.adam(3e-3).update(jax.grad(loss)(weights), state)
    return optax.apply_updates(weights, updates), state


def extract(rows, weights):
    return jax.nn.relu(rows @ weights[0] + weights[1])


def train(fit, seed, epochs, smoothing=0.0):
    """Train a network of 64 hidden units; return its features and its last layer."""
    (x, y), rng = fit, np.random.default_rng(seed)
    sizes = (x.shape[1], 64, y.shape[1])
    weights = [rng.normal(0, 1 / np.sqrt(a), (a, b)) for a, b in pairwise(sizes)]
    weights = [w for W in weights for w in (W, np.zeros(W.shape[1]))]
    weights = [jnp.asarray(w, jnp.float32) for w in weights]
    state, y = optax.adam(3e-3).init(weights), y * (1 - smoothing) + smoothing / 2
    for _ in range(epochs):
        for some in rng.permutation(len(x))[: len(x) // 64 * 64].reshape(-1, 64):
            weights, state = descend(weights, state, x[some], y[some])
    first = [np.asarray(w) for w in weights]
    return lambda rows: np.maximum(rows @ first[0] + first[1], 0), first[2].T, first[3]


def compare(name, seed, **training):
    """Return the test NLL of the network, of its temperature and of the posterior, and that."""
    fit, held, test = split(*load(name), seed)
    features, W, b = train(fit, seed, **training)
    belief = LastLayer.fit(features, fit, held, weights=W, bias=b, diagnose=False)
    own, new = (features(x) @ W.T + b for x in (held[0], test[0]))
    scales = np.exp(np.linspace(-3, 3, 121))

    def cool(logits, t, scale):
        return compute_nll(0.5 + 0.5 * np.tanh(logits.astype(float) / scale / 2), t)

    best = min(scales, key=lambda scale: cool(own, held[1], scale))
    loss = compute_nll(belief.predict(test[0]).probability, test[1])
    return cool(new, test[1], 1), cool(new, test[1], best), loss, belief


def test_not_worse_than_the_network():
    own, _, loss, _ = compare("digits", 0, epochs=300)
    assert loss <= 1.01 * own


@pytest.mark.slow
@pytest.mark.parametrize("epochs", [30, 300])
@pytest.mark.parametrize("name", ["wine", "cancer", "digits"])
def test_never_worse_than_the_network(name, epochs):
    """With 36 or 114 rows to choose by and as many to test by, on the average of five seeds.

    Cancer with an early-stopped network is the exception, 1.076: there no validation row shows that
    the refit is too sure of unlikely answers.
    """
    found = [compare(name, seed, epochs=epochs) for seed in range(5)]
    ratios = [loss / own for own, _, loss, _ in found]
    assert (max(ratios) if name == "digits" else np.exp(np.mean(np.log(ratios)))) <= (
        1.1 if (name, epochs) == ("cancer", 30) else 1.01
    )


@pytest.mark.parametrize("training", [{"epochs": 10}, {"epochs": 40, "smoothing": 0.1}])
def test_an_underconfident_network_is_repaired(training):
    """Digits, with validation rows that training has not seen: as a temperature would, or better.

    The limit leaves half as much for the noise of 360 test rows and for averaging over weights
    where rows are nearly separable. Seen over four seeds: ratios to the temperature's loss of 0.39
    to 1.26. Networks that were accused of knowing the rows lost 3.8 to 7 times as much.
    """
    own, cooled, loss, belief = compare("digits", 0, **training)
    assert loss < min(1.5 * cooled, 0.7 * own)
    assert "held-out NLL" in belief.info.message


def test_last_layer_without_a_network_chooses_a_prior():
    belief = LastLayer.fit_features(X[FIT, :-1], T[FIT], validation=(X[HELD, :-1], T[HELD]))
    assert "by 240 held-out rows" in belief.info.message
    assert "network" not in belief.info.message


@pytest.mark.parametrize("constant", [0.05, 1.0, -3.0])
def test_a_feature_that_happens_to_be_constant_is_no_intercept(constant):
    """Where it varies elsewhere, a wide prior of its own would decide the answer."""
    features = np.column_stack([np.full(300, constant), X])
    found = sample_posterior(features, T, prior_variance="auto", diagnose=False)
    variance = found.info.settings["prior_variance"]
    np.testing.assert_allclose(found.covariance[:, 0, 0], variance, rtol=0.9)
    assert found.covariance[:, 0, 0].max() <= 1.01 * variance


# the fits, and the mean moved towards a network


def draw_labels(rng, x, weights):
    return (rng.random((len(x), len(weights))) < 1 / (1 + np.exp(-x @ weights.T))).astype(float)


def draw_rows(rng, number, size):
    return np.column_stack([rng.standard_normal((number, size - 1)), np.ones(number)])


def test_fits_follow_the_posterior():
    """Beside the Gaussian flow: mean and variance of every row's logit, at each prior of a path.

    Fits have E[y(1 − y)] at its mean over rows, at the prior before, and E[y] by MacKay's formula.
    Seen: 0.14 sd and 25 %. Without κ the mean is 0.70 sd off.
    """
    rng = np.random.default_rng(1)
    x = draw_rows(rng, 200, 9)
    t = draw_labels(rng, x, rng.normal(0, 1, (3, 9)))
    fit = Fit(Problem.build(x, t, None, 0.0, 1.0, Likelihood.BERNOULLI, None), np.full(9, 1e-2))
    for v in 10.0 ** np.arange(-2, 1.1, 0.5):
        fit.move_to(np.full(9, v))
        own_mean, own_variance = fit.predict(x)
        mean, sd = sample_posterior(x, t, prior_variance=v, diagnose=False).logits(x)
        assert np.abs((own_mean - mean) / sd).max() < 0.3
        assert np.abs(np.log(own_variance / sd**2)).mean() < 0.4


@pytest.mark.parametrize("method", ["exact-flow", "hmc"])
def test_a_mixture_moves_the_mean_alone(method):
    """Weights that are right but for noise, and labels of as many new rows."""
    rng = np.random.default_rng(6)
    x, weights = draw_rows(rng, 200, 9), rng.normal(0, 1, (5, 9))
    trained = weights + rng.normal(0, 0.4, weights.shape)
    t = draw_labels(rng, x, weights)
    options = {"method": method, "diagnose": False}
    found = sample_posterior(x, t, prior_variance="auto", trained=trained, **options)
    settings = found.info.settings
    s = settings["network_share"]
    assert 0 < s < 1
    assert f"mean {s:.0%} of the way to the network, " in found.info.message
    assert "posterior sd from the posterior's own" in found.info.message
    assert settings["held_out_nll"] < settings["network_nll"]
    variance = np.append(np.full(8, settings["prior_variance"]), INTERCEPT)
    plain = sample_posterior(x, t, prior_variance=variance, **options)
    np.testing.assert_allclose(found.mean, (1 - s) * plain.mean + s * trained, atol=1e-5)
    np.testing.assert_allclose(found.covariance, plain.covariance, atol=1e-5)
    np.testing.assert_allclose(
        found.particles.mean(axis=1), found.mean, atol=1e-4 if method == "exact-flow" else 0.02
    )


@pytest.mark.parametrize("network", ["good", "overfitted", "over-regularised"])
def test_intervals_hold_the_truth_as_often_as_they_say(network):
    """Truth exactly logistic in the features, 20 labels of 800 rows, the call that is recommended.

    With a covariance scaled by (1 − s)², as it once was, the good network has 0.45.
    """
    hits = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        weights = rng.normal(0, 0.5, (20, 11))
        x = draw_rows(rng, 1_500, 11)
        truth = 1 / (1 + np.exp(-x @ weights.T))
        t = (rng.random(truth.shape) < truth).astype(float)
        rows, v = {"good": (800, 0.1), "overfitted": (40, 10.0), "over-regularised": (800, 1e-3)}[
            network
        ]
        options = {"diagnose": False}
        trained = sample_posterior(x[:rows], t[:rows], prior_variance=v, **options).mean
        options |= {"trained": trained, "validation": (x[800:1_200], t[800:1_200])}
        found = sample_posterior(x[:800], t[:800], prior_variance="auto", **options)
        low, high = found.predict_interval(x[1_200:], level=0.9)
        hits.append(((low <= truth[1_200:]) & (truth[1_200:] <= high)).mean())
    assert 0.85 < np.mean(hits) < 0.95


def test_one_default_for_the_prior_everywhere() -> None:
    """A number that is chosen by rows held out, whichever way the posterior is asked for."""
    default = lastlayer.sample_posterior(X[FIT], T[FIT], diagnose=False)
    chosen = sample_posterior(X[FIT], T[FIT], prior_variance="auto", diagnose=False)
    np.testing.assert_array_equal(default.mean, chosen.mean)
    estimator = BayesianMultilabel(fit_intercept=False, diagnose=False).fit(X[FIT], T[FIT])
    np.testing.assert_allclose(estimator.posterior_.mean, chosen.mean, rtol=1e-9)
    fitted = LastLayer.fit_features(X[FIT], T[FIT], validation=(X[HELD], T[HELD]))
    by_hand = lastlayer.sample_posterior(X[FIT], T[FIT], validation=(X[HELD], T[HELD]))
    np.testing.assert_array_equal(fitted.posterior.mean, by_hand.mean)
