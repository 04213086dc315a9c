"""The estimators meet scikit-learn's rules and agree with `sample_posterior`."""

import importlib
import pickle
import sys
from itertools import pairwise

import jax
import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from lastlayer import sample_posterior
from lastlayer.errors import UserError
from lastlayer.sklearn import EnsembleKalmanClassifier, EnsembleKalmanMultilabel

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
    return EnsembleKalmanClassifier(**({"prior_variance": 1.0} | options))


def make_multilabel(**options):
    return EnsembleKalmanMultilabel(**({"prior_variance": 1.0} | options))


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


def test_intercept_can_be_left_out():
    model = make_classifier(fit_intercept=False).fit(X, TWO)
    alone = sample_posterior(X, TWO == "pizza")
    np.testing.assert_allclose(model.coef_, alone.mean, atol=1e-6)
    np.testing.assert_array_equal(model.intercept_, [0.0])


def test_labels_come_back_as_they_were_given():
    """Rows lie on either side of a wide gap, so that the classes are clear."""
    side = np.sign(X[:, :1])
    rows, y = X + 3 * side * [1, 0], np.where(side[:, 0] > 0, "a", "z")
    model = make_classifier().fit(rows, y)
    np.testing.assert_array_equal(model.classes_, ["a", "z"])
    np.testing.assert_array_equal(model.predict(rows), y)
    np.testing.assert_array_equal(model.predict_proba(rows)[:, 1] > 0.5, y == "z")


@pytest.mark.parametrize("y", [TWO, THREE, LABELS], ids=["two", "three", "labels"])
def test_weight_is_repetition(y):
    """Weight 0 removes a row. Weights become counts, so the problems are identical bit for bit."""
    weight = np.arange(24) % 4
    make = make_multilabel if y.ndim == 2 else make_classifier
    weighted = make().fit(X, y, sample_weight=weight)
    repeated = make().fit(np.repeat(X, weight, axis=0), np.repeat(y, weight, axis=0))
    np.testing.assert_array_equal(weighted.posterior_.mean, repeated.posterior_.mean)
    assert not np.allclose(weighted.coef_, make().fit(X, y).coef_)


@pytest.mark.parametrize("y", [TWO, THREE, LABELS], ids=["two", "three", "labels"])
def test_a_stream_in_three_parts_is_the_whole(y):
    """The second part repeats rows of the first; integer weights add up without rounding."""
    make = make_multilabel if y.ndim == 2 else make_classifier
    parts = [slice(0, 9), slice(5, 16), slice(16, 24)]
    rows, targets = (np.concatenate([of[part] for part in parts]) for of in (X, y))
    weight = np.arange(len(rows)) % 3 + 1.0
    whole = make().fit(rows, targets, sample_weight=weight)
    stream, ends = make(), np.cumsum([0, 9, 11, 8])
    for i, (start, stop) in enumerate(pairwise(ends)):
        classes = None if i or y.ndim == 2 else np.unique(y)[::-1]
        stream.partial_fit(
            rows[start:stop], targets[start:stop], classes, sample_weight=weight[start:stop]
        )
    np.testing.assert_allclose(stream.posterior_.mean, whole.posterior_.mean, rtol=1e-12)
    np.testing.assert_allclose(stream.posterior_.covariance, whole.posterior_.covariance, 1e-12)
    assert stream.folded_rows_ == 0


def test_a_stream_may_begin_with_one_class_and_go_on_after_fit():
    order = np.argsort(TWO, kind="stable")
    whole = make_classifier().fit(X, TWO)
    stream = make_classifier().partial_fit(X[order[:4]], TWO[order[:4]], CLASSES[:2])
    stream.partial_fit(X[order[4:]], TWO[order[4:]])
    np.testing.assert_array_equal(stream.coef_, whole.coef_)
    more = make_classifier().fit(X[:20], TWO[:20]).partial_fit(X[20:], TWO[20:])
    np.testing.assert_array_equal(more.coef_, whole.coef_)
    more.fit(X[4:], TWO[4:])
    fresh = make_classifier().fit(X[4:], TWO[4:])
    np.testing.assert_array_equal(more.coef_, fresh.coef_, "fit must forget earlier rows")


def test_rows_beyond_the_bound_become_the_prior():
    """The next prior has the posterior's mean, and its variances averaged over outputs."""
    stream = make_multilabel(max_rows=12)
    first = stream.partial_fit(X[:10], LABELS[:10]).partial_fit(X[10:15], LABELS[10:15]).posterior_
    assert stream.folded_rows_ == 15
    np.testing.assert_array_equal(
        first.mean, make_multilabel().fit(X[:15], LABELS[:15]).posterior_.mean
    )
    stream.partial_fit(X[15:], LABELS[15:])
    variances = np.stack([np.diag(covariance) for covariance in first.covariance])
    second = sample_posterior(
        WITH_ONES[15:],
        LABELS[15:],
        prior_mean=first.mean,
        prior_variance=variances.mean(axis=0),
    )
    np.testing.assert_allclose(stream.posterior_.mean, second.mean, atol=1e-6)
    assert stream.folded_rows_ == 15, "nine rows are within the bound"
    stream.fit(X[:15], LABELS[:15])
    np.testing.assert_array_equal(stream.posterior_.mean, first.mean, "fit must forget the prior")
    assert stream.folded_rows_ == 15


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


@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
def test_uncertainty_grows_away_from_the_data(y):
    model = make_classifier().fit(X, y)
    rows = np.array([[0.0, 0.0], [0.0, 4.0]])
    low, high = model.predict_interval(rows, level=0.8)
    probability = model.predict_proba(rows)
    assert low.shape == high.shape == probability.shape == (2, len(np.unique(y)))
    assert ((low < probability) & (probability < high)).all()
    assert (high - low)[1].max() > (high - low)[0].max()
    wide_low, wide_high = model.predict_interval(rows, level=0.95)
    assert ((wide_low < low) & (high < wide_high)).all()
    found = model.entropies(rows)
    expected = -(probability * np.log(probability)).sum(axis=1)
    np.testing.assert_allclose(found.total, expected, rtol=1e-9)
    np.testing.assert_allclose(found.information, found.total - found.expected, atol=1e-12)
    assert found.information[1] > found.information[0]


def test_digits_are_classified_as_well_as_by_logistic_regression():
    """C = 1 is a prior variance of 1, so the two estimates are close."""
    images, digit = load_digits(n_class=4, return_X_y=True)
    images, train, test = images / 16, slice(0, 250), slice(250, 650)
    ours = make_classifier().fit(images[train], digit[train])
    theirs = LogisticRegression().fit(images[train], digit[train])
    # Seen: 0.9625 for both, with equal answers; classes in the wrong order give 0.02. Two per cent
    # of 400 images allow for eight that are ambiguous.
    difference = ours.score(images[test], digit[test]) - theirs.score(images[test], digit[test])
    assert abs(difference) < 0.02
    assert (ours.predict(images[test]) == theirs.predict(images[test])).mean() > 0.98


def test_works_in_scikit_learns_tools():
    pipeline = make_pipeline(StandardScaler(), make_classifier())
    search = GridSearchCV(pipeline, {"ensemblekalmanclassifier__prior_variance": [1e-8, 1.0]}, cv=2)
    search.fit(X, TWO)
    assert search.best_params_ == {"ensemblekalmanclassifier__prior_variance": 1.0}
    assert cross_val_score(make_multilabel(), X, LABELS, cv=2).shape == (2,)
    model = make_classifier(prior_variance=4.0, random_state=3).fit(X, THREE)
    assert clone(model).get_params() == model.get_params()
    back = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))


def test_random_state_is_a_seed_or_a_generator():
    def particles(state):
        return make_classifier(random_state=state).fit(X, TWO).posterior_.particles

    seven = sample_posterior(WITH_ONES, TWO == "pizza", seed=7).particles
    np.testing.assert_allclose(particles(7), seven, atol=1e-5)
    drawn = particles(np.random.RandomState(7))
    np.testing.assert_array_equal(drawn, particles(np.random.RandomState(7)))
    assert not np.allclose(drawn, particles(None))


def test_a_run_that_does_not_converge_warns():
    with pytest.warns(ConvergenceWarning, match="do not trust this yet"):
        make_classifier(num_steps=1).fit(X, TWO)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: make_classifier().partial_fit(X, TWO).partial_fit(X, THREE),
            "y holds soup, known classes are bread, pizza; name every class",
        ),
        (
            lambda: make_classifier().partial_fit(X, TWO).partial_fit(X, TWO, classes=CLASSES),
            "classes must stay bread, pizza, as at the first call, got bread, pizza, soup",
        ),
        (
            lambda: make_multilabel().fit(X, LABELS).partial_fit(X, LABELS[:, :2]),
            r"y must have shape \(N, 3\), as at the first call, got \(24, 2\)",
        ),
        (lambda: make_classifier().fit(X, ["a"] * 24), "got one class: a; for a stream"),
        (lambda: make_multilabel().fit(X, LABELS + 1), "must hold 0 and 1"),
        (
            lambda: make_classifier(multi_class="soft").fit(X, TWO),
            "multi_class must be one of softmax, one-vs-rest, got 'soft'",
        ),
        (
            lambda: make_classifier(max_rows=-1).fit(X, TWO),
            "max_rows must be a whole number ≥ 0, got -1",
        ),
        (
            lambda: make_classifier().fit(X, TWO, sample_weight=np.arange(24) - 1),
            "sample_weight must be ≥ 0 and not zero everywhere, got weights from -1 to 22",
        ),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(UserError, match=message):
        call()


def test_without_scikit_learn_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    for module in ("lastlayer.sklearn", "lastlayer.sklearn.estimators"):
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(ImportError, match=r"pip install 'equivocal\[sklearn\]'"):
        _ = importlib.import_module("lastlayer.sklearn").EnsembleKalmanClassifier


@pytest.mark.filterwarnings("error")
def test_bad_settings_and_overflowing_rows_are_refused() -> None:
    with pytest.raises(UserError, match="fit_intercept must be True or False, got 'no'"):
        make_classifier(fit_intercept="no").fit(X, TWO)
    model = make_classifier().fit(X, TWO)
    with pytest.raises(UserError, match=r"X must give finite logits, got entries up to 2e\+308"):
        model.decision_function(np.full((1, 2), np.finfo(float).max))
