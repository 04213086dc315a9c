"""Exact flow: the ensemble moved by the closed-form solution of its frozen equation.

    θ_j = m + √(J−1) G e_j,   E Eᵀ = I,  E 1 = 0          docs/maths.md (16), (m, G) moved by (15)

One step solves the deterministic sampler's equation (arXiv:2309.04742), docs/maths.md (7), exactly
for frozen H; it is an ensemble transform with the symmetric square root, d ← d V diag((1 − s +
sΛ)^(−½)) Vᵀ, written for a factor G of the deviations d, so that it costs N·D² however many
particles there are.

`expectations="quadrature"` (default): a row's logit is N(ψᵀm, ψᵀPψ), so its averages are integrals
in one variable. The result is that of `mean_field` for every J; particles are drawn at the end,
with exactly its moments where J > D.
`expectations="ensemble"`: averages over the particles, as in the paper, from a start with the
prior's moments (`start_near_prior`). The fixed point then lies O(J^(−1/2)) away.
With J ≤ D the ensemble cannot leave the subspace it starts in; `info` says so.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from lastlayer.engine.ensembles import draw_noise
from lastlayer.engine.flow import start_flow
from lastlayer.engine.inputs import check_choice
from lastlayer.engine.likelihoods import (
    FlowRule,
    average_over_ensemble,
    compute_deviations,
)
from lastlayer.engine.plan import Plan, make_plan
from lastlayer.engine.problem import Problem
from lastlayer.engine.queue import run_flow
from lastlayer.engine.settings import Outcome, RunSettings
from lastlayer.samplers import mean_field
from lastlayer.samplers.mean_field import NUM_STEPS, RULE, run_gaussian

step = mean_field.step
init = start_flow  # an ensemble about `mean` with covariance `factor` `factor`ᵀ


class Expectations(StrEnum):
    """How averages over the ensemble are computed."""

    QUADRATURE = "quadrature"  # from the ensemble's mean and covariance
    ENSEMBLE = "ensemble"  # from its particles


@dataclass(frozen=True, kw_only=True)
class ExactFlowConfig:
    """How the flow computes averages."""

    expectations: str = Expectations.QUADRATURE

    def __post_init__(self) -> None:
        check_choice(self.expectations, "expectations", list(Expectations))


def run(problem: Problem, config: ExactFlowConfig, settings: RunSettings) -> Outcome:
    """Flow all outputs from the prior to the fixed point."""
    if config.expectations == Expectations.QUADRATURE:
        return run_gaussian(problem, RULE, settings)
    return _run_ensemble(problem, settings)


def count_bytes(problem: Problem, config: ExactFlowConfig, settings: RunSettings) -> int:
    """Return the bytes of the smallest budget that has room for a run."""
    if config.expectations == Expectations.QUADRATURE:
        return mean_field.count_bytes(problem, settings, RULE)
    return plan_ensemble(problem, settings).least


def plan_ensemble(problem: Problem, settings: RunSettings) -> Plan:
    """Return how many rows and outputs are worked on at a time, for averages over particles."""
    D, J = problem.num_features, settings.num_particles
    return make_plan(
        problem,
        settings.memory_budget,
        per_output=8 * D * D + D * J,
        per_row=3 * (D + J),
        per_row_kept=3 + J,
    )


def _run_ensemble(problem: Problem, settings: RunSettings) -> Outcome:
    """Flow with averages over particles; where J ≤ D, G holds the J − 1 spanned directions."""
    D, J = problem.num_features, settings.num_particles
    rank = min(J - 1, D)
    confined = J <= D

    def draw_own_noise(k: int, number: int) -> np.ndarray:
        drawn = draw_noise(settings.seed, settings.number(range(k, k + 1)), number, D)
        return np.asarray(drawn[0])

    def start_of(k: int) -> tuple[np.ndarray, np.ndarray]:
        spanned = draw_own_noise(k, rank) / np.sqrt(rank)
        return np.zeros(D, problem.dtype), spanned.astype(problem.dtype)

    def make_noise(k: int) -> np.ndarray:
        noise = make_simplex(J) if confined else draw_own_noise(k, J)
        return noise.astype(problem.dtype)

    outcome = run_flow(
        problem,
        plan_ensemble(problem, settings),
        # averages over J particles change the bound of the line search by about D/2J nats
        FlowRule(compute_deviations, average_over_ensemble, slack=D / J, symmetric=True),
        tolerance=settings.tolerance,
        num_steps=settings.num_steps or NUM_STEPS,
        report=settings.tell,
        nodes_of=make_noise,
        start_of=start_of if confined else None,
    )
    assert outcome.factor is not None
    outcome.in_subspace = True
    moved = (factor @ make_noise(k) for k, factor in enumerate(outcome.factor))
    outcome.particles = np.stack([m + d.T for m, d in zip(outcome.mean, moved, strict=True)])
    return outcome


def make_simplex(J: int) -> np.ndarray:
    """Return √(J−1) E for an ensemble that is its own basis: J corners in J − 1 dimensions."""
    basis, _ = np.linalg.qr(np.eye(J)[:, : J - 1] - 1 / J)
    return np.sqrt(J - 1) * basis.T
