"""What both estimators share: reading labels, learning at once or from a stream, predicting.

A column of classes becomes one logistic output (two classes), a softmax, or one output per class
against the rest; an (N, K) array of labels becomes K outputs. The posterior over their weights is
that of `equivocal.sampling.sample_posterior`, and every prediction averages over it.
"""

import warnings
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils import check_random_state, column_or_1d
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
except ImportError as error:
    raise ImportError(
        "equivocal.sklearn needs scikit-learn 1.6 or newer: pip install 'equivocal[sklearn]'."
    ) from error

from equivocal.errors import join_names
from equivocal.sampling import Entropies, Posterior, sample_posterior
from equivocal.sampling.engine.inputs import check_bool, check_int, fail
from equivocal.sklearn.rows import Seen, merged

__all__ = ["EnsembleKalmanBase"]

FLOATS = (np.float64, np.float32)


class Prior(NamedTuple):
    """N(mean, diag(variance)), as `sample_posterior` takes it."""

    mean: Any
    variance: Any


# scikit-learn has no types, so its classes are Any to mypy
class EnsembleKalmanBase(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Bayesian logistic regression with scikit-learn's interface; use one of its subclasses."""

    _takes_labels: ClassVar[bool]  # whether y may be (N, K)

    def __init__(
        self,
        *,
        prior_variance: Any = 1.0,
        fit_intercept: bool = True,
        method: str = "exact-flow",
        num_particles: int | None = None,
        num_steps: int | None = None,
        max_rows: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.prior_variance = prior_variance
        self.fit_intercept = fit_intercept
        self.method = method
        self.num_particles = num_particles
        self.num_steps = num_steps
        self.max_rows = max_rows
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from these rows alone; a weight of 2 is the same as the row given twice."""
        X, y = self._validated(X, y, reset=True)
        self._start(y, None)
        return self._learn(self._counted(X, y, sample_weight))

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from these rows and from all that came since `fit` or the first call.

        Distinct rows are kept with their counts, and every call learns from all of them anew: the
        result is that of `fit` on everything, at the price of memory and time that grow with the
        number of distinct rows. `max_rows` bounds both, see there. `classes` names every class that
        will ever come; without it they are those of the first call. Labels (N, K) do not need it.
        """
        first = not hasattr(self, "posterior_")
        X, y = self._validated(X, y, reset=first)
        if first:
            self._start(y, classes)
        if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            fail(
                f"classes must stay {join_names(map(str, self.classes_))}, as at the first call, "
                f"got {join_names(map(str, np.unique(classes)))}; call fit to start afresh."
            )
        new = self._counted(X, y, sample_weight)
        return self._learn(new if first else merged(self._seen, new))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row, (N,), or the labels above ½, (N, K)."""
        probability = self.predict_proba(X)
        if self._labels:
            return (probability > 0.5).astype(int)
        return np.asarray(self.classes_[probability.argmax(axis=1)])

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class or label, averaged over the posterior, (N, K)."""
        psi = self._design(X)
        y = self.posterior_.predict_proba(psi)
        if self._labels or self._softmax:
            return y
        if len(self.classes_) == 2:
            return np.hstack([1 - y, y])
        y = np.maximum(y, np.finfo(y.dtype).tiny)  # where all underflow, no class is preferred
        return y / y.sum(axis=1, keepdims=True)

    def decision_function(self, X: Any) -> np.ndarray:
        """Mean of the logits, X·coef_ + intercept_; (N,) for two classes, else (N, K).

        It says nothing of how sure the posterior is of them. `predict` and `predict_proba` do, so
        that the largest logit need not be the most probable class; with two classes and a Gaussian
        posterior it is.
        """
        psi = self._design(X)
        with np.errstate(over="ignore", invalid="ignore"):
            logits = psi @ self.posterior_.mean.T
        if not np.isfinite(logits).all():
            fail(f"X must give finite logits, got entries up to {np.abs(psi).max():.0e}; scale it.")
        return logits[:, 0] if logits.shape[1] == 1 else logits

    def predict_interval(self, X: Any, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Ends of the central `level` of each probability over the posterior, each (N, K).

        With one-vs-rest these are of each class against the rest, before normalising.
        """
        psi = self._design(X)
        low, high = self.posterior_.predict_interval(psi, level)
        if low.shape[1] > 1:
            return low, high
        return np.hstack([1 - high, low]), np.hstack([1 - low, high])

    def entropies(self, X: Any) -> Entropies:
        """Uncertainty in nats: total, expected (aleatoric) and information (epistemic).

        Each is (N,); for labels and for one-vs-rest it is (N, K), each output by itself.
        """
        psi = self._design(X)
        found = self.posterior_.entropies(psi)
        return Entropies(*(part[:, 0] if part.shape[1] == 1 else part for part in found))

    def _validated(self, X: Any, y: Any, *, reset: bool) -> tuple[np.ndarray, np.ndarray]:
        X, y = validate_data(self, X, y, reset=reset, dtype=FLOATS, multi_output=self._takes_labels)
        y = y.toarray() if hasattr(y, "toarray") else y  # labels may come as a sparse array
        if y.ndim == 2 and y.shape[1] > 1:
            if not np.isin(y, (0, 1)).all():
                fail("y of shape (N, K) must hold 0 and 1; binarise the labels first.")
            return X, y
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        return X, y

    def _start(self, y: np.ndarray, classes: Any) -> None:
        """Forget what came before and settle what the outputs are."""
        self._labels = y.ndim == 2
        if self._labels:
            self.classes_ = np.arange(y.shape[1])
        else:
            self.classes_ = np.unique(y if classes is None else classes)
        if len(self.classes_) < 2:
            fail(
                f"{type(self).__name__} needs at least two classes, got one class: "
                f"{self.classes_[0]}; for a stream, name all in partial_fit(classes=...)."
            )
        check_bool(self.fit_intercept, "fit_intercept")
        if self.max_rows is not None:
            check_int(self.max_rows, "max_rows", least=0)
        self._softmax = self._wants_softmax() and len(self.classes_) > 2
        self._prior = Prior(0.0, self.prior_variance)
        self.folded_rows_ = 0

    def _wants_softmax(self) -> bool:
        return False

    def _counted(self, X: np.ndarray, y: np.ndarray, sample_weight: Any) -> Seen:
        """Rows that weigh something, with targets times weight."""
        weight = _check_sample_weight(sample_weight, X, dtype=X.dtype)
        if (weight < 0).any() or not weight.any():
            fail(
                "sample_weight must be ≥ 0 and not zero everywhere, got weights from "
                f"{weight.min():g} to {weight.max():g}."
            )
        kept = weight > 0
        targets = self._targets(y).astype(X.dtype) * weight[:, None]
        return merged(Seen(X[kept], targets[kept], weight[kept]))

    def _targets(self, y: np.ndarray) -> np.ndarray:
        """(N, outputs) of zeros and ones."""
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

    def _learn(self, seen: Seen) -> Self:
        """The posterior given these rows and the prior; afterwards rows beyond the bound fold."""
        posterior = sample_posterior(
            self._with_intercept(seen.rows),
            seen.targets,
            counts=seen.counts,
            prior_mean=self._prior.mean,
            prior_variance=self._prior.variance,
            likelihood="softmax" if self._softmax else "bernoulli",
            method=self.method,
            num_particles=self.num_particles,
            num_steps=self.num_steps,
            seed=_seed(self.random_state),
        )
        if not posterior.info.converged:
            warnings.warn(posterior.info.message, ConvergenceWarning, stacklevel=3)
        self._seen = seen
        self._keep(posterior)
        if self.max_rows is not None and len(seen.rows) > self.max_rows:
            self._fold()
        return self

    def _keep(self, posterior: Posterior) -> None:
        self.posterior_ = posterior
        self.coef_ = posterior.mean[:, : self.n_features_in_]
        beyond = posterior.mean[:, self.n_features_in_ :]
        self.intercept_ = beyond[:, 0] if self.fit_intercept else np.zeros(len(beyond))
        self.n_iter_ = int(posterior.info.steps.max())

    def _fold(self) -> None:
        """Let the posterior stand for its rows: its mean, and variances that outputs share."""
        variances = np.diagonal(self.posterior_.covariance, axis1=1, axis2=2)
        self._prior = Prior(self.posterior_.mean, variances.mean(axis=0))
        self.folded_rows_ += len(self._seen.rows)
        self._seen = self._seen.emptied()

    def _design(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self._with_intercept(validate_data(self, X, reset=False, dtype=FLOATS))

    def _with_intercept(self, X: np.ndarray) -> np.ndarray:
        return np.hstack([X, np.ones((len(X), 1), X.dtype)]) if self.fit_intercept else X


def _seed(random_state: Any) -> int:
    """A whole number is the seed itself; anything else is drawn from."""
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
