"""N400-like and P600-like signals, word by word; tables in, figure out."""

import pandas as pd
from matplotlib.figure import Figure

from equivocal.report.style import COLOURS, add_legend, apply_style

__all__ = ["draw_signals"]

STYLES = {"ideal": "-", "networks": "--"}
LABELS = {"N400": "N400-like: surprise (nats)", "P600": "P600-like: divergence (nats)"}


@apply_style()
def draw_signals(words: pd.DataFrame) -> Figure:
    """Draw both signals at every word, a line for each condition and comprehender.

    Parameters
    ----------
    words : DataFrame
        The table "words" of `equivocal.experiments.signals`.
    """
    suites = list(dict.fromkeys(words["suite"]))
    figure = Figure(figsize=(4.2 * len(suites), 5.4))
    grid = figure.subplots(2, len(suites), squeeze=False)
    conditions = list(dict.fromkeys(words["condition"]))
    for column, suite in enumerate(suites):
        for row, (signal, label) in enumerate(LABELS.items()):
            axes = grid[row, column]
            own = words[(words["suite"] == suite) & (words["signal"] == signal)]
            means = own.groupby(["comprehender", "condition", "position"], sort=False)["value"]
            for key, values in means.mean().groupby(level=[0, 1], sort=False):
                comprehender, condition = key
                colour = COLOURS[conditions.index(condition) % len(COLOURS)]
                x = values.index.get_level_values("position")
                look = {"color": colour, "ls": STYLES[comprehender], "marker": "o", "ms": 3}
                axes.plot(x, values, label=f"{condition}, {comprehender}", **look)
            axes.set_ylabel(label)
            axes.set_xticks(sorted(own["position"].unique()))
            if row == 0:
                axes.set_title(f"{suite.replace('_', ' ')} (exploratory)", fontsize=9)
            else:
                axes.set_xlabel("word")
    every = [grid[0, column] for column in range(len(suites))]
    add_legend(figure, *every, columns=3)
    return figure
