"""The figure of a report: reliability of each label, and risk against coverage."""

from typing import TYPE_CHECKING, Any

import numpy as np

from lastlayer.checks import fail

if TYPE_CHECKING:
    from lastlayer.report import HeldOut


def draw_report(held: "HeldOut", losses: np.ndarray, bins: int) -> Any:
    """Return a figure of held-out rows; rows are answered in the order of their confidence."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        fail("the figure needs Matplotlib: pip install 'lastlayer[report]'.")
    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    for name, (p, t, c) in zip(held.names, held.iterate(), strict=True):
        if len(p) >= bins:
            order = np.argsort(p, kind="stable")
            starts = np.arange(bins) * len(p) // bins
            total = np.add.reduceat(c[order], starts)
            mean = [np.add.reduceat((c * part)[order], starts) / total for part in (p, t)]
            left.plot(*mean, marker=".", linewidth=0.8, alpha=0.7, label=name)
    left.set(xlabel="Mean probability", ylabel="Share of positives", title="Reliability by label")
    if len(held.names) <= bins:
        left.legend(fontsize="small")
    counts = held.counts
    losses, counts = losses.sum(axis=1), counts[:, : losses.shape[1]].sum(axis=1)
    doubt = -np.abs(held.probability - 0.5).mean(axis=1)
    order = np.argsort(doubt, kind="stable")
    answered = np.maximum(np.cumsum(counts[order]), 1e-300)
    right.plot(answered / answered[-1], np.cumsum(losses[order]) / answered, color="C0")
    right.set(xlabel="Coverage", ylabel="NLL of the answers given", title="Risk and coverage")
    return figure
