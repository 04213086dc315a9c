"""Figures and tables for readers: draws what the study room computed, and computes nothing."""

from equivocal.report.activation_figures import mean_activation_figure, word_grid_figure
from equivocal.report.captions import CAPTIONS, TABLE_CAPTIONS
from equivocal.report.diagrams import network_diagram, posterior_diagram
from equivocal.report.effect_figures import prior_figure, specification_curve, tau_figure
from equivocal.report.figures import belief_figure, calibration_figure, learning_figure
from equivocal.report.html import ReportContent, render_report
from equivocal.report.nuts_figures import nuts_figure
from equivocal.report.style import save_figure
from equivocal.report.uncertainty_figures import calibration_panels, uncertainty_figure

__all__ = [
    "CAPTIONS",
    "TABLE_CAPTIONS",
    "ReportContent",
    "belief_figure",
    "calibration_figure",
    "calibration_panels",
    "learning_figure",
    "mean_activation_figure",
    "network_diagram",
    "nuts_figure",
    "posterior_diagram",
    "prior_figure",
    "render_report",
    "save_figure",
    "specification_curve",
    "tau_figure",
    "uncertainty_figure",
    "word_grid_figure",
]
