"""Shares, w and b computed by hand, and the coverage of intervals."""

import numpy as np
import pytest

from equivocal.people.agreement import share_beliefs, summarise_answers

NAMES = ("literal", "plausible", "other")


def believe(*rows):
    """Return (participants, questions, options), equal for all questions of a participant."""
    return np.repeat(np.array(rows, float)[:, None], 4, axis=1)


@pytest.mark.parametrize(
    ("beliefs", "w", "b"),
    [
        (believe([0.5, 0.5], [0.5, 0.5]), 0.5, 0.5),
        (believe([1, 0], [1, 0], [1, 0]), 0, 0),
        (believe([1, 0], [0, 1]), 0, 1),
        (believe([1, 0], [1, 0], [0, 1]), 0, 2 / 3),  # two of three pairs
        (believe([0.8, 0.2, 0], [0.5, 0.25, 0.25]), (0.32 + 0.625) / 2, 1 - 0.4 - 0.05),
    ],
)
def test_by_hand(beliefs, w: float, b: float) -> None:
    questions, options = beliefs.shape[1:]
    found = summarise_answers(beliefs, np.arange(questions), NAMES[:options], draws=50)
    assert found["w"].value == pytest.approx(w)
    assert found["b"].value == pytest.approx(b)
    ratio = found["w/b"].value
    assert ratio == pytest.approx(w / b) if b else np.isnan(ratio)
    assert found["literal"].value == pytest.approx(beliefs[..., 0].mean())


def test_intervals_of_particles_cover_the_values_of_all_networks() -> None:
    """Five particles of each of five networks, which differ more than particles of one do.

    Eight misses or more of 60 have probability 0.006 if they miss 5 % of the time. Plain
    percentiles miss about 10, and particles that are drawn as if they were networks about 30.
    """
    rng = np.random.default_rng(4)

    def experiment(networks, items, particles):
        odds = 1 + rng.normal(size=(networks, 1, 1)) + 0.5 * rng.normal(size=(1, 1, items))
        odds = odds + 0.3 * rng.normal(size=(networks, particles, items))
        chance = 1 / (1 + np.exp(-odds.reshape(-1, items)))
        return np.stack([chance, 1 - chance], axis=-1)

    def summarise_experiment(beliefs, groups, draws):
        items = range(beliefs.shape[1])
        return summarise_answers(beliefs, items, "ab", groups=groups, draws=draws)

    truth = summarise_experiment(experiment(1500, 400, 1), None, 0)
    network = np.repeat(np.arange(5), 5)
    missed = {"network": 0, "particle": 0, "w": 0}
    for _ in range(60):
        beliefs = experiment(5, 16, 5)
        right = summarise_experiment(beliefs, network, 200)
        wrong = summarise_experiment(beliefs, None, 200)
        missed["network"] += not right["a"].low < truth["a"].value < right["a"].high
        missed["w"] += not right["w"].low < truth["w"].value < right["w"].high
        missed["particle"] += not wrong["a"].low < truth["a"].value < wrong["a"].high
    assert missed["network"] < 8
    assert missed["w"] < 8
    assert missed["particle"] > 15


def test_groups_change_intervals_but_not_estimates() -> None:
    """Pairs within groups count for b like any other pair; a single group has no interval."""
    answered = np.random.default_rng(5).dirichlet([2, 1], size=(6, 9))
    plain = summarise_answers(answered, range(9), "ab", draws=20)
    pairs = summarise_answers(answered, range(9), "ab", groups=[0, 0, 1, 1, 2, 2], draws=20)
    one = summarise_answers(answered, range(9), "ab", groups=["n00"] * 6, draws=20)
    for name in plain:
        assert pairs[name].value == pytest.approx(plain[name].value)
        assert one[name].value == pytest.approx(plain[name].value)
        assert np.isnan(one[name].low)
        assert np.isnan(one[name].high)


def test_a_single_comprehender_has_intervals_over_items() -> None:
    """One comprehender that reads half of the items literally: a binomial standard error."""
    beliefs = np.tile([[1.0, 0.0], [0.0, 1.0]], (1, 50, 1))
    found = summarise_answers(beliefs, range(100), "ab", only_items=True)["a"]
    assert found.value == pytest.approx(0.5)
    # 1.96 standard errors of 0.05; the ends of 1,000 draws are multiples of 1/100
    assert found.low == pytest.approx(0.4, abs=0.015)
    assert found.high == pytest.approx(0.6, abs=0.015)
    assert np.isnan(summarise_answers(beliefs, range(100), "ab")["a"].low)


def test_beliefs_in_exclusive_answers_sum_to_one() -> None:
    np.testing.assert_allclose(share_beliefs(np.array(0.1), np.array(0.2)), [0.1, 0.2, 0.7])
    above = share_beliefs(np.full((2, 3), 1.0), np.full((2, 3), 0.5))
    np.testing.assert_allclose(above[0, 0], [2 / 3, 1 / 3, 0])
