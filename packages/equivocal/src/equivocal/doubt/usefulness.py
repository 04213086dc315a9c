"""When does uncertainty help, and can its strength be chosen without knowing the truth?

The first question is answered by the errors on each reversal. The table has a row for each
condition, kind of uncertainty, network and item: how far the beliefs are from the exact ones
(`scores`), how often the reversal occurs in the training corpus, and its exact probability. The
gain of a kind over the trained network,

    d = KL(trained) − KL(kind) = β + w_corpus + u_network + v_item + e,                          (1)

is estimated by a mixed model with crossed corpora and items, and networks within corpora, by REML.
Random parts with a single level are left out; with a single corpus, intervals do not generalise to
other corpora. A deep ensemble has no networks; with a single corpus it is tested over items.

For the second, a strength is the number of steps of the paper's sampler, the weight b of the
evidence, the prior variance v, or b and v together. For each network it is chosen by a criterion
that a modeller can compute:

    held-out likelihood       of answers about agent and patient in held-out sentences
    evidence bound            of the data, each answer counted once (`answers`, (1))
    held-out rare sentences   the likelihood on held-out sentences that are reversals

and the choice is compared with the best of the same strengths, known from the exact beliefs:

    regret = KL(chosen) − min KL,      KL = ½ (KL on reversals + KL on congruent sentences)      (2)

in nats. The bound is largest at b = 1 for any v, since the posterior maximises it there. Steps of
the sampler have no bound: with fewer particles than weights the Gaussian is degenerate, and its
bound is −∞.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from equivocal.doubt.answers import Answers, Setting, Tokens, match_reversals
from equivocal.doubt.frontier import ENSEMBLE, ERRORS, POSTERIOR, SAMPLER, TRAINED
from equivocal.doubt.scores import RoleQuestions, compute_divergence, pool_networks
from equivocal.statistics import RandomPart, fit_mixed
from equivocal.statistics.summaries import compare_with_zero
from equivocal.world import Corpus, RoleReversal

__all__ = ["tabulate_choices"]

SAME = ("world", "corpus")  # columns that are equal for all networks of one training corpus
OFTEN = {"never": 0, "once": 1, "2 to 4 times": 4, "5 times or more": np.inf}  # largest counts
TRUE = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)  # boundaries between classes of beliefs
CLASSES = [f"{low:g} to {high:g}" for low, high in pairwise(TRUE)]
RULES = {  # column of the frontier, and +1 if smaller values are better, −1 if larger ones are
    "held-out likelihood": ("held_out", 1),
    "evidence bound": ("bound", -1),
    "held-out rare sentences": ("held_out_rare", 1),
}
CENTRE = 1.0  # value of b while v is chosen, and of v while b is chosen


def count_heard(corpus: Corpus, items: Sequence[RoleReversal]) -> np.ndarray:
    """Count the sentences of a corpus that begin with each reversal."""
    counts = Counter[Tokens]()
    for row, reversals in match_reversals(corpus, items).items():
        counts.update(dict.fromkeys(reversals, float(corpus.weight[row])))
    return np.array([counts[item.reversal.tokens] for item in items], float)


def tabulate_items(
    asked: RoleQuestions,
    answers: Mapping[str, Sequence[Answers]],
    items: Sequence[RoleReversal],
    count: np.ndarray,
    **condition: Any,
) -> pd.DataFrame:
    """Return a row for each kind, setting, network and item, with the columns of the condition.

    The condition must have the columns `world`, a name, and `corpus`, a number.
    """
    pooled = pool_networks([own.beliefs for own in answers[TRAINED]])
    each = [
        (_name_kind(kind, setting), str(network), own.beliefs, number)
        for kind, every in answers.items()
        for network, own in enumerate(every)
        for number, setting in enumerate(own.settings)
    ]
    if (networks := len(answers[TRAINED])) > 1:
        each.append((f"{ENSEMBLE}, {networks} networks", "all", pooled, 0))
    about: dict[str, Any] = {"item": [str(item.reversal) for item in items], "count": count}
    about["literal"] = [item.literal for item in items]
    parts = []
    for kind, network, beliefs, number in each:
        found = compute_divergence(beliefs, asked.truth)[number]
        columns = {
            name: [
                found[(asked.item == item) & (asked.condition == way) & (asked.place == 0)].mean()
                for item in range(len(items))
            ]
            for way, name in enumerate(("kl_congruent", "kl_reversal"))
        }
        head = condition | {"kind": kind, "network": network}
        parts.append(pd.DataFrame(head | about | columns))
    return pd.concat(parts, ignore_index=True)


def _name_kind(kind: str, setting: Setting) -> str:
    """Name a kind and its strength by words that do not depend on the corpus."""
    named = "b = 1/questions per sentence" if "sentence" in setting.label else setting.label
    return kind if kind == TRAINED else f"{kind}, {named.partition(', v')[0]}"


def name_heard(heard: pd.Series) -> pd.Series:
    """Return the class of each number of times that a reversal was heard, a key of `OFTEN`."""
    return pd.cut(heard, [-1, *OFTEN.values()], labels=list(OFTEN)).astype(str)


def name_belief(literal: pd.Series) -> pd.Series:
    """Return the class of each exact probability that a reversal is meant literally."""
    return pd.cut(literal, TRUE, labels=CLASSES, include_lowest=True).astype(str)


def summarise_learning(table: pd.DataFrame, along: str) -> pd.DataFrame:
    """Summarise the error of each kind, and its gain over the trained network, in each condition.

    Parameters
    ----------
    table : DataFrame
        The tables of `tabulate_items` for several conditions.
    along : str
        The column that tells the conditions apart.

    Returns
    -------
    DataFrame
        A row for each condition and kind: mean errors with 95 % intervals, over corpora if there
        are several and over networks otherwise, and the gain β of (1) with its interval.
    """
    rows = []
    order = [*OFTEN, *CLASSES]
    ranked = table.sort_values(
        along, kind="stable", key=lambda c: c if along == "sentences" else c.map(order.index)
    )
    for (value, kind), own in ranked.groupby([along, "kind"], sort=False):
        trained = table[(table[along] == value) & (table["kind"] == TRAINED)]
        row: dict[str, Any] = {along: value, "kind": kind, "items": own["item"].nunique()}
        row["corpora"] = own["corpus"].nunique()
        for name in ("kl_reversal", "kl_congruent"):
            row |= _summarise_networks(own, name)
        rows.append(row | _estimate_gain(own, trained, str(kind)))
    return pd.DataFrame(rows)


def _summarise_networks(own: pd.DataFrame, name: str) -> dict[str, float]:
    """Average an error, with an interval over corpora or networks; NaN for a single ensemble."""
    values = own.groupby([*SAME, "network"])[name].mean()
    if own["corpus"].nunique() > 1:
        values = values.groupby("corpus").mean()
    found = compare_with_zero(values).name_interval(name)
    if len(values) < 2 or own[["corpus", "network"]].nunique().max() < 2:
        found |= {f"{name}_low": np.nan, f"{name}_high": np.nan}
    return found


def _estimate_gain(own: pd.DataFrame, trained: pd.DataFrame, kind: str) -> dict[str, float]:
    """Estimate the gain β of (1), with its interval."""
    names = ("gain", "gain_low", "gain_high")
    if kind == TRAINED:
        return dict.fromkeys(names, np.nan)
    keys = [*SAME, "network", "item"]
    if kind.startswith(ENSEMBLE):
        keys.remove("network")
    # the mean of one row each, except that an ensemble is compared with the mean of its networks
    before, after = (rows.groupby(keys)["kl_reversal"].mean() for rows in (trained, own))
    d = (before - after).dropna()
    level = {
        "corpus": d.groupby("corpus").ngroup(),
        "network": d.groupby([key for key in keys if key != "item"]).ngroup(),  # of its corpus
        "item": d.groupby("item").ngroup(),
    }
    if "network" not in keys or d.index.get_level_values("network").nunique() < 2:
        del level["network"]
    parts = [RandomPart(key, own.to_numpy()) for key, own in level.items() if own.max() > 0]
    if len(parts) < 2:
        return compare_with_zero(d.groupby("item").mean()).name_interval("gain")
    fit = fit_mixed(d.to_numpy(), np.ones((len(d), 1)), parts, reml=True)
    low, high = fit.intervals[0]
    return dict(zip(names, (float(fit.coefficients[0]), float(low), float(high)), strict=True))


def tabulate_choices(table: pd.DataFrame) -> pd.DataFrame:
    """Compare the strength that each rule chooses with the best one.

    Parameters
    ----------
    table : DataFrame
        The table of `tabulate_frontier`.

    Returns
    -------
    DataFrame
        A row for each strength and rule: the setting that is chosen most often and the one that is
        best most often, the share of networks in which the two are the same, the mean regret (2)
        with its 95 % interval over networks, and how much further from the truth than the best of
        (2) the chosen setting is on reversals and on congruent sentences.
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
    """Choose a setting for each network by a rule, and compare it with the best setting."""
    own = own.assign(both=own[list(ERRORS)].mean(axis=1), signal=sign * own[column])
    own = own.reset_index(drop=True)
    by_network = own.groupby("network", sort=False)
    chosen, best = (
        own.loc[by_network[name].idxmin()].reset_index(drop=True) for name in ("signal", "both")
    )
    regret = compare_with_zero(chosen["both"] - best["both"])
    return head | {
        "chosen": chosen["setting"].mode()[0],
        "best": best["setting"].mode()[0],
        "same": float((chosen["setting"] == best["setting"]).mean()),
        "regret": regret.mean,
        "regret_low": max(regret.ci_low, 0.0),
        "regret_high": regret.ci_high,
        **{f"{n}_more": float((chosen[n] - best[n]).to_numpy().mean()) for n in ERRORS},
    }


def describe_learning(table: pd.DataFrame, along: str) -> str:
    """Say in which conditions each kind of uncertainty is clearly closer to the truth."""
    parts = []
    for kind, own in table[table["kind"] != TRAINED].groupby("kind", sort=False):
        helps = [str(value) for value in own.loc[own["gain_low"] > 0, along]]
        harms = [str(value) for value in own.loc[own["gain_high"] < 0, along]]
        said = [f"nearer at {', '.join(helps)}"] if helps else []
        said += [f"further away at {', '.join(harms)}"] if harms else []
        parts.append(f"{kind}: {' and '.join(said) or 'no clear difference anywhere'}")
    corpora = table["corpora"].max()
    of = "one corpus each" if corpora == 1 else f"{corpora} corpora"
    return (
        f"On reversals, compared with the trained network, by {along} ({of}): {'; '.join(parts)}."
    )
