"""Does uncertainty distinguish reversed from congruent sentences?

A sentence of the world is cut after agent and patient have both been named, and reversed by
exchanging the two: "in the evening, the woman drinks the tea" / "… the tea drinks the woman". One
that is possible in the world either way is left out. The training corpus contains nothing like the
reversal, so epistemic uncertainty should be larger there. At the last word, over roles and units,

    uncertainty = Σ I,   or Σ H(p̄) for a single network, which has no epistemic uncertainty,

and AUROC is the probability that a reversal drawn at random is more uncertain than a congruent
sentence drawn at random (ties count half): 0.5 where uncertainty does not distinguish them.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from equivocal.errors import UserError
from equivocal.metrics import auroc
from equivocal.study.settings import load_study
from equivocal.study.stimuli import load_stimuli
from equivocal.uncertainty.comprehenders import Comprehenders, build_role_questions
from equivocal.world import Utterance, World
from equivocal.world.errors import require_roles
from equivocal.world.queries import NO_NODE
from equivocal.world.reversals import find_heard, spell_reversed


class Pairs(NamedTuple):
    """Congruent sentences and the same reversed, each heard up to its critical word."""

    congruent: tuple[Utterance, ...]
    reversed: tuple[Utterance, ...]


def find_reversals(world: World) -> Pairs:
    """Find all pairs of a congruent sentence and its reversal, in the order of the sentences.

    Parameters
    ----------
    world : World
        Must have the roles agent and patient.

    Returns
    -------
    Pairs
        Both sentences of every pair, up to the critical word.

    Raises
    ------
    UserError
        Where the world has no such roles, or no sentence becomes impossible when reversed.
    """
    require_roles(world, ("agent", "patient"), "reversals exchange agent and patient")
    everything = world.all_derivations
    both = [world.roles.index(role) for role in ("agent", "patient")]
    fillers = everything.derivations.fillers
    reversed_texts = spell_reversed(world, everything.derivations)
    found: dict[tuple[tuple[str, ...], ...], tuple[Utterance, Utterance]] = {}
    for text, back, each in zip(everything.texts, reversed_texts, fillers[:, both], strict=True):
        names = [world.lexicon.words[filler] for filler in each if filler >= 0]
        utterance = world.parse(text)
        words = [part.word for part in utterance]
        if len(set(names)) < 2 or any(words.count(name) != 1 for name in names):
            continue
        last = max(words.index(name) for name in names) + 1
        congruent, turned = utterance.first(last), world.parse(back).first(last)
        if find_heard(world, turned) == NO_NODE:
            found.setdefault(congruent.tokens, (congruent, turned))
    if not found:
        raise UserError(
            f"no sentence of world {world.name!r} names agent and patient and becomes impossible "
            "when they change places; use another world."
        )
    return Pairs(*zip(*found.values(), strict=True))


def find_study_pairs(world: World) -> Pairs | None:
    """Find the sentences of the paper's study, first and last condition; None in other worlds."""
    settings = load_study("paper")
    if World.load(settings.world_source).fingerprint != world.fingerprint:
        return None
    stimuli = load_stimuli(settings.stimuli_path, world)
    both = (stimuli.conditions[0], stimuli.conditions[-1])
    rows = ([stimuli.rows[condition, item] for item in stimuli.items] for condition in both)
    return Pairs(*(tuple(row.utterance.first(row.critical) for row in own) for own in rows))


def sum_uncertainty(
    comprehenders: Comprehenders, pairs: Pairs
) -> dict[str, Float[np.ndarray, "2 sentences"]]:
    """Sum epistemic uncertainty and entropy at the last word, over all roles and units.

    The first row of each array is of congruent sentences, the second of reversed ones.
    """
    heard = [*pairs.congruent, *pairs.reversed]
    pooled = comprehenders.pool(build_role_questions(comprehenders.world, heard))
    both = {"epistemic": pooled.epistemic, "entropy": pooled.entropy}
    shape = (2, len(pairs.congruent), -1)
    return {name: values.reshape(shape).sum(axis=-1) for name, values in both.items()}


def compute_auroc(uncertainty: Float[np.ndarray, "2 sentences"]) -> float:
    """Compute how often the second row is the larger, over all pairs of an entry of each.

    >>> compute_auroc(np.array([[1.0, 2.0], [3.0, 2.0]]))
    0.875
    """
    return auroc(np.repeat([0, 1], uncertainty.shape[1]), uncertainty.ravel())
