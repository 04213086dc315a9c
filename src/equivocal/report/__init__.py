"""Figures and the report page: draws tables and arrays that other rooms computed.

Every `draw_…` function takes tables or arrays and returns a matplotlib figure.
"""

from equivocal.report.activation_figures import draw_activations, draw_beliefs, draw_word_grid
from equivocal.report.diagrams import draw_network_diagram, draw_posterior_diagram
from equivocal.report.effect_figures import (
    draw_prior_effects,
    draw_sampler_path,
    draw_specification_curve,
)
from equivocal.report.html import render_report
from equivocal.report.learning_figures import (
    draw_calibration,
    draw_calibration_panels,
    draw_learning,
)
from equivocal.report.style import save_figure
from equivocal.report.uncertainty_figures import draw_nuts_comparison, draw_uncertainty

__all__ = [
    "draw_activations",
    "draw_beliefs",
    "draw_calibration",
    "draw_calibration_panels",
    "draw_learning",
    "draw_network_diagram",
    "draw_nuts_comparison",
    "draw_posterior_diagram",
    "draw_prior_effects",
    "draw_sampler_path",
    "draw_specification_curve",
    "draw_uncertainty",
    "draw_word_grid",
    "render_report",
    "save_figure",
]
