"""The two estimators, for classes and for yes/no labels, and their common base class.

A column of classes becomes one logistic output (two classes), a softmax, or one output per class
against the rest; an (N, K) array of labels becomes K outputs. The posterior over their weights
comes from `lastlayer.sample_posterior`, and every prediction averages over it.
"""

import warnings
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils import check_random_state, column_or_1d
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ImportError(
        "lastlayer.sklearn needs scikit-learn 1.6 or newer: pip install 'equivocal[sklearn]'."
    ) from error

from lastlayer.checks import check_bool, check_choice, check_int, fail
from lastlayer.errors import join_names
from lastlayer.machine import measure_memory
from lastlayer.sklearn.rows import Seen, merge_rows, weigh_classes, weigh_rows

if TYPE_CHECKING:
    from lastlayer import Entropies

FLOATS = (np.float64, np.float32)
MULTI_CLASS = ["softmax", "one-vs-rest"]


# scikit-learn has no type hints, so mypy sees its classes as Any; it reads parameters from the
# signature of the constructor, which the dataclass generates
@dataclass(kw_only=True, eq=False, repr=False)
class _EnsembleKalman(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Bayesian logistic regression with scikit-learn's interface: the base of both estimators."""

    _takes_labels: ClassVar[bool] = False  # whether y may be (N, K)
    multi_class = "one-vs-rest"  # a constant here; a parameter in `EnsembleKalmanClassifier`

    prior_variance: Any = "auto"
    fit_intercept: bool = True
    class_weight: Any = None
    method: str | None = None
    num_particles: int | None = None
    num_steps: int | None = None
    diagnose: bool = False
    max_rows: int | None = None
    random_state: Any = 0

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        validation: Any = None,
        groups: Any = None,
    ) -> Self:
        """Learn from these rows, and forget all earlier ones.

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

        Returns
        -------
        self
        """
        X, y = self._validate(X, y, reset=True)
        self._start(y, None)
        beside = None if validation is None else self._read_validation(validation)
        if groups is None:
            return self._learn(self._count(X, y, sample_weight), beside)
        if len(groups) != len(X):
            fail(f"groups must have one entry per row of X, got {len(groups)} for {len(X)}.")
        # equal rows of one group alone are merged
        _, numbers = np.unique(np.asarray(groups), return_inverse=True)
        told = np.column_stack([X, numbers.astype(X.dtype)])
        seen = self._count(told, y, sample_weight)
        return self._learn(seen._replace(rows=seen.rows[:, :-1]), beside, seen.rows[:, -1])

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from these rows and from all earlier ones since `fit` or the first call.

        Distinct rows are kept with their counts, and every call learns from all of them again. So
        the result equals that of `fit` on all rows, but memory and time grow with the number of
        distinct rows; the parameter `max_rows` bounds both. `classes` names all classes that may
        ever occur; without it they are those of the first call. Labels (N, K) do not need it.
        """
        if isinstance(self.class_weight, str):
            fail("class_weight='balanced' needs all rows at once: give a dictionary, or use fit.")
        first = not hasattr(self, "posterior_")
        X, y = self._validate(X, y, reset=first)
        if first:
            self._start(y, classes)
        if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            fail(
                f"classes must stay {join_names(map(str, self.classes_))}, as at the first call, "
                f"got {join_names(map(str, np.unique(classes)))}; call fit to start afresh."
            )
        new = self._count(X, y, sample_weight)
        return self._learn(new if first else merge_rows(self._seen, new))

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each row, or the labels above ½.

        Parameters
        ----------
        X : (N, D)
            Rows as given to `fit`.

        Returns
        -------
        numpy.ndarray
            (N,), or (N, K) for labels.
        """
        probability = self.predict_proba(X)
        if self._labels:
            return (probability > 0.5).astype(int)
        return np.asarray(self.classes_[probability.argmax(axis=1)])

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class or label, averaged over the posterior.

        Parameters
        ----------
        X : (N, D)
            Rows as given to `fit`.

        Returns
        -------
        numpy.ndarray
            (N, K).
        """
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
        psi = self._make_design(X)
        with np.errstate(over="ignore", invalid="ignore"):
            logits = psi @ self.posterior_.mean.T
        if not np.isfinite(logits).all():
            fail(f"X must give finite logits, got entries up to {np.abs(psi).max():.0e}; scale it.")
        return logits[:, 0] if logits.shape[1] == 1 and not self._labels else logits

    def predict_interval(self, X: Any, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of the central credible interval of each probability, each (N, K).

        It holds a posterior mass of `level`. With one-vs-rest the probabilities are those of each
        class against the rest, before normalising.
        """
        psi = self._make_design(X)
        low, high = self.posterior_.predict_interval(psi, level)
        if low.shape[1] > 1 or self._labels:
            return low, high
        return np.hstack([1 - high, low]), np.hstack([1 - low, high])

    def predict_sd(self, X: Any) -> np.ndarray:
        """Return the standard deviation of each probability over the posterior, (N, K).

        With one-vs-rest the probabilities are those of each class against the rest, before
        normalising.
        """
        psi = self._make_design(X)
        sd = self.posterior_.predict_sd(psi)
        return sd if sd.shape[1] > 1 or self._labels else np.hstack([sd, sd])

    def entropies(self, X: Any) -> "Entropies":
        """Return total, aleatoric (`expected`) and epistemic (`information`) uncertainty, in nats.

        Each is (N,); for labels and for one-vs-rest it is (N, K), one column per output.
        """
        psi = self._make_design(X)
        found = self.posterior_.entropies(psi)
        single = found.total.shape[1] == 1 and not self._labels
        return type(found)(*(part[:, 0] if single else part for part in found))

    def _validate(self, X: Any, y: Any, *, reset: bool) -> tuple[np.ndarray, np.ndarray]:
        shape: tuple[int, ...] = getattr(y, "shape", ())
        if not self._takes_labels and len(shape) == 2 and shape[1] > 1:
            fail(
                f"y must be one column of classes, (N,), got {shape}; for labels of 0 and 1 use "
                "EnsembleKalmanMultilabel."
            )
        if self._takes_labels and len(shape) == 2 and _has_missing(y):
            fail(
                "y must hold 0 and 1, got NaN; where a label is missing put 0, and give "
                "sample_weight of shape (N, K) with 0 there and 1 elsewhere."
            )
        options = {"dtype": FLOATS, "multi_output": self._takes_labels, "accept_sparse": "csr"}
        X, y = validate_data(self, X, y, reset=reset, **options)
        X = _make_dense(X)
        y = y.toarray() if hasattr(y, "toarray") else y  # labels may be a sparse array
        if y.ndim == 2 and (y.shape[1] > 1 or np.isin(y, (0, 1)).all()):
            if not np.isin(y, (0, 1)).all():
                fail("y of shape (N, K) must hold 0 and 1; binarise the labels first.")
            return X, y
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        return X, y

    def _start(self, y: np.ndarray, classes: Any) -> None:
        """Forget earlier rows, determine the classes and check the parameters."""
        self._labels = y.ndim == 2
        if self._labels:
            self.classes_ = np.arange(y.shape[1])
        else:
            self.classes_ = np.unique(y if classes is None else classes)
        if len(self.classes_) < 2 and not self._labels:
            fail(
                f"{type(self).__name__} needs at least two classes, got one class: "
                f"{self.classes_[0]}; for a stream, name all in partial_fit(classes=...)."
            )
        check_bool(self.fit_intercept, "fit_intercept")
        if self.max_rows is not None:
            check_int(self.max_rows, "max_rows", least=0)
        check_choice(self.multi_class, "multi_class", MULTI_CLASS)
        self._softmax = self.multi_class == "softmax" and len(self.classes_) > 2
        self._prior = {"prior_mean": 0.0, "prior_variance": self.prior_variance}
        self.folded_rows_ = 0

    def _count(self, X: np.ndarray, y: np.ndarray, sample_weight: Any) -> Seen:
        """Return the distinct rows of positive weight, with targets times weight."""
        targets = self._encode_targets(y).astype(X.dtype)
        weight = weigh_rows(sample_weight, X, y.shape if self._labels else None)
        if self.class_weight is not None:
            each = weigh_classes(self.class_weight, y).astype(X.dtype)
            weight = weight[:, None] * each if weight.ndim < each.ndim else weight * each
        kept = weight.reshape(len(X), -1).any(axis=1)
        targets = targets * weight.reshape(len(X), -1)
        return merge_rows(Seen(X[kept], targets[kept], weight[kept]))

    def _encode_targets(self, y: np.ndarray) -> np.ndarray:
        """Return the targets as zeros and ones, (N, outputs)."""
        if (y.ndim == 2) != self._labels or (self._labels and y.shape[1] != len(self.classes_)):
            wanted = f"(N, {len(self.classes_)})" if self._labels else "(N,)"
            fail(f"y must have shape {wanted}, as at the first call, got {y.shape}.")
        if self._labels:
            return y
        unknown = np.setdiff1d(y, self.classes_)
        if unknown.size:
            fail(
                f"y holds {join_names(map(str, unknown))}, known classes are "
                f"{join_names(map(str, self.classes_))}; name every class in the first partial_fit."
            )
        hits = y[:, None] == self.classes_
        return hits[:, 1:] if len(self.classes_) == 2 else hits

    def _read_validation(self, given: Any) -> Seen:
        """Return the validation rows with the intercept, in the form that `_count` returns."""
        if not isinstance(given, tuple | list) or len(given) not in (2, 3):
            fail(f"validation must be (X, y) or (X, y, sample_weight), got {type(given).__name__}.")
        X, y, *weight = given
        X, y = self._validate(X, y, reset=False)
        seen = self._count(X, y, weight[0] if weight else None)
        return seen._replace(rows=self._add_intercept(seen.rows))

    def _learn(
        self, seen: Seen, validation: Seen | None = None, groups: np.ndarray | None = None
    ) -> Self:
        """Sample the posterior of these rows; if they exceed `max_rows`, make it the next prior."""
        from lastlayer import sample_posterior  # imports JAX, half a second

        posterior = sample_posterior(
            self._add_intercept(seen.rows),
            seen.targets,
            counts=seen.counts,
            validation=validation,
            groups=groups,
            **self._prior,
            likelihood="softmax" if self._softmax else "bernoulli",
            method=self.method,
            num_particles=self.num_particles,
            num_steps=self.num_steps,
            diagnose=self.diagnose,
            seed=self._choose_seed(),
        )
        if not posterior.info.converged:
            warnings.warn(posterior.info.message, ConvergenceWarning, stacklevel=3)
        self._seen, self.posterior_ = seen, posterior
        if not self.folded_rows_:
            self.prior_variance_ = self.prior_variance
            if isinstance(self.prior_variance, str):
                self.prior_variance_ = posterior.info.settings["prior_variance"]
        self.coef_ = posterior.mean[:, : self.n_features_in_]
        beyond = posterior.mean[:, self.n_features_in_ :]
        self.intercept_ = beyond[:, 0] if self.fit_intercept else np.zeros(len(beyond))
        self.n_iter_ = int(posterior.info.steps.max())
        if self.max_rows is not None and len(seen.rows) > self.max_rows:
            self._fold()
        return self

    def _choose_seed(self) -> int:
        """Return `random_state` if it is an integer; otherwise draw a seed from it."""
        if isinstance(self.random_state, Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _fold(self) -> None:
        """Make the posterior the prior of the next call and drop its rows.

        The prior has the posterior's mean, and variances averaged over outputs.
        """
        variances = np.diagonal(self.posterior_.covariance, axis1=1, axis2=2)
        shared = variances.mean(axis=0)
        self._prior = {"prior_mean": self.posterior_.mean, "prior_variance": shared}
        self.folded_rows_ += len(self._seen.rows)
        self._seen = Seen(*(part[:0] for part in self._seen))

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
        return tags


def _has_missing(y: Any) -> bool:
    """Return whether labels hold NaN; sparse and non-numeric labels are not checked."""
    values = None if hasattr(y, "toarray") else np.asarray(y)
    return values is not None and values.dtype.kind == "f" and bool(np.isnan(values).any())


def _make_dense(X: Any) -> np.ndarray:
    """Return a dense array; refuse a sparse one that would not fit into memory."""
    if not hasattr(X, "toarray"):
        return np.asarray(X)
    size = X.shape[0] * X.shape[1] * X.dtype.itemsize
    if size > (memory := measure_memory() // 4):
        fail(
            f"X is sparse, and as the dense array that the posterior needs it has "
            f"{size / 2**30:.3g} GiB, more than {memory / 2**30:.3g}: select or hash its features."
        )
    return np.asarray(X.toarray())


@dataclass(kw_only=True, eq=False, repr=False)
class EnsembleKalmanClassifier(_EnsembleKalman):
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
    max_rows : int, optional
        The most distinct rows to keep for a later `partial_fit`; all by default. If a call ends
        with more, its posterior becomes the prior of the next call and the rows are dropped. That
        prior is less informative than the posterior: correlations of weights are lost, and all
        classes share one variance per weight, the mean of theirs.
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
    folded_rows_ : int
        Distinct rows that were dropped because of `max_rows`; 0 as long as `partial_fit` is exact.
    n_iter_, n_features_in_, feature_names_in_
    """

    multi_class: str = "softmax"


class EnsembleKalmanMultilabel(_EnsembleKalman):
    """Bayesian logistic regression for K yes/no labels that share their features.

    y is (N, K) of 0 and 1. `predict_proba` returns the probability of a 1 for each label, (N, K),
    and `predict` returns 1 for probabilities above ½. `classes_` numbers the labels. A single
    column of classes is treated as one-vs-rest, as in scikit-learn's multilabel estimators.

    Parameters and attributes are those of `EnsembleKalmanClassifier`, without `multi_class`.
    """

    _takes_labels = True

    def __sklearn_tags__(self) -> Any:
        """Return the tags by which scikit-learn knows which data are accepted."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
