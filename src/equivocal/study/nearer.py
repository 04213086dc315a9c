"""Where a reversal has a true answer, is the Bayesian model closer to it than the trained network?

In the paper's world no reversal is possible, so nothing there can show whether doubt is right. In
the world `slips` it can: `tables/frontier.csv` of `equivocal doubt --world slips` says how far each
network is from the exact beliefs (docs/doubt.md), and the claim is judged from it, paired over
networks. Like other claims it is judged where the paper stops and at the converged posterior.
"""

import pandas as pd

from equivocal.study.statistics import compare_pairs
from equivocal.study.verdicts import (
    Finding,
    MissingError,
    explain_tests,
    format_p,
    grade,
    join_intervals,
)

__all__ = ["judge_nearer_to_truth", "select_kinds"]

KINDS = {"paper": "paper's sampler", "converged": "posterior"}  # in the table


def select_kinds(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Select the rows of the trained networks, the paper's sampler at its end, and the posterior.

    Parameters
    ----------
    table : DataFrame
        `tables/frontier.csv`.

    Returns
    -------
    dict of str to DataFrame
        "trained", "paper" and "converged"; without rows where the table has none.
    """
    found = {"trained": table[table["kind"] == "trained"]}
    for sampler, kind in KINDS.items():
        own = table[(table["kind"] == kind) & (table["prior_variance"] == 1)]
        found[sampler] = own[own["value"] == (own["value"].max() if sampler == "paper" else 1)]
    return found


def judge_nearer_to_truth(
    table: pd.DataFrame | None, sampler: str = "paper", alpha: float = 0.05
) -> Finding:
    """Judge whether the Bayesian model is closer to the truth on reversals.

    Parameters
    ----------
    table : DataFrame or None
        `tables/frontier.csv`; None where it was not made.
    sampler : {"paper", "converged"}
        The paper's sampler at its last step, or the converged posterior with all the evidence.
    alpha : float
        The level of the paired test over networks.

    Raises
    ------
    MissingError
        Where there is no table, or it lacks the sampler.
    """
    if table is None:
        raise MissingError("Networks of the world `slips` were not asked in this run.")
    kinds = select_kinds(table)
    own, trained = kinds[sampler], kinds["trained"]
    if own.empty or trained.empty:
        raise MissingError(f"The table of errors lacks the {KINDS[sampler]} with prior variance 1.")
    bayes, mle = (rows.set_index("network")["kl_reversal"] for rows in (own, trained))
    test = compare_pairs(bayes.loc[mle.index], mle)
    verdict = grade([test.mean < 0], [test.p < alpha])
    missed = [f"t = {test.t:.2f}, {format_p(test.p)}"]
    text = join_intervals({"divergence from the exact beliefs, Bayesian − MLE:": test}, "+")
    what = "its beliefs are nearer to the exact ones where a reversal has a true answer"
    congruent = (rows["kl_congruent"].mean() for rows in (own, trained))
    text += f"; of the trained networks {mle.mean():.3g} nats, all of one corpus"
    text += "; on congruent sentences {:.3g}, trained {:.3g}".format(*congruent)
    return Finding(text, verdict, explain_tests(verdict, what, missed, alpha))
