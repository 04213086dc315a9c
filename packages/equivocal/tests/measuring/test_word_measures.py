"""Measures against values worked out by hand, and against their definitions with probabilities."""

import numpy as np
import pytest
from scipy.special import expit, logit

from equivocal.measuring.word_measures import (
    MEASURES,
    bayesian_surprise,
    compute_surprise_by_role,
    entropy_reduction,
    epistemic_share,
    estimate_share_interval,
    semantic_update,
)


def test_the_update_counts_from_silence_and_adds_up_both_directions() -> None:
    gestalts = np.array([[0.5, 0.25], [0.75, 0.0], [0.75, 0.0]])
    # |0.5| + |0.25|, then |+0.25| + |−0.25|, then nothing
    np.testing.assert_allclose(semantic_update(gestalts), [0.75, 0.5, 0.0])


def test_surprise_is_the_divergence_from_old_to_new_beliefs() -> None:
    """One unit from 0.5 to 0.75: 0.75 ln 1.5 + 0.25 ln 0.5 = 0.1308; the other way 0.1438."""
    beliefs = logit(np.array([0.5, 0.75]))[:, None, None]
    assert bayesian_surprise(beliefs)[1] == pytest.approx(0.75 * np.log(1.5) + 0.25 * np.log(0.5))
    assert bayesian_surprise(beliefs)[1] == pytest.approx(0.130812, abs=1e-6)
    assert np.isnan(bayesian_surprise(beliefs)[0])  # nobody asked before the first word


def test_surprise_adds_up_over_units_and_roles() -> None:
    p = np.random.default_rng(0).uniform(0.05, 0.95, (4, 3, 5))  # words, roles, units
    new, old = p[1:], p[:-1]
    by_unit = new * np.log(new / old) + (1 - new) * np.log((1 - new) / (1 - old))
    by_role = compute_surprise_by_role(logit(p))
    np.testing.assert_allclose(by_role[1:], by_unit.sum(axis=-1))
    np.testing.assert_allclose(bayesian_surprise(logit(p))[1:], by_unit.sum(axis=(-2, -1)))


def test_surprise_of_certainty_is_large_but_finite() -> None:
    """From logit 80 to −80: 80 nats. As a probability σ(80) is 1, and this would be infinite."""
    assert bayesian_surprise(np.array([80.0, -80.0])[:, None, None])[1] == pytest.approx(80)


def test_entropy_reduction_keeps_its_sign() -> None:
    """An even chance has ln 2, a quarter 0.5623: certainty gained, then lost again."""
    beliefs = logit(np.array([0.5, 0.25, 0.5]))[:, None, None]
    quarter = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75))
    found = entropy_reduction(beliefs)
    assert np.isnan(found[0])
    np.testing.assert_allclose(found[1:], [np.log(2) - quarter, quarter - np.log(2)])


def test_the_epistemic_share_is_one_for_opposite_certainties_and_zero_for_agreement() -> None:
    opposite = np.array([-50.0, 50.0])[:, None, None, None]  # particles, words, roles, units
    assert epistemic_share(opposite)[0] == pytest.approx(1)
    agreed = np.full((3, 1, 1, 1), 0.7)
    assert epistemic_share(agreed)[0] == pytest.approx(0, abs=1e-12)


def test_the_epistemic_share_by_hand() -> None:
    """Beliefs 0.2 and 0.6 have the mean 0.4: (H(0.4) − (H(0.2) + H(0.6))/2) / H(0.4)."""

    def h(p: float) -> float:
        return float(-(p * np.log(p) + (1 - p) * np.log(1 - p)))

    logits = logit(np.array([0.2, 0.6]))[:, None, None, None]
    wanted = (h(0.4) - (h(0.2) + h(0.6)) / 2) / h(0.4)
    assert epistemic_share(logits)[0] == pytest.approx(wanted)


@pytest.mark.parametrize("certain", [0, 20])
def test_the_interval_of_the_share_is_that_of_the_jackknife(certain: int) -> None:
    """Where eleven are certain of a unit, the sum less the twelfth may pass 11 by round-off."""
    logits = np.random.default_rng(1).normal(size=(12, 2, 3, 40))
    logits[1:, ..., :certain] = 50.0
    left_out = np.stack([epistemic_share(np.delete(logits, j, axis=0)) for j in range(12)])
    se = np.sqrt(11 / 12 * ((left_out - left_out.mean(axis=0)) ** 2).sum(axis=0))
    low, high = estimate_share_interval(logits)
    share, half = epistemic_share(logits), 2.2009852 * se  # t₀.₉₇₅, 11 df
    np.testing.assert_allclose(low, np.maximum(share - half, 0), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(high, np.minimum(share + half, 1), rtol=1e-6)
    assert (low == 0).any() == (certain > 0)  # a share ends at 0


def test_the_interval_of_the_share_covers_the_share_of_many_particles() -> None:
    """N(0, 1) logits: of 40 samples of 64, about 38 intervals hold the share of 200,000."""
    rng = np.random.default_rng(2)
    y = expit(rng.normal(size=200_000))
    many = float(epistemic_share(logit(y)[:, None, None, None])[0])
    ends = [estimate_share_interval(rng.normal(size=(64, 1, 1, 1))) for _ in range(40)]
    # P(fewer than 32 of 40 | 95 %) is 1e-4; without the factor J − 1 about 8 would hold it
    assert sum(bool(low[0] <= many <= high[0]) for low, high in ends) >= 32


def test_every_measure_says_where_it_comes_from_and_what_it_is_linked_to() -> None:
    for name, measure in MEASURES.items():
        text = measure.of.__doc__ or ""
        assert "Source:" in text, name
        assert "Linking hypothesis:" in text, name
        assert ("Exploratory" in text) == measure.exploratory, name
