"""Role reversals that can be said in a world, so that what is true of them is known.

Congruent sentences are those of the file's first construction in which the noun acts that is the
more frequent agent in the world as a whole: "during dinner, the woman eats the pizza". The reversal
exchanges the two nouns. Sentences are cut after both have been heard. In the world `slips` a
reversal may be said of a rare event or be a slip of the tongue; in `paper` it cannot be said.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivocal.errors import UserError
from equivocal.world.derivations import Derivations
from equivocal.world.parsing import Utterance
from equivocal.world.prefixes import NO_NODE
from equivocal.world.requirements import require_exact, require_roles
from equivocal.world.world import World

__all__ = [
    "RoleReversal",
    "compute_agency",
    "find_heard",
    "find_role_reversals",
    "find_word_unit",
    "spell_reversed",
]


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


def find_role_reversals(world: World, *, ambiguous: bool = True) -> tuple[RoleReversal, ...]:
    """Find all role reversals that are possible sentences of a world.

    Parameters
    ----------
    world : World
        Must have the roles agent and patient.
    ambiguous : bool
        Whether to leave out reversals with only one possible reading; in `slips`, those of
        children and of actions without typical patients, which can only be slips.

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
    require_exact(world, "what is true of its reversals is not known")
    told = _find_congruent(world)
    reversed_texts = spell_reversed(world, told)
    found: dict[tuple[tuple[str, ...], ...], RoleReversal] = {}
    for text, back, fillers in zip(world.spell(told), reversed_texts, told.fillers, strict=True):
        item = _build_item(world, text, back, fillers)
        if item.literal >= 0 and (0 < item.literal < 1 or not ambiguous):
            found.setdefault(item.congruent.tokens, item)
    if not found:
        kind = "can be read in two ways" if ambiguous else "is a possible sentence"
        raise UserError(
            f"no role reversal {kind} in world {world.name!r}; use a world such as `slips`, with "
            "its parameters above 0."
        )
    return tuple(found.values())


def spell_reversed(world: World, told: Derivations) -> tuple[str, ...]:
    """Spell sentences with agent and patient exchanged: anew, as a case marker has its role."""
    both = [world.roles.index(role) for role in ("agent", "patient")]
    exchanged = told.fillers.copy()
    exchanged[:, both] = told.fillers[:, both[::-1]]
    return world.spell(replace(told, fillers=exchanged))


def find_heard(world: World, heard: Utterance) -> int:
    """Find the node of what is heard in the tree of all sentences; `NO_NODE` if it cannot be."""
    return world.all_derivations.tree.find([tuple(pair) for pair in world.encode(heard).tolist()])


def _build_item(world: World, text: str, back: str, fillers: NDArray[np.int32]) -> RoleReversal:
    """Cut a sentence and its reversal after both nouns; a `literal` of nan: it cannot be said."""
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
    """Find the derivations of the first construction that name both, the usual agent acting."""
    told = world.all_derivations.derivations
    agent, patient = (world.roles.index(role) for role in ("agent", "patient"))
    acts = np.zeros(len(world.lexicon.words) + 1)  # the last is for events without an agent
    np.add.at(acts, told.fillers[:, agent], told.weight)
    named = told.said[:, agent] & told.said[:, patient] & (told.construction == 0)
    rows = np.flatnonzero(named)
    usual = acts[told.fillers[rows, agent]] > acts[told.fillers[rows, patient]]
    return told.take(rows[usual])


def compute_agency(world: World, heard: Utterance, word: int) -> float:
    """Compute the probability that a word is the agent of what is heard; nan if it cannot be."""
    everything, node = world.all_derivations, find_heard(world, heard)
    if node == NO_NODE:
        return float("nan")
    rows = (everything.tree.node_of == node).any(axis=1)
    weight = everything.derivations.weight[rows]
    acting = everything.derivations.fillers[rows, world.roles.index("agent")] == word
    return float(weight[acting].sum() / weight.sum())


def find_word_unit(world: World, word: str) -> int:
    """Find the output unit that identifies a word.

    Parameters
    ----------
    world : World
        The world of the word.
    word : str
        A word of its lexicon.

    Returns
    -------
    int
        The unit named like the word, or else the one of its features that the fewest words share.
    """
    features, row = world.lexicon.features, world.lexicon.words.index(word)
    if word in world.units and features[row, named := world.units.index(word)]:
        return named
    shared = features.sum(axis=0)
    return int(np.argmin(np.where(features[row], shared, shared.max() + 1)))
