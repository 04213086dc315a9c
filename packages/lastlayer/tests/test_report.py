"""What a report says of labels, against truth that is known; thresholds with a guarantee."""

import numpy as np
import pytest

from lastlayer import LastLayer
from lastlayer.errors import UserError
from lastlayer.report import MissCurve, find_threshold, measure_calibration

QUICK = {"method": "laplace", "diagnose": False, "prior_variance": 1.0}
ONES = np.ones(2_000)


def draw_labels(rng, number, shift=0.0):
    """Probabilities, and labels that are drawn from them after a shift of their logits."""
    logits = rng.normal(0, 1.5, number)
    p, truth = 1 / (1 + np.exp(-logits)), 1 / (1 + np.exp(-logits - shift))
    return p, (rng.random(number) < truth).astype(float)


def test_calibration_error_is_that_of_the_shift():
    """Near 0 where labels are drawn from the probabilities, and as large as their mean shift."""
    rng = np.random.default_rng(0)
    calm = [measure_calibration(*draw_labels(rng, 2_000), ONES) for _ in range(40)]
    # an interval of 90 % that may begin at 0: seen 39 of 40; without the correction for chance 0
    assert np.mean([low <= 0.005 for _, low, _ in calm]) > 0.8
    held = []
    for _ in range(40):
        p, t = draw_labels(rng, 2_000, shift=1.0)
        truth = np.sqrt(((1 / (1 + np.exp(-np.log(p / (1 - p)) - 1.0)) - p) ** 2).mean())
        error, low, high = measure_calibration(p, t, ONES)
        held.append(low < truth < high)
        assert error == pytest.approx(truth, abs=0.05)  # five standard errors of 0.01
    assert np.mean(held) > 0.7  # 90 % but for the bootstrap's own error; seen 0.9
    assert np.isnan(measure_calibration(p[:5], t[:5], ONES[:5])).all()


def test_thresholds_reach_what_is_wanted():
    p, t = draw_labels(np.random.default_rng(1), 2_000)
    threshold, low, high = find_threshold(p, t, ONES, 0.9, by_recall=True)
    assert low <= threshold <= high
    above = p >= threshold
    assert t[above].sum() >= 0.9 * t.sum() > t[p > threshold].sum()
    threshold, low, high = find_threshold(p, t, ONES, 0.8, by_recall=False)
    assert low <= threshold <= high
    assert t[p >= threshold].mean() >= 0.8
    assert t[p >= np.sort(p)[np.searchsorted(np.sort(p), threshold) - 1]].mean() < 0.8
    assert np.isnan(find_threshold(p, 0 * t, ONES, 0.9, by_recall=True)).all()


@pytest.mark.parametrize("missed", [0.05, 0.2])
def test_label_sets_miss_as_few_labels_as_they_say(missed):
    """Over 300 splits of rows drawn alike, which are exchangeable whatever the probabilities mean.

    The mean loss of 300 × 50 new rows has a standard error of at most 0.35 / √15,000 = 0.003; five
    of them are allowed. Choosing by R(λ) ≤ α, without the correction, exceeds 0.05 by 0.015.
    """
    rng, losses = np.random.default_rng(2), []
    for _ in range(300):
        p = rng.random((90, 4)) ** 2
        t = rng.random((90, 4)) < p**0.5 * 0.6  # far from calibrated
        curve = fit_curve(p[:40], t[:40])
        sets = p[40:] >= curve.choose_threshold(missed)
        losses.append((t[40:] & ~sets).sum(1) / np.maximum(t[40:].sum(1), 1))
    assert missed - 0.03 < np.mean(losses) < missed + 0.015


def fit_curve(p, t):
    row, _ = np.nonzero(t)
    order = np.argsort(p[t])
    return MissCurve(p[t][order], np.cumsum((1 / t.sum(1)[row])[order]), np.array(float(len(p))))


def test_label_sets_of_a_fit_use_its_held_out_rows():
    rng = np.random.default_rng(3)
    psi = rng.normal(size=(600, 5))
    t = (psi @ rng.normal(size=(5, 4)) + rng.logistic(size=(600, 4)) > 0).astype(float)
    belief = LastLayer.fit_features(psi[:100], t[:100], validation=(psi[100:], t[100:]), **QUICK)
    held = belief.predict(psi[100:])
    expected = fit_curve(held.probability, t[100:] > 0).choose_threshold(0.1)
    np.testing.assert_array_equal(held.label_sets(0.1), held.probability >= expected)
    assert held.label_sets(1e-4).all(), "500 rows cannot promise so little: every label"
    thresholds = belief.report.choose_thresholds(precision=0.8)
    assert thresholds.shape == (4, 3)
    with pytest.raises(UserError, match="takes recall= or precision="):
        belief.report.choose_thresholds()
    table = belief.report.tables["labels"]
    p = held.probability[:, 2]
    nll = -(t[100:, 2] * np.log(p) + (1 - t[100:, 2]) * np.log1p(-p)).mean()
    assert table["nll"][2] == pytest.approx(nll)
    doubt = held.entropies
    share = doubt.information[:, 2].sum() / doubt.total[:, 2].sum()
    assert table["epistemic_share"][2] == pytest.approx(share)
    left, right = belief.report.draw().axes
    assert len(left.lines) == 5
    coverage, risk = right.lines[0].get_data()
    assert coverage[-1] == pytest.approx(1)
    assert risk[-1] == pytest.approx(belief.report.nll["posterior"])


def test_a_label_without_a_known_answer_has_no_figures():
    """As where an assay was never run on the held-out rows; a loss of 0 would be a lie."""
    rng = np.random.default_rng(4)
    psi, t = rng.normal(size=(200, 3)), rng.integers(0, 2, (200, 3)).astype(float)
    t[100:, 1] = np.nan
    belief = LastLayer.fit_features(psi[:100], t[:100], validation=(psi[100:], t[100:]), **QUICK)
    row = belief.report.tables["labels"].iloc[1]
    assert row["n"] == row["positives"] == 0
    assert row.drop(["label", "n", "positives"]).isna().all()
    assert np.isnan(belief.report.choose_thresholds(precision=0.8)[1]).all()
    belief.report.draw()


@pytest.mark.parametrize("shared", [0, 40, 100])
def test_validation_rows_that_were_fitted_are_named(shared):
    """They are obeyed, but not in silence; a few rows that occur twice are nobody's mistake."""
    rng = np.random.default_rng(5)
    psi = rng.normal(size=(300, 4))
    y = (rng.random((300, 2)) < 0.5).astype(float)
    held = slice(200 - shared, 300 - shared)
    belief = LastLayer.fit_features(psi[:200], y[:200], validation=(psi[held], y[held]), **QUICK)
    told = [text for text in belief.report.warnings if "rows of the fit" in text]
    assert told == [] if shared < 50 else told[0].startswith("100 of 100 validation rows")
