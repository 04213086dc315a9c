"""A comparison in one sentence: which kind of doubt is most like the truth, and at what cost?

Two kinds that have the same networks are compared network by network, since networks differ from
each other more than kinds do. A deep ensemble has no network of its own to be paired with another
kind's; there the two intervals must lie apart, which asks for more.
"""

import numpy as np
import pandas as pd

from equivocal.report.formatting import format_number as number
from equivocal.study.statistics import paired

__all__ = ["answer", "with_interval"]


def answer(table: pd.DataFrame, summary: pd.DataFrame, training: float) -> str:
    """Which kind of doubt is most like the truth, and at what cost? `training`: s per network.

    The next is *clearly* more where the 95 % interval of its difference from the best, network by
    network, lies above zero; where one of the two is a deep ensemble, where the intervals of the
    two do not overlap. Of posteriors that had not come to rest it says so.
    """
    ranked = summary.sort_values("nll_excess", ignore_index=True)
    best, second = ranked.iloc[0], ranked.iloc[1]
    clear = _clearly_more(table, second, best)
    plain = summary[summary["kind"] == "trained"].iloc[0]
    cost = f"{number(best['seconds'])} s and {number(best['megabytes'])} MB"
    cost += f" beyond one network, which took {number(training)} s to train"
    return (
        f"Most like the truth: {_named(table, best)}, {number(best['nll_excess'])} nats above it "
        f"(trained network alone: {number(plain['nll_excess'])}; next, {_named(table, second)}: "
        f"{number(second['nll_excess'])}, {'clearly' if clear else 'not clearly'} more), at "
        f"{cost}; reversals are seen best {_seen(summary)}."
    )


def _named(table: pd.DataFrame, kind: pd.Series) -> str:
    """A kind of a summary, with a word on how many of its posteriors were still on their way."""
    own = table.loc[table["kind"] == kind["kind"], "converged"]
    moving = int(own.eq(False).sum())  # None, where nothing was sampled, is neither
    if not moving:
        return str(kind["kind"])
    return f"{kind['kind']} (which had not come to rest for {moving} of {len(own)} networks)"


def _seen(summary: pd.DataFrame) -> str:
    """Who sees reversals best, by entropy and by information; a single network has only the first.

    The two are different doubts, so kinds are compared within each, and the better comes first.
    """
    several = summary[summary["members"] > 1]
    best = [("entropy", "auroc_entropy", summary.sort_values("auroc_entropy").iloc[-1])]
    if len(several):
        best.append(("information", "auroc", several.sort_values("auroc").iloc[-1]))
    best.sort(key=lambda one: -one[2][one[1]])
    (by, name, kind), *other = best
    said = f"by {kind['kind']}, by its {by}: AUROC {with_interval(kind, name)}"
    for by, name, kind in other:
        said += f"; by {by}, by {kind['kind']}: {with_interval(kind, name)}"
    return said


def with_interval(kind: pd.Series, name: str) -> str:
    """A score of a row of a summary, with its 95 % interval where it has one."""
    low, high = kind[f"{name}_low"], kind[f"{name}_high"]
    return f"{kind[name]:.3f}" + ("" if np.isnan(low) else f" ({low:.3f} to {high:.3f})")


def _clearly_more(table: pd.DataFrame, more: pd.Series, less: pd.Series) -> bool:
    """Of two rows of a summary, by NLL; what has no interval is not clear."""
    if "deep ensemble" in (more["kind"], less["kind"]):
        return bool(more["nll_excess_low"] > less["nll_excess_high"])
    by_network = table.pivot(index="network", columns="kind", values="nll_excess")
    return paired(*(by_network[kind].dropna() for kind in (more["kind"], less["kind"]))).ci_low > 0
