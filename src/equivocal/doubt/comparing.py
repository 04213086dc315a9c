"""Every kind of doubt under every score, and one sentence: which is most like the truth?

A posterior or a set of masks belongs to one network, so its scores have an interval over networks
(t on their mean). A deep ensemble is all networks at once: its scores are those of all, and the
interval is the jackknife's, from leaving out each network in turn.

Two kinds that have the same networks are compared network by network, since networks differ from
each other more than kinds do. A deep ensemble has no network of its own to be paired with another
kind's; there the two intervals must lie apart, which asks for more.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from equivocal.doubt.comprehenders import Comprehenders
from equivocal.doubt.reversals import Pairs, auroc, doubt_about, pairs_of, reversals_of
from equivocal.doubt.truth import role_scores, scores, truth_of
from equivocal.progress import Advance
from equivocal.report.formatting import number
from equivocal.study.settings import load_study
from equivocal.study.statistics import one_sample, paired
from equivocal.study.stimuli import load_stimuli
from equivocal.world import World

__all__ = ["KINDS", "SCORES", "answer", "compare_kinds", "study_pairs", "summary_of"]

KINDS = ("trained", "last", "query", "all", "deep ensemble", "MC dropout")
SCORES = (
    *("nll", "nll_excess", "brier", "calibration_error", "distance", "epistemic_share"),
    *("auroc", "auroc_entropy", "auroc_study"),
)
COSTS = ("seconds", "passes", "megabytes")
Members = Callable[[str, int], Comprehenders]  # by kind and network


def compare_kinds(
    world: World,
    networks: int,
    members: Members,
    advance: Advance = lambda *_: None,
    kinds: Sequence[str] = KINDS,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Scores of each kind and network, and the same by role.

    A deep ensemble has rows for all networks ("all") and for all but one ("all but 3").
    """
    truth, pairs, study = truth_of(world), reversals_of(world), study_pairs(world)
    rows: list[dict[str, Any]] = []
    roles: list[dict[str, Any]] = []
    total = len(kinds) * networks
    for number_of_kind, kind in enumerate(kinds):
        for done, (name, some) in enumerate(_each(kind, networks, members), start=1):
            head = {"kind": kind, "network": name}
            together = some.together(truth.questions)
            rows.append(
                head
                | scores(together, truth)
                | _detection(some, pairs, study)
                | {
                    "seconds": some.seconds,
                    "passes": some.passes,
                    "megabytes": some.bytes / 1e6,
                    "members": len(some),
                    "message": some.message,
                }
            )
            roles += [head | row for row in role_scores(together, truth)]
            advance(number_of_kind * networks + min(done, networks), total, kind)
    return pd.DataFrame(rows), pd.DataFrame(roles)


def _each(kind: str, networks: int, members: Members) -> Iterator[tuple[str, Comprehenders]]:
    if kind != "deep ensemble":
        for index in range(networks):
            yield str(index), members(kind, index)
        return
    everyone = members(kind, 0)
    yield "all", everyone
    if networks > 2:  # one alone has no information to doubt with
        for left_out in range(networks):
            rest = [index for index in range(networks) if index != left_out]
            yield f"all but {left_out}", everyone.some(rest)


def _detection(some: Comprehenders, pairs: Pairs, study: Pairs | None) -> dict[str, float]:
    """A single network has only its entropy to doubt with."""
    by = "information" if len(some) > 1 else "entropy"
    doubt = doubt_about(some, pairs)
    return {
        "auroc": auroc(doubt[by]),
        "auroc_entropy": auroc(doubt["entropy"]),
        "auroc_study": np.nan if study is None else auroc(doubt_about(some, study)[by]),
    }


def study_pairs(world: World) -> Pairs | None:
    """The sentences of the paper's study, in the paper's world."""
    settings = load_study("paper")
    if World.load(settings.world_source).fingerprint != world.fingerprint:
        return None
    return pairs_of(load_stimuli(settings.stimuli_path, world))


def summary_of(table: pd.DataFrame) -> pd.DataFrame:
    """One row per kind: each score with `_low` and `_high`, and the costs, per network."""
    rows = []
    for kind, own in table.groupby("kind", sort=False):
        row: dict[str, Any] = {"kind": kind, "members": int(own["members"].iloc[0])}
        for name in SCORES:
            row |= dict(
                zip((name, f"{name}_low", f"{name}_high"), _interval(own, name), strict=True)
            )
        everyone = own if "all" not in set(own["network"]) else own[own["network"] == "all"]
        # the median, since the first network pays for what is compiled
        row |= {name: float(everyone[name].median()) for name in COSTS}
        rows.append(row)
    return pd.DataFrame(rows)


def _interval(own: pd.DataFrame, name: str) -> tuple[float, float, float]:
    whole = own["network"] == "all"
    if not whole.any():
        test = one_sample(own[name].to_numpy())
        return test.mean, test.ci_low, test.ci_high
    value, without = float(own.loc[whole, name].iloc[0]), own.loc[~whole, name].to_numpy(float)
    n = len(without)
    if n < 2 or not without.std() > 0:
        return value, np.nan, np.nan
    half = stats.t.ppf(0.975, n - 1) * np.sqrt((n - 1) * without.var())
    return value, value - half, value + half


def answer(table: pd.DataFrame, summary: pd.DataFrame, training: float) -> str:
    """Which kind of doubt is most like the truth, and at what cost? `training`: s per network.

    The next is *clearly* more where the 95 % interval of its difference from the best, network by
    network, lies above zero; where one of the two is a deep ensemble, where the intervals of the
    two do not overlap.
    """
    ranked = summary.sort_values("nll_excess", ignore_index=True)
    best, second = ranked.iloc[0], ranked.iloc[1]
    clear = _clearly_more(table, second, best)
    plain = summary[summary["kind"] == "trained"].iloc[0]
    cost = f"{number(best['seconds'])} s and {number(best['megabytes'])} MB"
    cost += f" beyond one network, which took {number(training)} s to train"
    sees = summary.sort_values("auroc").iloc[-1]
    return (
        f"Most like the truth: {best['kind']}, {number(best['nll_excess'])} nats above it (trained "
        f"network alone: {number(plain['nll_excess'])}; next, {second['kind']}: "
        f"{number(second['nll_excess'])}, {'clearly' if clear else 'not clearly'} more), at "
        f"{cost}; reversals are seen best by {sees['kind']} (AUROC "
        f"{number(sees['auroc'])})."
    )


def _clearly_more(table: pd.DataFrame, more: pd.Series, less: pd.Series) -> bool:
    """Of two rows of a summary, by NLL; what has no interval is not clear."""
    if "deep ensemble" in (more["kind"], less["kind"]):
        return bool(more["nll_excess_low"] > less["nll_excess_high"])
    by_network = table.pivot(index="network", columns="kind", values="nll_excess")
    return paired(*(by_network[kind].dropna() for kind in (more["kind"], less["kind"]))).ci_low > 0
