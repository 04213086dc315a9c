"""Shares, w and b computed by hand and by simulation, and the coverage of intervals."""

import numpy as np
import pytest

from equivocal.people.drawn_answers import (
    choose_likeliest,
    count_answers,
    draw_answers,
    expect_answers,
    share_beliefs,
    summarise_answers,
)
from lastlayer.errors import UserError

NAMES = ("literal", "plausible", "other")


def believe(*rows):
    """Return (participants, questions, options), equal for all questions of a participant."""
    return np.repeat(np.array(rows, float)[:, None], 4, axis=1)


def summarise(answered, **how):
    questions, options = answered.shares.shape[1:]
    return summarise_answers(answered, np.arange(questions), NAMES[:options], draws=50, **how)


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
    found = summarise(expect_answers(beliefs))
    assert found["w"].value == pytest.approx(w)
    assert found["b"].value == pytest.approx(b)
    ratio = found["w/b"].value
    assert ratio == pytest.approx(w / b) if b else np.isnan(ratio)
    assert found["literal"].value == pytest.approx(beliefs[..., 0].mean())


def test_counts_by_hand() -> None:
    """Two participants, one question asked three times: 0 0 1 and 1 1 1.

    Of the first's three pairs one agrees; of nine pairs across, three.
    """
    found = summarise(count_answers(np.array([[[0, 0, 1]], [[1, 1, 1]]]), 2))
    assert found["w"].value == pytest.approx((2 / 3 + 0) / 2)
    assert found["b"].value == pytest.approx(1 - 3 / 9)
    assert found["literal"].value == pytest.approx(2 / 6)
    assert np.isnan(found["w"].low)  # of one item
    with pytest.raises(UserError, match="two answers to each question are needed .*, got 1;"):
        count_answers(np.zeros((2, 3, 1), int), 2)


def test_estimates_from_counts_are_unbiased() -> None:
    """The mean of 400 experiments lies within four of its standard errors."""
    rng = np.random.default_rng(0)
    beliefs = rng.dirichlet([1, 0.5, 0.3], size=(5, 6))
    expected = summarise(expect_answers(beliefs))
    found = [
        [e.value for e in summarise_answers(count_answers(draw_answers(beliefs, 3, rng), 3),
                                            range(6), NAMES, draws=0).values()]
        for _ in range(400)
    ]  # fmt: skip
    mean, error = np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(len(found))
    for k, name in enumerate((*NAMES, "w", "b")):
        assert abs(mean[k] - expected[name].value) < 4 * error[k]


def test_draws_follow_beliefs_and_likeliest_answers_never_vary() -> None:
    rng = np.random.default_rng(1)
    beliefs = believe([0.7, 0.2, 0.1], [0, 0, 1])
    drawn = draw_answers(beliefs, 20_000, rng)
    shares = count_answers(drawn, 3).shares
    np.testing.assert_allclose(shares, beliefs, atol=0.02)
    assert (drawn[1] == 2).all()
    steady = count_answers(choose_likeliest(beliefs, 3), 3)
    assert summarise(steady)["w"].value == 0
    assert summarise(steady)["b"].value == 1


def test_intervals_cover_the_values_of_the_population() -> None:
    """Log odds vary by participant and item; 60 experiments, intervals of 95 %, conservative.

    Eight misses or more of 60 have probability 0.006 if they miss 5 % of the time.
    """
    rng = np.random.default_rng(2)

    def experiment(P, items):
        odds = 1 + rng.normal(size=(P, 1)) + rng.normal(size=(1, items))
        chance = 1 / (1 + np.exp(-odds))
        return np.stack([chance, 1 - chance], axis=-1)

    truth = summarise_answers(expect_answers(experiment(1500, 1500)), range(1500), "ab", draws=0)
    missed = dict.fromkeys(("a", "w", "b", "w/b"), 0)
    for seed in range(60):
        answers = count_answers(draw_answers(experiment(20, 20), 2, rng), 2)
        found = summarise_answers(answers, range(20), "ab", draws=200, seed=seed)
        for name in missed:
            missed[name] += not found[name].low < truth[name].value < found[name].high
    assert max(missed.values()) < 8


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
        answered = expect_answers(beliefs)
        items = range(beliefs.shape[1])
        return summarise_answers(answered, items, "ab", groups=groups, draws=draws)

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
    answered = expect_answers(np.random.default_rng(5).dirichlet([2, 1], size=(6, 9)))
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
    found = summarise_answers(expect_answers(beliefs), range(100), "ab", only_items=True)["a"]
    assert found.value == pytest.approx(0.5)
    # 1.96 standard errors of 0.05; the ends of 1,000 draws are multiples of 1/100
    assert found.low == pytest.approx(0.4, abs=0.015)
    assert found.high == pytest.approx(0.6, abs=0.015)
    assert np.isnan(summarise_answers(expect_answers(beliefs), range(100), "ab")["a"].low)


def test_questions_of_an_item_are_resampled_together() -> None:
    """Asking each question about an item twice adds no items, so the interval stays as wide."""
    beliefs = np.random.default_rng(3).dirichlet([1, 1], size=(12, 8))
    once = summarise_answers(expect_answers(beliefs), range(8), "ab", draws=400)
    twice = np.repeat(beliefs, 2, axis=1)
    together = summarise_answers(expect_answers(twice), np.repeat(range(8), 2), "ab", draws=400)
    apart = summarise_answers(expect_answers(twice), range(16), "ab", draws=400)
    for name in ("a", "w"):
        assert together[name] == pytest.approx(once[name])
        assert apart[name].high - apart[name].low < 0.95 * (once[name].high - once[name].low)


def test_arrays_that_are_not_beliefs_are_refused() -> None:
    with pytest.raises(UserError, match=r"sum to one over options; got .* \(2, 4, 2\)"):
        draw_answers(believe([0.5, 0.6], [1, 0]), 2, np.random.default_rng(0))
    np.testing.assert_allclose(share_beliefs(np.array(0.1), np.array(0.2)), [0.1, 0.2, 0.7])
    assert (
        share_beliefs(np.full((2, 3), 1.0), np.full((2, 3), 0.5)).sum(axis=-1).tolist()
        == [[1] * 3] * 2
    )
