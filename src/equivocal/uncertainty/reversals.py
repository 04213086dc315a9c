"""Can doubt tell a reversed sentence from a congruent one?

A sentence of the world is cut after agent and patient have both been named, and turned round by
exchanging the two: "in the evening, the woman drinks the tea" / "… the tea drinks the woman". One
that the world can say either way is left out. The network has heard nothing like the reversal, and
doubt about its own knowledge should be larger there. At the last word, over all roles and units,

    doubt = Σ I,   or Σ H(p̄) for a single network, which has no doubt about its knowledge,

and AUROC is the probability that a reversal drawn at random raises more doubt than a congruent
sentence drawn at random (ties count half): 0.5 for a doubt that does not see the difference.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from equivocal.errors import UserError
from equivocal.study.stimuli import Stimuli
from equivocal.uncertainty.comprehenders import Comprehenders, questions_about
from equivocal.world import Utterance, World
from equivocal.world.prefixes import NO_NODE

__all__ = ["Pairs", "auroc", "doubt_about", "pairs_of", "reversals_of"]


class Pairs(NamedTuple):
    """Congruent sentences and the same reversed, each heard up to its critical word."""

    congruent: tuple[Utterance, ...]
    reversed: tuple[Utterance, ...]


def reversals_of(world: World) -> Pairs:
    """All of them, each once, in the order of the world's sentences."""
    if lacking := [role for role in ("agent", "patient") if role not in world.roles]:
        raise UserError(
            f"reversals exchange agent and patient, and world {world.name!r} has no role "
            f"{' and no role '.join(lacking)}; use a world that has both."
        )
    everything = world.all_derivations
    fillers = everything.derivations.fillers
    both = [world.roles.index(role) for role in ("agent", "patient")]
    turned = fillers.copy()
    turned[:, both] = fillers[:, both[::-1]]  # spelled anew, since a marker belongs to its role
    texts = zip(
        everything.texts, world.spell(replace(everything.derivations, fillers=turned)), strict=True
    )
    found: dict[tuple[tuple[str, ...], ...], tuple[Utterance, Utterance]] = {}
    for pair, each in zip(texts, fillers[:, both], strict=True):
        names = [world.lexicon.words[filler] for filler in each if filler >= 0]
        utterance = world.parse(pair[0])
        words = [part.word for part in utterance]
        if len(set(names)) < 2 or any(words.count(name) != 1 for name in names):
            continue
        last = max(words.index(name) for name in names) + 1
        congruent, back = utterance.first(last), world.parse(pair[1]).first(last)
        if not _can_be_said(world, back):
            found.setdefault(congruent.tokens, (congruent, back))
    if not found:
        raise UserError(
            f"no sentence of world {world.name!r} names agent and patient and becomes impossible "
            "when they change places; use another world."
        )
    return Pairs(*zip(*found.values(), strict=True))


def pairs_of(stimuli: Stimuli) -> Pairs:
    """The first and the last condition of a study, up to their critical words."""
    first, last = stimuli.conditions[0], stimuli.conditions[-1]

    def heard(condition: str) -> tuple[Utterance, ...]:
        rows = (stimuli.rows[condition, item] for item in stimuli.items)
        return tuple(row.utterance.first(row.critical) for row in rows)

    return Pairs(heard(first), heard(last))


def _can_be_said(world: World, utterance: Utterance) -> bool:
    tokens = [tuple(pair) for pair in world.encode(utterance).tolist()]
    return world.all_derivations.tree.find(tokens) != NO_NODE


def doubt_about(
    comprehenders: Comprehenders, pairs: Pairs
) -> dict[str, Float[np.ndarray, "2 sentences"]]:
    """Information and entropy at the last word, for congruent sentences and for reversed ones."""
    heard = [*pairs.congruent, *pairs.reversed]
    questions = questions_about(comprehenders.world, heard, [len(text) for text in heard])
    together = comprehenders.together(questions)

    def summed(values: np.ndarray) -> np.ndarray:
        return np.asarray(values.reshape(2, len(pairs.congruent), -1).sum(axis=-1))

    return {"information": summed(together.information), "entropy": summed(together.entropy)}


def auroc(doubt: Float[np.ndarray, "2 sentences"]) -> float:
    """How often the second row is the larger, over all pairs of an entry of each.

    >>> auroc(np.array([[1.0, 2.0], [3.0, 2.0]]))
    0.875
    """
    congruent, turned = doubt
    larger = turned[:, None] > congruent
    return float((larger + 0.5 * (turned[:, None] == congruent)).mean())
