"""Methods that do not use this package: the network, temperature, ridge, dropout, ensembles."""

import warnings
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize_scalar

from benchmarks.comparison.networks import Network, train_networks
from benchmarks.comparison.problem import Fitted, Problem, describe_doubt
from benchmarks.scores import negative_log_likelihood

__all__ = [
    "fit_deep_ensemble",
    "fit_mc_dropout",
    "fit_network",
    "fit_ridge",
    "fit_temperature",
]

DECADES = [10.0**e for e in range(-4, 3)]  # scikit-learn's C; then half a decade beside the best
RISEN = 1.02  # the search ends at a loss this many times the best
MEMBERS = 5
DROPOUT, PASSES = 0.2, 50


def fit_network(problem: Problem) -> Fitted:
    """Use the trained network itself."""
    network = problem.network
    return Fitted(lambda x: problem.apply_link(network.compute_logits(x)))


def fit_temperature(problem: Problem) -> Fitted:
    """Divide the logits by one number, chosen on the validation rows (Guo et al. 2017)."""
    logits = problem.network.compute_logits(problem.task.inputs["validation"])
    t = problem.targets["validation"]

    def score(log_temperature: float) -> float:
        scaled = logits / np.exp(log_temperature)
        return negative_log_likelihood(t, problem.apply_link(scaled))

    found = float(np.exp(minimize_scalar(score, bounds=(-3, 5), method="bounded").x))
    network = problem.network
    return Fitted(
        lambda x: problem.apply_link(network.compute_logits(x) / found),
        note=f"temperature {found:.3g}",
    )


def fit_ridge(problem: Problem) -> Fitted:
    """Refit the last layer by scikit-learn's logistic regression; validation rows choose C."""
    psi, t = problem.features, problem.targets
    fits: dict[float, tuple[float, np.ndarray]] = {}

    def try_strength(strength: float) -> float:
        weights = _fit_sklearn(psi["train"][:, :-1], t["train"], strength)
        p = problem.apply_link(psi["validation"] @ weights.T)
        fits[strength] = negative_log_likelihood(t["validation"], p), weights
        return fits[strength][0]

    for strength in DECADES:
        if try_strength(strength) > RISEN * min(loss for loss, _ in fits.values()):
            break
    best = min(fits, key=lambda strength: fits[strength][0])
    for neighbour in (best / 10**0.5, best * 10**0.5):
        try_strength(neighbour)
    chosen = min(fits, key=lambda strength: fits[strength][0])
    network, weights = problem.network, fits[chosen][1]
    return Fitted(
        lambda x: problem.apply_link(network.compute_features(x) @ weights.T),
        note=f"C {chosen:.3g}",
    )


def _fit_sklearn(psi: np.ndarray, t: np.ndarray, strength: float) -> np.ndarray:
    """Return weights with the intercept last, (K, D)."""
    from sklearn.linear_model import LogisticRegression

    def fit(y: np.ndarray) -> np.ndarray:
        if y.ndim == 1 and len(np.unique(y)) == 1:  # scikit-learn refuses a constant label
            odds = np.log((y.sum() + 0.5) / ((1 - y).sum() + 0.5))
            return np.append(np.zeros(psi.shape[1]), odds)[None]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the weakest penalties do not converge
            model = LogisticRegression(C=strength, solver="newton-cholesky").fit(psi, y)
        return np.hstack([model.coef_, model.intercept_[:, None]])

    if t.ndim == 1:
        return fit(t)
    return np.vstack([fit(column) for column in t.T])


def fit_mc_dropout(problem: Problem) -> Fitted:
    """Train a network of its own with dropout, and average over masks (Gal & Ghahramani 2016)."""
    network = train_networks(problem.task, dropout=DROPOUT)[0]
    rng = np.random.default_rng(problem.task.seed)
    H = network.W.shape[0]
    masks = (rng.random((PASSES, H)) > DROPOUT) / (1 - DROPOUT)

    def compute(x: np.ndarray) -> np.ndarray:
        psi = network.compute_features(x)[:, :-1]
        return np.stack([(psi * mask) @ network.W + network.c for mask in masks])

    return _average(compute, problem)


def fit_deep_ensemble(problem: Problem) -> Fitted:
    """Train five networks from different starts, and average (Lakshminarayanan et al. 2017)."""
    networks: list[Network] = train_networks(problem.task, number=MEMBERS, first=1)
    return _average(lambda x: np.stack([each.compute_logits(x) for each in networks]), problem)


def _average(compute: Callable[[np.ndarray], np.ndarray], problem: Problem) -> Fitted:
    """Average the probabilities of logits (S, N, K) over S."""
    return Fitted(
        lambda x: problem.apply_link(compute(x)).mean(axis=0),
        lambda x: describe_doubt(compute(x), problem.classes),
    )
