"""How unfamiliar rows are: leverage against a brute-force inverse, p-values, strange rows."""

import numpy as np
import pytest

from lastlayer.unfamiliar import compute_factor, compute_leverages, fit_familiarity

RNG = np.random.default_rng(0)


def make_features(rows: int, dim: int, rng: np.random.Generator = RNG) -> np.ndarray:
    """Draw correlated features with a constant column, as a last layer has them."""
    mixing = np.random.default_rng(dim).normal(size=(dim - 1, dim - 1))
    return np.hstack([np.maximum(rng.normal(size=(rows, dim - 1)) @ mixing, 0), np.ones((rows, 1))])


@pytest.mark.parametrize(("rows", "dim"), [(300, 20), (20, 50)], ids=["N > D", "D > N"])
def test_leverage_is_that_of_a_brute_force_inverse(rows, dim):
    seen, new = make_features(rows, dim), make_features(7, dim)
    counts = RNG.integers(1, 4, rows).astype(float)
    repeated = np.repeat(seen, counts.astype(int), axis=0)
    epsilon = (repeated**2).sum() / len(repeated) / dim
    inverse = np.linalg.inv(repeated.T @ repeated + epsilon * np.eye(dim))
    exact = np.array([psi @ inverse @ psi for psi in new])
    leverages = compute_leverages(new, compute_factor(seen, counts))
    # double precision; the matrices have condition numbers of up to 1e5
    np.testing.assert_allclose(leverages[:, 0], exact, rtol=1e-9)
    np.testing.assert_allclose(leverages[:, 1], exact / (new**2).sum(axis=1), rtol=1e-9)


def test_p_values_are_uniform_on_rows_like_the_held_out_rows():
    """Of M exchangeable rows a share α has p ≤ α, on average over draws of the n held-out rows."""
    n, M, draws, level = 199, 400, 40, 0.1
    shares = []
    for seed in range(draws):
        rows = make_features(60 + n + M, 12, np.random.default_rng(seed))
        seen, held_out, new = np.split(rows, [60, 60 + n])
        p = fit_familiarity(seen, held_out).compute_p_values(new)
        assert p.min() > 0
        assert p.max() <= 1
        shares.append(np.mean(p <= level))
    # each share has the variance α(1−α)(1/M + 1/(n+2)) (a beta-binomial): sd of the mean 0.0041
    sd = np.sqrt(level * (1 - level) * (1 / M + 1 / (n + 2)) / draws)
    # 4 sd: a false alarm in 1 of 16,000; calibrated on the training rows the share is 0.24
    assert abs(np.mean(shares) - level) < 4 * sd


def test_strange_rows_are_flagged():
    """Far rows, small rows in odd directions, and rows on which a feature is new."""
    seen, held_out = make_features(500, 12), make_features(199, 12)
    seen[:, 3] = held_out[:, 3] = 0  # a unit that no ordinary row switches on
    far, small, new = make_features(3, 12), make_features(3, 12), make_features(3, 12)
    far[:, :-1] *= 8
    small[:, :-1] = 0  # all units are off
    new[:, 3] = 3
    familiarity = fit_familiarity(seen, held_out)
    for rows in (far, small, new):
        np.testing.assert_array_equal(familiarity.compute_p_values(rows), 1 / 200)


def test_changes_of_scale_change_nothing():
    seen, held_out, new = (make_features(size, 12) for size in (300, 99, 50))
    plain = fit_familiarity(seen, held_out).compute_p_values(new)
    scaled = fit_familiarity(1024 * seen, 1024 * held_out).compute_p_values(1024 * new)
    np.testing.assert_array_equal(plain, scaled)


def test_rows_that_are_not_finite_are_as_unfamiliar_as_can_be():
    seen, held_out, new = make_features(100, 5), make_features(99, 5), make_features(4, 5)
    new[0, 0], new[1, 1], new[2] = np.nan, np.inf, 1e200
    p = fit_familiarity(seen, held_out).compute_p_values(new)
    np.testing.assert_array_equal(p[:3], 0.01)
    assert p[3] > 0.01


def test_held_out_rows_that_are_all_alike_give_finite_scores():
    seen = make_features(50, 5)
    familiarity = fit_familiarity(seen, np.repeat(seen[:1], 30, axis=0))
    np.testing.assert_array_equal(familiarity.compute_p_values(seen[:1]), 1)
