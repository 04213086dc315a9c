"""Scikit-learn estimators whose weights are a posterior of `lastlayer`.

    >>> from lastlayer.sklearn import EnsembleKalmanClassifier
    >>> model = EnsembleKalmanClassifier().fit([[-1.0], [0.0], [2.0]], ["no", "no", "yes"])
    >>> model.predict([[3.0]])
    array(['yes'], dtype='<U3')
    >>> low, high = model.predict_interval([[3.0]])  # of each class's probability
    >>> low.shape
    (1, 2)

They work in pipelines, grid searches and cross-validation like any other classifier. Imports are
lazy: scikit-learn is imported with an estimator, in less than a second, and JAX by the first `fit`.
"""

from typing import TYPE_CHECKING, Any

from lastlayer.errors import import_name

if TYPE_CHECKING:
    from lastlayer.sklearn.estimators import EnsembleKalmanClassifier, EnsembleKalmanMultilabel
    from lastlayer.sklearn.rows import neg_log_loss

__all__ = ["EnsembleKalmanClassifier", "EnsembleKalmanMultilabel", "neg_log_loss"]

_HOME = {
    "EnsembleKalmanClassifier": "estimators",
    "EnsembleKalmanMultilabel": "estimators",
    "neg_log_loss": "rows",
}  # the module of each public name


def __getattr__(name: str) -> Any:
    return import_name(__name__, _HOME, name)
