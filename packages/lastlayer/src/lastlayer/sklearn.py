"""Scikit-learn estimators whose weights are a posterior of `lastlayer`.

    >>> from lastlayer.sklearn import BayesianLogistic
    >>> model = BayesianLogistic().fit([[-1.0], [0.0], [2.0]], ["no", "no", "yes"])
    >>> model.predict([[3.0]])
    array(['yes'], dtype='<U3')
    >>> low, high = model.predict_interval([[3.0]])  # of each class's probability
    >>> low.shape
    (1, 2)

A column of classes becomes one logistic output (two classes), a softmax, or one output per class
against the rest; an (N, K) array of labels becomes K outputs. Every prediction averages over the
posterior of their weights. JAX is imported by the first `fit`.
"""

import warnings
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
    from sklearn.utils.class_weight import compute_sample_weight
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
except ImportError as error:
    raise ImportError(
        "lastlayer.sklearn needs scikit-learn 1.6 or newer: pip install 'lastlayer[sklearn]'."
    ) from error

from lastlayer.checks import check_choice, fail

if TYPE_CHECKING:
    from lastlayer import Entropies

__all__ = ["BayesianLogistic", "BayesianMultilabel", "neg_log_loss"]

FLOATS = (np.float64, np.float32)
MULTI_CLASS = ["softmax", "one-vs-rest"]


Rows = tuple[np.ndarray, np.ndarray, np.ndarray]  # features, targets times weights, weights


# scikit-learn has no type hints, so mypy sees its classes as Any; it reads parameters from the
# signature of the constructor, which the dataclass generates
@dataclass(kw_only=True, eq=False, repr=False)
class _Bayesian(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Bayesian logistic regression with scikit-learn's interface: the base of both estimators."""

    _takes_labels: ClassVar[bool] = False  # whether y may be (N, K)
    multi_class = "one-vs-rest"  # a constant here; a parameter in `BayesianLogistic`

    prior_variance: Any = "auto"
    fit_intercept: bool = True
    class_weight: Any = None
    method: str | None = None
    num_particles: int | None = None
    num_steps: int | None = None
    diagnose: bool = False
    random_state: Any = 0

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, validation: Any = None, groups: Any = None
    ) -> Self:
        """Learn from these rows.

        Parameters
        ----------
        X : (N, D)
            Features, without an intercept: an array, a data frame, or a sparse array, which is
            converted to a dense one.
        y : (N,) or (N, K)
            Classes, or labels of 0 and 1.
        sample_weight : (N,) or, for labels, (N, K), optional
            A weight of 2 counts the row twice. A label of weight 0 is treated as missing.
        validation : (X, y) or (X, y, sample_weight), optional
            Other rows, by which `prior_variance="auto"` chooses; without them it cross-validates
            on the rows of X.
        groups : (N,), optional
            Which rows belong together, such as those of one participant: cross-validation leaves
            them out together.
        """
        from lastlayer import sample_posterior  # imports JAX, half a second

        X, y = self._validate(X, y, reset=True)
        self._set_classes(y)
        (psi, targets, counts), kept = self._weigh(X, y, sample_weight)
        if validation is not None:
            if not isinstance(validation, tuple | list) or len(validation) not in (2, 3):
                kind = type(validation).__name__
                fail(f"validation must be (X, y) or (X, y, sample_weight), got {kind}.")
            beside = self._validate(*validation[:2], reset=False)
            validation, _ = self._weigh(*beside, *validation[2:])
        check_consistent_length(X, groups)
        integral = isinstance(self.random_state, Integral)
        draw = check_random_state(None if integral else self.random_state).randint
        posterior = sample_posterior(
            psi,
            targets,
            counts=counts,
            validation=validation,
            groups=None if groups is None else np.asarray(groups)[kept],
            prior_mean=0.0,
            prior_variance=self.prior_variance,
            likelihood="softmax" if self._softmax else "bernoulli",
            method=self.method,
            num_particles=self.num_particles,
            num_steps=self.num_steps,
            diagnose=self.diagnose,
            seed=int(self.random_state) if integral else int(draw(np.iinfo(np.int32).max)),
        )
        if not posterior.info.converged:
            warnings.warn(posterior.info.message, ConvergenceWarning, stacklevel=2)
        automatic = isinstance(self.prior_variance, str)
        chosen = posterior.info.settings["prior_variance"] if automatic else self.prior_variance
        self.posterior_, self.prior_variance_ = posterior, chosen
        self.coef_ = posterior.mean[:, : self.n_features_in_]
        beyond = posterior.mean[:, self.n_features_in_ :]
        self.intercept_ = beyond[:, 0] if self.fit_intercept else np.zeros(len(beyond))
        self.n_iter_ = int(posterior.info.steps.max())
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each row, (N,), or the labels above ½, (N, K)."""
        probability = self.predict_proba(X)
        if self._labels:
            return (probability > 0.5).astype(int)
        return np.asarray(self.classes_[probability.argmax(axis=1)])

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class or label, averaged over the posterior, (N, K)."""
        psi = self._make_design(X)  # first, since it refuses an estimator that is not fitted
        y = self.posterior_.predict_proba(psi)
        if self._labels or self._softmax:
            return y
        if len(self.classes_) == 2:
            return np.hstack([1 - y, y])
        y = np.maximum(y, np.finfo(y.dtype).tiny)  # if all underflow, no class is preferred
        return y / y.sum(axis=1, keepdims=True)

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the mean of the logits, X·coef_ + intercept_; (N,) for two classes, else (N, K).

        It ignores the uncertainty of the posterior, which `predict` and `predict_proba` take into
        account. So the class with the largest logit need not be the most probable one; with two
        classes and a Gaussian posterior it is.
        """
        logits = self._make_design(X) @ self.posterior_.mean.T
        return logits[:, 0] if logits.shape[1] == 1 and not self._labels else logits

    def predict_interval(self, X: Any, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of the central credible interval of each probability, each (N, K).

        It holds a posterior mass of `level`. With one-vs-rest the probabilities are those of each
        class against the rest, before normalising.
        """
        low, high = self.posterior_.predict_interval(self._make_design(X), level)
        if low.shape[1] > 1 or self._labels:
            return low, high
        return np.hstack([1 - high, low]), np.hstack([1 - low, high])

    def predict_sd(self, X: Any) -> np.ndarray:
        """Return the standard deviation of each probability over the posterior, (N, K).

        With one-vs-rest the probabilities are those of each class against the rest, before
        normalising.
        """
        sd = self.posterior_.predict_sd(self._make_design(X))
        return sd if sd.shape[1] > 1 or self._labels else np.hstack([sd, sd])

    def entropies(self, X: Any) -> "Entropies":
        """Return total, aleatoric (`expected`) and epistemic (`information`) uncertainty, in nats.

        Each is (N,); for labels and for one-vs-rest it is (N, K), one column per output.
        """
        psi = self._make_design(X)
        parts = self.posterior_.entropies(psi)
        single = parts.total.shape[1] == 1 and not self._labels
        return type(parts)(*(part[:, 0] if single else part for part in parts))

    def _validate(self, X: Any, y: Any, *, reset: bool) -> tuple[np.ndarray, np.ndarray]:
        shape: tuple[int, ...] = getattr(y, "shape", ())
        if not self._takes_labels and len(shape) == 2 and shape[1] > 1:
            fail(
                f"y must be one column of classes, (N,), got {shape}; for labels of 0 and 1 use "
                "BayesianMultilabel."
            )
        options = {"dtype": FLOATS, "multi_output": self._takes_labels, "accept_sparse": "csr"}
        X, y = validate_data(self, X, y, reset=reset, **options)
        X, y = _make_dense(X), _make_dense(y)
        if y.ndim == 2 and (y.shape[1] > 1 or np.isin(y, (0, 1)).all()):
            if not np.isin(y, (0, 1)).all():
                fail("y of shape (N, K) must hold 0 and 1; binarise the labels first.")
            return X, y
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        return X, y

    def _set_classes(self, y: np.ndarray) -> None:
        self._labels = y.ndim == 2
        self.classes_ = np.arange(y.shape[1]) if self._labels else np.unique(y)
        if len(self.classes_) < 2 and not self._labels:
            name = type(self).__name__
            fail(f"{name} needs at least two classes, got one class: {self.classes_[0]}.")
        check_choice(self.multi_class, "multi_class", MULTI_CLASS)
        self._softmax = self.multi_class == "softmax" and len(self.classes_) > 2

    def _weigh(self, X: np.ndarray, y: np.ndarray, given: Any = None) -> tuple[Rows, np.ndarray]:
        """Return the rows of positive weight as `sample_posterior` takes them, and which."""
        if y.ndim == 2 and np.asarray(given).shape == y.shape:
            weight = np.asarray(given, X.dtype)
        else:
            weight = _check_sample_weight(given, X, dtype=X.dtype)
        if self.class_weight is not None:
            each = _weigh_classes(self.class_weight, y).astype(X.dtype)
            weight = weight[:, None] * each if weight.ndim < each.ndim else weight * each
        kept = np.asarray(weight.reshape(len(X), -1).any(axis=1))
        targets = self._encode_targets(y) * weight.reshape(len(X), -1)
        psi = self._add_intercept(X[kept])
        return (psi, targets[kept].astype(X.dtype), weight[kept]), kept

    def _encode_targets(self, y: np.ndarray) -> np.ndarray:
        """Return the targets as zeros and ones, (N, outputs)."""
        if self._labels:
            return y
        unknown = np.setdiff1d(y, self.classes_)
        if unknown.size:
            fail(f"y of validation holds {unknown[0]}, a class that the rows of fit do not have.")
        hits = y[:, None] == self.classes_
        return hits[:, 1:] if len(self.classes_) == 2 else hits

    def _make_design(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=FLOATS, accept_sparse="csr")
        return self._add_intercept(_make_dense(X))

    def _add_intercept(self, X: np.ndarray) -> np.ndarray:
        return np.hstack([X, np.ones((len(X), 1), X.dtype)]) if self.fit_intercept else X

    def __sklearn_tags__(self) -> Any:
        """Return the tags by which scikit-learn knows which data are accepted."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = self._takes_labels
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class BayesianLogistic(_Bayesian):
    """Bayesian logistic regression for two or more classes.

    Parameters
    ----------
    prior_variance : "auto", number, (D,), (K, 1) or (K, D)
        The prior is N(0, diag(prior_variance)), over the intercept too; with one variance per
        weight, the intercept's is the last. "auto" chooses one number by cross-validation and
        stores it in `prior_variance_`; the intercept then has a wide prior of its own. Put a
        StandardScaler before the estimator if features have different scales.
    fit_intercept : bool
        Whether a column of ones is added.
    class_weight : "balanced" or dict, optional
        The weight of each class, as in scikit-learn. For labels, the weights of 0 and 1 in every
        label, or a list of such weights, one per label.
    multi_class : "softmax" or "one-vs-rest"
        The model of three or more classes; one-vs-rest divides the probabilities by their sum, and
        takes far less time where there are many rows, features or classes.
    method, num_particles, num_steps
        As in `lastlayer.sample_posterior`; a softmax has exact draws alone.
    diagnose : bool
        Whether to check how well a Gaussian describes the posterior; see `posterior_.info`.
        Predictions do not depend on it.
    random_state : int, RandomState or None
        An int makes results reproducible bit for bit.

    Attributes
    ----------
    classes_ : (K,)
    coef_, intercept_ : (1, D) and (1,) for two classes, else (K, D) and (K,)
        Mean of the posterior.
    prior_variance_ : float, or as given
        The prior variance that was chosen.
    posterior_ : lastlayer.Posterior
        Its `info.message` says how far to trust it. The last weight is the intercept.
    n_iter_, n_features_in_, feature_names_in_
    """

    multi_class: str = "softmax"


class BayesianMultilabel(_Bayesian):
    """Bayesian logistic regression for K yes/no labels that share their features.

    y is (N, K) of 0 and 1. `predict_proba` returns the probability of a 1 for each label, (N, K),
    and `predict` returns 1 for probabilities above ½. `classes_` numbers the labels. A single
    column of classes is treated as one-vs-rest, as in scikit-learn's multilabel estimators.

    Parameters and attributes are those of `BayesianLogistic`, without `multi_class`.
    """

    _takes_labels = True


def neg_log_loss(estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """Return minus the mean log loss per answer, for `scoring=` of searches; larger is better.

    Scikit-learn's own "neg_log_loss" takes one column of classes; this takes labels (N, K), too.

    Parameters
    ----------
    estimator
        Any classifier with `predict_proba`.
    X : (N, D)
        Rows.
    y : (N,) or (N, K)
        Classes, or labels of 0 and 1.
    sample_weight : (N,), optional
        Weights of the rows.

    Returns
    -------
    float
        Minus the mean NLL of a class, or of a yes/no label.
    """
    probability, y = np.asarray(estimator.predict_proba(X)), _make_dense(y)
    tiny = np.finfo(probability.dtype).eps
    p = np.clip(probability, tiny, 1 - tiny)
    if y.ndim == 1:
        logs = np.log(p[y[:, None] == estimator.classes_])
    else:
        logs = (y * np.log(p) + (1 - y) * np.log1p(-p)).mean(axis=1)
    return float(np.average(logs, weights=sample_weight))


def _weigh_classes(class_weight: Any, y: np.ndarray) -> np.ndarray:
    """Return the class weight of each row, (N,); for labels, of each label of a row, (N, K)."""
    if y.ndim == 1:
        return np.asarray(compute_sample_weight(class_weight, y))
    each = class_weight if isinstance(class_weight, list) else [class_weight] * y.shape[1]
    columns = zip(each, y.T, strict=True)
    return np.column_stack([compute_sample_weight(weight, column) for weight, column in columns])


def _make_dense(X: Any) -> np.ndarray:
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X)


# Their names before 0.3.
EnsembleKalmanClassifier, EnsembleKalmanMultilabel = BayesianLogistic, BayesianMultilabel
