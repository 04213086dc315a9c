"""Comprehenders of one query network: ways to get beliefs from its features ψ, none of which is new
to a reader of docs/peers.md but the posteriors of `lastlayer`.

    trained network         its own last layer; with a temperature; trained on smoothed labels
    ridge, bagged ridge     maximum a posteriori on ψ; ten of them on sentences drawn anew
    Laplace, Gaussian       posteriors about zero, the Gaussian also at narrower and wider priors
    exact posterior         by Hamiltonian Monte Carlo
    paper's sampler         Algorithm 1 about the trained weights, at stops along τ

Everything that is chosen (temperature, penalty, the prior's variance) is chosen by the same held-out
rows. Add a comprehender in `list_comprehenders`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from equivocal.english.query_network import QueryNetwork, Rows
from lastlayer import Posterior, sample_posterior

__all__ = [
    "EXACT",
    "SMOOTHING",
    "TRAINED",
    "Beliefs",
    "Question",
    "choose_variance",
    "combine_members",
    "compute_loss",
    "list_comprehenders",
    "sample_exactly",
]

TRAINED, EXACT = "trained network", "exact posterior"
FACTORS = (0.001, 0.01, 0.1, 10.0)  # of the chosen variance, for further Gaussians
STOPS = (5, 17, 50, 200)  # steps of the paper's sampler
DRAWS, BAGS = 400, 10
SMOOTHING = 0.1
TEMPERATURES = np.geomspace(0.3, 10, 60)
PENALTIES = 10.0 ** np.arange(-4, 2)  # variances that ridge chooses from
FLOOR = 1e-6  # of a probability in a loss


class Beliefs(NamedTuple):
    """What a comprehender answers: probabilities, and the epistemic part of its doubt."""

    probability: np.ndarray  # (N, K)
    information: np.ndarray  # (N, K), in nats; 0 for a single network


class Question(NamedTuple):
    """The features of a network on the rows of a fit, on held-out rows and on those of the test."""

    network: QueryNetwork
    smoothed: QueryNetwork  # trained on smoothed labels
    fit: Rows
    held_out: Rows
    test: Rows
    seed: int


def compute_loss(targets: np.ndarray, probability: np.ndarray) -> np.ndarray:
    """Return −log P(answer), (N, K); answers of ½ cost their cross-entropy."""
    p = np.clip(probability, FLOOR, 1 - FLOOR)
    loss: np.ndarray = -(targets * np.log(p) + (1 - targets) * np.log1p(-p))
    return loss


def combine_members(members: list[np.ndarray]) -> Beliefs:
    """Average the probabilities of several answers; their disagreement is the information."""
    stacked = np.stack(members)
    mean = stacked.mean(axis=0)
    return Beliefs(mean, _compute_entropy(mean) - _compute_entropy(stacked).mean(axis=0))


def _compute_entropy(p: np.ndarray) -> np.ndarray:
    entropy: np.ndarray = compute_loss(p, p)
    return entropy


def sample_exactly(
    psi: np.ndarray, targets: np.ndarray, variance: Any, seed: int, draws: int = DRAWS
) -> Posterior:
    """Sample the exact posterior of a last layer under the prior N(0, variance)."""
    return sample_posterior(
        psi, targets, prior_variance=variance, method="hmc", num_particles=draws, seed=seed
    )


def choose_variance(
    psi: np.ndarray, targets: np.ndarray, held_psi: np.ndarray, held_targets: np.ndarray
) -> np.ndarray:
    """Choose the prior's variance by held-out rows: (D,), wide for the intercept, which is last."""
    posterior = sample_posterior(
        psi,
        targets,
        prior_variance="auto",
        validation=(held_psi, held_targets),
        diagnose=False,
    )
    chosen = np.ravel(posterior.info.settings["prior_variance"]).astype(float)
    return np.broadcast_to(chosen, psi.shape[1]).copy()


def list_comprehenders(asked: Question) -> dict[str, Callable[[], Beliefs]]:
    """Return a function for each comprehender, which computes its beliefs about the test rows."""
    network, seed = asked.network, asked.seed
    psi, held, test = (
        network.compute_features(rows.inputs) for rows in (asked.fit, asked.held_out, asked.test)
    )
    t, t_held = asked.fit.targets, asked.held_out.targets
    variance = choose_variance(psi, t, held, t_held)

    def scale(factor: float) -> np.ndarray:
        return np.append(variance[:-1] * factor, variance[-1])

    def answer(posterior: Posterior) -> Beliefs:
        information = posterior.entropies(test).information
        return Beliefs(posterior.predict_proba(test), np.asarray(information))

    def sample(**options: Any) -> Beliefs:
        return answer(sample_posterior(psi, t, seed=seed, diagnose=False, **options))

    def sample_paper(stop: int) -> Beliefs:
        return sample(
            prior_mean=network.last_layer,
            method="dropout-deterministic",
            num_particles=50,
            num_steps=stop,
        )

    listed: dict[str, Callable[[], Beliefs]] = {
        TRAINED: lambda: _be_certain(network.predict(test)),
        "temperature": lambda: _be_certain(_temper(network, held, t_held, test)),
        "label smoothing": lambda: _be_certain(
            asked.smoothed.predict(asked.smoothed.compute_features(asked.test.inputs))
        ),
        "ridge": lambda: _be_certain(_predict(_fit_ridge(psi, t, held, t_held)[0], test)),
        "bagged ridge": lambda: _bag(psi, asked.fit, held, t_held, test, seed),
        "Laplace": lambda: sample(prior_variance=variance, method="laplace"),
    }
    for stop in STOPS:
        listed[f"paper's sampler, {stop} steps"] = lambda stop=stop: sample_paper(stop)
    listed["Gaussian posterior"] = lambda: sample(prior_variance=variance)
    for factor in FACTORS:
        name = f"Gaussian posterior, prior × {factor:g}"
        listed[name] = lambda factor=factor: sample(prior_variance=scale(factor))
    listed[EXACT] = lambda: answer(sample_exactly(psi, t, variance, seed))
    return listed


def _be_certain(probability: np.ndarray) -> Beliefs:
    """Return the beliefs of one network, which knows no epistemic doubt."""
    return Beliefs(probability, np.zeros_like(probability))


def _predict(weights: np.ndarray, psi: np.ndarray) -> np.ndarray:
    p: np.ndarray = 1 / (1 + np.exp(-psi @ weights.T))
    return p


def _temper(
    network: QueryNetwork, held: np.ndarray, t_held: np.ndarray, test: np.ndarray
) -> np.ndarray:
    """Divide all logits by the temperature with the least loss on held-out rows."""
    losses = [
        compute_loss(t_held, _predict(network.last_layer / one, held)).mean()
        for one in TEMPERATURES
    ]
    return _predict(network.last_layer / TEMPERATURES[int(np.argmin(losses))], test)


def _fit_ridge(
    psi: np.ndarray, t: np.ndarray, held: np.ndarray, t_held: np.ndarray
) -> tuple[np.ndarray, float]:
    """Fit last layers with several penalties, and return the best one with its variance."""
    fits = [(_maximize(psi, t, float(one)), float(one)) for one in PENALTIES]
    losses = [compute_loss(t_held, _predict(weights, held)).mean() for weights, _ in fits]
    return fits[int(np.argmin(losses))]


def _maximize(
    psi: np.ndarray, t: np.ndarray, variance: float, counts: np.ndarray | None = None
) -> np.ndarray:
    """Return the weights of highest posterior density, (K, D), without a penalty of intercepts."""
    if counts is not None:
        t = t * counts[:, None]
    prior = np.append(np.full(psi.shape[1] - 1, variance), 100.0)
    fitted = sample_posterior(
        psi,
        t,
        counts=counts,
        prior_variance=prior,
        method="laplace",
        num_particles=2,
        diagnose=False,
    )
    return fitted.mean


def _bag(
    psi: np.ndarray, fit: Rows, held: np.ndarray, t_held: np.ndarray, test: np.ndarray, seed: int
) -> Beliefs:
    """Fit ridges to sentences drawn with replacement."""
    variance = _fit_ridge(psi, fit.targets, held, t_held)[1]
    rng = np.random.default_rng(seed)
    names, sentence = np.unique(fit.sentence, return_inverse=True)
    members = []
    for _ in range(BAGS):
        counts = np.bincount(rng.integers(len(names), size=len(names)), minlength=len(names))
        chosen = counts[sentence] > 0
        weights = _maximize(
            psi[chosen], fit.targets[chosen], variance, counts[sentence][chosen].astype(float)
        )
        members.append(_predict(weights, test))
    return combine_members(members)
