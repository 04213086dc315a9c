"""Comprehenders against the exact ideal one, sentence by sentence.

correlation, slope   of the belief in the literal reading, over questions, with the exact one
divergence           KL(ideal ‖ comprehender) over the three readings, in nats per question
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy.special import rel_entr

from equivocal.human_data.plausibility import ANY, AskedItems
from equivocal.study.statistics import compare_with_zero
from equivocal.world import PLAUSIBILITY

__all__ = ["compare_with_ideal", "tabulate_items"]

ALL = "all"
LEAST = 1e-12  # a belief below counts as this


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
    asked: AskedItems, beliefs: Mapping[str, np.ndarray], ideal: np.ndarray, networks: int
) -> pd.DataFrame:
    """Compare networks with the ideal comprehender, with 95 % intervals over networks.

    Parameters
    ----------
    asked, beliefs, ideal
        As for `tabulate_items`.
    networks : int
        How many networks the participants belong to, as many to each; their beliefs are averaged
        within networks. A single participant is compared as it is.

    Returns
    -------
    DataFrame
        comprehender, plausibility (or "all"), questions, and correlation, slope and divergence with
        their intervals. Correlation and slope are NaN where the exact beliefs do not vary.
    """
    rows = []
    for name, believed in beliefs.items():
        count = networks if len(believed) > 1 else 1
        own = believed.reshape(count, -1, *believed.shape[1:]).mean(axis=1)
        for kind in (*PLAUSIBILITY, ALL):
            heard = np.isfinite(ideal[0, :, 0])
            chosen = np.arange(len(heard)) if kind == ALL else asked.select(ANY, kind)
            chosen = chosen[heard[chosen]]
            if len(chosen):
                found = [_compare(each[chosen], ideal[0, chosen]) for each in own]
                row = {"comprehender": name, "plausibility": kind, "questions": len(chosen)}
                for measure in ("correlation", "slope", "divergence"):
                    test = compare_with_zero([each[measure] for each in found])
                    row |= test.name_interval(measure)
                rows.append(row)
    return pd.DataFrame(rows)


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
