"""Figures and tables for readers: draws what the study room computed, and computes nothing."""

from equivocal.report.style import save_figure
from equivocal.report.training_report import training_figures

__all__ = ["save_figure", "training_figures"]
