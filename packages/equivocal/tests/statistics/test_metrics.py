"""Measures against scikit-learn, against values known by hand, and intervals against the truth."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn import metrics as sk

from equivocal import metrics
from lastlayer.errors import UserError

RNG = np.random.default_rng(0)
LABELS = RNG.uniform(size=(300, 4)) ** 2  # probabilities
SEEN = (RNG.uniform(size=(300, 4)) < LABELS).astype(int)
CLASSES = RNG.dirichlet(np.ones(5), size=200)
NUMBERS = np.array([RNG.choice(5, p=row) for row in CLASSES])


def test_scores_of_labels_agree_with_scikit_learn() -> None:
    by_label = [sk.log_loss(SEEN[:, k], LABELS[:, k]) for k in range(4)]
    assert metrics.negative_log_likelihood(SEEN, LABELS) == pytest.approx(np.mean(by_label))
    squares = [sk.brier_score_loss(SEEN[:, k], LABELS[:, k]) for k in range(4)]
    assert metrics.brier_score(SEEN, LABELS) == pytest.approx(np.mean(squares))


def test_scores_of_classes_agree_with_scikit_learn() -> None:
    assert metrics.negative_log_likelihood(NUMBERS, CLASSES) == pytest.approx(
        sk.log_loss(NUMBERS, CLASSES)
    )
    square = sk.brier_score_loss(NUMBERS, CLASSES, labels=range(5), scale_by_half=False)
    assert metrics.brier_score(NUMBERS, CLASSES) == pytest.approx(square)


def test_auroc_with_ties_agrees_with_scikit_learn() -> None:
    scores = np.round(LABELS[:, 0], 1)  # many ties
    assert metrics.auroc(SEEN[:, 0], scores) == pytest.approx(sk.roc_auc_score(SEEN[:, 0], scores))


def test_a_certain_and_wrong_prediction_has_a_finite_nll() -> None:
    for dtype in (np.float32, np.float64):
        worst = metrics.negative_log_likelihood([1], np.zeros(1, dtype))
        assert worst == pytest.approx(-np.log(np.finfo(dtype).eps))


def test_calibration_error_by_hand() -> None:
    p = np.array([0.05, 0.05, 0.95, 0.95])
    t = np.array([0, 1, 1, 1])
    assert metrics.calibration_error(t, p) == pytest.approx(0.5 * 0.45 + 0.5 * 0.05)
    assert metrics.calibration_error(t, p, bins=1) == pytest.approx(0.25)
    assert metrics.calibration_error(t, p, weights=[1, 0, 1, 1]) == pytest.approx(0.05)


def test_errors_cancel_between_labels_only_if_pooled() -> None:
    t = np.tile([[0, 1]], (50, 1))
    p = np.full((50, 2), 0.5)
    assert metrics.calibration_error(t, p) == 0
    assert metrics.calibration_error(t, p, average="label") == 0.5


def test_classes_are_judged_by_the_most_probable_one() -> None:
    p = np.array([[0.7, 0.2, 0.1]] * 10)
    t = np.array([0] * 5 + [1] * 5)
    assert metrics.calibration_error(t, p) == pytest.approx(0.2)


def test_the_interval_covers_the_true_error() -> None:
    """P(51 or fewer of 60 intervals of 95 % cover) is 0.3 %; 59 and 59 were seen.

    Plain bootstrap quantiles cover 0 and 39 times.
    """
    rng = np.random.default_rng(0)
    for shift in (0.0, 0.08):
        covered = 0
        for seed in range(60):
            p = rng.uniform(0.1, 0.9, 400)
            t = rng.uniform(size=400) < p - shift
            low, high = metrics.calibration_interval(t, p, draws=100, seed=seed)
            covered += low <= shift <= high
        assert covered > 51


def test_bootstrap_interval_of_a_mean_agrees_with_the_normal_one() -> None:
    """The mean of the squares is nearly normal; 1,000 draws give the ends to about 5 %."""
    square = (LABELS[:, 0] - SEEN[:, 0]) ** 2
    half = 1.96 * square.std(ddof=1) / np.sqrt(300)
    low, high = metrics.bootstrap_interval(
        metrics.brier_score, SEEN[:, 0], LABELS[:, 0], draws=1000
    )
    assert high - low == pytest.approx(2 * half, rel=0.15)
    assert (low + high) / 2 == pytest.approx(square.mean(), abs=0.3 * half)


def test_reliability_curve_counts_every_event_once() -> None:
    found = metrics.reliability_curve(SEEN, LABELS, bins=10)
    assert found.events.sum() == SEEN.size
    assert found.events @ found.observed == pytest.approx(SEEN.sum())
    assert found.events @ found.predicted == pytest.approx(LABELS.sum())
    assert ((found.low <= found.observed) & (found.observed <= found.high)).all()
    n, k = int(found.events[0]), round(found.events[0] * found.observed[0])
    from scipy.stats import binomtest

    wilson = binomtest(k, n).proportion_ci(method="wilson")
    assert (found.low[0], found.high[0]) == pytest.approx((wilson.low, wilson.high), abs=1e-6)


def test_risk_rises_with_coverage() -> None:
    curve = metrics.risk_coverage_curve(NUMBERS, CLASSES)
    wrong = (CLASSES.argmax(axis=1) != NUMBERS).mean()
    assert curve.risk[-1] == pytest.approx(wrong)
    assert metrics.selective_risk(NUMBERS, CLASSES, coverage=1.0) == pytest.approx(wrong)
    assert metrics.selective_risk(NUMBERS, CLASSES, coverage=0.3) < wrong
    useless = metrics.risk_coverage_curve(NUMBERS, CLASSES, uncertainty=np.zeros(200))
    assert np.allclose(useless.risk, wrong)
    assert curve.area < useless.area


def test_one_uncertainty_per_row_abstains_for_all_its_labels() -> None:
    doubt = np.arange(300.0)
    curve = metrics.risk_coverage_curve(SEEN, LABELS, uncertainty=doubt)
    first = ((LABELS[:30] > 0.5) != SEEN[:30]).mean()
    assert curve.risk[30 * 4 - 1] == pytest.approx(first)


@pytest.mark.parametrize(
    ("targets", "probabilities", "match"),
    [
        ([0, 1], [0.2, 1.3], "logits go through a sigmoid"),
        ([0, 1], [0.2, np.nan], "must be finite"),
        ([0, 1, 1], [0.2, 0.3], "must have one shape"),
        ([0, 2], [0.2, 0.3], "between 0 and 1"),
        ([0, 3], [[0.2, 0.8], [0.5, 0.5]], "class numbers from 0 to 1, got 3"),
        ([0, 1], [[0.2, 0.2], [0.5, 0.5]], "must sum to one"),
        (["a"], [0.5], "must be numbers"),
    ],
)
def test_inconsistent_arguments_are_refused(targets, probabilities, match) -> None:
    with pytest.raises(UserError, match=match):
        metrics.calibration_error(targets, probabilities)


def test_a_level_in_per_cent_is_refused_with_the_fraction() -> None:
    with pytest.raises(UserError, match=r"level must .*got 95\.0; .*0\.95"):
        metrics.bootstrap_interval(metrics.calibration_error, [0, 1], [0.2, 0.7], level=95.0)


def test_figures_have_legends_with_their_scores() -> None:
    both = {"good": LABELS, "flat": np.full_like(LABELS, SEEN.mean())}
    axes = metrics.draw_reliability(SEEN, both).axes[0]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels[0] == f"good, error {metrics.calibration_error(SEEN, LABELS):.3f}"
    assert len(labels) == 2
    axes = metrics.draw_risk_coverage(NUMBERS, CLASSES).axes[0]
    assert axes.lines[0].get_ydata()[-1] == (CLASSES.argmax(axis=1) != NUMBERS).mean()


def test_import_loads_only_numpy() -> None:
    code = (
        "import sys, numpy; before = set(sys.modules); import equivocal.statistics.metrics_init; "
    )
    code += "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = set(done.stdout.split()) - sys.stdlib_module_names
    numpys_own = {name for name in loaded if "cython" in name}
    assert loaded - numpys_own <= {"equivocal", "numpy"}
