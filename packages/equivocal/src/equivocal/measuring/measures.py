"""What each word does to a comprehender: the measures in the table of words, one function each.

Networks. A gestalt is the layer itself, (words, gestalt units). Beliefs are given as logits a,
(…, words, roles, units), so that nothing is clipped: y = σ(a) is a network's degree of belief that
a unit belongs to the answer when a role is asked, and units are taken as independent of each other.
A network is never asked anything before the first word, so there are no beliefs that the first word
could change, and the surprise is NaN there.

The world. Let b_t(m) be the exact probability of the event m for a listener who takes the world's
noise into account and has heard t words, and l_t(m) that of one who takes every sentence literally:

    exact_surprise    KL(b_t ‖ b_{t−1}): how far the word moves the inferred meaning         (1)
    exact_p600        JS(b_t, l_t): how far the inferred meaning departs from the literal    (2)
                      one; JS is the Jensen–Shannon divergence, from 0 to log 2

in nats. Both are exploratory: Li & Ettinger (2023, Cognition 233, 105359) compute such signals from
language models, over sentences; here they are exact, over events. JS replaces the Kullback–Leibler
divergence, which is infinite wherever noise allows a meaning other than the literal one. If the
words cannot occur without noise, their literal meaning is not an event of the world: the two
beliefs have no event in common, and (2) is log 2.

A new measure is a function here, a line of `MEASURES`, and a column in
`equivocal.measuring.words.measure_words`.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import expit, rel_entr

from equivocal.world import Utterance, World
from equivocal.world.corpus import compute_meaning_beliefs
from equivocal.world.queries import NO_NODE

__all__ = ["MEASURES", "Measure"]


class Measure(NamedTuple):
    """A column of the table of words, as tables and figures describe it."""

    title: str
    signal: str = ""  # the event-related potential that it is linked with, if any
    exploratory: bool = True
    exact: bool = False  # computed from the world, and so the same for every network


MEASURES = {
    "semantic_update": Measure("semantic update", "N400", exploratory=False),
    "bayesian_surprise": Measure("Bayesian surprise (nats)", "N400"),
    "p600": Measure("divergence from literal networks (nats)", "P600"),
    "uncertainty": Measure("uncertainty of beliefs (nats)"),
    "epistemic": Measure("epistemic uncertainty (nats)"),
    "exact_surprise": Measure("exact surprise about the event (nats)", "N400", exact=True),
    "exact_p600": Measure("exact divergence from the literal meaning (nats)", "P600", exact=True),
    "surprisal": Measure("surprisal (nats)", exact=True),
    "cloze": Measure("cloze probability", exact=True),
}


def compute_semantic_update(
    gestalts: Float[np.ndarray, "*others words gestalt"],
) -> Float[np.ndarray, "*others words"]:
    """Compute how far each word moves the gestalt: Σ_i |g_i(t) − g_i(t−1)|, from silence on.

    Source: Rabovsky, Hansen & McClelland (2018), Nature Human Behaviour 2, 693–705.
    Linking hypothesis: the amplitude of the N400. The gestalt stands for an implicit probability
    distribution over the meaning of the sentence, and the N400 for how much a word changes it.
    """
    silence = np.zeros_like(gestalts[..., :1, :])
    return np.asarray(np.abs(np.diff(gestalts, axis=-2, prepend=silence)).sum(axis=-1))


def compute_bayesian_surprise(
    logits: Float[np.ndarray, "*others words roles units"],
) -> Float[np.ndarray, "*others words"]:
    """Compute KL(beliefs after the word ‖ beliefs before it), summed over roles and units, in nats.

    For one unit with logits a after and b before, KL = σ(a)(a − b) − log(1+eᵃ) + log(1+eᵇ).

    Source: Itti & Baldi (2009), Vision Research 49, 1295–1306, for the divergence from prior to
    posterior as surprise; Rabovsky et al. (2018) call the change of the implicit distribution so.
    Linking hypothesis: the N400, as for the semantic update, but read off what the network would
    answer: a change of the gestalt that changes no answer does not count. Exploratory.
    """
    a, b = logits[..., 1:, :, :], logits[..., :-1, :, :]
    divergence = expit(a) * (a - b) - np.logaddexp(0, a) + np.logaddexp(0, b)
    # round-off must not make a distance negative
    summed = np.maximum(divergence, 0).sum(axis=(-2, -1))
    return np.asarray(np.insert(summed, 0, np.nan, axis=-1))


def compute_uncertainty(
    logits: Float[np.ndarray, "*others words roles units"],
) -> Float[np.ndarray, "*others words"]:
    """Compute the entropy of the beliefs after each word, summed over roles and units, in nats.

    H(σ(a)) = log(1+eᵃ) − a σ(a), written for |a| so that it stays exact far out. Of the mean belief
    of particles it is the total uncertainty; what it exceeds the mean of their entropies by is
    epistemic, the part that more experience would remove (Depeweg, Hernández-Lobato, Doshi-Velez &
    Udluft 2018, ICML, 1184–1193). Linked with no signal.
    """
    size = np.abs(logits)
    small = np.exp(-size)
    return np.asarray((size * small / (1 + small) + np.log1p(small)).sum(axis=(-2, -1)))


def compute_unit_divergence(
    logits: Float[np.ndarray, "*others words roles units"],
    literal: Float[np.ndarray, "*others words roles units"],
) -> Float[np.ndarray, "*others words"]:
    """Compute Σ JS(y, l) over roles and units, of two networks' beliefs y and l, in nats.

    The networks' counterpart of (2): y are the beliefs of a network trained in a world with noise,
    l those of one trained in the same world without. A network answers any sentence, so impossible
    ones need no special rule.
    Linking hypothesis: the P600, as for (2). Exploratory.
    """
    y, other = expit(logits), expit(literal)
    mean = (y + other) / 2
    parts = (rel_entr(p, q) for a in (y, other) for p, q in ((a, mean), (1 - a, 1 - mean)))
    return np.asarray(np.asarray(sum(parts)).sum(axis=(-2, -1)) / 2)


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


def compute_surprisal(world: World, utterance: Utterance) -> Float[np.ndarray, " words"]:
    """Compute −log P(constituent | those before it), exactly, in nats.

    Infinite at a word that never follows, and NaN after it. Its counterpart among people is cloze
    probability, e^−surprisal.
    """
    everything, tokens = world.all_derivations, world.encode(utterance)
    nodes = [everything.tree.find(tokens[:size]) for size in range(1, len(tokens) + 1)]
    weight = np.array([0.0 if n == NO_NODE else everything.node_weight[n] for n in nodes])
    before = np.append(everything.weight.sum(), weight[:-1])
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(before) - np.log(weight))


def measure_exactly(world: World, utterance: Utterance) -> dict[str, np.ndarray]:
    """Compute the exact measures of every word; NaN where the world is too large to enumerate."""
    nothing = np.full(len(utterance), np.nan)
    if not world.is_exact:
        return {name: nothing for name, measure in MEASURES.items() if measure.exact}
    inferred = compute_meaning_beliefs(world, utterance)
    divergence, surprisal = nothing, compute_surprisal(world, utterance)
    if world.has_noise:
        literal = compute_meaning_beliefs(world, utterance, literal=True)
        divergence = compute_literal_divergence(inferred[1:], literal[1:])
    return {
        "exact_surprise": compute_meaning_surprise(inferred),
        "exact_p600": divergence,
        "surprisal": surprisal,
        "cloze": np.exp(-surprisal),
    }
