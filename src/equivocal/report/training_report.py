"""The figures of `equivocal reproduce`: how training went and what the networks came to believe."""

from pathlib import Path

from equivocal.gestalt import Run
from equivocal.report.figures import belief_figure, calibration_figure, learning_figure
from equivocal.report.style import save_figure
from equivocal.study import calibration_table, trace_beliefs, true_trace

__all__ = ["draw_training_report"]

# The pair of sentences the paper prints, and the two units that compete in them.
SENTENCES = {
    "plausible": "during dinner, the woman eats the pizza",
    "reversed": "during dinner, the pizza eats the woman",
}
PROBES = ("agent", "patient")
UNITS = ("woman", "pizza")


def draw_training_report(run: Run, folder: Path) -> list[Path]:
    """Draw and save; returns the paths."""
    figures = {
        "learning": learning_figure(run.curves),
        "calibration": calibration_figure(
            calibration_table(run), run.scores["belief_error"].mean()
        ),
        "beliefs": belief_figure(
            {
                name: trace_beliefs(run.networks, text, PROBES, UNITS)
                for name, text in SENTENCES.items()
            },
            {name: true_trace(run.world, text, PROBES, UNITS) for name, text in SENTENCES.items()},
        ),
    }
    return [path for name, figure in figures.items() for path in save_figure(figure, folder, name)]
