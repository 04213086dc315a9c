"""Can the strength of uncertainty be chosen without knowing the truth?

A strength is the number of steps of the paper's sampler, the weight b of the evidence, the prior
variance v, or b and v together. For each network it is chosen by what a modeller has at hand:

    held-out likelihood       of answers about agent and patient in held-out sentences
    evidence bound            of the data, each answer counted once (`answers`, (1))
    held-out rare sentences   the same likelihood, on held-out sentences that are reversals

and what is chosen is compared with the best of the same strengths, known from the exact beliefs:

    regret = KL(chosen) − min KL,      KL = ½ (KL on reversals + KL on congruent sentences)      (1)

in nats. The bound is largest at b = 1 for any v, since the posterior maximises it there. Steps have
none: fewer particles than weights describe a degenerate Gaussian, whose bound is −∞.
"""

from typing import Any

import numpy as np
import pandas as pd

from equivocal.study.statistics import compare_with_zero
from equivocal.uncertainty.frontier import ERRORS, POSTERIOR, SAMPLER

__all__ = ["tabulate_choices"]

RULES = {  # by column; the sign makes less better
    "held-out likelihood": ("held_out", 1),
    "evidence bound": ("bound", -1),
    "held-out rare sentences": ("held_out_rare", 1),
}
CENTRE = 1.0  # b where v is chosen, and v where b is


def tabulate_choices(table: pd.DataFrame) -> pd.DataFrame:
    """Compare what each rule chooses with the best.

    Parameters
    ----------
    table : DataFrame
        As `tabulate_frontier` returns it.

    Returns
    -------
    DataFrame
        A row for each strength and rule: the setting chosen most often and the best one most often,
        the share of networks in which the two are the same, the mean regret (1) with its 95 %
        interval over networks, and how much further from the truth than the best of (1) the chosen
        setting is on reversals and on congruent sentences.
    """
    posterior = table[table["kind"] == POSTERIOR]
    strengths = {
        "steps": table[table["kind"] == SAMPLER],
        "b": posterior[posterior["prior_variance"] == CENTRE],
        "v": posterior[posterior["value"] == CENTRE],
        "b and v": posterior,
    }
    rows = [
        _judge_rule(own, column, sign, {"strength": strength, "chosen_by": rule})
        for strength, own in strengths.items()
        for rule, (column, sign) in RULES.items()
        if own["setting"].nunique() > 1 and own[column].notna().all()
    ]
    return pd.DataFrame(rows)


def _judge_rule(own: pd.DataFrame, column: str, sign: int, head: dict[str, Any]) -> dict[str, Any]:
    """Choose for each network, and compare with its best setting."""
    own = own.assign(both=own[list(ERRORS)].mean(axis=1), signal=sign * own[column])
    by_network = own.reset_index(drop=True).groupby("network", sort=False)
    chosen, best = (own.iloc[by_network[name].idxmin().to_numpy()] for name in ("signal", "both"))
    regret = compare_with_zero(chosen["both"].to_numpy() - best["both"].to_numpy())
    more = {
        f"{name}_more": float(np.mean(chosen[name].to_numpy() - best[name].to_numpy()))
        for name in ERRORS
    }
    return head | {
        "chosen": chosen["setting"].mode()[0],
        "best": best["setting"].mode()[0],
        "same": float(np.mean(chosen["setting"].to_numpy() == best["setting"].to_numpy())),
        "regret": regret.mean,
        "regret_low": max(regret.ci_low, 0.0),
        "regret_high": regret.ci_high,
        **more,
    }
