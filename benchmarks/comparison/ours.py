"""Posteriors of this package over the same last layer."""

from typing import Any

import numpy as np

from benchmarks.comparison.problem import Doubt, Fitted, Problem
from lastlayer import Posterior, sample_posterior

__all__ = ["fit_default", "fit_hmc", "fit_paper", "fit_probit", "fit_unit_prior"]


def fit_default(problem: Problem) -> Fitted:
    """Sample with every setting at its default; the validation rows choose the prior."""
    return _wrap(_sample(problem), problem)


def fit_hmc(problem: Problem) -> Fitted:
    """Draw from the exact posterior."""
    return _wrap(_sample(problem, method="hmc"), problem)


def fit_unit_prior(problem: Problem) -> Fitted:
    """Sample with the fixed prior N(0, 1)."""
    posterior = sample_posterior(
        problem.features["train"],
        problem.targets["train"],
        likelihood="softmax" if problem.classes else "bernoulli",
        prior_variance=1.0,
        seed=problem.task.seed,
    )
    return _wrap(posterior, problem)


def fit_paper(problem: Problem) -> Fitted:
    """Run the paper's sampler: 17 steps from N(trained weights, 1)."""
    posterior = sample_posterior(
        problem.features["train"],
        problem.targets["train"],
        prior_mean=problem.network.weights,
        prior_variance=1.0,
        method="dropout-deterministic",
        num_steps=17,
        seed=problem.task.seed,
    )
    return _wrap(posterior, problem)


def fit_probit(problem: Problem) -> Fitted:
    """Use a Laplace approximation with MacKay's probit formula: logits over √(1 + π v / 8)."""
    posterior = _sample(problem, method="laplace")

    def predict(x: np.ndarray) -> np.ndarray:
        mean, sd = posterior.logits(problem.network.compute_features(x))
        return problem.apply_link(mean / np.sqrt(1 + np.pi * sd**2 / 8))

    return Fitted(predict, note=_describe(posterior))


def _sample(problem: Problem, **options: Any) -> Posterior:
    psi, t = problem.features, problem.targets
    return sample_posterior(
        psi["train"],
        t["train"],
        likelihood="softmax" if problem.classes else "bernoulli",
        prior_variance="auto",
        validation=(psi["validation"], t["validation"]),
        trained=problem.network.weights,
        seed=problem.task.seed,
        **options,
    )


def _wrap(posterior: Posterior, problem: Problem) -> Fitted:
    def predict(x: np.ndarray) -> np.ndarray:
        return posterior.predict_proba(problem.network.compute_features(x))

    def doubt(x: np.ndarray) -> Doubt:
        psi = problem.network.compute_features(x)
        return {
            "information": posterior.entropies(psi).information.sum(axis=1),
            "disagreement": posterior.logits(psi)[1].sum(axis=1),
        }

    return Fitted(predict, doubt, note=_describe(posterior))


def _describe(posterior: Posterior) -> str:
    return posterior.info.message
