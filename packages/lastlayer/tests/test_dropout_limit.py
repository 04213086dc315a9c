"""Algorithm 1 with infinitely many particles, against the algorithm itself with very many."""

from collections.abc import Iterator
from itertools import islice

import numpy as np

from lastlayer import Snapshot
from lastlayer.dropout_limit import LimitState, follow_limit
from problems import sample_posterior

STEPS, RATE, J = 6, 0.5, 8_000
VARIANCE = 2.0
CENTRE = np.array([[0.5, -0.5, 0.0]])


def make_problem() -> dict[str, np.ndarray]:
    """Rows in which two features are much the same, so that weights become correlated."""
    rng = np.random.default_rng(3)
    features = rng.normal(size=(40, 3))
    features[:, 1] = features[:, 0] + 0.2 * features[:, 1]
    counts = rng.integers(1, 6, size=40)
    likely = 1 / (1 + np.exp(-features @ [[2.0], [-1.0], [0.5]]))
    targets = rng.binomial(counts[:, None], likely)
    return {"features": features, "targets": targets, "counts": counts.astype(float)}


def follow(problem: dict[str, np.ndarray], rate: float) -> Iterator[LimitState]:
    return follow_limit(
        problem["features"],
        problem["targets"],
        counts=problem["counts"],
        prior_mean=CENTRE,
        prior_variance=VARIANCE,
        dropout_rate=rate,
    )


def correlate(covariance: np.ndarray) -> np.ndarray:
    spread = np.sqrt(np.diag(covariance))
    return np.asarray(covariance / np.outer(spread, spread))


def test_many_particles_tend_to_it() -> None:
    """Same steps, mean and covariance, to the noise of J particles: 1/√J = 0.011."""
    problem = make_problem()
    limits = list(islice(follow(problem, RATE), STEPS + 1))
    seen: dict[int, Snapshot] = {}
    sample_posterior(
        problem["features"],
        problem["targets"],
        counts=problem["counts"],
        prior_mean=CENTRE,
        prior_variance=VARIANCE,
        method="dropout-deterministic",
        dropout_rate=RATE,
        num_particles=J,
        num_steps=STEPS,
        seed=0,
        observe=lambda snapshot: seen.update({snapshot.step: snapshot}),
    )
    np.testing.assert_allclose(limits[0].covariance[0], VARIANCE * np.eye(3))
    for step in range(1, STEPS + 1):
        limit, (particles,) = limits[step], seen[step].particles
        (C,) = limit.covariance
        spread = np.sqrt(np.diag(C))
        # five standard errors of a mean, of a standard deviation and of a correlation, and half as
        # much again for what the noise of earlier steps did to the averages
        error = 7.5 / np.sqrt(J)
        assert (np.abs(particles.mean(axis=0) - limit.mean[0]) < error * spread).all()
        found = np.cov(particles.T)
        assert (np.abs(np.sqrt(np.diag(found)) / spread - 1) < error).all()
        assert (np.abs(correlate(found) - correlate(C)) < error).all()
        np.testing.assert_allclose(seen[step].time, limit.time, rtol=2 * error)
    # had dropout not thinned the covariances in P̂, it would be seen
    (plain,) = next(islice(follow(problem, 0.0), STEPS, None)).covariance
    assert np.abs(np.sqrt(np.diag(plain)) / spread - 1).max() > 1.3 * error
