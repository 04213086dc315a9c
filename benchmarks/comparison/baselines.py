"""Methods without a posterior of ours: the network, temperature, ridge, dropout, ensembles."""

import warnings
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize_scalar

from benchmarks.comparison.networks import Network, train_networks
from benchmarks.comparison.problem import Fitted, Problem, describe_doubt
from equivocal.metrics import negative_log_likelihood

__all__ = [
    "fit_deep_ensemble",
    "fit_mc_dropout",
    "fit_network",
    "fit_ridge",
    "fit_temperature",
]

STRENGTHS = 10.0 ** np.arange(-4, 2.5, 0.5)  # scikit-learn's C
MEMBERS = 5
DROPOUT, PASSES = 0.2, 50


def fit_network(problem: Problem) -> Fitted:
    """Take the trained network as it is."""
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
    """Refit the last layer by scikit-learn's penalised logistic regression; C on validation."""
    psi, t = problem.features, problem.targets
    best, lowest, chosen = problem.network.weights, np.inf, 0.0
    for strength in STRENGTHS:
        weights = _fit_sklearn(psi["train"][:, :-1], t["train"], strength)
        p = problem.apply_link(psi["validation"] @ weights.T)
        now = negative_log_likelihood(t["validation"], p)
        if now < lowest:
            best, lowest, chosen = weights, now, strength
    network = problem.network
    return Fitted(
        lambda x: problem.apply_link(network.compute_features(x) @ best.T), note=f"C {chosen:.3g}"
    )


def _fit_sklearn(psi: np.ndarray, t: np.ndarray, strength: float) -> np.ndarray:
    """Return weights with the intercept last, (K, D)."""
    from sklearn.linear_model import LogisticRegression

    def fit(y: np.ndarray) -> np.ndarray:
        if y.ndim == 1 and len(np.unique(y)) == 1:  # scikit-learn refuses a constant label
            odds = np.log((y.sum() + 0.5) / ((1 - y).sum() + 0.5))
            return np.append(np.zeros(psi.shape[1]), odds)[None]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of convergence, for the weakest penalties
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
    """Train five networks from other starts, and average (Lakshminarayanan et al. 2017)."""
    networks: list[Network] = train_networks(problem.task, number=MEMBERS, first=1)
    return _average(lambda x: np.stack([each.compute_logits(x) for each in networks]), problem)


def _average(compute: Callable[[np.ndarray], np.ndarray], problem: Problem) -> Fitted:
    """Average probabilities over logits (S, N, K)."""
    return Fitted(
        lambda x: problem.apply_link(compute(x)).mean(axis=0),
        lambda x: describe_doubt(compute(x), problem.classes),
    )
