"""Comprehenders of one query network: ways to get beliefs from its features ψ, none of which is new
to a reader of benchmarks/peers.md but the posteriors of `lastlayer`.

    trained network         its own last layer; with a temperature; trained on smoothed labels
    ridge, bagged ridge     maximum a posteriori on ψ; ten of them on sentences drawn anew
    Laplace, Gaussian       posteriors about zero, the Gaussian also at narrower and wider priors
    exact posterior         by Hamiltonian Monte Carlo
    paper's sampler         Algorithm 1 about the trained weights, at stops along τ

Everything that is chosen (temperature, penalty, the prior's variance) is chosen by the same
held-out rows. Add a comprehender in `list_comprehenders`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

import lastlayer  # its names are imported when first used: answers do not need JAX
from equivocal.english.query_network import QueryNetwork, Rows, train_network

TRAINED, EXACT = "trained network", "exact posterior"
FACTORS = (0.001, 0.01, 0.1, 10.0)  # of the chosen variance, for further Gaussians
STOPS = (5, 17, 50, 200)  # steps of the paper's sampler
DRAWS, BAGS = 400, 10
SMOOTHING = 0.1
TEMPERATURES = np.geomspace(0.3, 10, 60)
PENALTIES = 10.0 ** np.arange(-4, 2)  # variances that ridge chooses from
FREE = 100.0  # variance of an intercept
FLOOR = 1e-6  # of a probability in a loss


class Beliefs(NamedTuple):
    """What a comprehender answers: probabilities, and the epistemic part of its doubt."""

    probability: np.ndarray  # (N, K)
    information: np.ndarray  # (N, K), in nats; 0 for a single network


@dataclass(frozen=True, eq=False)
class Question:
    """Rows of a fit, held-out rows and rows of the test, with what is computed of them once."""

    fit: Rows
    held_out: Rows
    test: Rows
    seed: int

    @cached_property
    def network(self) -> QueryNetwork:
        """The trained query network."""
        return train_network(self.fit, self.held_out, self.seed)

    @cached_property
    def features(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The features ψ of the rows of the fit, the held-out rows and those of the test."""
        fit, held_out, test = (
            self.network.compute_features(rows.inputs)
            for rows in (self.fit, self.held_out, self.test)
        )
        return fit, held_out, test

    @cached_property
    def variance(self) -> np.ndarray:
        """The prior's variances that the held-out rows choose; wide for the intercept, the last."""
        rows = self.features[1], self.held_out.targets
        posterior = self.sample(prior_variance="auto", validation=rows)
        chosen = np.ravel(posterior.info.settings["prior_variance"]).astype(float)
        return np.broadcast_to(chosen, self.features[0].shape[1]).copy()

    @cached_property
    def exact(self) -> "lastlayer.Posterior":
        """The exact posterior of the last layer, by draws."""
        return self.sample(prior_variance=self.variance, method="hmc", num_particles=DRAWS)

    def sample(self, **options: Any) -> "lastlayer.Posterior":
        """Sample a posterior of the last layer."""
        return lastlayer.sample_posterior(
            self.features[0], self.fit.targets, seed=self.seed, diagnose=False, **options
        )

    def answer(self, posterior: "lastlayer.Posterior") -> Beliefs:
        """Return a posterior's beliefs about the rows of the test."""
        test = self.features[2]
        information = np.asarray(posterior.entropies(test).information)
        return Beliefs(posterior.predict_proba(test), information)


def compute_loss(targets: np.ndarray, probability: np.ndarray) -> np.ndarray:
    """Return −log P(answer), (N, K); answers of ½ cost their cross-entropy."""
    p = np.clip(probability, FLOOR, 1 - FLOOR)
    loss: np.ndarray = -(targets * np.log(p) + (1 - targets) * np.log1p(-p))
    return loss


def combine_members(members: list[np.ndarray]) -> Beliefs:
    """Average the probabilities of several answers; their disagreement is the information."""
    stacked = np.stack(members)
    mean = stacked.mean(axis=0)
    return Beliefs(mean, compute_entropy(mean) - compute_entropy(stacked).mean(axis=0))


def compute_entropy(p: np.ndarray) -> np.ndarray:
    """Return the entropy of yes and no, in nats."""
    entropy: np.ndarray = compute_loss(p, p)
    return entropy


def predict_draws(particles: np.ndarray, psi: np.ndarray) -> np.ndarray:
    """Return the probabilities by every draw of the last layer, (J, N, K)."""
    p: np.ndarray = expit(np.einsum("kjd,nd->jnk", particles, psi, optimize=True))
    return p


def list_comprehenders(asked: Question) -> dict[str, Callable[[], Beliefs]]:
    """Return a function for each comprehender, which computes its beliefs about the test rows."""

    def sample(**options: Any) -> Beliefs:
        return asked.answer(asked.sample(**options))

    def stop_after(steps: int) -> Beliefs:
        return sample(
            prior_mean=asked.network.last_layer,
            method="dropout-deterministic",
            num_particles=50,
            num_steps=steps,
        )

    def scale(factor: float) -> Beliefs:
        scaled = np.append(asked.variance[:-1] * factor, asked.variance[-1])
        return sample(prior_variance=scaled)

    listed: dict[str, Callable[[], Beliefs]] = {
        TRAINED: lambda: _be_certain(asked.network.predict(asked.features[2])),
        "temperature": lambda: _be_certain(_temper(asked)),
        "label smoothing": lambda: _be_certain(_smooth(asked)),
        "ridge": lambda: _be_certain(_predict(_fit_ridge(asked)[0], asked.features[2])),
        "bagged ridge": lambda: _bag(asked),
        "Laplace": lambda: sample(prior_variance=asked.variance, method="laplace"),
    }
    for stop in STOPS:
        listed[f"paper's sampler, {stop} steps"] = partial(stop_after, stop)
    listed["Gaussian posterior"] = partial(scale, 1.0)
    for factor in FACTORS:
        listed[f"Gaussian posterior, prior × {factor:g}"] = partial(scale, factor)
    listed[EXACT] = lambda: asked.answer(asked.exact)
    return listed


def _be_certain(probability: np.ndarray) -> Beliefs:
    """Return the beliefs of one network, which knows no epistemic doubt."""
    return Beliefs(probability, np.zeros_like(probability))


def _predict(weights: np.ndarray, psi: np.ndarray) -> np.ndarray:
    p: np.ndarray = expit(psi @ weights.T)
    return p


def _temper(asked: Question) -> np.ndarray:
    """Divide all logits by the temperature with the least loss on held-out rows."""
    _, held, test = asked.features
    layers = [asked.network.last_layer / one for one in TEMPERATURES]
    losses = [compute_loss(asked.held_out.targets, _predict(one, held)).mean() for one in layers]
    return _predict(layers[int(np.argmin(losses))], test)


def _smooth(asked: Question) -> np.ndarray:
    """Predict by a network that was trained on smoothed labels."""
    network = train_network(asked.fit, asked.held_out, asked.seed, smoothing=SMOOTHING)
    return network.predict(network.compute_features(asked.test.inputs))


def _fit_ridge(asked: Question) -> tuple[np.ndarray, float]:
    """Fit last layers with several penalties, and return the best one with its variance."""
    psi, held, _ = asked.features
    fits = [(_maximize(psi, asked.fit.targets, float(one)), float(one)) for one in PENALTIES]
    losses = [compute_loss(asked.held_out.targets, _predict(fit, held)).mean() for fit, _ in fits]
    return fits[int(np.argmin(losses))]


def _maximize(
    psi: np.ndarray, t: np.ndarray, variance: float, counts: np.ndarray | None = None
) -> np.ndarray:
    """Return the weights of highest posterior density, (K, D), without a penalty of intercepts."""
    fitted = lastlayer.sample_posterior(
        psi,
        t if counts is None else t * counts[:, None],
        counts=counts,
        prior_variance=np.append(np.full(psi.shape[1] - 1, variance), FREE),
        method="laplace",
        num_particles=2,
        diagnose=False,
    )
    return fitted.mean


def _bag(asked: Question) -> Beliefs:
    """Fit ridges to sentences drawn with replacement."""
    psi, _, test = asked.features
    variance = _fit_ridge(asked)[1]
    rng = np.random.default_rng(asked.seed)
    names, sentence = np.unique(asked.fit.sentence, return_inverse=True)
    members = []
    for _ in range(BAGS):
        drawn = np.bincount(rng.integers(len(names), size=len(names)), minlength=len(names))
        counts = drawn[sentence].astype(float)
        rows = counts > 0
        weights = _maximize(psi[rows], asked.fit.targets[rows], variance, counts[rows])
        members.append(_predict(weights, test))
    return combine_members(members)
