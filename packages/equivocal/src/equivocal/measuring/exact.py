"""Exact measures of every word, from the enumerated world.

Let b_t(m) be the exact probability of the event m for a listener who takes the world's
noise into account and has heard t words, and l_t(m) that of one who takes every sentence literally:

    exact_surprise    KL(b_t ‖ b_{t−1}): how far the word moves the inferred meaning         (1)
    exact_p600        JS(b_t, l_t): how far the inferred meaning departs from the literal    (2)
                      one; JS is the Jensen–Shannon divergence, from 0 to log 2

in nats. Both are exploratory: Li & Ettinger (2023, Cognition 233, 105359) compute such signals from
language models, over sentences; here they are exact, over events. JS replaces the Kullback–Leibler
divergence, which is infinite wherever noise allows a meaning other than the literal one. If the
words cannot occur without noise, their literal meaning is not an event of the world: the two
beliefs have no event in common, and (2) is log 2.

Entropy is that of b_t, entropy reduction H(b_{t−1}) − H(b_t) (Hale 2006, Cognitive Science 30,
643–672, counts only falls). A belief in a role's filler is conditional on the event having the
role, as a network is asked; that in the whole reading is the probability of all fillers together.
All are NaN where the world is too large to enumerate, and from a word on that never follows.

`build_warrant` gives the beliefs in fillers that the sentences of a corpus warrant, those of a
learner who counted them (`equivocal.world.learner`), also where the words are impossible.
"""

from collections.abc import Callable, Mapping
from functools import cache, lru_cache

import numpy as np
from jaxtyping import Float
from scipy.special import entr, rel_entr

from equivocal.measuring.measures import MEASURES
from equivocal.world import ImpossibleSentenceError, Utterance, World
from equivocal.world.corpus import Corpus, compute_meaning_beliefs
from equivocal.world.grammar import NO_FILLER
from equivocal.world.learner import CountingLearner
from equivocal.world.queries import NO_NODE

DRAWS = 200  # learners, for an interval
WARRANTED = ("belief", "low", "high")  # columns begin with warranted_ and one of these
Warrant = Callable[[Utterance, Mapping[str, str]], dict[str, np.ndarray]]


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


@lru_cache(maxsize=1)
def compute_frequencies(world: World) -> Float[np.ndarray, " tokens"]:
    """Compute the share of every token among the words of all sentences."""
    everything = world.all_derivations
    heard = everything.tree.tokens[:, 0]
    counts = np.bincount(heard, everything.node_weight, len(world.tokens))
    return np.asarray(counts / counts.sum())


def compute_filler_beliefs(
    world: World, utterance: Utterance, roles: Mapping[str, str]
) -> dict[str, np.ndarray]:
    """Compute the exact belief in the filler of each role, and in all of them, at every word."""
    everything, tokens = world.all_derivations, world.encode(utterance)
    fillers, weight = everything.derivations.fillers, everything.weight
    beliefs = np.full((len(roles) + 1, len(tokens)), np.nan)
    for place in range(len(tokens)):
        node = everything.tree.find(tokens[: place + 1])
        if node == NO_NODE:
            break
        rows = everything.tree.node_of[:, place] == node
        heard, together = weight[rows], np.ones(rows.sum(), bool)
        for number, (role, word) in enumerate(roles.items()):
            said = fillers[rows, world.roles.index(role)]
            fits = said == world.lexicon.words.index(word)
            together &= fits
            asked = heard[said != NO_FILLER].sum()
            beliefs[number, place] = heard[fits].sum() / asked if asked else np.nan
        beliefs[-1, place] = heard[together].sum() / heard.sum()
    named = {
        f"exact_belief_{name}": row for name, row in zip([*roles, "reading"], beliefs, strict=True)
    }
    return named if roles else {}


def measure_exactly(
    world: World, utterance: Utterance, roles: Mapping[str, str]
) -> dict[str, np.ndarray]:
    """Compute the exact measures of every word, and beliefs in the fillers of `roles`."""
    nothing = np.full(len(utterance), np.nan)
    if not world.is_exact:
        return {name: nothing for name, measure in MEASURES.items() if measure.exact}
    inferred = compute_meaning_beliefs(world, utterance)
    divergence, surprisal = nothing, compute_surprisal(world, utterance)
    if world.has_noise:
        literal = compute_meaning_beliefs(world, utterance, literal=True)
        divergence = compute_literal_divergence(inferred[1:], literal[1:])
    entropy = entr(inferred).sum(axis=1)
    return {
        "exact_surprise": compute_meaning_surprise(inferred),
        "exact_p600": divergence,
        "surprisal": surprisal,
        "cloze": np.exp(-surprisal),
        "entropy": entropy[1:],
        "entropy_reduction": entropy[:-1] - entropy[1:],
        "frequency": compute_frequencies(world)[world.encode(utterance)[:, 0]],
        **compute_filler_beliefs(world, utterance, roles),
    }


def build_warrant(heard: Corpus) -> Warrant:
    """Return a function of a sentence and its fillers by role: the beliefs of the counting learner.

    Common beginnings are heard once. The ends of the 90 % interval are NaN until the action has
    been heard: before, draws would have to be summed over everything that can happen.
    """
    learner, world = CountingLearner(heard.world, heard, draws=DRAWS), heard.world

    acting = world.grammar.collect_fillers(world.grammar.action_role)
    actions = {world.lexicon.words[number] for number in acting}

    @cache
    def believe(words: Utterance, role: str) -> np.ndarray:
        try:
            if any(part.word in actions for part in words):
                return learner.bound(words, role)
            unknown = np.full((2, len(world.units)), np.nan)
            return np.concatenate([learner.believe(words, role, None), unknown])
        except ImpossibleSentenceError:  # no construction has this order of words
            return np.full((3, len(world.units)), np.nan)

    def warrant(utterance: Utterance, roles: Mapping[str, str]) -> dict[str, np.ndarray]:
        prefixes = [utterance.first(place + 1) for place in range(len(utterance))]
        columns: dict[str, np.ndarray] = {}
        for role, word in roles.items():
            unit = world.lexicon.find_word_unit(word)
            found = np.array([believe(words, role)[:, unit] for words in prefixes]).T
            names = (f"warranted_{kind}_{role}" for kind in WARRANTED)
            columns |= dict(zip(names, found, strict=True))
        return columns

    return warrant
