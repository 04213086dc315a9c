"""Figures and tables for readers: draws what the study room computed, and computes nothing."""

from equivocal.report.training_report import draw_training_report

__all__ = ["draw_training_report"]
