"""When does uncertainty help, and can its strength be chosen without knowing the truth?

The first question is answered by the errors on each reversal. The table has a row for each
condition, kind of uncertainty, network and item: how far the beliefs are from the exact ones
(`scores`), how often the reversal occurs in the training corpus, and its exact probability. The
gain of a kind over the trained network,

    d = KL(trained) − KL(kind) = β + w_corpus + u_network + v_item + e,                          (1)

is estimated by a mixed model with crossed corpora and items, and networks within corpora, by REML.
Parts with a single level are left out: of one corpus, intervals say nothing about others. A deep
ensemble has no networks; of one corpus it is tested over items.

For the second, a strength is the number of steps of the paper's sampler, the weight b of the
evidence, the prior variance v, or b and v together. For each network it is chosen by what a
modeller has at hand:

    held-out likelihood       of answers about agent and patient in held-out sentences
    evidence bound            of the data, each answer counted once (`answers`, (1))
    held-out rare sentences   the same likelihood, on held-out sentences that are reversals

and what is chosen is compared with the best of the same strengths, known from the exact beliefs:

    regret = KL(chosen) − min KL,      KL = ½ (KL on reversals + KL on congruent sentences)      (2)

in nats. The bound is largest at b = 1 for any v, since the posterior maximises it there. Steps have
none: fewer particles than weights describe a degenerate Gaussian, whose bound is −∞.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from equivocal.mixed_models import RandomPart, fit_mixed
from equivocal.study.statistics import compare_with_zero
from equivocal.uncertainty.answers import Answers, Setting
from equivocal.uncertainty.frontier import ENSEMBLE, ERRORS, POSTERIOR, SAMPLER, TRAINED
from equivocal.uncertainty.scores import RoleQuestions, compute_divergence, pool_networks
from equivocal.world import Corpus, RoleReversal

__all__ = ["tabulate_choices"]

SAME = ("world", "corpus")  # what networks share
OFTEN = {"never": 0, "once": 1, "2 to 4 times": 4, "5 times or more": np.inf}  # at most
TRUE = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)  # ends of classes of beliefs
RULES = {  # column, and its sign: +1 where smaller is better, −1 where larger is
    "held-out likelihood": ("held_out", 1),
    "evidence bound": ("bound", -1),
    "held-out rare sentences": ("held_out_rare", 1),
}
CENTRE = 1.0  # b where v is chosen, and v where b is


def count_heard(corpus: Corpus, items: Sequence[RoleReversal]) -> np.ndarray:
    """Count the sentences of a corpus that begin as each reversal does."""
    heard = corpus.take(np.flatnonzero(corpus.weight > 0))
    counts = dict.fromkeys((item.reversal.tokens for item in items), 0.0)
    lengths = {len(tokens) for tokens in counts}
    for text, weight in zip(heard.texts, heard.weight, strict=True):
        tokens = corpus.world.parse(text).tokens
        for length in lengths:
            if tokens[:length] in counts and length <= len(tokens):
                counts[tokens[:length]] += float(weight)
    return np.array([counts[item.reversal.tokens] for item in items])


def tabulate_items(
    asked: RoleQuestions,
    answers: Mapping[str, Sequence[Answers]],
    items: Sequence[RoleReversal],
    count: np.ndarray,
    **condition: Any,
) -> pd.DataFrame:
    """Return a row for each kind, setting, network and item, with the columns of the condition.

    Among these are `world`, a name, and `corpus`, a number.
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
        about = {"item": [str(item.reversal) for item in items], "count": count}
        truth = {"literal": [item.literal for item in items]}
        head = condition | {"kind": kind, "network": network}
        parts.append(pd.DataFrame(head | about | truth | columns))
    return pd.concat(parts, ignore_index=True)


def _name_kind(kind: str, setting: Setting) -> str:
    """Name a kind and its strength, the same whatever the corpus."""
    named = "b = 1/questions per sentence" if "sentence" in setting.label else setting.label
    return kind if kind == TRAINED else f"{kind}, {named.partition(', v')[0]}"


def name_heard(heard: pd.Series) -> pd.Series:
    """Name how often reversals were heard: never, once, more often."""
    return pd.cut(heard, [-1, *OFTEN.values()], labels=list(OFTEN)).astype(str)


def name_belief(literal: pd.Series) -> pd.Series:
    """Name the class of a true belief that a reversal is meant as it is said."""
    names = [f"{low:g} to {high:g}" for low, high in pairwise(TRUE)]
    return pd.cut(literal, TRUE, labels=names, include_lowest=True).astype(str)


def summarise_learning(table: pd.DataFrame, along: str) -> pd.DataFrame:
    """Summarise items and networks: errors of each kind, and what it gains over the trained one.

    Parameters
    ----------
    table : DataFrame
        What `tabulate_items` returned for several conditions.
    along : str
        The column of the condition.

    Returns
    -------
    DataFrame
        A row for each condition and kind: mean errors with 95 % intervals, over corpora where there
        are several and over networks otherwise, and the gain β of (1) with its interval.
    """
    rows = []
    order = [*OFTEN, *(f"{low:g} to {high:g}" for low, high in pairwise(TRUE))]
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
    """Average an error, with an interval over corpora or networks; one ensemble has none."""
    values = own.groupby([*SAME, "network"])[name].mean()
    if own["corpus"].nunique() > 1:
        values = values.groupby("corpus").mean()
    found = compare_with_zero(values).name_interval(name)
    if len(values) < 2 or own[["corpus", "network"]].nunique().max() < 2:
        found |= {f"{name}_low": np.nan, f"{name}_high": np.nan}
    return found


def _estimate_gain(own: pd.DataFrame, trained: pd.DataFrame, kind: str) -> dict[str, float]:
    """Estimate (1)."""
    names = ("gain", "gain_low", "gain_high")
    if kind == TRAINED:
        return dict.fromkeys(names, np.nan)
    keys = [*SAME, "network", "item"]
    if kind.startswith(ENSEMBLE):
        keys.remove("network")
    before, after = (
        rows.groupby(keys)["kl_reversal"].mean() for rows in (trained, own)
    )  # one row each, unless networks are averaged
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
    """Compare what each rule chooses with the best.

    Parameters
    ----------
    table : DataFrame
        As `tabulate_frontier` returns it.

    Returns
    -------
    DataFrame
        A row for each strength and rule: the setting chosen most often and the best one most often,
        the share of networks in which the two are the same, the mean regret (2) with its 95 %
        interval over networks, and how much further from the truth than the best of (2) the chosen
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


def describe_learning(table: pd.DataFrame, along: str) -> str:
    """Say where each kind of uncertainty is clearly closer to the truth than the network."""
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
