"""Problems that many sampler tests share: few shapes, so that JAX compiles them once."""

import os
from functools import cache
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

import lastlayer
from lastlayer import Posterior, variational
from lastlayer.problem import Likelihood, Problem
from lastlayer.rows import Rows, lay_out
from needs import SHARED, needs

DATA = Path(__file__).resolve().parent / "data"
# All seeds on request: EQUIVOCAL_SEEDS=100 make test
SEEDS = range(int(os.environ.get("EQUIVOCAL_SEEDS", "3")))


def sample_posterior(*args: object, **options: object) -> Posterior:
    """Sample under the prior N(0, I), unless told otherwise: most tests are not of its choice."""
    return lastlayer.sample_posterior(*args, **{"prior_variance": 1.0} | options)


def sample_compiled(*args: object, **options: object) -> Posterior:
    """Sample by compiled programs, which problems as small as those here do not need."""
    most, variational.MOST_NUMPY_WORK = variational.MOST_NUMPY_WORK, 0
    try:
        return sample_posterior(*args, **options)
    finally:
        variational.MOST_NUMPY_WORK = most


class Data(NamedTuple):
    """Rows of a logistic regression with an intercept column."""

    features: np.ndarray
    targets: np.ndarray


@cache
def small(num_outputs: int = 2, num_rows: int = 60, num_features: int = 4, seed: int = 0) -> Data:
    """Overlapping classes: N = 60, D = 4, K = 2 unless told otherwise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(num_rows, num_features))
    x[:, 0] = 1
    theta = rng.normal(size=(num_features, num_outputs))
    t = (rng.random((num_rows, num_outputs)) < 1 / (1 + np.exp(-x @ theta))).astype(float)
    return Data(x, t)


def rows_of(data: Data, *, prior_mean: object = 0.0, prior_variance: object = 1.0) -> Rows:
    """Laid out in double precision, as the samplers' steps take them."""
    with jax.enable_x64(True):
        problem = Problem.build(
            *data, None, prior_mean, prior_variance, Likelihood.BERNOULLI, "float64"
        )
        return lay_out(problem, slice(None), 64)


class Reference(NamedTuple):
    """A posterior known from elsewhere; tests/data/README.md says how it was made."""

    features: np.ndarray
    targets: np.ndarray
    test_features: np.ndarray
    prior_mean: np.ndarray
    prior_variance: float
    answers: dict[str, np.ndarray]


GOLD = [
    ("breast_cancer", "0.01"),
    ("breast_cancer", "1"),
    ("breast_cancer", "5"),
    ("iris_tiny", "0.01"),
    ("iris_tiny", "1"),
    ("iris_tiny", "5"),
    ("synth_separable", "0.01"),
    ("synth_separable", "1"),
    ("synth_weak", "1"),
]


def load_reference(file: str) -> dict[str, np.ndarray]:
    """Read a file of reference posteriors; the larger ones are not in the repository."""
    path = DATA / file
    if not path.is_file():
        needs("references")
        path = SHARED / "reference" / file
    return dict(np.load(path))


@cache
def reference(name: str, variance: str) -> Reference:
    """One of the reference posteriors."""
    data = load_reference(f"gold_data_{name}.npz")
    gold = load_reference(f"gold_{name}_s{variance}.npz")
    answers = {key: gold[key] for key in gold if key != "meta"}
    arrays = (data[key].astype(np.float64) for key in ("X", "t", "X_test"))
    return Reference(*arrays, answers["prior_mean"], float(answers["prior_var"]), answers)


def standard_errors(chains: np.ndarray) -> np.ndarray:
    """Standard errors of the mean of each weight, from 8 batches of the draws, (D,)."""
    batches = np.stack([part.mean(axis=0) for part in np.array_split(chains, 8)])
    return batches.std(axis=0, ddof=1) / np.sqrt(8)


def assert_agree(one: Posterior, other: Posterior, worth: int) -> None:
    """Check that two samplers' moments differ by Monte Carlo error, each `worth` so many draws."""
    for k in range(2):
        error = np.hypot(standard_errors(one.particles[k]), standard_errors(other.particles[k]))
        # errors of 8 batches: P(|t₁₄| > 7) = 6e-6 for each of 8 weights
        assert (np.abs(one.mean[k] - other.mean[k]) < 7 * error).all()
        ratio = np.diag(one.covariance[k]) / np.diag(other.covariance[k])
        assert (np.abs(ratio - 1) < 5 * np.sqrt(4 / worth)).all()
