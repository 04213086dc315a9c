"""Measures of probabilistic predictions: likelihood, calibration and selective prediction.

    >>> import numpy as np
    >>> targets, probabilities = np.array([0, 0, 1, 1]), np.array([0.1, 0.4, 0.6, 0.9])
    >>> round(calibration_error(targets, probabilities), 3)
    0.25
    >>> low, high = calibration_interval(targets, probabilities)

Every measure takes targets first and probabilities second, in one of three forms: one yes/no output
((N,) and (N,)), K yes/no labels ((N, K) and (N, K)), or one of K classes ((N,) class numbers and
(N, K)). `draw_reliability` and `draw_risk_coverage` draw a figure in one line. The measures need
NumPy alone; the figures also need Matplotlib.
"""

from equivocal.metrics.calibration import (
    Reliability,
    bootstrap_interval,
    calibration_error,
    calibration_interval,
    draw_reliability,
    draw_risk_coverage,
    reliability_curve,
)
from equivocal.metrics.scores import (
    RiskCoverage,
    auroc,
    brier_score,
    negative_log_likelihood,
    risk_coverage_curve,
    selective_risk,
)

__all__ = [
    "Reliability",
    "RiskCoverage",
    "auroc",
    "bootstrap_interval",
    "brier_score",
    "calibration_error",
    "calibration_interval",
    "draw_reliability",
    "draw_risk_coverage",
    "negative_log_likelihood",
    "reliability_curve",
    "risk_coverage_curve",
    "selective_risk",
]
