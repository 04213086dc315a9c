"""Tables: the scores of every kind of uncertainty, of learners, and of ensembles of networks.

In a world where reversals are possible, more uncertainty brings beliefs about them closer to the
truth, and moves beliefs about ordinary sentences away from it. As its strength varies, each kind
traces a curve; the settings that no other beats on all errors are the Pareto frontier. Costs are in
addition to the training of one network.

A posterior belongs to one network, and its intervals are t intervals over networks. Ensembles pool
networks: the error of an ensemble of M is averaged over the cyclic windows of M of the N networks,
and its interval is the jackknife's, with each network left out in turn. With several corpora, all
intervals are t intervals over their means.

Whatever moves beliefs towards ½ comes closer to true beliefs near ½. So baselines that know nothing
of the uncertainty of the weights stand beside all kinds, and learners who count what networks heard
(`kinds`, `answers`). Learners and the oracle's temperature are not on the frontier: they know what
no network does.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Protocol

import numpy as np
import pandas as pd
from scipy import stats

from equivocal.doubt.answers import COUNTS, LEARNERS, Answers, Setting
from equivocal.doubt.kinds import POSTERIOR, PRIOR, SAMPLER, TEMPERATURE, TRAINED
from equivocal.errors import format_number
from equivocal.statistics.summaries import compare_with_zero
from equivocal.truth import PooledBeliefs, average_beliefs

ENSEMBLE = "deep ensemble"
ENSEMBLES = {  # and the kind whose answers are averaged over networks
    ENSEMBLE: TRAINED,
    "ensemble of samplers": SAMPLER,
    "ensemble of posteriors": POSTERIOR,
}
COSTS = ("seconds", "megabytes")
STRENGTH = ("value", "prior_variance", "time")
HEAD = ("kind", "setting", "network", "corpus")
ERRORS = ("kl_reversal", "kl_congruent", "nll_excess", "brier")
SIGNED = ("skill", "skill_counts", "slope", "correlation", "spread_rank", "error_rank")
UNBOUNDED = (*ERRORS, "spread_ratio")  # scores without maximum
SPREADS = {SAMPLER: -1, POSTERIOR: 0}  # whose spread is described: the row of each kind
LEAST = 1e-9  # networks that differ by less are equal


class Scores(Protocol):
    """Scores of beliefs, by name; see `scores`."""

    def measure(self, beliefs: PooledBeliefs) -> dict[str, np.ndarray]:
        """Return an array for each score, with a number for each setting."""


def tabulate_frontier(
    scores: Scores,
    answers: Mapping[str, Sequence[Answers]],
    sizes: Sequence[int],
    one: tuple[float, float],
) -> pd.DataFrame:
    """Measure every kind, setting and network, learners, and ensembles of networks.

    Parameters
    ----------
    scores : Scores
        What is measured.
    answers : mapping of str to sequence of Answers
        The answers of each network, by kind; learners have one.
    sizes : sequence of int
        Sizes of deep ensembles, besides that of all networks; larger ones are left out.
    one : (float, float)
        Training time of one network in seconds, and its size in megabytes.

    Returns
    -------
    DataFrame
        Columns kind, setting, network, the scores, costs, the strength as a number (`value`) and,
        for posteriors, the prior variance, the sampler time τ, and the sampler's verdict. Ensembles
        have rows for all networks ("all") and all but one.
    """
    rows = [
        _measure(scores, own.beliefs, own.settings).assign(
            kind=kind, network="none" if kind in LEARNERS else str(network)
        )
        for kind, networks in answers.items()
        for network, own in enumerate(networks)
    ]
    count = len(answers[TRAINED])
    for kind, member in ENSEMBLES.items():
        if member not in answers or count < 2:
            continue
        own_sizes = {size for size in sizes if 2 <= size < count} if kind == ENSEMBLE else set()
        for size in sorted(own_sizes | {count}):
            rows.append(_measure_ensemble(scores, kind, answers[member], size, one))
    return pd.concat(rows, ignore_index=True)


def _measure(scores: Scores, beliefs: PooledBeliefs, settings: Sequence[Setting]) -> pd.DataFrame:
    """Return a row for each setting: its scores, strength and costs."""
    about = pd.DataFrame(settings, columns=Setting._fields).rename(columns={"label": "setting"})
    return pd.DataFrame(scores.measure(beliefs)).join(about)


def _measure_ensemble(
    scores: Scores, kind: str, answers: Sequence[Answers], size: int, one: tuple[float, float]
) -> pd.DataFrame:
    """Return the rows of ensembles of `size` networks, from all networks and from all but one."""
    every = list(range(len(answers)))
    rest = {f"all but {out}": [i for i in every if i != out] for out in every if len(every) > 2}
    settle = min(len(own.settings) for own in answers)  # a sampler may stop early
    settings = [
        _name_ensemble(kind, [own.settings[number] for own in answers], size, one)
        for number in range(settle)
    ]

    @cache
    def measure(members: frozenset[int]) -> pd.DataFrame:
        parts = [PooledBeliefs(*(part[:settle] for part in answers[i].beliefs)) for i in members]
        return pd.DataFrame(scores.measure(average_beliefs(parts)))

    parts = []
    for name, networks in {"all": every, **rest}.items():
        errors = [measure(window) for window in {*map(frozenset, list_windows(networks, size))}]
        means = np.stack([each.to_numpy() for each in errors], axis=-1).mean(axis=-1)
        about = pd.DataFrame(settings, columns=Setting._fields).rename(columns={"label": "setting"})
        rows = pd.DataFrame(means, columns=errors[0].columns).join(about)
        parts.append(rows.assign(kind=kind, network=name))
    return pd.concat(parts)


def _name_ensemble(
    kind: str, same: Sequence[Setting], size: int, one: tuple[float, float]
) -> Setting:
    """Return the setting of an ensemble of networks with the same setting, and its costs."""
    label = f"{size} networks" if kind == ENSEMBLE else f"{size} × {same[0].label}"
    time, seconds, megabytes = (
        float(np.median([getattr(setting, name) for setting in same])) for name in ("time", *COSTS)
    )
    return Setting(
        label,
        size if kind == ENSEMBLE else same[0].value,
        same[0].prior_variance,
        time,
        one[0] * (size - 1) + seconds * size,
        one[1] * (size - 1) + megabytes * size,
    )


def list_windows(members: Sequence[int], size: int) -> list[tuple[int, ...]]:
    """List the windows of `size` neighbours on a circle, one for each member.

    >>> list_windows([0, 1, 2], 2)
    [(0, 1), (1, 2), (2, 0)]
    """
    n = len(members)
    return [tuple(members[(first + i) % n] for i in range(min(size, n))) for first in range(n)]


def name_times(table: pd.DataFrame) -> pd.DataFrame:
    """Name sampler time τ beside a step, as the median over networks."""
    times = table.groupby(["kind", "setting"])["time"].transform("median")
    named = times.map(", τ = {:.2g}".format).where(times.notna(), "")
    return table.assign(setting=table["setting"] + named, time=times)


def list_scores(table: pd.DataFrame) -> list[str]:
    """List the scores in a table, in their order; the first is the distance from the truth."""
    others = {*HEAD, *Setting._fields}
    return [str(name) for name in table if name not in others]


def list_errors(table: pd.DataFrame) -> list[str]:
    """List the scores that a setting on the frontier has to beat."""
    return [name for name in list_scores(table) if name in ERRORS]


def summarise_frontier(table: pd.DataFrame) -> pd.DataFrame:
    """Summarise networks: scores with intervals, costs, and membership of the Pareto frontier.

    Parameters
    ----------
    table : DataFrame
        The tables of `tabulate_frontier`, with a column `corpus`.

    Returns
    -------
    DataFrame
        A row for each kind and setting, in the order of the table; `on_frontier` is true if no
        other is nearer to the truth by all errors, `less_than_trained` is the paired difference of
        the first error from the trained network, with its interval.
    """
    error = list_errors(table)[0]
    keys = ["corpus", "network"]
    trained = table[table["kind"] == TRAINED].set_index(keys)[error]
    rows = []
    for (kind, setting), own in table.groupby(["kind", "setting"], sort=False):
        row: dict[str, Any] = {"kind": kind, "setting": setting}
        for name in list_scores(table):
            row |= _summarise_score(own, name)
        everyone = own[~own["network"].str.startswith("all but")]
        row |= {name: float(everyone[name].median()) for name in COSTS}  # the first one compiles
        if own.set_index(keys).index.equals(trained.index):
            less = trained - own.set_index(keys)[error]
            means = less.groupby("corpus").mean() if own["corpus"].nunique() > 1 else less
            row |= compare_with_zero(means).name_interval("less_than_trained")
        row |= {name: float(own[name].iloc[0]) for name in STRENGTH}
        rows.append(row)
    summary = pd.DataFrame(rows)
    # learners and the oracle know what no network does
    fair = ~(summary["kind"].isin(LEARNERS) | (summary["setting"] == "oracle"))
    best = np.zeros(len(summary), dtype=bool)
    best[fair] = find_pareto(summary.loc[fair, list_errors(table)].to_numpy())
    summary.insert(2, "on_frontier", best)
    return summary


def _summarise_score(own: pd.DataFrame, name: str) -> dict[str, float]:
    """Return a score with its interval, clipped to the range of the score."""
    left_out = own["network"].str.startswith("all but")
    values = own.loc[~left_out, name]
    if own["corpus"].nunique() > 1:
        test = compare_with_zero(values.groupby(own["corpus"]).mean())
    else:
        test = compare_with_zero(values)
    ends = [test.ci_low, test.ci_high]
    if len(values) == 1:
        half = _compute_jackknife(own.loc[left_out, name].to_numpy(float))
        ends = [test.mean - half, test.mean + half]
    least = -np.inf if name in SIGNED else 0
    low, high = np.clip(ends, least, np.inf if name in (*UNBOUNDED, *SIGNED) else 1)
    return {name: test.mean, f"{name}_low": float(low), f"{name}_high": float(high)}


def _compute_jackknife(without: np.ndarray) -> float:
    """Return half the width of a jackknife interval, from values without each network in turn."""
    n = len(without)
    if n < 2 or not without.std() > 0:
        return np.nan
    return float(stats.t.ppf(0.975, n - 1) * np.sqrt((n - 1) * without.var()))


def find_pareto(errors: np.ndarray) -> np.ndarray:
    """Return for each row whether no other is as small in all columns and smaller in one.

    >>> find_pareto(np.array([[1.0, 3.0], [2.0, 2.0], [3.0, 3.0]])).tolist()
    [True, True, False]
    """
    no_worse = (errors[:, None] <= errors[None]).all(axis=-1)
    better = (errors[:, None] < errors[None]).any(axis=-1)
    return np.asarray(~(no_worse & better).any(axis=0))


def describe_frontier(summary: pd.DataFrame) -> str:
    """Say what the kinds of uncertainty are worth, beside baselines and learners."""
    if "kl_reversal" in summary:
        return " ".join([_describe_ladder(summary), _describe_posteriors(summary)])
    trained, best = summary[summary["kind"] == TRAINED].iloc[0], _find_best(summary, "nll_excess")
    return (
        f"Closest to the truth: {_name_row(best)}, {format_number(best['nll_excess'])} nats away, "
        f"for {format_number(best['seconds'])} s and {format_number(best['megabytes'])} MB beyond "
        f"one network; {TRAINED}, {format_number(trained['nll_excess'])} nats. "
        + _describe_detection(summary)
    )


def _describe_ladder(summary: pd.DataFrame) -> str:
    """Say how far the trained network, the constant and learners are from the truth."""
    first = summary.drop_duplicates("kind").set_index("kind")["kl_reversal"].map(format_number)
    return (
        f"On reversals a trained network is {first[TRAINED]} nats from the truth, the best "
        f"constant {first['constant']}, a learner who counted the same sentences {first[COUNTS]}, "
        f"one who knows the form of the world {first['learner-form']}; with one temperature, "
        f"chosen on held-out sentences, the network is {first[TEMPERATURE]} away."
    )


def _describe_posteriors(summary: pd.DataFrame) -> str:
    """Say which posterior of one network is nearest, at what price, and whose spread fits."""
    posteriors = summary[summary["kind"].isin([SAMPLER, POSTERIOR])]
    best = _find_best(posteriors, "kl_reversal")
    said = [f"Of the posteriors of one network, {_describe_errors(best)}, is nearest"]
    affordable = summary[summary["kl_congruent"] <= 1.1 * best["kl_congruent"]]
    for kind in (TEMPERATURE, PRIOR):
        others = affordable[(affordable["kind"] == kind) & (affordable["setting"] != "oracle")]
        if len(others):
            said.append(_describe_errors(_find_best(others, "kl_reversal")))
    wide = [
        f"{row['kind']} ({row['setting']}) {row['spread_ratio']:.2g} times as wide, "
        f"rank correlation {row['spread_rank']:.2f}"
        for row in (posteriors[posteriors["kind"] == kind].iloc[at] for kind, at in SPREADS.items())
    ]
    return f"{'; at no higher price, '.join(said)}. Beside the counting learner: {'; '.join(wide)}."


def _describe_errors(row: pd.Series) -> str:
    errors = (format_number(row[name]) for name in ("kl_reversal", "kl_congruent"))
    return f"{_name_row(row)}, {' and on congruent sentences '.join(errors)}"


def _find_best(summary: pd.DataFrame, error: str) -> pd.Series:
    return summary.iloc[int(summary[error].argmin())]


def _name_row(row: pd.Series) -> str:
    return f"{row['kind']} ({row['setting']})"


def _describe_detection(summary: pd.DataFrame) -> str:
    """Say which kinds detect reversals best, by entropy and by epistemic uncertainty."""
    several = summary[summary["epistemic_share"] > LEAST]
    names = {"entropy": "auroc_entropy", "epistemic uncertainty": "auroc"}
    parts = []
    for (by, name), table in zip(names.items(), (summary, several), strict=True):
        best = table.iloc[int(table[name].argmax())]
        parts.append(f"by the {by} of {best['kind']} ({best['setting']}), AUROC {best[name]:.3f}")
    return f"Reversals are detected best {'; '.join(parts)}."
