"""Hamiltonian Monte Carlo in coordinates of a Gaussian, for many outputs and chains at once.

With the Gaussian N(m, GGᵀ) that fits the posterior best, θ = m + G z has nearly the law N(0, I) in
z. Trajectories move z by the potential of maths.md (22),

    U(z) = Σ_n [log p(t_n | m) − log p(t_n | m + G z)] + mᵀG z + ½ zᵀGᵀG z,

and end in a Metropolis test, so that the draws are those of the exact posterior whatever the
Gaussian is. Let u(z) = ½|z|² − U(z), which is constant where the posterior is that Gaussian. A step
of length ε turns (z, p) by the angle ε, which solves the Gaussian part exactly, between two kicks
½ε∇u (Shahbaba, Lan, Johnson and Neal 2014, Statistics and Computing 24:339). An angle of π/2 in
all makes successive draws nearly independent.

Every output has a step size and a number of steps of its own, so that none depends on its
neighbours. The classes of a softmax are one output here, with the weights of all classes. Step
sizes are jittered, and one in sixteen is short: a chain that starts where the posterior is steep
gets away by one of these.

The constants may be changed: they affect the effort, not the law of the draws.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lastlayer.compiling import (
    Array,
    Bool,
    Float,
    Int,
    PRNGKey,
    choose_namespace,
    compile_on_call,
)
from lastlayer.logits import compute_log_likelihood
from lastlayer.problem import Likelihood, Problem
from lastlayer.rows import Block, Plan, Rows, iterate_outputs, sum_over_blocks

QUARTER = np.pi / 2
SHORT_SHARE = 1 / 16  # share of short steps
FIRST_STEP_SIZE, MOST_LEAPS = 0.4, 64
LONGEST_LEAP = QUARTER / 3  # longer steps are good on the average and get stuck in the tails
START_SPREAD = 0.8  # of the starts, in posterior sd: far out the posterior may be too steep to move
ADAPTATION_GAIN = 2.0  # of the adaptation of the step size


class Target(NamedTuple):
    """The posterior of some outputs in coordinates z; D counts the weights of all classes."""

    rows: Rows  # offsets are the logits at m
    mean: Float[Array, "K D"]  # m
    factor: Float[Array, "K D D"]  # G


class Chains(NamedTuple):
    """All that the next transition reads."""

    position: Float[Array, "K C D"]  # z
    potential: Float[Array, "K C"]  # U
    gradient: Float[Array, "K C D"]  # ∇U
    step_size: Float[Array, " K"]  # ε


class Path(NamedTuple):
    """What the points of a trajectory say of the posterior's moments, maths (23)."""

    inward: Float[Array, "K C 1"]  # z·∇u
    bend: Float[Array, "K C D"]  # ∇u


class Passage(NamedTuple):
    """What a transition tells besides where it ended."""

    likely: Float[Array, "K C"]  # how likely the trajectory was to pass the test
    path: Path | None  # averages along it, if the rule asks for them


class Rule(NamedTuple):
    """What is fixed while a program runs; hashable, hence static under jit."""

    target_accept: float = 0.9
    adapt: bool = False  # the step size, after every transition
    softmax: bool = False  # the rows are those of the classes of one output
    mirrored: bool = False  # the second half of the chains gets the first's momenta, reversed
    watched: bool = False  # average over the points of each trajectory


def centre(problem: Problem, mean: np.ndarray) -> Problem:
    """Return the problem with the prior mean at m, so that offsets are the logits there."""
    return replace(problem, prior_mean=problem.to_weights(mean))


def iterate_targets(
    problem: Problem,
    mean: np.ndarray,
    factor: np.ndarray,
    plan: Plan,
    outputs: np.ndarray,
    together: int,
) -> Iterator[tuple[np.ndarray, Target]]:
    """Yield a list of outputs in groups of one size: their places in the list, and posteriors.

    The factor of a softmax, (1, K D, K D), is that of all classes, which are one group.
    """
    for places, rows in iterate_outputs(centre(problem, mean), plan, outputs, together):
        own = outputs[places]
        G = factor if problem.likelihood is Likelihood.SOFTMAX else factor[own]
        yield places, make_target(rows, mean[own], G, plan.num_features)


def make_target(rows: Rows, mean: np.ndarray, factor: np.ndarray, wide: int) -> Target:
    """Return the posterior about N(m, GGᵀ); the rows are those of the centred problem.

    Weights of columns of zeros, with which features are filled up, have their prior N(0, 1).
    """
    (K, D), number = mean.shape, len(factor)
    classes = K // number
    more, xp = (0, wide - D), choose_namespace(factor)
    filled = factor.reshape(number, classes, D, classes, D)
    filled = xp.pad(filled, ((0, 0), (0, 0), more, (0, 0), more))
    beyond = np.arange(classes * wide) % wide >= D
    filled = filled.reshape(number, len(beyond), len(beyond)) + np.diag(beyond).astype(mean.dtype)
    m = np.pad(mean, ((0, 0), (0, wide - D))).reshape(number, -1)
    return Target(rows, *map(jax.device_put, (m, filled)))


def split_classes(w: Float[Array, "K n D"], wide: int) -> Float[Array, "rows n wide"]:
    """Return the weights of each class, or of each yes/no output, which has one."""
    K, n, _ = w.shape
    return w.reshape(K, n, -1, wide).swapaxes(1, 2).reshape(-1, n, wide)


def _join_classes(w: Float[Array, "rows n wide"], num_outputs: int) -> Float[Array, "K n D"]:
    _, n, wide = w.shape
    return w.reshape(num_outputs, -1, n, wide).swapaxes(1, 2).reshape(num_outputs, n, -1)


def _compute_logits(w: Float[Array, "K C D"], block: Block) -> Array:
    """Return the logits of a block at weights w, (K, C, rows): one wide product for all chains."""
    wide = block.features.shape[1]
    shift = split_classes(w, wide).reshape(-1, wide) @ block.features.T
    return shift.reshape(-1, w.shape[1], len(block.features)) + block.offsets[:, None]


def _pull(a: Float[Array, "K C rows"], block: Block, rule: Rule) -> Float[Array, "K C wide"]:
    """Return what the rows of a block add to ∇U, in weights: maths (2) or (19)."""
    y = jax.nn.softmax(a, axis=0) if rule.softmax else jax.nn.sigmoid(a)
    c = block.counts if block.counts.ndim == 1 else block.counts[:, None]
    error = c * y - block.targets[:, None]
    pulled = error.reshape(-1, error.shape[-1]) @ block.features
    return pulled.reshape(*a.shape[:2], -1)


def _sum_losses(a: Float[Array, "K C rows"], block: Block, rule: Rule) -> Float[Array, "K C"]:
    """Return the rows' contribution to U, as differences from m, so that no digits are lost."""

    def compute(a: Float[Array, "K rows"]) -> Float[Array, "K rows"]:
        if rule.softmax:
            return block.targets * jax.nn.log_softmax(a, axis=0)  # maths (19)
        return compute_log_likelihood(a, jnp.log1p(jnp.exp(-jnp.abs(a))), block)

    moved = jax.vmap(compute, in_axes=1, out_axes=1)(a)
    return (compute(block.offsets)[:, None] - moved).sum(axis=-1)


def _add_prior(
    target: Target, w: Float[Array, "K C D"], pulled: Float[Array, "rows C wide"]
) -> Float[Array, "K C D"]:
    """Return ∇U, given what the rows add to it in weights."""
    total = _join_classes(pulled, len(w)) + (target.mean[:, None] + w)
    return jnp.matmul(total, target.factor)


def compute_gradient(target: Target, z: Float[Array, "K C D"], rule: Rule) -> Float[Array, "K C D"]:
    """Return ∇U, maths (22)."""
    w = jnp.matmul(z, target.factor.swapaxes(1, 2))

    def sum_block(block: Block) -> Float[Array, "rows C wide"]:
        return _pull(_compute_logits(w, block), block, rule)

    return _add_prior(target, w, sum_over_blocks(sum_block, target.rows))


def evaluate(
    target: Target, z: Float[Array, "K C D"], rule: Rule
) -> tuple[Float[Array, "K C"], Float[Array, "K C D"]]:
    """Return U and ∇U, maths (22), from the same logits."""
    w = jnp.matmul(z, target.factor.swapaxes(1, 2))

    def sum_block(block: Block) -> tuple[Float[Array, "rows C"], Float[Array, "rows C wide"]]:
        a = _compute_logits(w, block)
        return _sum_losses(a, block, rule), _pull(a, block, rule)

    losses, pulled = sum_over_blocks(sum_block, target.rows)
    U = losses.reshape(len(z), -1, z.shape[1]).sum(axis=1)
    U += (w * (target.mean[:, None] + 0.5 * w)).sum(axis=-1)
    return U, _add_prior(target, w, pulled)


@compile_on_call(static_argnames=("num_chains", "rule"))
def start_chains(keys: PRNGKey, target: Target, num_chains: int, rule: Rule) -> Chains:
    """Start at draws from the Gaussian, narrowed to `START_SPREAD`."""
    z = START_SPREAD * _draw_normal(keys, target, num_chains, rule)
    K, dtype = len(keys), target.mean.dtype
    return Chains(z, *evaluate(target, z, rule), jnp.full(K, FIRST_STEP_SIZE, dtype))


def _draw_normal(keys: PRNGKey, target: Target, number: int, rule: Rule) -> Float[Array, "K C D"]:
    """Draw standard normal vectors; mirrored, the second half is minus the first."""
    shape, dtype = target.factor.shape[2:], target.mean.dtype
    own = number // 2 if rule.mirrored else number
    drawn = jax.vmap(lambda key: jax.random.normal(key, (own, *shape), dtype))(keys)
    return jnp.concatenate([drawn, -drawn], axis=1) if rule.mirrored else drawn


@compile_on_call(static_argnames=("number", "rule"))
def measure_bend(keys: PRNGKey, target: Target, number: int, rule: Rule) -> Float[Array, "K C D"]:
    """Return ∇u at draws from the Gaussian."""
    z = _draw_normal(keys, target, number, rule)
    return z - compute_gradient(target, z, rule)


def count_leaps(step_size: Float[Array, " K"]) -> Int[Array, " K"]:
    """Return how many steps make a quarter of a period."""
    return jnp.clip(jnp.ceil(QUARTER / step_size), 1, MOST_LEAPS).astype(jnp.int32)


def _spread(uniform: Float[Array, "K C"]) -> Float[Array, "K C"]:
    """Turn uniform numbers into factors of the step size: 0.9 to 1.1, or 0.1 to 0.6 if short."""
    long = 0.9 + 0.2 * (uniform - SHORT_SHARE) / (1 - SHORT_SHARE)
    return jnp.where(uniform < SHORT_SHARE, 0.1 + 0.5 * uniform / SHORT_SHARE, long)


def step(keys: PRNGKey, state: Chains, target: Target, rule: Rule) -> tuple[Chains, Passage]:
    """Run one trajectory of every chain and test it."""
    z, U, gradient, step_size = state
    C = z.shape[1]
    own = jax.vmap(lambda key: jax.random.split(key, 3))(keys)
    momentum = _draw_normal(own[:, 0], target, C, rule)
    uniform: Any = jax.vmap(lambda key: jax.random.uniform(key, (C,), z.dtype))
    jitter, test = uniform(own[:, 1]), jnp.log(uniform(own[:, 2]))
    if rule.mirrored:  # pairs move alike
        jitter = jnp.concatenate([jitter[:, : C // 2]] * 2, axis=1)
    epsilon = (step_size[:, None] * _spread(jitter))[..., None]
    leaps = count_leaps(step_size)
    cosine, sine = jnp.cos(epsilon), jnp.sin(epsilon)

    def turn(z: Array, p: Array) -> tuple[Array, Array]:
        return cosine * z + sine * p, cosine * p - sine * z

    Moving = tuple[Array, Array, Path | None]

    def leap(i: Int[Array, ""], moving: Moving) -> Moving:
        moved, p = turn(*moving[:2])
        bend = moved - compute_gradient(target, moved, rule)
        new = moved, p + epsilon * bend, _add_point(moving[2], moved, bend)
        ongoing = (i < leaps - 1)[:, None, None]  # the last is taken by all outputs together
        held: Moving = jax.tree.map(partial(jnp.where, ongoing), new, moving)
        return held

    half = momentum + 0.5 * epsilon * (z - gradient)
    path = Path(jnp.zeros_like(z[..., :1]), jnp.zeros_like(z)) if rule.watched else None
    *ended, path = jax.lax.fori_loop(0, leaps.max() - 1, leap, (z, half, path))
    z_new, p_new = turn(*ended)
    U_new, gradient_new = evaluate(target, z_new, rule)
    p_new = p_new + 0.5 * epsilon * (z_new - gradient_new)
    kinetic = 0.5 * ((momentum**2).sum(axis=-1) - (p_new**2).sum(axis=-1))
    gain = U - U_new + kinetic
    gain = jnp.where(jnp.isfinite(gain), gain, -jnp.inf)
    likely = jnp.exp(jnp.minimum(gain, 0))
    path = _add_point(path, z_new, z_new - gradient_new)
    if path is not None:
        path = _weigh_path(path, leaps, state, likely)
    moved = Chains(z_new, U_new, gradient_new, step_size)
    return _accept(state, moved, test < gain), Passage(likely, path)


def _add_point(path: Path | None, z: Array, bend: Array) -> Path | None:
    """Add a point of a trajectory, where trajectories are watched."""
    if path is None:
        return None
    return Path(path.inward + (z * bend).sum(axis=-1, keepdims=True), path.bend + bend)


def _weigh_path(path: Path, leaps: Array, start: Chains, likely: Array) -> Path:
    """Average over the points, and with the start: as likely as the trajectory is to fail.

    The expectation over the test's outcome has less noise than the outcome (Frenkel 2004, PNAS
    101:17571). Points on the way are as likely to pass as the last, up to the integrator's error
    (Nishimura and Dunson 2020, Bayesian Analysis 15:1087).
    """
    bend = start.position - start.gradient
    old = Path((start.position * bend).sum(axis=-1, keepdims=True), bend)
    chance = likely[..., None]

    def weigh(new: Array, old: Array) -> Array:
        mixed = chance * new / leaps[:, None, None] + (1 - chance) * old
        return jnp.where(chance > 0, mixed, old)  # what diverged may not be a number

    return Path(weigh(path.inward, old.inward), weigh(path.bend, old.bend))


def _accept(old: Chains, new: Chains, accepted: Bool[Array, "K C"]) -> Chains:
    def pick(moved: Array, stayed: Array) -> Array:
        return jnp.where(accepted.reshape(*accepted.shape, *[1] * (moved.ndim - 2)), moved, stayed)

    return Chains(
        position=pick(new.position, old.position),
        potential=pick(new.potential, old.potential),
        gradient=pick(new.gradient, old.gradient),
        step_size=old.step_size,
    )


def _transit(
    keys: PRNGKey, chains: Chains, target: Target, i: Int[Array, ""], rule: Rule
) -> tuple[Chains, Path | None]:
    """Take transition i, and adapt the step size if the rule says so."""
    own = jax.vmap(lambda key: jax.random.fold_in(key, i))(keys)
    chains, (likely, path) = step(own, chains, target, rule)
    if rule.adapt:
        excess = likely.mean(axis=1) - rule.target_accept
        gain = ADAPTATION_GAIN * excess / jnp.sqrt(i).astype(likely.dtype)
        chains = chains._replace(
            step_size=jnp.minimum(chains.step_size * jnp.exp(gain), LONGEST_LEAP).astype(gain.dtype)
        )
    return chains, path


class Draws(NamedTuple):
    """Draws of the weights of each output, or of each class, and sums over them, maths (23)."""

    weights: Float[Array, "K T C D"]  # w = Gz
    bend: Float[Array, "K D"]  # Σ G∇u
    cross: Float[Array, "K D D"]  # Σ w (G∇u)ᵀ


@compile_on_call(static_argnames=("number", "rule"))
def run_chains(
    keys: PRNGKey, chains: Chains, target: Target, first: Any, number: int, kept: Any, rule: Rule
) -> tuple[Chains, Draws]:
    """Run transitions `first`, `first` + 1, …; returns the chains, and what came after each.

    Sums are over the first `kept` transitions.
    """

    def transit(chains: Chains, i: Int[Array, ""]) -> tuple[Chains, tuple[Array, Array]]:
        chains, _ = _transit(keys, chains, target, i, rule)
        bend = jnp.where(i < first + kept, chains.position - chains.gradient, 0)
        return chains, (chains.position, bend)

    chains, moved = jax.lax.scan(transit, chains, first + jnp.arange(number))
    K, C, D = chains.position.shape
    wide = target.rows.features.shape[2]

    def weigh(z: Float[Array, "T K C D"]) -> Float[Array, "rows n wide"]:
        flat = z.swapaxes(0, 1).reshape(K, number * C, D)
        return split_classes(jnp.matmul(flat, target.factor.swapaxes(1, 2)), wide)

    w, bend = map(weigh, moved)
    cross = jnp.matmul(w.swapaxes(1, 2), bend)
    return chains, Draws(w.reshape(len(w), number, C, wide), bend.sum(axis=1), cross)


@compile_on_call(static_argnames=("num_chains", "rule"))
def watch_chains(
    keys: PRNGKey, target: Target, num_chains: int, number: Any, skipped: Any, rule: Rule
) -> Path:
    """Start chains, run transitions, and return the sums over the averages of each path.

    The first `skipped` transitions do not count.
    """
    chains = start_chains(keys, target, num_chains, rule)
    nothing = Path(jnp.zeros_like(chains.position[..., :1]), jnp.zeros_like(chains.position))

    def transit(i: Int[Array, ""], held: tuple[Chains, Path]) -> tuple[Chains, Path]:
        chains, path = _transit(keys, held[0], target, i, rule)

        def add(total: Array, new: Array) -> Array:
            return jnp.where(i > skipped, total + new, total)

        return chains, jax.tree.map(add, held[1], path)

    ended: tuple[Chains, Path] = jax.lax.fori_loop(1, 1 + number, transit, (chains, nothing))
    return ended[1]
