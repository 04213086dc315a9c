"""Every kind of doubt under every score.

A posterior or a set of masks belongs to one network, so its scores have an interval over networks
(t on their mean). A deep ensemble is all networks at once: its scores are those of all, and the
interval is the jackknife's, from leaving out each network in turn. Intervals are cut off where a
score ends: none is below zero, and only NLL and Brier, sums over units, can be above one.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from equivocal.progress import Advance
from equivocal.study.settings import load_study
from equivocal.study.statistics import one_sample
from equivocal.study.stimuli import load_stimuli
from equivocal.uncertainty.comprehenders import Comprehenders
from equivocal.uncertainty.reversals import Pairs, auroc, doubt_about, pairs_of, reversals_of
from equivocal.uncertainty.truth import role_scores, scores, truth_of
from equivocal.world import World

__all__ = ["KINDS", "SCORES", "compare_kinds", "study_pairs", "summary_of"]

KINDS = ("trained", "last", "query", "all", "deep ensemble", "MC dropout")
SCORES = (
    *("nll", "nll_excess", "brier", "calibration_error", "distance", "epistemic_share"),
    *("auroc", "auroc_entropy", "auroc_study"),
)
UNBOUNDED = ("nll", "nll_excess", "brier")  # above
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
                    "converged": some.converged,
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
    """A score and the ends of its interval, cut off where no score can be."""
    whole = own["network"] == "all"
    if whole.any():
        value, *ends = _jackknife(own, name, whole)
    else:
        test = one_sample(own[name].to_numpy())
        value, *ends = test.mean, test.ci_low, test.ci_high
    low, high = np.clip(ends, 0, np.inf if name in UNBOUNDED else 1)
    return value, float(low), float(high)


def _jackknife(
    own: pd.DataFrame, name: str, whole: "pd.Series[bool]"
) -> tuple[float, float, float]:
    value, without = float(own.loc[whole, name].iloc[0]), own.loc[~whole, name].to_numpy(float)
    n = len(without)
    if n < 2 or not without.std() > 0:
        return value, np.nan, np.nan
    half = stats.t.ppf(0.975, n - 1) * np.sqrt((n - 1) * without.var())
    return value, value - half, value + half
