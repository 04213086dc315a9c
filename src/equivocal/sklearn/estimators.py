"""The two estimators: one of several classes, or any number of yes/no labels."""

from typing import Any

from equivocal.sklearn.base import EnsembleKalmanBase


class EnsembleKalmanClassifier(EnsembleKalmanBase):
    """Bayesian logistic regression for two or more classes.

    Parameters
    ----------
    prior_variance : number or (D,)
        The prior is N(0, diag(prior_variance)), over the intercept too; one variance per weight has
        the intercept's last. Features on unlike scales want a StandardScaler before.
    fit_intercept : bool
        Whether a column of ones is added.
    multi_class : "softmax" or "one-vs-rest"
        Of three or more classes; one-vs-rest divides the probabilities by their sum.
    method, num_particles, num_steps
        As in `equivocal.sampling.sample_posterior`; for a softmax "exact-flow", "mean-field" or
        "laplace".
    max_rows : int, optional
        The most distinct rows to keep for a later `partial_fit`; all by default. Where a call ends
        with more, the posterior just reached becomes the prior of the next call and its rows are
        let go. That prior holds less than the posterior: correlations of weights are lost, and all
        classes share one variance per weight, the mean of theirs.
    random_state : int, RandomState or None
        An int gives the same bits each time.

    Attributes
    ----------
    classes_ : (K,)
    coef_, intercept_ : (1, D) and (1,) for two classes, else (K, D) and (K,)
        Mean of the posterior.
    posterior_ : equivocal.sampling.Posterior
        Its `info.message` says how far to trust it. Last column of weights: the intercept.
    folded_rows_ : int
        Distinct rows that were let go for `max_rows`; 0 as long as `partial_fit` is exact.
    n_iter_, n_features_in_, feature_names_in_
    """

    def __init__(
        self,
        *,
        prior_variance: Any = 1.0,
        fit_intercept: bool = True,
        multi_class: str = "softmax",
        method: str = "exact-flow",
        num_particles: int | None = None,
        num_steps: int | None = None,
        max_rows: int | None = None,
        random_state: Any = 0,
    ) -> None:
        super().__init__(
            prior_variance=prior_variance,
            fit_intercept=fit_intercept,
            method=method,
            num_particles=num_particles,
            num_steps=num_steps,
            max_rows=max_rows,
            random_state=random_state,
        )
        self.multi_class = multi_class


class EnsembleKalmanMultilabel(EnsembleKalmanBase):
    """Bayesian logistic regression for K ≥ 2 yes/no labels that share their features.

    y is (N, K) of 0 and 1. `predict_proba` gives the probability of a 1 for each label, (N, K), and
    `predict` those above ½. `classes_` numbers the labels. A single column of classes is taken
    one-vs-rest, as scikit-learn's multilabel estimators do.

    Parameters and attributes are those of `EnsembleKalmanClassifier`, without `multi_class`.
    """

    _takes_labels = True

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn should know."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
