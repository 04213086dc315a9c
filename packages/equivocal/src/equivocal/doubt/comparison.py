"""Every kind of uncertainty under every score, with intervals over networks.

A posterior or a set of dropout masks belongs to one network, so its scores have a t interval of
their mean over networks. A deep ensemble consists of all networks, and its interval is the
jackknife's, from leaving out each network in turn. Intervals are clipped to the range of a score:
none is below zero, and only NLL, Brier and divergences can be above one.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from equivocal.doubt.comprehenders import Comprehenders
from equivocal.doubt.scores import (
    Pairs,
    compute_auroc,
    compute_role_scores,
    compute_scores,
    enumerate_truth,
    find_reversals,
    find_study_pairs,
    sum_uncertainty,
)
from equivocal.errors import format_number
from equivocal.progress import Advance
from equivocal.statistics.summaries import compare_pairs, compare_with_zero
from equivocal.world import World

__all__ = ["describe_score"]

KINDS = ("trained", "last", "query", "all", "deep ensemble", "MC dropout")
SCORES = (
    *("nll", "nll_excess", "brier", "calibration_error", "distance", "epistemic_share"),
    *("auroc", "auroc_entropy", "auroc_study"),
)
UNBOUNDED = ("nll", "nll_excess", "brier", "kl_reversal", "kl_congruent")  # scores without maximum
NAMES = {  # of kinds, in sentences
    "trained": "the trained network",
    "last": "a posterior over the last layer",
    "query": "a posterior over the query network",
    "all": "a posterior over all weights",
}
COSTS = ("seconds", "passes", "megabytes")
FindMembers = Callable[[str, int], Comprehenders]  # takes a kind and the number of a network


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
        The world of the networks, small enough to be enumerated.
    networks : int
        Number of networks.
    find_members : callable
        Takes a kind and the number of a network, and returns its `Comprehenders`; for a deep
        ensemble, those of all networks, whatever the number.
    advance : callable
        Called with the number of steps done, the total and the kind.
    kinds : sequence of str
        Some or all of `KINDS`.

    Returns
    -------
    scores, roles : DataFrame
        A row for each kind and network, and one for each kind, network and role. A deep ensemble
        has rows for all networks ("all") and for all but one ("all but 3").
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
    """Yield the members of each network; for a deep ensemble all, and all but each in turn."""
    if kind != "deep ensemble":
        for index in range(networks):
            yield str(index), find_members(kind, index)
        return
    everyone = find_members(kind, 0)
    yield "all", everyone
    if networks > 2:  # a single network would have no epistemic uncertainty
        for left_out in range(networks):
            rest = [index for index in range(networks) if index != left_out]
            yield f"all but {left_out}", everyone.select(rest)


def _score_detection(members: Comprehenders, pairs: Pairs, study: Pairs | None) -> dict[str, float]:
    """Score the detection of reversals by epistemic uncertainty; by entropy for one network."""
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
    """Return scores with their intervals, clipped to the range of a score, and median costs."""
    whole = (own["network"] == "all").to_numpy()
    row: dict[str, float] = {}
    for name in scores:
        values = own[name].to_numpy(float)
        if whole.any():
            value = float(values[whole][0])
            half = _compute_jackknife(values[~whole])
            ends = value - half, value + half
        else:
            test = compare_with_zero(values)
            value, ends = test.mean, (test.ci_low, test.ci_high)
        low, high = np.clip(ends, 0, np.inf if name in UNBOUNDED else 1)
        row |= {name: value, f"{name}_low": float(low), f"{name}_high": float(high)}
    everyone = own[whole] if whole.any() else own
    # the median, since the first network includes the time of compilation
    return row | {name: float(everyone[name].median()) for name in costs}


def _compute_jackknife(without: np.ndarray) -> float:
    """Return half the width of a jackknife interval, from values without each network in turn."""
    n = len(without)
    if n < 2 or not without.std() > 0:
        return np.nan
    return float(stats.t.ppf(0.975, n - 1) * np.sqrt((n - 1) * without.var()))


def describe_convergence(scores: pd.DataFrame) -> list[str]:
    """Say for each kind of posterior how many converged, and quote the message of the first."""
    sampled = scores.dropna(subset="converged").groupby("kind", sort=False)
    return [
        f"{kind}: {int(own['converged'].eq(True).sum())} of {len(own)} converged; the first: "
        f"{own['message'].iloc[0]}"
        for kind, own in sampled
    ]


def summarise_in_words(scores: pd.DataFrame, summary: pd.DataFrame, training: float) -> str:
    """Say which kind of uncertainty is closest to the truth, and at what cost.

    The second-best kind is *clearly* worse if the 95 % interval of its paired difference from the
    best, network by network, lies above zero; pairs are used because networks differ more than
    kinds do. A deep ensemble cannot be paired with single networks; there the two intervals must
    not overlap, which is a stricter criterion. Posteriors that had not converged are marked.

    Parameters
    ----------
    scores, summary : DataFrame
        The tables of `score_kinds` and `summarise_scores`.
    training : float
        Training time of one network, in seconds.
    """
    ranked = summary.sort_values("nll_excess", ignore_index=True)
    best, second = ranked.iloc[0], ranked.iloc[1]
    clear = "clearly" if _is_clearly_worse(scores, second, best) else "not clearly"
    trained = summary[summary["kind"] == "trained"].iloc[0]
    excess = [format_number(kind["nll_excess"]) for kind in (best, trained, second)]
    return (
        f"Closest to the truth: {_name_kind(scores, best)}, {excess[0]} nats above it; the trained "
        f"network alone is {excess[1]} above. Next: {_name_kind(scores, second)}, {excess[2]}, "
        f"{clear} worse. The best costs {format_number(best['seconds'])} s and "
        f"{format_number(best['megabytes'])} MB beyond one network, which took "
        f"{format_number(training)} s to train. Reversals are detected best "
        f"{_describe_detection(summary)}."
    )


def _name_kind(scores: pd.DataFrame, kind: pd.Series) -> str:
    """Return the name of a kind, and for how many networks it had not converged."""
    own = scores.loc[scores["kind"] == kind["kind"], "converged"]
    missed = int(own.eq(False).sum())  # None, for kinds that are not sampled, does not count
    name = _name_layers(kind)
    return f"{name}, not converged for {missed} of {len(own)} networks" if missed else name


def _describe_detection(summary: pd.DataFrame) -> str:
    """Say which kind detects reversals best, from entropy and from epistemic uncertainty.

    The two are different quantities, so kinds are compared within each; the better comes first.
    """
    several = summary[summary["members"] > 1]
    best = [("entropy", "auroc_entropy", summary.sort_values("auroc_entropy").iloc[-1])]
    if len(several):
        best.append(("epistemic uncertainty", "auroc", several.sort_values("auroc").iloc[-1]))
    best.sort(key=lambda one: -one[2][one[1]])
    (by, name, kind), *other = best
    said = f"by {_name_layers(kind)}, from its {by}: AUROC {describe_score(kind, name)}"
    for by, name, kind in other:
        said += f"; from {by}, by {_name_layers(kind)}: {describe_score(kind, name)}"
    return said


def _name_layers(kind: pd.Series) -> str:
    """Return the name of a kind; posteriors are named by the layers that they are over."""
    return NAMES.get(kind["kind"], str(kind["kind"]))


def describe_score(kind: pd.Series, name: str) -> str:
    """Format a score of one row of a summary.

    Parameters
    ----------
    kind : Series
        A row of a summary.
    name : str
        The score, a column of the summary.

    Returns
    -------
    str
        The score, with its 95 % interval if it has one.
    """
    low, high = kind[f"{name}_low"], kind[f"{name}_high"]
    return f"{kind[name]:.3f}" + ("" if np.isnan(low) else f" ({low:.3f} to {high:.3f})")


def _is_clearly_worse(scores: pd.DataFrame, worse: pd.Series, better: pd.Series) -> bool:
    """Return whether a kind has a clearly higher NLL; never without an interval."""
    if "deep ensemble" in (worse["kind"], better["kind"]):
        return bool(worse["nll_excess_low"] > better["nll_excess_high"])
    by_network = scores.pivot(index="network", columns="kind", values="nll_excess")
    pair = (by_network[row["kind"]].dropna() for row in (worse, better))
    return compare_pairs(*pair).ci_low > 0
