"""What kinds of uncertainty are scored by: distance from the truth, and detection of reversals.

Beliefs are scored against the exact ones of the world, over everything that can be asked in it: all
distinct pairs of a prefix and a role, each with its probability w as weight; t is the true
P(unit = 1), p the belief. Sums over units are in nats, or squared beliefs, for a whole question:

    NLL      Σ w Σ_k −t log p − (1−t) log(1−p)         its floor, Σ w Σ_k H(t), is the truth's own
    Brier    Σ w Σ_k (p − t)²                          without what drawn answers would add

Calibration is judged for each role over the units that the role can have in this world:

    calibration error   Σ_bins |Σ w (p − t)| / Σ w      twenty equal bins of p; signs cancel there
    distance            Σ w |p − t| / Σ w               signs do not cancel

The first is the usual expected calibration error with true probabilities in the place of outcomes.
The epistemic share is Σ w I / Σ w H(p̄) (`comprehenders`).

A new score is an entry of the rows in `compute_role_scores`; `compute_scores` averages it over
roles.

Does uncertainty distinguish reversed from congruent sentences? A sentence of the world is cut after
agent and patient have both been named, and reversed by exchanging the two: "in the evening, the
woman drinks the tea" / "… the tea drinks the woman". One that is possible in the world either way
is left out. The training corpus contains nothing like the reversal, so epistemic uncertainty should
be larger there. At the last word, over roles and units,

    uncertainty = Σ I,   or Σ H(p̄) for a single network, which has no epistemic uncertainty,

and AUROC is the probability that a reversal drawn at random is more uncertain than a congruent
sentence drawn at random (ties count half): 0.5 where uncertainty does not distinguish them.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import entr

from equivocal.errors import UserError
from equivocal.gestalt.questions import Questions, collect_questions
from equivocal.metrics import auroc, calibration_error
from equivocal.study.settings import load_study
from equivocal.study.stimuli import load_stimuli
from equivocal.uncertainty.comprehenders import Comprehenders, PooledBeliefs, build_role_questions
from equivocal.world import Utterance, World
from equivocal.world.errors import require_exact, require_roles
from equivocal.world.queries import NO_NODE
from equivocal.world.reversals import find_heard, spell_reversed

BINS = 20


@dataclass(frozen=True, eq=False)  # arrays have no truth value to compare by
class Truth:
    """Every question of a world about a role, with the exact answer."""

    questions: Questions
    targets: Float[np.ndarray, "pairs units"]
    weight: Float[np.ndarray, " pairs"]  # sums to one
    role: Int[np.ndarray, " pairs"]
    roles: tuple[str, ...]

    def find_possible_units(self, role: int) -> Bool[np.ndarray, " units"]:
        """Return a mask of the units that a role can have in this world."""
        return np.asarray((self.targets[self.role == role] > 0).any(axis=0))


def enumerate_truth(world: World) -> Truth:
    """Enumerate every question of a world about a role, with its exact answer.

    Parameters
    ----------
    world : World
        Small enough to be enumerated.

    Returns
    -------
    Truth
        The questions, their exact answers and how often each is asked.

    Raises
    ------
    UserError
        Where the world is too large, so that it can only be sampled.
    """
    require_exact(world, "nothing is known to score beliefs against")
    everything = world.all_derivations
    queries, questions = everything.queries, collect_questions(everything)
    asked = np.flatnonzero(queries.find_role_probes())
    return Truth(
        questions=questions._replace(
            node=jnp.asarray(queries.node[asked]), probe=jnp.asarray(queries.probe[asked])
        ),
        targets=queries.targets()[asked],
        weight=queries.weight[asked] / queries.weight[asked].sum(),
        role=queries.probe[asked],
        roles=world.roles,
    )


def compute_scores(found: PooledBeliefs, truth: Truth) -> dict[str, float]:
    """Compute all scores: those of each role, weighted by how often it is asked about."""
    w, by_role = truth.weight, compute_role_scores(found, truth)
    names = [name for name in by_role[0] if name not in ("role", "weight")]
    return {name: sum(row["weight"] * row[name] for row in by_role) for name in names} | {
        "epistemic_share": float(w @ found.epistemic.sum(axis=1) / (w @ found.entropy.sum(axis=1)))
    }


def compute_role_scores(found: PooledBeliefs, truth: Truth) -> list[dict[str, Any]]:
    """Compute the scores of each role, in the order of the world's roles.

    NLL and Brier are over all units, so that roles weighted add up to the whole; calibration and
    distance over those that the role can have.
    """
    rows = []
    for number, name in enumerate(truth.roles):
        here, units = np.flatnonzero(truth.role == number), truth.find_possible_units(number)
        p, t = (x[np.ix_(here, units)] for x in (found.belief, truth.targets))
        w = truth.weight[here]
        spread = np.repeat(w / (w.sum() * units.sum()), units.sum())
        difference = (p - t).ravel() * spread
        true, yes, no = (x[here] for x in (truth.targets, found.log_yes, found.log_no))
        nll = -(true * yes + (1 - true) * no)
        excess = nll - entr(true) - entr(1 - true)
        square = (found.belief[here] - true) ** 2
        rows.append(
            {
                "role": name,
                "weight": float(w.sum()),
                "nll": float(w @ nll.sum(axis=1) / w.sum()),
                "nll_excess": float(w @ excess.sum(axis=1) / w.sum()),
                "brier": float(w @ square.sum(axis=1) / w.sum()),
                "calibration_error": calibration_error(t, p, bins=BINS, weights=w),
                "distance": float(np.abs(difference).sum()),
            }
        )
    return rows


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
