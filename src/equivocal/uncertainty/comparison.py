"""Every kind of uncertainty under every score, with intervals over networks.

A posterior or a set of masks belongs to one network, so its scores have an interval over networks
(t on their mean). A deep ensemble is all networks at once: its scores are those of all, and the
interval is the jackknife's, from leaving out each network in turn. Intervals are cut off where a
score ends: none is below zero, and only NLL, Brier and divergences can be above one.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from equivocal.progress import Advance
from equivocal.study.statistics import compare_with_zero
from equivocal.uncertainty.comprehenders import Comprehenders
from equivocal.uncertainty.reversals import (
    Pairs,
    compute_auroc,
    find_reversals,
    find_study_pairs,
    sum_uncertainty,
)
from equivocal.uncertainty.truth import compute_role_scores, compute_scores, enumerate_truth
from equivocal.world import World

KINDS = ("trained", "last", "query", "all", "deep ensemble", "MC dropout")
SCORES = (
    *("nll", "nll_excess", "brier", "calibration_error", "distance", "epistemic_share"),
    *("auroc", "auroc_entropy", "auroc_study"),
)
UNBOUNDED = ("nll", "nll_excess", "brier", "kl_reversal", "kl_congruent")  # above
COSTS = ("seconds", "passes", "megabytes")
FindMembers = Callable[[str, int], Comprehenders]  # by kind and network


def score_kinds(
    world: World,
    networks: int,
    find_members: FindMembers,
    advance: Advance = lambda *_: None,
    kinds: Sequence[str] = KINDS,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Score every kind of uncertainty.

    Parameters
    ----------
    world : World
        Where the networks learned; small enough to be enumerated.
    networks : int
        How many there are.
    find_members : callable
        Returns the `Comprehenders` of a kind and the number of a network; of all networks for a
        deep ensemble, whatever the number.
    advance : callable
        Called with the number of steps done, the total and the kind.
    kinds : sequence of str
        Some or all of `KINDS`.

    Returns
    -------
    scores, roles : DataFrame
        A row for each kind and network; the same for each role. A deep ensemble has rows for all
        networks ("all") and for all but one ("all but 3").
    """
    truth, pairs, study = enumerate_truth(world), find_reversals(world), find_study_pairs(world)
    rows: list[dict[str, Any]] = []
    roles: list[dict[str, Any]] = []
    for number, kind in enumerate(kinds):
        every = _find_each(kind, networks, find_members)
        for done, (name, members) in enumerate(every, start=1):
            head = {"kind": kind, "network": name}
            pooled = members.pool(truth.questions)
            detection = _score_detection(members, pairs, study)
            facts = {
                "seconds": members.seconds,
                "passes": members.passes,
                "megabytes": members.bytes / 1e6,
                "members": len(members),
                "converged": members.converged,
                "message": members.message,
            }
            rows.append(head | compute_scores(pooled, truth) | detection | facts)
            roles += [head | row for row in compute_role_scores(pooled, truth)]
            advance(number * networks + min(done, networks), len(kinds) * networks, kind)
    return pd.DataFrame(rows), pd.DataFrame(roles)


def _find_each(
    kind: str, networks: int, find_members: FindMembers
) -> Iterator[tuple[str, Comprehenders]]:
    """Yield the members of each network; of a deep ensemble all, and all but each."""
    if kind != "deep ensemble":
        for index in range(networks):
            yield str(index), find_members(kind, index)
        return
    everyone = find_members(kind, 0)
    yield "all", everyone
    if networks > 2:  # one alone has no epistemic uncertainty
        for left_out in range(networks):
            rest = [index for index in range(networks) if index != left_out]
            yield f"all but {left_out}", everyone.select(rest)


def _score_detection(members: Comprehenders, pairs: Pairs, study: Pairs | None) -> dict[str, float]:
    """Score the detection of reversals; a single network has only its entropy for that."""
    by = "epistemic" if len(members) > 1 else "entropy"
    found = sum_uncertainty(members, pairs)
    of_study = np.nan if study is None else compute_auroc(sum_uncertainty(members, study)[by])
    return {
        "auroc": compute_auroc(found[by]),
        "auroc_entropy": compute_auroc(found["entropy"]),
        "auroc_study": of_study,
    }


def average_roles(roles: pd.DataFrame) -> pd.DataFrame:
    """Average the calibration errors of each kind over networks, by role.

    Parameters
    ----------
    roles : DataFrame
        The second table of `score_kinds`.

    Returns
    -------
    DataFrame
        A row for each kind, a column for each role.
    """
    whole = roles[~roles["network"].str.startswith("all but")]
    means = whole.pivot_table("calibration_error", index="kind", columns="role", sort=False)
    return means.rename_axis(columns=None).reset_index()


def summarise_scores(table: pd.DataFrame) -> pd.DataFrame:
    """Summarise the scores of all networks.

    Parameters
    ----------
    table : DataFrame
        The first table of `score_kinds`.

    Returns
    -------
    DataFrame
        A row for each kind: each score with `_low` and `_high`, and the costs per network.
    """
    rows = []
    for kind, own in table.groupby("kind", sort=False):
        head = {"kind": kind, "members": int(own["members"].iloc[0])}
        rows.append(head | summarise_networks(own, SCORES, COSTS))
    return pd.DataFrame(rows)


def summarise_networks(
    own: pd.DataFrame, scores: Sequence[str], costs: Sequence[str]
) -> dict[str, float]:
    """Return scores with their intervals, cut off where no score can be, and typical costs."""
    whole = (own["network"] == "all").to_numpy()
    row: dict[str, float] = {}
    for name in scores:
        values = own[name].to_numpy(float)
        if whole.any():
            ends = _compute_jackknife(float(values[whole][0]), values[~whole])
        else:
            test = compare_with_zero(values)
            ends = test.mean, test.ci_low, test.ci_high
        low, high = np.clip(ends[1:], 0, np.inf if name in UNBOUNDED else 1)
        row |= {name: ends[0], f"{name}_low": float(low), f"{name}_high": float(high)}
    everyone = own[whole] if whole.any() else own
    # the median, since the first network pays for what is compiled
    return row | {name: float(everyone[name].median()) for name in costs}


def _compute_jackknife(value: float, without: np.ndarray) -> tuple[float, float, float]:
    """Return a value with its interval, from its values without each network in turn."""
    n = len(without)
    if n < 2 or not without.std() > 0:
        return value, np.nan, np.nan
    half = float(stats.t.ppf(0.975, n - 1) * np.sqrt((n - 1) * without.var()))
    return value, value - half, value + half
