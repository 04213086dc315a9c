"""The two signals of the noisy-channel account of event-related potentials, computed exactly.

Let b_t(m) be the probability of the event m for a listener who takes the world's noise into account
and has heard t words, and l_t(m) that of one who takes every sentence literally. At every word

    meaning_surprise    KL(b_t ‖ b_{t−1}): how far the word moves the inferred meaning         (1)
    literal_divergence  JS(b_t, l_t): how far the inferred meaning departs from the literal    (2)
                        one; JS is the Jensen–Shannon divergence, from 0 to log 2

in nats. (1) is linked with the N400, (2) with the P600. Both are exploratory: Li & Ettinger (2023,
Cognition 233, 105359) compute such signals from language models, over sentences; here they are
exact, over events. JS replaces the Kullback–Leibler divergence, which is infinite wherever noise
allows a meaning other than the literal one. If the words cannot occur without noise, their literal
meaning is not an event of the world: the two beliefs have no event in common, and (2) is log 2.

The suites of role reversals are in `exploratory/`. Their findings name the signal that they are
about (`signal = "P600"`). Beliefs of the ideal comprehender are exact and those of networks are
averaged, so a finding is judged over items alone: it is held or reversed where the effects of all
items have the same sign.
"""

from collections.abc import Callable, Sequence
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.special import rel_entr

from equivocal.measuring.findings import judge_sign
from equivocal.measuring.suite import Finding, Suite, load_suite
from equivocal.network import Network
from equivocal.world import Utterance, World
from equivocal.world.corpus import compute_meaning_beliefs
from lastlayer.errors import UserError

__all__ = ["MEASURE_OF", "SIGNALS", "average_signals"]

DATA = resources.files("equivocal.measuring") / "exploratory"
SIGNALS = {"meaning_surprise": "N400", "literal_divergence": "P600"}  # signal by measure
MEASURE_OF = {signal: measure for measure, signal in SIGNALS.items()}


def load_reversals() -> tuple[Suite, ...]:
    """Load the suites of role reversals.

    Returns
    -------
    tuple of Suite
        Impossible reversals, then unlikely ones.
    """
    names = ("impossible_reversals", "unlikely_reversals")
    return tuple(load_suite(Path(str(DATA / f"{name}.toml"))) for name in names)


def compute_meaning_surprise(
    beliefs: Float[np.ndarray, "words+1 events"],
) -> Float[np.ndarray, " words"]:
    """Compute (1) at each word, from the beliefs before the first word and after each word."""
    return np.asarray(rel_entr(beliefs[1:], beliefs[:-1]).sum(axis=1))


def compute_literal_divergence(
    inferred: Float[np.ndarray, "times events"], literal: Float[np.ndarray, "times events"]
) -> Float[np.ndarray, " times"]:
    """Compute (2) from beliefs with noise and without; the latter are NaN for impossible words."""
    mean = (inferred + literal) / 2
    both = (rel_entr(inferred, mean) + rel_entr(literal, mean)).sum(axis=1) / 2
    heard = np.isfinite(inferred).all(axis=1)
    spoken = np.isfinite(literal).all(axis=1)
    return np.asarray(np.where(heard & ~spoken, np.log(2), np.maximum(both, 0)))


def measure_ideal(suites: Sequence[Suite]) -> pd.DataFrame:
    """Measure every word of suites for the exact ideal comprehender of their worlds.

    Parameters
    ----------
    suites : sequence of Suite
        The sentences to measure; their worlds have noise.

    Returns
    -------
    DataFrame
        suite, condition, item, position, word, measure, value, critical, and `literal`: whether
        the words so far can occur without noise. A value is NaN where the words so far are
        impossible even with noise.
    """
    return _measure_items(suites, _measure_sentence)


def measure_divergence(
    networks: Sequence[Network], literal: Sequence[Network], suites: Sequence[Suite]
) -> pd.DataFrame:
    """Measure the divergence of networks trained with noise from others without, at every word.

    This is the counterpart of (2) for networks: Σ JS(y_k, l_k) over roles and units k, where y are
    the beliefs of a network trained in the suites' world and l those of one trained in the same
    world without noise. A network answers any sentence, so that impossible ones need no special
    rule. The counterpart of (1) is `measure_words` with "bayesian_surprise".

    Parameters
    ----------
    networks, literal : sequence of Network
        Two sequences of the same length; networks are compared in pairs.
    suites : sequence of Suite
        The sentences to measure.

    Returns
    -------
    DataFrame
        suite, condition, item, position, word, measure, value, critical, network.

    Raises
    ------
    UserError
        Where the numbers of networks differ, or their worlds differ in words or units.
    """
    if len(networks) != len(literal):
        raise UserError(
            f"networks are compared in pairs, got {len(networks)} with noise and {len(literal)} "
            "without; give as many of each."
        )
    for one, other in zip(networks, literal, strict=True):
        if (one.world.tokens, one.world.units) != (other.world.tokens, other.world.units):
            raise UserError(
                f"worlds {one.world.name!r} and {other.world.name!r} differ in words or units; "
                "train both networks in one world, with its noise and without."
            )
    parts = [
        _measure_items(suites, partial(_compare_networks, pair)).assign(network=number)
        for number, pair in enumerate(zip(networks, literal, strict=True))
    ]
    return pd.concat(parts, ignore_index=True)


Measured = tuple[dict[str, np.ndarray], dict[str, np.ndarray]]  # measures, and other columns


def _measure_items(
    suites: Sequence[Suite], measure: Callable[[World, Utterance], Measured]
) -> pd.DataFrame:
    """Return a row for every measure of every word of every item."""
    parts = []
    for suite in suites:
        for (condition, item), row in suite.rows.items():
            position = np.arange(1, len(row.utterance) + 1)
            head: dict[str, Any] = {"suite": suite.name, "condition": condition, "item": item}
            head |= {"position": position, "word": row.utterance.words}
            measures, more = measure(suite.world, row.utterance)
            more["critical"] = position == row.critical
            for name, value in measures.items():
                parts.append(pd.DataFrame(head | {"measure": name, "value": value} | more))
    return pd.concat(parts, ignore_index=True)


def _compare_networks(pair: tuple[Network, Network], _: World, utterance: Utterance) -> Measured:
    """Return the divergence of the first of two networks from the second at each word."""
    beliefs = (np.asarray(network.comprehend(utterance), np.float64) for network in pair)
    return {"literal_divergence": _compute_unit_divergence(*beliefs).sum(axis=(1, 2))}, {}


def _compute_unit_divergence(y: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Compute the Jensen–Shannon divergence of two beliefs about each unit, in nats."""
    mean = (y + other) / 2
    parts = (rel_entr(p, q) for a in (y, other) for p, q in ((a, mean), (1 - a, 1 - mean)))
    return np.asarray(sum(parts)) / 2


def _measure_sentence(world: World, utterance: Utterance) -> Measured:
    """Return both measures at each word, and whether the words so far can occur without noise."""
    inferred, literal = (
        compute_meaning_beliefs(world, utterance, literal=plain) for plain in (False, True)
    )
    values = {
        "meaning_surprise": compute_meaning_surprise(inferred),
        "literal_divergence": compute_literal_divergence(inferred[1:], literal[1:]),
    }
    return values, {"literal": np.isfinite(literal[1:, 0])}


def average_signals(words: pd.DataFrame) -> pd.DataFrame:
    """Average signals over items and networks.

    Parameters
    ----------
    words : DataFrame
        The table "words" of `equivocal.measuring.signals`.

    Returns
    -------
    DataFrame
        A row for each suite, signal, comprehender, condition and position.
    """
    keys = ["suite", "signal", "comprehender", "condition", "position"]
    return words.groupby(keys, sort=False)["value"].mean().reset_index()


def judge_signals(words: pd.DataFrame, suites: Sequence[Suite]) -> pd.DataFrame:
    """Judge each finding of suites by the measure of its signal.

    Parameters
    ----------
    words : DataFrame
        As returned by `measure_ideal`, or by `measure_divergence`, whose networks are averaged.
    suites : sequence of Suite
        Those that were measured.

    Returns
    -------
    DataFrame
        For findings whose measure is among the words: suite, measure, signal, finding, effect (the
        contrast of condition means), least and greatest effect of an item, items, verdict.
    """
    rows = [
        {"suite": suite.name} | judged
        for suite in suites
        for finding in suite.findings
        if (judged := _judge_finding(words[words["suite"] == suite.name], finding))
    ]
    return pd.DataFrame(rows)


def _judge_finding(words: pd.DataFrame, finding: Finding) -> dict[str, object]:
    """Judge a finding over items; return {} where its measure is not among the words."""
    measure = MEASURE_OF[finding.signal]
    own = words[words["critical"] & (words["measure"] == measure)]
    if own.empty:
        return {}
    values = own.groupby(["item", "condition"])["value"].mean().unstack()
    weights = np.array(list(finding.contrast.values()))
    effects = values[list(finding.contrast)].to_numpy() @ weights
    return {
        "measure": measure,
        "signal": finding.signal,
        "finding": finding.says,
        "effect": effects.mean(),
        "least": effects.min(),
        "greatest": effects.max(),
        "items": len(effects),
        "verdict": judge_sign(effects.mean(), effects.min(), effects.max()),
    }
