"""Bad input: each a clear error that names argument, value, rule and way out; nothing is traced."""

import numpy as np
import pandas as pd
import pytest

from lastlayer.errors import UserError
from problems import sample_posterior, small


class Sparse:
    """As much of a sparse matrix as is looked at."""

    def toarray(self) -> np.ndarray:  # noqa: D102
        return X


X, T = small()
NAN = np.where(X > 2, np.nan, X)
with np.errstate(divide="ignore"):
    INFINITE = X / [1, 1, 0, 1]

BAD = {
    "NaN features": (NAN, T, {}, r"features must be finite, got nan at index \(\d+, \d\)"),
    "NaN targets": (X, np.where(T > 0, np.nan, T), {}, "leave such labels out with counts of 0"),
    "one-dimensional features": (
        X[:, 0],
        T,
        {},
        r"features must have shape \(N, D\), .* got \(60,\)",
    ),
    "no rows": (X[:0], T[:0], {}, r"at least one, got \(0, 4\)"),
    "words": ([["a"], ["b"]], [0, 1], {}, "features must hold real numbers.*encode"),
    "targets of other length": (X, T[:3], {}, "one row per row of features, got 3 for 60"),
    "targets above one": (X, 2 * T, {}, "between 0 and the row's count, got 2 with count 1 in row"),
    "class numbers": (X, np.arange(60) % 3, {}, "got 2 with count 1 in row 2.*'softmax'"),
    "negative counts": (X, T, {"counts": -np.ones(60)}, "counts must be ≥ 0, got -1.0 in row 0"),
    "zero variance": (
        X,
        T,
        {"prior_variance": 0.0},
        "prior_variance must lie between .* got 0.*1e-8",
    ),
    "full covariance": (X, T, {"prior_variance": np.eye(4)}, "only diagonal priors"),
    "one particle": (X, T, {"num_particles": 1}, "num_particles must be a whole number between 2"),
    "unknown method": (X, T, {"method": "exact_flow"}, "did you mean 'exact-flow'"),
    "unknown option": (X, T, {"rate": 0.3}, "has no option 'rate'; it takes none"),
    "wrong taming": (
        X,
        T,
        {"method": "dropout-deterministic", "taming": "printted"},
        "did you mean 'printed'",
    ),
    "zero tolerance": (X, T, {"tolerance": 0.0}, "tolerance must be > 0"),
    "half precision": (X, T, {"dtype": "float16"}, "dtype must be float32 or float64"),
    "tiny budget": (X, T, {"memory_budget": 100}, "memory_budget of 100 bytes is too small"),
    "too large for float32": (1e30 * X, T, {"dtype": "float32"}, "must stay below.*float64"),
    "softmax of fractions": (X, T[:, 0] / 2, {"likelihood": "softmax"}, "class numbers 0 … K−1"),
    "softmax with a gap": (
        X,
        np.arange(60) % 3 * 2,
        {"likelihood": "softmax"},
        "name class 4 and leave out another",
    ),
    "watching a Gaussian": (X, T, {"observe": print}, "cannot be observed"),
    "ragged features": ([[1.0], [1.0, 2.0]], [0, 1], {}, "features must be one array.*of equal"),
    "masked features": (np.ma.masked_greater(X, 2), T, {}, "features must have no masked entries"),
    "sparse features": (Sparse(), T, {}, r"got a sparse Sparse; use \.toarray\(\)"),
    "missing values": (
        pd.DataFrame({"a": [1, None]}, dtype="Int64"),
        [0, 1],
        {},
        r"got nan at index \(1, 0\)",
    ),
    "large seed": (X, T, {"seed": 2**32}, "seed must be a whole number between 0 and 4294967295"),
    "large counts": (X, T, {"counts": np.full(60, 1e200)}, "counts must sum to less than 3e"),
    "large mean": (X, T, {"prior_mean": 1e200}, "features × prior_mean must .* smaller prior_mean"),
    "large variance": (X, T, {"prior_variance": 1e308}, "^prior_variance must lie .* got 1e\\+308"),
    "misspelt argument": (X, T, {"prior_varience": 1.0}, "did you mean 'prior_variance'"),
    "misspelt option": (X, T, {"method": "hmc", "num_chain": 2}, "did you mean 'num_chains'"),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_sentence(case: str) -> None:
    features, targets, options, message = BAD[case]
    with pytest.raises(UserError, match=message) as caught:
        sample_posterior(features, targets, **options)
    assert "\n" not in str(caught.value)


def test_prediction_needs_the_same_columns() -> None:
    posterior = sample_posterior(X, T)
    with pytest.raises(UserError, match="must have 4 columns.*got 3; no intercept is added"):
        posterior.predict_proba(X[:, :3])
    with pytest.raises(UserError, match="features must be finite"):
        posterior.predict_proba(NAN)
    with pytest.raises(UserError, match="level must be between 0 and 1"):
        posterior.predict_interval(X, level=1.5)


def test_numbers_in_other_containers_are_accepted() -> None:
    """Columns of several kinds, a mask that hides nothing, a budget beyond any machine."""
    plain = sample_posterior(X, T)
    frame = pd.DataFrame(X).astype({0: "Int64", 1: object, 2: "Float64"})
    for features in (frame, np.ma.masked_greater(X, 99)):
        posterior = sample_posterior(features, T, memory_budget=2**70)
        np.testing.assert_array_equal(posterior.mean, plain.mean)


@pytest.mark.parametrize(
    "features",
    [np.ones((60, 4)), np.zeros((60, 4)), X[:, [1, 1, 1, 1]], X * [1, 1, 1, 0]],
    ids=["constant", "zero", "duplicated", "an empty column"],
)
def test_degenerate_features_work(features: np.ndarray) -> None:
    posterior = sample_posterior(features, T)
    assert posterior.info.converged
    assert np.isfinite(posterior.particles).all()
    untouched = (features == 0).all(axis=0)
    np.testing.assert_allclose(posterior.mean[:, untouched], 0, atol=1e-9)
    variances = np.diagonal(posterior.covariance, axis1=1, axis2=2)
    np.testing.assert_allclose(variances[:, untouched], 1, rtol=1e-9)
