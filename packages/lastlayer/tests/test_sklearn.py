"""The estimators meet scikit-learn's rules and agree with `sample_posterior`."""

import importlib
import pickle
import sys

import jax
import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from lastlayer.errors import UserError
from lastlayer.sklearn import (
    BayesianLogistic,
    BayesianMultilabel,
    EnsembleKalmanClassifier,
    EnsembleKalmanMultilabel,
)
from problems import sample_posterior

RNG = np.random.default_rng(0)
X = RNG.standard_normal((24, 2))
CLASSES = np.array(["bread", "pizza", "soup"])
SCORES = X @ [[1.5, -1.5, 0.0], [0.5, 0.5, -1.5]] + [0.7, 0.0, 0.0] + RNG.gumbel(size=(24, 3))
THREE = CLASSES[SCORES.argmax(axis=1)]
TWO = CLASSES[SCORES[:, :2].argmax(axis=1)]
LABELS = (SCORES > 0).astype(int)
WITH_ONES = np.hstack([X, np.ones((24, 1))])


def make_classifier(**options):
    """Return a classifier with prior variance 1 unless given, so that its result is known."""
    return BayesianLogistic(**({"prior_variance": 1.0} | options))


def make_multilabel(**options):
    return BayesianMultilabel(**({"prior_variance": 1.0} | options))


@pytest.fixture(autouse=True, scope="module")
def quick_compilation():
    """Compile dozens of small programs without most optimisations, a third faster."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@parametrize_with_checks([make_classifier(), make_multilabel()])
def test_scikit_learn_accepts(estimator, check):
    """The multilabel estimator treats the checks' columns of classes as one-vs-rest."""
    check(estimator)


@pytest.mark.parametrize(
    ("y", "targets", "likelihood"),
    [
        (TWO, TWO == "pizza", "bernoulli"),
        (THREE, np.searchsorted(CLASSES, THREE), "softmax"),
    ],
    ids=["two", "three"],
)
def test_weights_are_the_posterior_mean(y, targets, likelihood):
    model = make_classifier(prior_variance=[2.0, 3.0, 5.0]).fit(X, y)
    alone = sample_posterior(
        WITH_ONES, targets, likelihood=likelihood, prior_variance=[2.0, 3.0, 5.0]
    )
    # The same rows in another order: results differ only within the tolerance of the flow (1e-7).
    np.testing.assert_allclose(model.coef_, alone.mean[:, :2], atol=1e-6)
    np.testing.assert_allclose(model.intercept_, alone.mean[:, 2], atol=1e-6)
    np.testing.assert_allclose(
        model.decision_function(X), np.squeeze(X @ model.coef_.T + model.intercept_), atol=1e-12
    )
    assert model.n_iter_ == model.posterior_.info.steps.max()


@pytest.mark.parametrize("y", [TWO, THREE, LABELS], ids=["two", "three", "labels"])
def test_weight_is_repetition(y):
    """Weight 0 removes a row; the same rows in another order differ by rounding."""
    weight = np.arange(24) % 4
    make = make_multilabel if y.ndim == 2 else make_classifier
    weighted = make().fit(X, y, sample_weight=weight)
    repeated = make().fit(np.repeat(X, weight, axis=0), np.repeat(y, weight, axis=0))
    atol = 0.3 if y is THREE else 1e-6  # a softmax is drawn
    np.testing.assert_allclose(weighted.posterior_.mean, repeated.posterior_.mean, atol=atol)
    assert not np.allclose(weighted.coef_, make().fit(X, y).coef_)


def test_one_vs_rest_is_normalised():
    model = make_classifier(multi_class="one-vs-rest").fit(X, THREE)
    probability = model.predict_proba(X)
    outputs = sample_posterior(WITH_ONES, THREE[:, None] == CLASSES).predict_proba(WITH_ONES)
    np.testing.assert_allclose(probability.sum(axis=1), 1, rtol=1e-12)
    expected = outputs / outputs.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(probability, expected, atol=1e-6)
    low, high = model.predict_interval(X)
    assert ((low < outputs) & (outputs < high)).all()
    assert model.entropies(X).total.shape == (24, 3)


def test_each_label_is_a_problem_of_its_own():
    model = make_multilabel().fit(X, LABELS)
    probability = model.predict_proba(X)
    assert probability.shape == model.decision_function(X).shape == (24, 3)
    for k in range(3):
        alone = make_classifier().fit(X, LABELS[:, k])
        np.testing.assert_allclose(probability[:, k], alone.predict_proba(X)[:, 1], atol=1e-6)
        np.testing.assert_array_equal(model.predict(X)[:, k], alone.predict(X))
    sparse = make_multilabel().fit(X, csr_array(LABELS))
    np.testing.assert_array_equal(sparse.coef_, model.coef_)


def test_works_in_scikit_learns_tools():
    pipeline = make_pipeline(StandardScaler(), make_classifier())
    search = GridSearchCV(pipeline, {"bayesianlogistic__prior_variance": [1e-8, 1.0]}, cv=2)
    search.fit(X, TWO)
    assert search.best_params_ == {"bayesianlogistic__prior_variance": 1.0}
    assert cross_val_score(make_multilabel(), X, LABELS, cv=2).shape == (2,)
    model = make_classifier(prior_variance=4.0, random_state=3).fit(X, THREE)
    assert clone(model).get_params() == model.get_params()
    back = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))


def test_a_run_that_does_not_converge_warns():
    with pytest.warns(ConvergenceWarning, match="do not trust this yet"):
        make_classifier(num_steps=1).fit(X, TWO)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_classifier().fit(X, ["a"] * 24), "got one class: a"),
        (lambda: make_multilabel().fit(X, LABELS + 1), "must hold 0 and 1"),
        (
            lambda: make_classifier(multi_class="soft").fit(X, TWO),
            "multi_class must be one of softmax, one-vs-rest, got 'soft'",
        ),
        (
            lambda: make_classifier().fit(X, TWO, sample_weight=np.arange(24) - 1),
            "counts must be ≥ 0",
        ),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(UserError, match=message):
        call()


def test_without_scikit_learn_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    monkeypatch.delitem(sys.modules, "lastlayer.sklearn")
    with pytest.raises(ImportError, match=r"pip install 'lastlayer\[sklearn\]'"):
        importlib.import_module("lastlayer.sklearn")


def test_names_before_the_renaming_still_import():
    assert EnsembleKalmanClassifier is BayesianLogistic
    assert EnsembleKalmanMultilabel is BayesianMultilabel
