"""Sentences about the same two nouns in both directions: plausible, unlikely, impossible.

An item is an action with two nouns: "dog", "bite", "man". Every construction expresses it in both
directions. One direction is plausible if it happens at least as often as the other, unlikely if it
happens less often, and impossible if it never happens: "the pizza ate the man". Whatever else a
sentence says, such as where, does not count.
"""

from collections import Counter
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivocal.errors import UserError
from equivocal.world.derivations import Derivations
from equivocal.world.parsing import Utterance
from equivocal.world.requirements import require_exact, require_roles
from equivocal.world.reversals import compute_agency
from equivocal.world.world import World

__all__ = ["PLAUSIBILITY", "PlausibilityItem", "find_plausibility_items"]

PLAUSIBILITY = ("plausible", "unlikely", "impossible")
ROLES = ("agent", "action", "patient")
Triple = tuple[int, int, int]  # the words of `ROLES`


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
    require_exact(world, "what is plausible in it is not known")
    columns = [world.roles.index(role) for role in ROLES]
    told = world.literal_derivations.derivations
    rows = _find_named(world, told)
    chances = _count_triples(told.fillers[:, columns], told.weight)
    turned = rows.fillers.copy()
    turned[:, columns] = rows.fillers[:, columns[::-1]]  # the action keeps its place
    found: dict[tuple[str, tuple[tuple[str, ...], ...]], PlausibilityItem] = {}
    for version in (rows, replace(rows, fillers=turned)):
        # spelled anew, since a case marker belongs to its role
        texts, words = world.spell(version), version.fillers[:, columns].tolist()
        for text, triple, number in zip(texts, words, version.construction, strict=True):
            construction = world.grammar.constructions[number].name
            sentence = world.parse(text)
            if (construction, sentence.tokens) not in found:
                item = _build_item(world, construction, sentence, tuple(triple), chances)
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
    """Return how often each (agent, action, patient) happens."""
    chances: Counter[Triple] = Counter()
    for triple, chance in zip(words.tolist(), weight.tolist(), strict=True):
        chances[tuple(triple)] += chance
    return chances


def _build_item(
    world: World, construction: str, sentence: Utterance, triple: Triple, chances: Counter[Triple]
) -> PlausibilityItem:
    here, there = chances[triple], chances[triple[::-1]]
    usual = max((here, triple), (there, triple[::-1]))[1]  # one of two that are equally frequent
    plausibility = "plausible" if here >= there else "unlikely" if here > 0 else "impossible"
    agent, action, patient = (world.lexicon.words[word] for word in triple)
    return PlausibilityItem(
        item=" ".join(world.lexicon.words[word] for word in usual),
        construction=construction,
        plausibility=plausibility,
        sentence=sentence,
        agent=agent,
        action=action,
        patient=patient,
        probability=float(here),
        literal=compute_agency(world, sentence, triple[0]),
    )
