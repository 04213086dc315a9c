"""Comprehenders against the exact ideal one, sentence by sentence.

correlation, slope   of the belief in the literal reading, over questions, with the exact one
divergence           KL(ideal ‖ comprehender) over the three readings, in nats per question

Means are over networks, with t intervals of the mean on a scale that keeps them where the measure
can be: Fisher's z for correlations, the logarithm for divergences. With f that scale and s the
standard error of a mean m, the ends are f⁻¹(f(m) ± t s f′(m)).
"""

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
from scipy.special import rel_entr

from equivocal.human_data.plausibility import ANY, AskedItems
from equivocal.study.statistics import compare_with_zero
from equivocal.world import PLAUSIBILITY

__all__ = ["compare_with_ideal", "tabulate_items"]

ALL = "all"
LEAST = 1e-12  # a belief below counts as this
Scale = Callable[[float], float]
SCALES: dict[str, tuple[Scale, Scale, Scale]] = {  # f, its inverse and its derivative
    "correlation": (np.arctanh, np.tanh, lambda r: 1 / (1 - r**2)),
    "slope": (float, float, lambda _: 1.0),
    "divergence": (np.log, np.exp, lambda d: 1 / d),
}


def tabulate_items(
    asked: AskedItems, beliefs: Mapping[str, np.ndarray], ideal: np.ndarray
) -> pd.DataFrame:
    """Tabulate the belief in the literal reading of every sentence beside the exact one.

    Parameters
    ----------
    asked : AskedItems
        What was asked.
    beliefs : mapping of str to ndarray of shape (participants, questions, 3)
        By comprehender.
    ideal : ndarray of shape (1, questions, 3)
        From `believe_ideal`.
    """
    rows = []
    for name, believed in beliefs.items():
        mean = believed[:, :, 0].mean(axis=0)
        for n, question in enumerate(asked.questions):
            item = asked.items[asked.number[n]]
            rows.append(
                {
                    "comprehender": name,
                    "item": item.item,
                    "construction": item.construction,
                    "plausibility": item.plausibility,
                    "sentence": str(item.sentence),
                    "question": question.probe,
                    "literal": float(mean[n]),
                    "exact": float(ideal[0, n, 0]),
                }
            )
    return pd.DataFrame(rows)


def compare_with_ideal(
    asked: AskedItems,
    beliefs: Mapping[str, np.ndarray],
    ideal: np.ndarray,
    networks: Mapping[str, np.ndarray] | None = None,
) -> pd.DataFrame:
    """Compare networks with the ideal comprehender, with 95 % intervals over networks.

    Parameters
    ----------
    asked, beliefs, ideal
        As for `tabulate_items`.
    networks : mapping of str to ndarray of shape (participants,), optional
        The network of each participant; beliefs are averaged within networks. Of a comprehender
        that is missing here, each participant is compared as it is.

    Returns
    -------
    DataFrame
        comprehender, plausibility (or "all"), questions, and correlation, slope and divergence with
        their intervals. Correlation and slope are NaN where the exact beliefs do not vary.
    """
    rows = []
    heard = np.isfinite(ideal[0, :, 0])
    for name, believed in beliefs.items():
        network = (networks or {}).get(name, np.arange(len(believed)))
        own = np.stack([believed[network == n].mean(axis=0) for n in np.unique(network)])
        for kind in (*PLAUSIBILITY, ALL):
            chosen = np.arange(len(heard)) if kind == ALL else asked.select(ANY, kind)
            chosen = chosen[heard[chosen]]
            if len(chosen):
                found = [_compare(each[chosen], ideal[0, chosen]) for each in own]
                row = {"comprehender": name, "plausibility": kind, "questions": len(chosen)}
                for measure in SCALES:
                    row |= _average(measure, np.array([each[measure] for each in found]))
                rows.append(row)
    return pd.DataFrame(rows)


def _average(measure: str, values: np.ndarray) -> dict[str, float]:
    """Return the mean over networks with its interval, as MEASURE, MEASURE_low, MEASURE_high."""
    test = compare_with_zero(values)
    found = test.name_interval(measure)
    if not np.isnan(test.ci_low):
        forward, backward, derivative = SCALES[measure]
        half = (test.ci_high - test.mean) * derivative(test.mean)
        found[f"{measure}_low"] = float(backward(forward(test.mean) - half))
        found[f"{measure}_high"] = float(backward(forward(test.mean) + half))
    return found


def _compare(believed: np.ndarray, ideal: np.ndarray) -> dict[str, float]:
    """Compare the beliefs of one network with exact ones."""
    x, y = ideal[:, 0], believed[:, 0]
    spread = x.std() > 1e-9
    divergence = rel_entr(ideal, np.maximum(believed, LEAST)).sum(axis=1).mean()
    return {
        "correlation": float(np.corrcoef(x, y)[0, 1]) if spread and y.std() > 0 else np.nan,
        "slope": float(np.cov(x, y)[0, 1] / x.var(ddof=1)) if spread else np.nan,
        "divergence": float(divergence),
    }
