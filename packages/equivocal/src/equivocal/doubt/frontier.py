"""The frontier of uncertainty: error on reversals against error on congruent sentences.

More uncertainty brings beliefs about rare reversals closer to the truth, and moves beliefs about
ordinary sentences away from it. As its strength varies, each kind of uncertainty traces a curve;
the points that no other beats on both counts are the Pareto frontier. Errors are divergences from
the exact beliefs (`scores`); costs are in addition to the training of one network.

A posterior belongs to one network, and its intervals are t intervals over networks. Ensembles pool
networks: the error of an ensemble of M is averaged over the cyclic windows of M of the N networks,
and its interval is the jackknife's, with each network left out in turn.

Whatever moves beliefs towards ½ comes closer to true beliefs near ½. So a baseline that knows
nothing of the uncertainty of the weights stands beside all kinds: the trained network's logits
divided by a temperature, which in the limit answers ½ to every question.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from equivocal.doubt.answers import Answers, Setting
from equivocal.doubt.comparison import summarise_networks
from equivocal.doubt.scores import (
    CONDITIONS,
    ROLES,
    Beliefs,
    RoleQuestions,
    compute_divergence,
    pool_networks,
)
from equivocal.statistics.summaries import compare_pairs

TRAINED, SAMPLER, POSTERIOR, DROPOUT = "trained", "paper's sampler", "posterior", "MC dropout"
ENSEMBLE, TEMPERATURE = "deep ensemble", "temperature"
DIVISORS = (1.1, 1.2, 1.5, 2.0, np.inf)  # of logits
NAMED = 1.2  # the one that is named in words
POOLED = {SAMPLER: "ensemble of samplers", POSTERIOR: "ensemble of posteriors"}
ERRORS = ("kl_reversal", "kl_congruent")
SIGNALS = ("held_out", "held_out_rare", "bound")
COSTS = ("seconds", "megabytes")
STRENGTH = ("value", "prior_variance", "time")
HEAD = ("kind", "setting", "network", *ERRORS, *STRENGTH)


def tabulate_frontier(
    asked: RoleQuestions,
    answers: Mapping[str, Sequence[Answers]],
    sizes: Sequence[int],
    one: tuple[float, float],
) -> pd.DataFrame:
    """Compute the errors of every kind, setting and network, and of ensembles of networks.

    Parameters
    ----------
    asked : RoleQuestions
        The questions.
    answers : mapping of str to sequence of Answers
        The answers of each network, by kind.
    sizes : sequence of int
        Sizes of deep ensembles; those larger than the number of networks are left out.
    one : (float, float)
        Training time of one network in seconds, and its size in megabytes.

    Returns
    -------
    DataFrame
        Columns kind, setting, network, kl_reversal, kl_congruent, the strength as a number
        (`value`) and, for posteriors, the prior variance and the sampler time τ, which the setting
        names, too; held-out scores and costs; and the errors at earlier words. Ensembles have rows
        for all networks ("all") and all but one.
    """
    cooled = [_divide_logits(own) for own in answers[TRAINED]]
    every = {**answers, TEMPERATURE: cooled}
    rows = [_tabulate_each(asked, kind, own) for kind, own in every.items()]
    count = len(answers[TRAINED])
    for size in sorted({size for size in sizes if 2 <= size <= count}):
        label = Setting(f"{size} networks", size)
        rows.append(_tabulate_pooled(asked, ENSEMBLE, answers[TRAINED], size, one, [label]))
    for kind, name in POOLED.items():
        if kind in answers and count > 1:
            same = [
                each[0]._replace(
                    label=f"{count} × {each[0].label}",
                    time=float(np.median([setting.time for setting in each])),
                )
                for each in zip(*(own.settings for own in answers[kind]), strict=False)
            ]
            rows.append(_tabulate_pooled(asked, name, answers[kind], count, one, same))
    table = _name_times(pd.concat(rows, ignore_index=True))
    first = [*HEAD, *SIGNALS, *COSTS]
    return table[[*first, *(name for name in table.columns if name not in first)]]


def tabulate_example(
    asked: RoleQuestions, answers: Mapping[str, Sequence[Answers]], item: int
) -> pd.DataFrame:
    """Tabulate how strongly each network believes that the patient of an item is the agent.

    Parameters
    ----------
    asked, answers
        As in `tabulate_frontier`.
    item : int
        Number of the item, whose congruent sentence and reversal are asked about at the last word.

    Returns
    -------
    DataFrame
        Columns condition, kind, setting, network, belief, truth. The sampler is taken after its
        last step, the posterior with its first setting; a deep ensemble has the mean belief of all
        networks ("all").
    """
    rows: list[dict[str, Any]] = []
    for number, condition in enumerate(CONDITIONS):
        last = (asked.item == item) & (asked.place == 0) & (asked.condition == number)
        agent = int(np.flatnonzero(last)[ROLES.index("agent")])  # in the order of `ask_about_roles`
        head = {"condition": condition, "truth": float(asked.truth[agent, 1])}
        for kind in (TRAINED, SAMPLER, POSTERIOR):
            chosen = -1 if kind == SAMPLER else 0
            for network, own in enumerate(answers.get(kind, ())):
                belief = float(np.exp(own.beliefs.log_yes[chosen, agent, 1]))
                setting = own.settings[chosen]
                about = {"kind": kind, "setting": setting.label, "time": setting.time}
                rows.append(head | about | {"network": str(network), "belief": belief})
        every = [np.exp(own.beliefs.log_yes[0, agent, 1]) for own in answers[TRAINED]]
        about = {"kind": ENSEMBLE, "setting": f"{len(every)} networks", "network": "all"}
        rows.append(head | about | {"belief": float(np.mean(every))})
    return _name_times(pd.DataFrame(rows)).drop(columns="time")


def _name_times(table: pd.DataFrame) -> pd.DataFrame:
    """Name sampler time τ beside a step, as the median over networks."""
    times = table.groupby(["kind", "setting"])["time"].transform("median")
    named = times.map(", τ = {:.2g}".format).where(times.notna(), "")
    return table.assign(setting=table["setting"] + named, time=times)


def summarise_example(table: pd.DataFrame) -> pd.DataFrame:
    """Summarise the networks' beliefs about an item.

    Parameters
    ----------
    table : DataFrame
        The table of `tabulate_example`.

    Returns
    -------
    DataFrame
        By condition and kind: the number of `networks`, the `mean` of their beliefs, and the range
        of their middle 90 % (`low`, `high`).
    """
    beliefs = table.groupby(["condition", "kind"], sort=False)["belief"]
    ends = {"low": beliefs.quantile(0.05), "high": beliefs.quantile(0.95)}
    return pd.DataFrame({"networks": beliefs.size(), "mean": beliefs.mean(), **ends})


def _compute_errors(asked: RoleQuestions, beliefs: Beliefs) -> pd.DataFrame:
    """Return the errors of each setting, at the last word and at the words before it."""
    found = compute_divergence(beliefs, asked.truth)
    columns = {}
    for place in range(asked.place.max() + 1):
        at = f"_{place}_before" if place else ""
        for name in ERRORS:
            columns[name + at] = asked.average(found, name.removeprefix("kl_"), place)
    return pd.DataFrame(columns)


def _tabulate_each(asked: RoleQuestions, kind: str, answers: Sequence[Answers]) -> pd.DataFrame:
    """Return a row for each network and setting."""
    parts = []
    for network, own in enumerate(answers):
        numbers = {name: getattr(own, name) for name in (*SIGNALS, *COSTS)}
        rows = _compute_errors(asked, own.beliefs).assign(kind=kind, network=str(network))
        parts.append(rows.assign(**numbers, **_list_settings(own.settings)))
    return pd.concat(parts)


def _divide_logits(trained: Answers) -> Answers:
    """Return the answers of a trained network with its logits divided by each temperature."""
    divisors = np.array(DIVISORS)
    logits = (trained.beliefs.log_yes - trained.beliefs.log_no) / divisors[:, None, None]
    beliefs = Beliefs(-np.logaddexp(0, -logits), -np.logaddexp(0, logits))
    named = ("½ everywhere" if np.isinf(T) else f"logits / {T:g}" for T in DIVISORS)
    unknown, free = np.full(len(divisors), np.nan), np.zeros(len(divisors))
    settings = tuple(Setting(label, T) for label, T in zip(named, DIVISORS, strict=True))
    return Answers(settings, beliefs, free, free, unknown, unknown, unknown)


def _tabulate_pooled(
    asked: RoleQuestions,
    kind: str,
    answers: Sequence[Answers],
    size: int,
    one: tuple[float, float],
    settings: Sequence[Setting],
) -> pd.DataFrame:
    """Return the rows of ensembles of `size` networks, from all networks and from all but one."""
    every = list(range(len(answers)))
    left = {"all": every} | {
        f"all but {out}": [index for index in every if index != out]
        for out in (every if len(every) > 2 else [])
    }
    settle = min(len(own.settings) for own in answers)  # a sampler may stop early

    @cache
    def describe(members: frozenset[int]) -> pd.DataFrame:
        chosen = [answers[index].beliefs for index in members]
        pooled = pool_networks([Beliefs(*(part[:settle] for part in own)) for own in chosen])
        return _compute_errors(asked, pooled)

    costs = {}
    for name, trained in zip(COSTS, one, strict=True):
        own = np.median([getattr(each, name)[:settle] for each in answers], axis=0)
        costs[name] = trained * (size - 1) + own * size
    parts = []
    for name, rest in left.items():
        windows = {frozenset(window) for window in list_windows(rest, size)}
        errors = [describe(window) for window in windows]
        # along the last axis, since NumPy's order of summation depends on the axis
        means = np.stack([each.to_numpy() for each in errors], axis=-1).mean(axis=-1)
        rows = pd.DataFrame(means, columns=errors[0].columns).assign(kind=kind, network=name)
        parts.append(rows.assign(**costs, **_list_settings(settings[:settle])))
    return pd.concat(parts)


def _list_settings(settings: Sequence[Setting]) -> dict[str, tuple[Any, ...]]:
    """Return the columns that describe the settings."""
    columns = ("setting", *STRENGTH)
    return dict(zip(columns, zip(*settings, strict=True), strict=True))


def list_windows(members: Sequence[int], size: int) -> list[tuple[int, ...]]:
    """List the windows of `size` neighbours on a circle, one for each member.

    >>> list_windows([0, 1, 2], 2)
    [(0, 1), (1, 2), (2, 0)]
    """
    n = len(members)
    return [tuple(members[(first + i) % n] for i in range(min(size, n))) for first in range(n)]


def summarise_frontier(table: pd.DataFrame) -> pd.DataFrame:
    """Summarise networks: errors with intervals, costs, and membership of the Pareto frontier.

    Parameters
    ----------
    table : DataFrame
        The table of `tabulate_frontier`.

    Returns
    -------
    DataFrame
        A row for each kind and setting, in the order of the table; `on_frontier` is true if no
        other is nearer to the truth on both kinds of sentences, `less_than_trained` is the paired
        difference on reversals from the trained network with its interval.
    """
    trained = table[table["kind"] == TRAINED].set_index("network")["kl_reversal"]
    rows = []
    for (kind, setting), own in table.groupby(["kind", "setting"], sort=False):
        row: dict[str, Any] = {"kind": kind, "setting": setting}
        row |= summarise_networks(own, ERRORS, COSTS)
        by_network = own.set_index("network")["kl_reversal"]
        if by_network.index.equals(trained.index):
            row |= compare_pairs(trained, by_network).name_interval("less_than_trained")
        row |= {name: float(own[name].iloc[0]) for name in STRENGTH if name in own}
        rows.append(row)
    summary = pd.DataFrame(rows)
    summary.insert(2, "on_frontier", find_pareto(summary[list(ERRORS)].to_numpy()))
    return summary


def summarise_words(table: pd.DataFrame) -> pd.DataFrame:
    """Summarise the errors at every word.

    Parameters
    ----------
    table : DataFrame
        The table of `tabulate_frontier`.

    Returns
    -------
    DataFrame
        A row for each kind, setting and word: `words_left`, the number of words that follow (0 at
        the last), and both errors with their intervals, over items of at least that length.
    """
    most = sum(str(name).startswith("kl_reversal_") for name in table)
    rows = []
    for (kind, setting), own in table.groupby(["kind", "setting"], sort=False):
        for left in range(most, -1, -1):
            at = f"_{left}_before" if left else ""
            there = own[["network"]].assign(**{name: own[name + at] for name in ERRORS})
            head = {"kind": kind, "setting": setting, "words_left": left}
            rows.append(head | summarise_networks(there, ERRORS, ()))
    return pd.DataFrame(rows)


def find_pareto(errors: np.ndarray) -> np.ndarray:
    """Return for each row whether no other is as small in all columns and smaller in one.

    >>> find_pareto(np.array([[1.0, 3.0], [2.0, 2.0], [3.0, 3.0]])).tolist()
    [True, True, False]
    """
    no_worse = (errors[:, None] <= errors[None]).all(axis=-1)
    better = (errors[:, None] < errors[None]).any(axis=-1)
    return np.asarray(~(no_worse & better).any(axis=0))


def describe_frontier(summary: pd.DataFrame) -> str:
    """Say which kind comes closest to the truth on reversals, and at what cost."""
    trained = summary[summary["kind"] == TRAINED].iloc[0]
    steps = summary[summary["kind"] == SAMPLER]
    affordable = summary[summary["kl_congruent"] <= 2 * trained["kl_congruent"]]
    best, any_price = (own.iloc[int(own["kl_reversal"].argmin())] for own in (affordable, summary))
    said = [
        "Nearest to the truth on reversals, with at most twice the trained network's error on "
        f"congruent sentences: {_describe_errors(best)}, for {best['seconds']:.3g} s and "
        f"{best['megabytes']:.3g} MB beyond one network."
    ]
    if any_price.name != best.name:
        said.append(f"At any price: {_describe_errors(any_price)}.")
    cooled = summary[(summary["kind"] == TEMPERATURE) & (summary["value"] == NAMED)]
    beside = [
        row for _, row in pd.concat([summary.loc[[trained.name]], steps[-1:], cooled]).iterrows()
    ]
    return " ".join([*said, f"For comparison: {'; '.join(map(_describe_errors, beside))}."])


def _describe_errors(row: pd.Series) -> str:
    """Return the kind and setting of a row of a summary, with its errors."""
    errors = f"{row['kl_reversal']:.3f} nats away (congruent: {row['kl_congruent']:.4f})"
    return f"{row['kind']} ({row['setting']}), {errors}"
