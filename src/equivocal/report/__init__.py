"""Figures and tables for readers: draws what the study room computed, and computes nothing."""

from equivocal.report.figures import belief_figure, calibration_figure, learning_figure
from equivocal.report.style import save_figure

__all__ = ["belief_figure", "calibration_figure", "learning_figure", "save_figure"]
