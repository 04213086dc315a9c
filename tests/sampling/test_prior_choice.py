"""`prior_variance="auto"`: chosen by rows that were held out, and never worse than the network."""

from weakref import ref

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from equivocal.errors import UserError
from equivocal.sampling import sample_posterior
from equivocal.sampling.engine.problem import Likelihood, Problem
from equivocal.sampling.engine.settings import RunSettings
from equivocal.sampling.held_out import Fold, make_folds
from equivocal.sampling.last_layer import from_torch, last_layer_posterior
from equivocal.sampling.prior_contest import INTERCEPT, Contest
from equivocal.sampling.prior_search import search

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
    assert settings["held_out_nll"] == pytest.approx(loss, rel=1e-3)
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
    # seen: 596 and 0.080; the usual grid ends at 0.006, with 0.136
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


@pytest.mark.parametrize(("labels", "folds"), [(1, 2), (9, 2), (10, 1)])
def test_rows_with_many_labels_choose_by_fewer(labels, folds):
    """Fifths of 290 rows: 300 are enough, or 150 with ten labels."""
    kind = Likelihood.BERNOULLI
    rows, targets = np.ones((1450, 1)), np.zeros((1450, labels))
    problem = Problem.build(rows, targets, None, 0.0, 1.0, kind, None)
    assert len(list(make_folds(problem, None))) == folds


class Watched(Contest):
    """A contest that counts how many of its fits are kept."""

    def follow(self, priors, start=None):
        """Note how many fits there are with each that is made."""
        for found in super().follow(priors, start):
            MADE.append(ref(found.fits[0][1]))
            KEPT.append(sum(each() is not None for each in MADE))
            yield found


MADE, KEPT = [], []


def test_a_search_keeps_few_fits():
    """Those of the best, of the one before and of the one at hand; a fit has K D² numbers."""
    fit, held = (
        Problem.build(X[rows], T[rows], None, 0.0, 1.0, Likelihood.BERNOULLI, None)
        for rows in (FIT, HELD)
    )
    contest = Watched(
        problem=fit,
        outputs=np.arange(K),
        folds=[Fold(fit, held)],
        settings=RunSettings(
            num_particles=20, num_steps=None, tolerance=0.02, seed=0, memory_budget=None
        ),
        weights=4 * WEIGHTS,
    )
    search(contest, np.zeros((1, D)))
    assert len(KEPT) >= 6
    assert max(KEPT) <= 4


@pytest.mark.parametrize("likelihood", ["bernoulli", "softmax"])
def test_rows_are_left_out_in_turn_without_validation_rows(likelihood):
    drawn = (X @ WEIGHTS.T + RNG.gumbel(size=(300, K))).argmax(axis=1)
    targets = T if likelihood == "bernoulli" else drawn
    options = {"likelihood": likelihood, "prior_variance": "auto", "diagnose": False}
    found = sample_posterior(X[FIT], targets[FIT], **options)
    assert "by 60 rows left out in turn; cross-validated NLL" in found.info.message
    assert "held-out" not in found.info.message
    assert 0.01 < found.info.settings["prior_variance"] < 100
    again = sample_posterior(X[FIT], targets[FIT], **options)
    np.testing.assert_array_equal(again.mean, found.mean)


def test_the_message_says_how_many_rows_were_left_out():
    """Four parts of five have the 300 rows that are enough."""
    rows, targets = np.vstack([X, X[:90] + 0.1]), np.vstack([T, T[:90]])
    found = sample_posterior(rows, targets, prior_variance="auto", diagnose=False)
    assert "by 312 of 390 rows" in found.info.message


def test_a_calibrated_network_is_kept_and_an_overconfident_one_is_not():
    options = {"prior_variance": "auto", "diagnose": False}
    right = sample_posterior(X[FIT], T[FIT], trained=WEIGHTS, **options)
    assert "about the trained weights" in right.info.message or "held to" in right.info.message
    network = 1 / (1 + np.exp(-X[HELD] @ WEIGHTS.T))
    best = compute_nll(network, T[HELD])
    assert compute_nll(right.predict_proba(X[HELD]), T[HELD]) < 1.03 * best
    sure = sample_posterior(X[FIT], T[FIT], trained=4 * WEIGHTS, **options)
    loud = compute_nll(1 / (1 + np.exp(-4 * X[HELD] @ WEIGHTS.T)), T[HELD])
    assert compute_nll(sure.predict_proba(X[HELD]), T[HELD]) < 0.7 * loud
    assert sure.info.settings["network_nll"] > 1.3 * sure.info.settings["held_out_nll"]


def test_training_rows_of_the_network_choose_no_prior():
    """Weights with as many features as rows: they answer noise better than they expect to."""
    rows = RNG.standard_normal((40, 40))
    noise = (RNG.random((40, K)) < 0.5).astype(float)
    known = np.linalg.solve(rows, 3 * noise - 1.5).T
    options = {"trained": known, "diagnose": False}
    with pytest.warns(UserWarning, match="probably trained on them.*As validation="):
        held = sample_posterior(rows, noise, prior_variance="auto", **options)
    own = 1 / (1 + np.exp(-rows @ known.T))
    np.testing.assert_allclose(held.predict_proba(rows), own, atol=2e-3)
    assert "held to the network, which seems trained on these rows (NLL " in held.info.message
    with pytest.warns(UserWarning, match="probably trained on them"):
        sample_posterior(rows, noise, prior_variance=1.0, **options)


def memorise():
    """Return rows of which a network knows the first 200 by heart, their targets, its weights."""
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((400, 100))
    truth = 0.15 * rng.standard_normal((100, 4))
    targets = (rng.random((400, 4)) < 1 / (1 + np.exp(-rows @ truth))).astype(float)
    learned = sample_posterior(rows[:200], targets[:200], prior_variance=0.1, diagnose=False)
    return rows, targets, np.asarray(learned.mean)


def test_validation_rows_that_the_network_was_trained_on_choose_no_prior():
    rows, targets, known = memorise()
    own = compute_nll(1 / (1 + np.exp(-rows[200:] @ known.T)), targets[200:])
    options = {"prior_variance": "auto", "trained": known, "diagnose": False}
    validation = rows[100:200], targets[100:200]
    with pytest.warns(UserWarning, match="probably trained on them"):
        found = sample_posterior(rows[:100], targets[:100], validation=validation, **options)
    assert compute_nll(found.predict_proba(rows[200:]), targets[200:]) < 1.01 * own
    assert "held-out" not in found.info.message
    assert "no others were given to compare it on" in found.info.message
    with pytest.warns(UserWarning, match="probably trained on them"):
        given = sample_posterior(
            rows[:100], targets[:100], validation=validation, **options | {"prior_variance": 1.0}
        )
    assert "held-out" not in given.info.message
    assert "which knows these rows" in given.info.message


def test_rows_of_the_fit_are_not_held_out():
    """All of them, to round-off as from batches of another size; and some beside others."""
    fit, options = (X[FIT], T[FIT]), {"prior_variance": "auto", "diagnose": False}
    with pytest.warns(UserWarning, match="60 of 60 rows of validation are rows of the fit"):
        found = sample_posterior(*fit, validation=(X[FIT] * (1 + 1e-7), T[FIT]), **options)
    assert "by 60 rows left out in turn" in found.info.message
    with pytest.warns(UserWarning, match="20 of 60 rows of validation"):
        found = sample_posterior(*fit, validation=(X[40:100], T[40:100]), **options)
    assert "by 40 held-out rows" in found.info.message


def test_repeated_rows_may_be_held_out(recwarn):
    """Two binary features: every row of validation is one of the fit."""
    rows = (RNG.random((200, 2)) < 0.5).astype(float)
    answers = RNG.random(200) < 0.3 + 0.4 * rows[:, 0]
    found = sample_posterior(
        rows[:100], answers[:100], prior_variance="auto", validation=(rows[100:], answers[100:])
    )
    assert "by 100 held-out rows" in found.info.message
    assert not recwarn


def test_a_prior_worse_than_the_network_gives_a_warning():
    """Fitted to few rows with a wide prior, about weights that were right."""
    with pytest.warns(UserWarning, match=r"worse than the network on 240 held-out rows.*'auto'"):
        sample_posterior(
            X[:15],
            T[:15],
            prior_variance=100.0,
            trained=WEIGHTS,
            validation=(X[HELD], T[HELD]),
            diagnose=False,
        )


def test_too_few_rows_choose_no_prior():
    found = sample_posterior(X[:8], T[:8], prior_variance="auto")
    assert "prior variance 1: with 8 row(s) none can be chosen" in found.info.message
    held = sample_posterior(X[:8], T[:8], prior_variance="auto", trained=WEIGHTS)
    np.testing.assert_allclose(held.mean, WEIGHTS, atol=0.01)
    own = compute_nll(1 / (1 + np.exp(-X[:8] @ WEIGHTS.T)), T[:8])
    assert f"held to the network; the network's own NLL {own:.3g} on 8 row(s)" in held.info.message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prior_variance": "wide"}, "prior_variance must be 'auto' or numbers, got 'wide'"),
        ({"prior_variance": "atuo"}, "did you mean 'auto'"),
        ({"prior_variance": None}, "prior_variance must be 'auto' or numbers, got None"),
        ({"validation": [(X, T), (X, T)]}, r"\(features, targets, counts\), got a list of tuples"),
        (
            {"validation": (X, np.full(300, 7)), "targets": T[:, 0] > 0, "likelihood": "softmax"},
            r"validation targets of a softmax must be class numbers 0 … 1 .* got 7",
        ),
        ({"validation": (X / [1, 1, 1, 1, 1, np.nan], T)}, "^validation features .* got nan"),
        ({"validation": (X, 2 * T, np.ones(300))}, "^validation targets .* got 2"),
        (
            {
                "validation": (X, np.zeros(300), np.ones(5)),
                "targets": T[:, 0] > 0,
                "likelihood": "softmax",
            },
            r"^validation counts must have shape \(300,\).* got \(5,\)",
        ),
        ({"validation": X}, r"validation must be \(features, targets\).*got ndarray"),
        (
            {"validation": (X[:, 1:], T)},
            "validation must have 6 features and 3 outputs.*got 5 and 3",
        ),
        ({"trained": WEIGHTS[:2], "prior_variance": "auto"}, r"trained must have shape \(3, 6\)"),
        (
            {"prior_variance": np.ones((2, 1))},
            r"\(3, 1\) or \(3, 6\), a row per output, got \(2, 1\)",
        ),
        ({"counts": np.ones((300, 2))}, r"or that of targets \(N, K\), got \(300, 2\)"),
        ({"counts": np.ones((300, 3)), "method": "aldi"}, "counts of shape .* method 'aldi'"),
        (
            {"prior_variance": np.arange(1.0, 4)[:, None], "method": "homotopy"},
            "method 'homotopy' takes",
        ),
        ({"diagnose": False, "refine": True}, "refine=True needs the diagnostic"),
    ],
)
def test_mistakes_are_named(options, message):
    with pytest.raises(UserError, match=message):
        sample_posterior(**{"features": X, "targets": T} | options)


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
    if name.startswith("digits"):
        x, y = load_digits(return_X_y=True)
        x = x / 16
    else:
        x, y = {"cancer": load_breast_cancer, "wine": load_wine}[name](return_X_y=True)
        x = (x - x.mean(axis=0)) / x.std(axis=0)
    if name == "cancer":
        y = y[:, None]
    elif name != "digits-softmax":
        y = np.eye(y.max() + 1)[y]
    return x.astype(np.float32), y if name == "digits-softmax" else y.astype(np.float32)


def train(torch, fit, held, seed, epochs):
    """An ordinary network; without `epochs` the one that was best on held-out rows."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    (x, y), (u, v) = (tuple(map(torch.tensor, pair)) for pair in (fit, held))
    outputs = int(y.max()) + 1 if y.ndim == 1 else y.shape[1]
    net = torch.nn.Sequential(
        torch.nn.Linear(x.shape[1], 64), torch.nn.ReLU(), torch.nn.Linear(64, outputs)
    )
    loss = torch.nn.functional
    loss = loss.cross_entropy if y.ndim == 1 else loss.binary_cross_entropy_with_logits
    optimiser, best = torch.optim.Adam(net.parameters(), lr=3e-3), (np.inf, {})
    for _ in range(epochs or 40):
        for some in torch.randperm(len(x)).split(64):
            optimiser.zero_grad()
            loss(net(x[some]), y[some]).backward()
            optimiser.step()
        with torch.no_grad():
            now = float(loss(net(u), v))
        if now < best[0]:
            best = (now, {name: value.clone() for name, value in net.state_dict().items()})
    if not epochs:
        net.load_state_dict(best[1])
    return net.eval()


def compare(torch, name, seed, epochs, rows):
    """Return the test NLL of the posterior by default settings over the network's."""
    fit, held, test = split(*load(name), seed)
    net = train(torch, fit, held, seed, epochs)
    given = (*held,) if rows == "fresh" else (*fit,)
    belief = from_torch(
        net, *given, validation=None if rows == "fresh" else held, diagnose=False, num_particles=400
    )
    with torch.no_grad():
        logits = net(torch.tensor(test[0]))
    own = torch.softmax(logits, 1) if test[1].ndim == 1 else torch.sigmoid(logits)
    loss = compute_nll(belief.predict_proba(test[0]), test[1])
    return loss / compute_nll(own.numpy().astype(float), test[1])


def test_not_worse_than_the_network(torch):
    assert compare(torch, "wine", 0, 0, "training") <= 1.01


@pytest.mark.slow
@pytest.mark.parametrize("rows", ["fresh", "training"])
@pytest.mark.parametrize("epochs", [0, 150])
@pytest.mark.parametrize("name", ["wine", "cancer", "digits", "digits-softmax"])
def test_never_worse_than_the_network(torch, name, epochs, rows):
    ratios = [compare(torch, name, seed, epochs, rows) for seed in range(5)]
    assert max(ratios) <= 1.01


def test_clearly_better_where_the_network_is_overconfident(torch):
    """Labels that are mostly noise, learned by heart by a network much too large for them."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((500, 8)).astype(np.float32)
    y = (rng.random((500, 4)) < 1 / (1 + np.exp(-x[:, :4] / 2))).astype(np.float32)
    fit, held, test = split(x, y, 0)
    net = train(torch, fit, held, 0, 300)
    with torch.no_grad():
        own = compute_nll(torch.sigmoid(net(torch.tensor(test[0]))).numpy().astype(float), test[1])
    belief = from_torch(net, *fit, validation=held, diagnose=False)
    assert compute_nll(belief.predict_proba(test[0]), test[1]) < 0.85 * own
    with pytest.warns(UserWarning, match="probably trained on them"):
        alone = from_torch(net, *fit, diagnose=False)
    assert compute_nll(alone.predict_proba(test[0]), test[1]) < 1.01 * own


def test_last_layer_without_a_network_chooses_a_prior():
    belief = last_layer_posterior(
        lambda x: x, X[FIT, :-1], T[FIT], validation=(X[HELD, :-1], T[HELD])
    )
    assert "by 240 held-out rows" in belief.info.message
    assert "network" not in belief.info.message
