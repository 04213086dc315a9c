"""What scikit-learn users expect: automatic priors, weights, frames, sparse rows, copies."""

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lastlayer.errors import UserError
from lastlayer.sklearn import BayesianLogistic, BayesianMultilabel, neg_log_loss
from problems import sample_posterior

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 3))
LABELS = (X @ RNG.standard_normal((3, 2)) + RNG.logistic(size=(40, 2)) > 0).astype(int)
Y = np.where(LABELS[:, 0], "yes", "no")
WITH_ONES = np.hstack([X, np.ones((40, 1))])


@pytest.fixture(scope="module")
def labelled():
    return BayesianMultilabel().fit(X, LABELS)


def test_the_prior_variance_is_chosen_by_default(labelled):
    chosen = labelled.prior_variance_
    assert 1e-3 < chosen < 1e3
    assert f"prior variance {chosen:.3g} about zero" in labelled.posterior_.info.message
    wide = labelled.posterior_.info.settings["intercept_variance"]
    again = BayesianMultilabel(prior_variance=[chosen] * 3 + [wide]).fit(X, LABELS)
    np.testing.assert_allclose(again.coef_, labelled.coef_, atol=1e-5)
    assert again.prior_variance_ == [chosen] * 3 + [wide]
    assert BayesianLogistic().get_params()["prior_variance"] == "auto"


def test_missing_labels_have_no_weight():
    weight = (RNG.random((40, 2)) < 0.7).astype(float)
    model = BayesianMultilabel(prior_variance=1.0).fit(X, LABELS, sample_weight=weight)
    alone = sample_posterior(WITH_ONES, LABELS * weight, counts=weight)
    np.testing.assert_allclose(model.posterior_.mean, alone.mean, atol=1e-6)
    with pytest.raises(ValueError, match="1D array or scalar"):
        BayesianMultilabel().fit(X, LABELS, sample_weight=np.ones((40, 3)))


def test_classes_may_have_weights():
    weights = {"no": 1.0, "yes": 3.0}
    model = BayesianLogistic(prior_variance=1.0, class_weight=weights).fit(X, Y)
    by_hand = np.where(Y == "yes", 3.0, 1.0)
    same = BayesianLogistic(prior_variance=1.0).fit(X, Y, sample_weight=by_hand)
    np.testing.assert_array_equal(model.coef_, same.coef_)
    both = BayesianMultilabel(prior_variance=1.0, class_weight="balanced").fit(X, LABELS)
    for k in range(2):
        alone = BayesianLogistic(prior_variance=1.0, class_weight="balanced")
        alone.fit(X, LABELS[:, k])
        np.testing.assert_allclose(both.coef_[k], alone.coef_[0], atol=1e-6)


def test_sparse_rows_and_frames():
    dense = BayesianLogistic(prior_variance=1.0).fit(X, Y)
    sparse = BayesianLogistic(prior_variance=1.0).fit(csr_array(X), Y)
    answer = sparse.predict_proba(csr_array(X))
    np.testing.assert_allclose(answer, dense.predict_proba(X), rtol=1e-12)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    framed = BayesianLogistic(prior_variance=1.0).fit(frame, pd.Series(Y))
    assert list(framed.feature_names_in_) == ["a", "b", "c"]
    np.testing.assert_allclose(framed.predict_proba(frame), dense.predict_proba(X), rtol=1e-12)
    with pytest.raises(ValueError, match="feature names"):
        framed.predict(frame[["c", "b", "a"]])
    pipeline = make_pipeline(StandardScaler(), BayesianLogistic(prior_variance=1.0))
    pipeline.set_output(transform="pandas").fit(frame, Y)
    assert list(pipeline[-1].feature_names_in_) == ["a", "b", "c"]


def test_labels_are_searched_by_their_log_loss():
    model = BayesianMultilabel()
    grid = {"prior_variance": [1e-6, 1.0]}
    with joblib.parallel_backend("threading"):
        search = GridSearchCV(model, grid, scoring=neg_log_loss, cv=2, n_jobs=2).fit(X, LABELS)
    assert search.best_params_ == {"prior_variance": 1.0}
    p = search.predict_proba(X)
    expected = (LABELS * np.log(p) + (1 - LABELS) * np.log1p(-p)).mean()
    assert search.score(X, LABELS) == pytest.approx(expected)
    single = BayesianLogistic(prior_variance=1.0).fit(X, Y)
    q = single.predict_proba(X)[np.arange(40), (Y == "yes").astype(int)]
    assert neg_log_loss(single, X, Y) == pytest.approx(np.log(q).mean())


def test_validation_rows_may_choose_the_prior(labelled):
    model = BayesianMultilabel().fit(X[:10], LABELS[:10], validation=(X[10:], LABELS[10:]))
    by_hand = sample_posterior(
        WITH_ONES[:10],
        LABELS[:10],
        prior_mean=0.0,
        prior_variance="auto",
        validation=(WITH_ONES[10:], LABELS[10:]),
        diagnose=False,
    )
    assert "by 30 held-out rows" in model.posterior_.info.message
    np.testing.assert_allclose(model.posterior_.mean, by_hand.mean, atol=1e-5)
    weight = np.repeat([2.0, 1.0], [5, 25])
    named = BayesianLogistic().fit(X[:10], Y[:10], validation=(X[10:], Y[10:], weight))
    assert "held-out NLL" in named.posterior_.info.message
    with pytest.raises(UserError, match=r"validation must be \(X, y\) or .* got ndarray"):
        BayesianMultilabel().fit(X, LABELS, validation=X)


def test_labels_given_to_the_classifier_name_the_other_estimator():
    with pytest.raises(UserError, match=r"one column.*got \(40, 2\).*BayesianMultilabel"):
        BayesianLogistic().fit(X, LABELS)


def test_rows_of_a_group_are_left_out_together():
    x, y = np.repeat(X, 2, axis=0), np.repeat(LABELS, 2, axis=0)
    names = np.repeat([f"p{i}" for i in range(40)], 2)
    model = BayesianMultilabel().fit(x, y, groups=names)
    assert "by 80 of 80 rows, left out in turn" in model.posterior_.info.message
    split = BayesianMultilabel().fit(x, y, groups=np.arange(80))
    assert split.prior_variance_ > model.prior_variance_
    assert model.n_features_in_ == X.shape[1]
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        BayesianMultilabel().fit(x, y, groups=[1, 2, 3])
