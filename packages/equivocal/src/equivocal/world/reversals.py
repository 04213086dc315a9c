"""Sentences about the same two nouns in both directions, and how often each direction happens.

Role reversals are possible sentences of a world, so that exact beliefs about them are known.
Congruent sentences are those of the file's first construction whose agent is the noun that is the
agent more often in the world as a whole: "during dinner, the woman eats the pizza". The reversal
exchanges the two nouns. Sentences are cut after both have been heard. In the world `slips` a
reversal may be said of a rare event or be a slip of the tongue; in `paper` it cannot be said.

Plausibility items are actions with two nouns, such as "dog", "bite", "man", in every
construction and both directions. One direction is plausible if it happens at least as often as the
other, unlikely if it happens less often, and impossible if it never happens: "the pizza ate the
man". Whatever else a sentence says, such as where, does not count.
"""

from collections import Counter
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivocal.world.derivations import Derivations
from equivocal.world.errors import require_exact, require_roles
from equivocal.world.queries import NO_NODE
from equivocal.world.spelling import Utterance
from equivocal.world.world import World
from lastlayer.errors import UserError

__all__ = ["PLAUSIBILITY", "PlausibilityItem", "RoleReversal", "find_heard", "spell_reversed"]


PLAUSIBILITY = ("plausible", "unlikely", "impossible")
ROLES = ("agent", "action", "patient")
Triple = tuple[int, int, int]  # the words of `ROLES`


class RoleReversal(NamedTuple):
    """A congruent sentence and the same with agent and patient exchanged.

    Attributes
    ----------
    congruent, reversal : Utterance
        "during dinner woman eats pizza" and "during dinner pizza eats woman".
    agent, patient : str
        The two nouns by their roles in the congruent sentence: "woman", "pizza".
    action : str
        The word of the action: "eat".
    context : tuple of str
        The other words of the sentence: ("dinner",), or () without a situation.
    literal : float
        The exact probability that the reversal means what it says: that `patient` acts. The rest
        is the probability of a slip.
    """

    congruent: Utterance
    reversal: Utterance
    agent: str
    patient: str
    action: str
    context: tuple[str, ...]
    literal: float


def find_role_reversals(world: World) -> tuple[RoleReversal, ...]:
    """Find all role reversals of a world that can be read in two ways.

    Parameters
    ----------
    world : World
        Must have the roles agent and patient.

    Returns
    -------
    tuple of RoleReversal
        Sorted by their fillers, in the order of the file's roles and words.

    Raises
    ------
    UserError
        Where the world lacks a role, is too large to enumerate, or has no such sentence.
    """
    require_roles(world, ("agent", "patient"), "reversals exchange agent and patient")
    require_exact(world, "exact beliefs about its reversals are not known")
    told = _find_congruent(world)
    reversed_texts = spell_reversed(world, told)
    found: dict[tuple[tuple[str, ...], ...], RoleReversal] = {}
    for text, back, fillers in zip(world.spell(told), reversed_texts, told.fillers, strict=True):
        item = _build_reversal(world, text, back, fillers)
        if 0 < item.literal < 1:
            found.setdefault(item.congruent.tokens, item)
    if not found:
        raise UserError(
            f"no role reversal can be read in two ways in world {world.name!r}; use a world such "
            "as `slips`, with its parameters above 0."
        )
    return tuple(found.values())


def spell_reversed(world: World, told: Derivations) -> tuple[str, ...]:
    """Spell sentences with agent and patient exchanged; case markers stay with their roles."""
    return world.spell(_exchange_nouns(world, told))


def _exchange_nouns(world: World, told: Derivations) -> Derivations:
    both = [world.roles.index(role) for role in ("agent", "patient")]
    exchanged = told.fillers.copy()
    exchanged[:, both] = told.fillers[:, both[::-1]]
    return replace(told, fillers=exchanged)


def find_heard(world: World, heard: Utterance) -> int:
    """Find the node of what is heard in the tree of all sentences; `NO_NODE` if it has none."""
    return world.all_derivations.tree.find(world.encode(heard))


def _build_reversal(world: World, text: str, back: str, fillers: NDArray[np.int32]) -> RoleReversal:
    """Cut a sentence and its reversal after both nouns; `literal` is NaN if it cannot be said."""
    roles = dict(zip(world.roles, fillers.tolist(), strict=True))
    nouns = [world.lexicon.words[roles[role]] for role in ("agent", "patient")]
    action = world.lexicon.words[roles["action"]]
    utterance, turned = world.parse(text), world.parse(back)
    words = [part.word for part in utterance]
    size = max(map(words.index, nouns)) + 1
    return RoleReversal(
        congruent=utterance.first(size),
        reversal=turned.first(size),
        agent=nouns[0],
        patient=nouns[1],
        action=action,
        context=tuple(word for word in words[:size] if word not in (*nouns, action)),
        literal=compute_agency(world, turned.first(size), roles["patient"]),
    )


def _find_congruent(world: World) -> Derivations:
    """Find derivations of the first construction that name both nouns, the usual agent as agent."""
    told = world.all_derivations.derivations
    agent, patient = (world.roles.index(role) for role in ("agent", "patient"))
    acts = np.zeros(len(world.lexicon.words) + 1)  # the last is for events without an agent
    np.add.at(acts, told.fillers[:, agent], told.weight)
    named = told.said[:, agent] & told.said[:, patient] & (told.construction == 0)
    rows = np.flatnonzero(named)
    usual = acts[told.fillers[rows, agent]] > acts[told.fillers[rows, patient]]
    return told.take(rows[usual])


def compute_agency(world: World, heard: Utterance, word: int) -> float:
    """Compute P(a word is the agent | what is heard); NaN if that is never heard."""
    everything, node = world.all_derivations, find_heard(world, heard)
    if node == NO_NODE:
        return float("nan")
    rows = (everything.tree.node_of == node).any(axis=1)
    weight = everything.derivations.weight[rows]
    acting = everything.derivations.fillers[rows, world.roles.index("agent")] == word
    return float(weight[acting].sum() / weight.sum())


class PlausibilityItem(NamedTuple):
    """One direction of an item in one construction.

    Attributes
    ----------
    item : str
        The same in both directions: "dog bite man", the plausible one.
    construction : str
        The name of the construction.
    plausibility : str
        One of `PLAUSIBILITY`.
    sentence : Utterance
        The whole sentence.
    agent, action, patient : str
        Who does what to whom if the sentence is taken literally.
    probability : float
        How often this happens in the world, among all events.
    literal : float
        The exact probability that the sentence means what it says, P(`agent` acts | heard): below 1
        where noise could have made it from another. NaN where it is never heard.
    """

    item: str
    construction: str
    plausibility: str
    sentence: Utterance
    agent: str
    action: str
    patient: str
    probability: float
    literal: float


def find_plausibility_items(world: World) -> tuple[PlausibilityItem, ...]:
    """List every item of a world in every construction that names agent and patient.

    Parameters
    ----------
    world : World
        Must have the roles agent and patient, and be small enough to enumerate.

    Returns
    -------
    tuple of PlausibilityItem
        Where a construction leaves roles unsaid now and then, each wording is listed.

    Raises
    ------
    UserError
        Where the world lacks the roles, is too large, or never names an agent and a patient.
    """
    require_roles(world, ROLES, "items have an agent and a patient")
    require_exact(world, "the plausibility of its sentences is not known")
    columns = [world.roles.index(role) for role in ROLES]
    told = world.literal_derivations.derivations
    rows = _find_named(world, told)
    chances = _count_triples(told.fillers[:, columns], told.weight)
    found: dict[tuple[str, tuple[tuple[str, ...], ...]], PlausibilityItem] = {}
    for version in (rows, _exchange_nouns(world, rows)):
        # spelled anew, since a case marker belongs to its role
        texts, words = world.spell(version), version.fillers[:, columns].tolist()
        for text, triple, number in zip(texts, words, version.construction, strict=True):
            construction = world.grammar.constructions[number].name
            sentence = world.parse(text)
            if (construction, sentence.tokens) not in found:
                item = _build_plausibility_item(
                    world, construction, sentence, tuple(triple), chances
                )
                found[construction, sentence.tokens] = item
    return tuple(found.values())


def _find_named(world: World, told: Derivations) -> Derivations:
    """Find the derivations that name two different nouns as agent and patient."""
    agent, _, patient = (world.roles.index(role) for role in ROLES)
    named = told.said[:, agent] & told.said[:, patient]
    rows = told.take(np.flatnonzero(named & (told.fillers[:, agent] != told.fillers[:, patient])))
    if not len(rows):
        raise UserError(
            f"no sentence of world {world.name!r} names an agent and a patient; use another world."
        )
    return rows


def _count_triples(words: NDArray[np.int32], weight: NDArray[np.float64]) -> Counter[Triple]:
    """Return the probability of each (agent, action, patient)."""
    chances: Counter[Triple] = Counter()
    for triple, chance in zip(words.tolist(), weight.tolist(), strict=True):
        chances[tuple(triple)] += chance
    return chances


def _build_plausibility_item(
    world: World, construction: str, sentence: Utterance, triple: Triple, chances: Counter[Triple]
) -> PlausibilityItem:
    chance, turned = chances[triple], chances[triple[::-1]]
    usual = max((chance, triple), (turned, triple[::-1]))[1]  # breaks a tie by word numbers
    plausibility = "plausible" if chance >= turned else "unlikely" if chance > 0 else "impossible"
    agent, action, patient = (world.lexicon.words[word] for word in triple)
    return PlausibilityItem(
        item=" ".join(world.lexicon.words[word] for word in usual),
        construction=construction,
        plausibility=plausibility,
        sentence=sentence,
        agent=agent,
        action=action,
        patient=patient,
        probability=float(chance),
        literal=compute_agency(world, sentence, triple[0]),
    )
