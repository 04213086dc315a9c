"""Beliefs scored against the exact ones of the world, over everything that can be asked in it.

All distinct pairs of a prefix and a role, each with its probability w as weight; t is the true
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
"""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import entr

from equivocal.gestalt.questions import Questions, collect_questions
from equivocal.metrics import calibration_error
from equivocal.uncertainty.comprehenders import PooledBeliefs
from equivocal.world import World
from equivocal.world.errors import require_exact

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
