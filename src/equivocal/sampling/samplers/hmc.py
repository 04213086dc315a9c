"""Hamiltonian Monte Carlo: draws from the exact posterior, for all outputs at once.

    θ = m + G z,    z by trajectories of docs/maths.md (25) and a Metropolis test

N(m, GGᵀ) is the Gaussian that `mean_field` finds; in its coordinates the posterior is nearly
N(0, I), so that a few leapfrog steps give a nearly independent draw (`engine.hamiltonian`). Many
chains of every output run in one program. Warm-up adapts a step size for each output. An output is
done when all its weights (and its logits at the rows `check_at`, if given) have a rank-normalised
split-R̂ of at most 1.01 and an effective size, bulk and tail, of at least 400; until then its chains
go on, up to `num_steps` transitions. What an output gets depends on its own chains alone: outputs
that run beside it change nothing but the round-off of sums, and the memory budget not even that.

J particles are draws, spread evenly over the chains. Mean and covariance are those of all draws
with Stein's identities as control variates, docs/maths.md (26): with u(z) = ½|z|² − U(z), which is
constant where the posterior is Gaussian,

    E[z] = E[∇u],        E[zzᵀ] = I + E[z ∇uᵀ].

Neal (2011), Handbook of Markov Chain Monte Carlo, ch. 5; Mira, Solgi and Imparato (2013),
Statistics and Computing 23:653.
"""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equivocal.sampling.engine.convergence import ESS, FEWEST, R_HAT, compute_convergence
from equivocal.sampling.engine.ensembles import draw
from equivocal.sampling.engine.hamiltonian import (
    Rule,
    centre,
    make_target,
    run_chains,
    start_chains,
    step,
)
from equivocal.sampling.engine.inputs import check_features, check_int, check_positive, fail
from equivocal.sampling.engine.plan import make_plan
from equivocal.sampling.engine.problem import Likelihood, Problem
from equivocal.sampling.engine.settings import Outcome, RunSettings, make_keys
from equivocal.sampling.engine.streaming import iterate_outputs
from equivocal.sampling.samplers import mean_field

__all__ = ["HmcConfig", "init", "run", "step"]

init = start_chains
NUM_WARMUP, ROUND = 30, 50  # transitions
NUM_STEPS = 2_000  # the most transitions after warm-up
GROWTH = 1.4  # of the draws between two looks at convergence
PER_OUTPUT = ("converged", "steps", "time", "mean_residual", "covariance_residual")
NAMED = 8  # outputs that a message lists


@dataclass(frozen=True, kw_only=True)
class HmcConfig:
    """How many chains, and what has to converge besides the weights."""

    num_chains: int = 8
    target_accept: float = 0.9
    check_at: Any = None  # rows (n, D) whose predictions must have converged, too

    def __post_init__(self) -> None:
        check_int(self.num_chains, "num_chains", least=2, most=1024)
        check_positive(self.target_accept, "target_accept", below=1.0)
        if self.check_at is not None:
            object.__setattr__(self, "check_at", check_features(self.check_at, None, "check_at"))


def run(problem: Problem, config: HmcConfig, settings: RunSettings) -> Outcome:
    """Draw from every output's posterior, about its mean-field Gaussian."""
    unlimited = replace(settings, num_steps=None, report=None)
    rule = mean_field.choose_rule(problem)
    # rows in a file then give the same draws
    found = mean_field.run_gaussian(problem, rule, unlimited, plain=True)
    return sample_about(problem, found, config, settings)


def sample_about(
    problem: Problem,
    found: Outcome,
    config: HmcConfig,
    settings: RunSettings,
) -> Outcome:
    """Draw from every output's posterior in coordinates of the Gaussians `found`."""
    K, D, C = problem.num_outputs, problem.num_features, config.num_chains
    assert found.factor is not None, "a Gaussian method gives a factor"
    joint = problem.likelihood is Likelihood.SOFTMAX
    rule = Rule(config.target_accept, joint=joint, precision=settings.precision)
    plan = make_plan(
        problem,
        settings.memory_budget,
        per_output=4 * D * D + 8 * C * D,  # draws are results, which belong to the caller
        per_row=4 * C,
        pad=True,
    )
    outcome = _prepare_outcome(found, K, D, settings.num_particles, min(C, settings.num_particles))
    r_hat, ess = np.empty(K), np.empty(K)
    group = K if joint else plan.slots
    for some, rows in iterate_outputs(centre(problem, found.mean), plan, group):
        outputs = slice(some.start, some.stop)
        mean, factor = found.mean[outputs], found.factor[outputs]
        target = make_target(rows, jax.device_put(mean), jax.device_put(factor), plan.num_features)
        checked = _list_checked(problem, factor, config)
        keys = make_keys(settings.seed, settings.number(some))
        found_here = _run_group(keys, some, K, target, checked, rule, config, settings)
        z, gradient, lengths, r_hat[outputs], ess[outputs] = found_here
        outcome.steps[outputs] = lengths
        for i, k in enumerate(some):
            own = slice(0, lengths[i]), i
            _summarise(outcome, k, mean[i], factor[i], z[own], gradient[own])
    outcome.r_hat, outcome.ess = r_hat, ess
    outcome.converged = found.converged & (r_hat <= R_HAT) & (ess >= ESS)
    missed = np.unique(settings.number(np.flatnonzero(~outcome.converged)))
    outcome.stop_reason = _explain_stop(missed)
    return outcome


def refine(problem: Problem, outcome: Outcome, far: np.ndarray, settings: RunSettings) -> None:
    """Replace the Gaussian of some outputs by draws from the exact posterior."""
    assert outcome.factor is not None, "a Gaussian method gives a factor"
    these = np.flatnonzero(far)
    some = Outcome(
        mean=outcome.mean[far],
        factor=outcome.factor[far],
        **{name: getattr(outcome, name)[far] for name in PER_OUTPUT},
    )
    own = replace(settings, num_steps=None, numbers=settings.number(these))
    exact = sample_about(problem.select(these), some, HmcConfig(), own)
    given = outcome.mean, outcome.factor, settings.num_particles, settings.seed
    outcome.particles = draw(*given, settings.numbers)
    outcome.covariance = np.matmul(outcome.factor, outcome.factor.swapaxes(1, 2))
    outcome.refined = far
    chains = ("r_hat", "ess", "mean_residual", "covariance_residual")  # chains have no residuals
    for name in ("mean", "particles", "covariance", "converged", *chains):
        getattr(outcome, name)[far] = getattr(exact, name)
    outcome.stop_reason = outcome.stop_reason or exact.stop_reason


def _prepare_outcome(found: Outcome, K: int, D: int, J: int, chains: int) -> Outcome:
    """Return an outcome to fill in, group by group."""
    nothing = np.full(K, np.nan)
    return Outcome(
        mean=np.empty_like(found.mean),
        covariance=np.empty((K, D, D), found.mean.dtype),
        particles=np.empty((K, J, D), found.mean.dtype),
        converged=np.zeros(K, bool),
        steps=np.zeros(K, int),
        time=nothing,
        mean_residual=nothing,
        covariance_residual=nothing,
        chains=chains,
    )


def _list_checked(problem: Problem, factor: np.ndarray, config: HmcConfig) -> np.ndarray:
    """Return the directions of z that must converge, (K, directions, D): weights, then logits."""
    if config.check_at is None:
        return factor
    rows = np.asarray(config.check_at, problem.dtype)
    if rows.shape[1] != problem.num_features:
        fail(
            f"check_at must have {problem.num_features} columns, as the features have, got "
            f"{rows.shape[1]}."
        )
    return np.concatenate([factor, (rows * problem.prior_scale) @ factor], axis=1)


def _run_group(
    keys: jax.Array,
    some: range,
    num_outputs: int,
    target: Any,
    checked: np.ndarray,
    rule: Rule,
    config: HmcConfig,
    settings: RunSettings,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Run the chains of some outputs until each has converged.

    Returns z and ∇U, (T, K, C, D), how many of the T each output takes, and its R̂ and effective
    size there.
    """
    most, K = settings.num_steps or NUM_STEPS, len(some)
    length = min(ROUND, most)
    wanted = max(min(2 * length, most), -(-settings.num_particles // config.num_chains))
    chains = start_chains(keys, target, config.num_chains, rule)
    chains, *_ = run_chains(keys, chains, target, 1, NUM_WARMUP, rule._replace(adapt=True))
    draws: list[tuple[Any, Any]] = []
    lengths, r_hat, ess = np.zeros(K, int), np.full(K, np.inf), np.zeros(K)

    def tell(taken: int) -> None:
        here = np.where(lengths > 0, most, min(taken, most)).sum()
        settings.tell(some.start * most + int(here), num_outputs * most)

    while not lengths.all():
        while length * len(draws) < wanted:
            first = 1 + NUM_WARMUP + length * len(draws)
            chains, z, gradient = run_chains(keys, chains, target, first, length, rule)
            draws.append((z.block_until_ready(), gradient))
            tell(length * len(draws))
        taken = length * len(draws)
        ongoing = np.flatnonzero(lengths == 0)
        r_hat[ongoing], ess[ongoing] = _look([z for z, _ in draws], checked, ongoing)
        good = (r_hat <= R_HAT) & (ess >= ESS)
        finished = (good.all() if rule.joint else good) | (taken >= most)
        lengths = np.where((lengths == 0) & finished, taken, lengths)
        wanted = int(GROWTH * taken)
        tell(taken)
    every, slopes = (np.concatenate(jax.device_get(part)) for part in zip(*draws, strict=True))
    return every, slopes, lengths, r_hat, ess


def _look(
    parts: list[Any], checked: np.ndarray, outputs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return R̂ and effective size of the worst direction of some outputs."""
    xp = np if jax.default_backend() == "cpu" else jnp
    z = xp.concatenate([xp.asarray(part)[:, outputs] for part in parts])
    if len(z) < FEWEST:
        return np.full(len(outputs), np.inf), np.zeros(len(outputs))
    turned = xp.asarray(checked)[outputs, None].swapaxes(-1, -2)
    values = xp.matmul(z.transpose(1, 2, 0, 3), turned).transpose(0, 3, 1, 2)
    r_hat, ess = compute_convergence(values, xp)
    return np.asarray(r_hat), np.asarray(ess)


def _summarise(
    outcome: Outcome,
    k: int,
    mean: np.ndarray,
    factor: np.ndarray,
    z: np.ndarray,
    gradient: np.ndarray,
) -> None:
    """Set the particles of an output and its moments, by maths (26) from all draws."""
    assert outcome.particles is not None
    assert outcome.covariance is not None
    T, C, D = z.shape
    J = outcome.particles.shape[1]
    taken = np.linspace(0, T - 1, -(-J // C)).round().astype(int)
    outcome.particles[k] = mean + z[taken].reshape(-1, D)[:J] @ factor.T
    z, bend = z.reshape(-1, D), (z - gradient).reshape(-1, D)  # ∇u
    shift = bend.mean(axis=0)
    cross = z.T @ bend / len(z)
    covariance = np.eye(D, dtype=z.dtype) + 0.5 * (cross + cross.T) - np.outer(shift, shift)
    outcome.mean[k] = mean + factor @ shift
    outcome.covariance[k] = factor @ covariance @ factor.T


def _explain_stop(missed: np.ndarray) -> str:
    """Name the outputs that have not converged, and say what helps."""
    if not len(missed):
        return ""
    named = ", ".join(map(str, missed[:NAMED])) + ", …" * (len(missed) > NAMED)
    return (
        f"R-hat above {R_HAT} or effective size below {ESS:.0f} in output{'s' * (len(missed) > 1)} "
        f"{named}; raise num_steps or num_chains"
    )
