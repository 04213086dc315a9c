"""Hamiltonian Monte Carlo: draws from the exact posterior, for all outputs at once.

    θ = m + G z,    z by trajectories of maths.md (22) and a Metropolis test

N(m, GGᵀ) is the Gaussian that `variational` finds, for the weights of all classes of a softmax the
one of `softmax`; in its coordinates the posterior is nearly N(0, I), so that a few leapfrog steps
give a nearly independent draw (`trajectories`). Many chains of every output run in one program.
Warm-up adapts a step size for each output. An output is done when all its weights have a
rank-normalised split-R̂ of at most 1.01 and an effective size, bulk and tail, of at least 400;
until then its chains go on, up to `num_steps` transitions, or their share of the particles, if that
is more. What an output gets depends on its own chains alone: outputs that run beside it change
nothing but the round-off of sums. The classes of a softmax are done together.

Programs run for `ROUND` transitions and for groups of one size, both of which the problem alone
determines: another seed compiles nothing. Draws of an output are kept until it is done.

J particles are draws, spread evenly over the chains. Mean and covariance are those of all draws
with Stein's identities as control variates, maths.md (23): with u(z) = ½|z|² − U(z), which is
constant where the posterior is Gaussian, and w = Gz,

    E[w] = E[G∇u],        E[wwᵀ] = GGᵀ + E[w (G∇u)ᵀ].

Neal (2011), Handbook of Markov Chain Monte Carlo, ch. 5; Mira, Solgi and Imparato (2013),
Statistics and Computing 23:653.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from lastlayer.checks import check_int, check_positive, fail
from lastlayer.convergence import ESS, FEWEST, R_HAT, compute_convergence
from lastlayer.ensembles import draw_particles
from lastlayer.outcome import Outcome, RunSettings, make_keys
from lastlayer.problem import Likelihood, Problem
from lastlayer.rows import Plan, divide_evenly, make_plan, offer_outputs
from lastlayer.softmax import find_gaussian
from lastlayer.trajectories import (
    Rule,
    Target,
    iterate_targets,
    run_chains,
    start_chains,
)
from lastlayer.variational import fit_gaussian, get_fit

NUM_WARMUP, ROUND = 30, 50  # transitions
NUM_STEPS = 2_000  # the most transitions after warm-up
LOOK_GROWTH = 1.4  # of the draws between two looks at convergence
NAMED = 8  # outputs that a message lists
REFINED = 4  # outputs together where a few are refined
NUMBERS_AT_A_LOOK = 1 << 15  # numbers of which a thread computes the convergence at a time
# The largest K D (N + K D) of a softmax on a CPU, whose core then takes hours: digits, with 1.2e6,
# take 7 to 15 s of processor time. A GPU is allowed more.
MOST_WORK, GPU_FACTOR = 1e9, 50


@dataclass(frozen=True, kw_only=True)
class HmcConfig:
    """How many chains, and how often their trajectories are to pass the test."""

    num_chains: int = 8
    target_accept: float = 0.9

    def __post_init__(self) -> None:
        check_int(self.num_chains, "num_chains", least=2, most=1024)
        check_positive(self.target_accept, "target_accept", below=1.0)


def check_size(problem: Problem) -> None:
    """Refuse a softmax whose draws would take too long."""
    N, K, D = problem.num_rows, problem.num_outputs, problem.num_features
    most = MOST_WORK * (GPU_FACTOR if jax.default_backend() == "gpu" else 1)
    work = float(K * D * (N + K * D))
    if problem.likelihood is Likelihood.SOFTMAX and work > most:
        fail(
            f"the exact draws of a softmax would take too long: K D (N + K D) is {work:.1e} for "
            f"{K} classes, {D} features and {N:,} rows, and may be {most:.0e}. Use "
            f"{offer_outputs(K)}; or fewer features."
        )


def run(problem: Problem, config: HmcConfig, settings: RunSettings) -> Outcome:
    """Draw from every output's posterior, about its Gaussian."""
    K = problem.num_outputs
    if problem.likelihood is Likelihood.SOFTMAX:
        mean, G = (part.astype(problem.dtype) for part in find_gaussian(problem))
        return _sample_about(problem, mean, G[None], np.arange(K), K, config, settings)
    unlimited = replace(settings, num_steps=None, report=None)
    fit = get_fit(fit_gaussian(problem, unlimited))
    together = divide_evenly(K, plan_run(problem, config, settings).slots)
    return _sample_about(problem, *fit, np.arange(K), together, config, settings)


def plan_run(problem: Problem, config: HmcConfig, settings: RunSettings) -> Plan:
    """Return how many rows and outputs are worked on at a time."""
    K, D, C = problem.num_outputs, problem.num_features, config.num_chains
    softmax = problem.likelihood is Likelihood.SOFTMAX
    most = count_most(settings, C)
    # draws until an output is done; those of a round, as they come; the states of the chains
    draws = (most + 5 * min(ROUND, most) + 12) * C * D
    matrices = 3 * (K if softmax else 1) * D * D + 3 * D * D
    return make_plan(
        problem,
        settings.memory_budget,
        per_output=matrices + draws,
        per_row=4 * C,
        slots=K if softmax else None,
        beside=K * D * D + 2 * settings.num_particles * D,
    )


def count_most(settings: RunSettings, num_chains: int) -> int:
    """Return the most transitions of a chain after warm-up: no fewer than its particles."""
    return max(settings.num_steps or NUM_STEPS, -(-settings.num_particles // num_chains))


def count_threads() -> int:
    """Return in how many threads convergence is computed."""
    return min(os.cpu_count() or 1, 16)


def refine(problem: Problem, outcome: Outcome, far: np.ndarray, settings: RunSettings) -> None:
    """Replace the Gaussian of some outputs by draws from the exact posterior."""
    assert outcome.factor is not None, "a Gaussian method gives a factor"
    free, config, these = replace(settings, num_steps=None), HmcConfig(), np.flatnonzero(far)
    # which outputs are refined depends on the seed, and the shapes of programs must not
    together = min(REFINED, problem.num_outputs, plan_run(problem, config, free).slots)
    exact = _sample_about(problem, outcome.mean, outcome.factor, these, together, config, free)
    draw_particles(outcome, settings, settings.numbers)
    outcome.refined = far
    chains = ("r_hat", "ess", "mean_residual", "covariance_residual")  # chains have no residuals
    for name in ("mean", "particles", "covariance", "converged", *chains):
        getattr(outcome, name)[far] = getattr(exact, name)
    outcome.stop_reason = outcome.stop_reason or exact.stop_reason


def _sample_about(
    problem: Problem,
    mean: np.ndarray,
    factor: np.ndarray,
    outputs: np.ndarray,
    together: int,
    config: HmcConfig,
    settings: RunSettings,
) -> Outcome:
    """Draw from the posterior of some outputs in coordinates of the Gaussians of all."""
    plan, J = plan_run(problem, config, settings), settings.num_particles
    softmax = problem.likelihood is Likelihood.SOFTMAX
    rule = Rule(config.target_accept, softmax=softmax)
    outcome = _prepare_outcome(mean[outputs], J, min(config.num_chains, J))
    roots = np.asarray(factor).reshape(len(mean), -1, factor.shape[-1])  # of each class
    done = 0
    with ThreadPoolExecutor(count_threads()) as pool:
        for places, target in iterate_targets(problem, mean, factor, plan, outputs, together):
            here = places[: len(outputs) - done]  # without those that fill the last group up
            numbers = settings.number(outputs[places])[: 1 if softmax else None]
            chains = _Chains(make_keys(settings.seed, numbers), target, config.num_chains, rule)
            group = [_Kept(mean[k], roots[k]) for k in outputs[here]]
            for i, kept in _run_group(chains, group, settings, pool, (done, len(outputs))):
                kept.summarise(outcome, int(here[i]))
            done += len(here)
    outcome.converged = (outcome.r_hat <= R_HAT) & (outcome.ess >= ESS)
    outcome.stop_reason = _explain_stop(settings.number(outputs[~outcome.converged]))
    return outcome


class _Chains:
    """The chains of a group of outputs, after their warm-up."""

    def __init__(self, keys: jax.Array, target: Target, number: int, rule: Rule) -> None:
        self._keys, self._target, self.number, self.rule = keys, target, number, rule
        self._state, self._next = start_chains(keys, target, number, rule), 1
        self.run(NUM_WARMUP, NUM_WARMUP, rule._replace(adapt=True))

    def run(self, number: int, kept: int, rule: Rule | None = None) -> Any:
        """Return the draws of the first `kept` of so many transitions, on the host."""
        given = self._keys, self._state, self._target, self._next, number, kept, rule or self.rule
        self._state, draws = run_chains(*given)
        self._next += number
        return jax.device_get(draws)


def _run_group(
    chains: _Chains,
    group: "list[_Kept]",
    settings: RunSettings,
    pool: ThreadPoolExecutor,
    progress: tuple[int, int],
) -> "Iterator[tuple[int, _Kept]]":
    """Run chains until each output has converged; yield them as they are done."""
    most, (done, number) = count_most(settings, chains.number), progress
    length, taken, ongoing = min(ROUND, most), 0, list(range(len(group)))
    wanted = max(min(2 * length, most), -(-settings.num_particles // chains.number))
    while ongoing:
        while taken < wanted:
            kept = min(length, most - taken)
            draws = chains.run(length, kept)
            taken += kept
            for i in ongoing:
                group[i].add(kept, *(part[i] for part in draws))
            before = (done + len(group) - len(ongoing)) * most
            settings.tell(before + len(ongoing) * taken, number * most)
        good = list(pool.map(_Kept.look, [group[i] for i in ongoing]))
        if chains.rule.softmax:
            good = [all(good)] * len(good)
        finished = [i for i, ended in zip(ongoing, good, strict=True) if ended or taken == most]
        for i in finished:
            yield i, group[i]
            group[i].weights.clear()
        ongoing = [i for i in ongoing if i not in finished]
        wanted = min(int(LOOK_GROWTH * taken), most)
    settings.tell((done + len(group)) * most, number * most)


class _Kept:
    """The draws of one output, or of one class, until it is done."""

    def __init__(self, mean: np.ndarray, root: np.ndarray) -> None:
        self.mean, self.root = mean, root  # (D,), and rows (D, …) of G
        self.weights: list[np.ndarray] = []  # w, (T, C, D) of each round
        D = len(mean)
        self.bend, self.cross = np.zeros(D, mean.dtype), np.zeros((D, D), mean.dtype)
        self.r_hat, self.ess = np.inf, 0.0  # of the worst weight

    def add(self, kept: int, weights: np.ndarray, bend: np.ndarray, cross: np.ndarray) -> None:
        """Add a round of `kept` transitions; columns of padding are left behind."""
        D = len(self.mean)
        self.weights.append(np.array(weights[:kept, :, :D]))
        self.bend += bend[:D]
        self.cross += cross[:D, :D]

    def look(self) -> bool:
        """Return whether the draws have converged."""
        T, (_, C, D) = sum(map(len, self.weights)), self.weights[0].shape
        if T < FEWEST:
            return False
        found, together = [], max(1, NUMBERS_AT_A_LOOK // (T * C))
        for first in range(0, D, together):
            some = [w[..., first : first + together] for w in self.weights]
            values = np.concatenate(some).transpose(2, 1, 0)
            found.append(compute_convergence(np.ascontiguousarray(values)))
        r_hat, ess = zip(*found, strict=True)
        self.r_hat, self.ess = float(max(r_hat)), float(min(ess))
        return self.r_hat <= R_HAT and self.ess >= ESS

    def summarise(self, outcome: Outcome, place: int) -> None:
        """Set the particles of an output and its moments, by maths (23) from all draws."""
        assert outcome.particles is not None
        assert outcome.covariance is not None
        J, (each, C, _) = outcome.particles.shape[1], self.weights[0].shape
        T = sum(map(len, self.weights))  # all rounds but the last have `each`
        taken = np.linspace(0, T - 1, -(-J // C)).round().astype(int)
        drawn = np.concatenate([self.weights[t // each][t % each] for t in taken])
        outcome.particles[place] = self.mean + drawn[:J]
        shift, cross = self.bend / (T * C), self.cross / (T * C)
        outcome.mean[place] = self.mean + shift
        excess = 0.5 * (cross + cross.T) - np.outer(shift, shift)
        outcome.covariance[place] = self.root @ self.root.T + excess
        outcome.steps[place] = T
        outcome.r_hat[place], outcome.ess[place] = self.r_hat, self.ess


def _prepare_outcome(mean: np.ndarray, J: int, chains: int) -> Outcome:
    """Return an outcome to fill in, group by group."""
    K, D = mean.shape
    return Outcome(
        mean=np.empty_like(mean),
        covariance=np.empty((K, D, D), mean.dtype),
        particles=np.empty((K, J, D), mean.dtype),
        chains=chains,
        r_hat=np.full(K, np.inf),
        ess=np.zeros(K),
    )


def _explain_stop(missed: np.ndarray) -> str:
    """Name the outputs that have not converged, and say what helps."""
    if not len(missed):
        return ""
    named = ", ".join(map(str, np.unique(missed)[:NAMED])) + ", …" * (len(missed) > NAMED)
    return (
        f"R-hat above {R_HAT} or effective size below {ESS:.0f} in output{'s' * (len(missed) > 1)} "
        f"{named}; raise num_steps or num_chains"
    )
