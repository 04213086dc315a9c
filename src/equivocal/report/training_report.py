"""The figures of `equivocal reproduce`: how training went and what the networks came to believe."""

from collections.abc import Callable

from matplotlib.figure import Figure

from equivocal.gestalt import Run
from equivocal.report.figures import belief_figure, calibration_figure, learning_figure
from equivocal.study import calibration_table, trace_beliefs, true_trace

__all__ = ["training_figures"]

# The pair of sentences the paper prints, and the two units that compete in them.
SENTENCES = {
    "plausible": "during dinner, the woman eats the pizza",
    "reversed": "during dinner, the pizza eats the woman",
}
PROBES = ("agent", "patient")
UNITS = ("woman", "pizza")


def training_figures(run: Run) -> dict[str, Callable[[], Figure]]:
    """Name of each figure and what draws it; drawn one by one, so that progress can be shown."""
    return {
        "learning": lambda: learning_figure(run.curves),
        "calibration": lambda: calibration_figure(
            calibration_table(run), run.scores["belief_error"].mean()
        ),
        "beliefs": lambda: belief_figure(
            {
                name: trace_beliefs(run.networks, text, PROBES, UNITS)
                for name, text in SENTENCES.items()
            },
            {name: true_trace(run.world, text, PROBES, UNITS) for name, text in SENTENCES.items()},
        ),
    }
