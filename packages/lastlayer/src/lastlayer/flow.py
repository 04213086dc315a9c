"""One damped step of Gaussian variational inference: the exact flow with frozen H and g.

The deterministic sampler (arXiv:2309.04742) moves the mean m and the deviations of an ensemble by
docs/maths.md (7), here with the prior N(0, I),

    dθ/dτ = −½ P (H (θ − m) + 2g) − ½ P (θ + m) + ½ (θ − m)

with g = Ψᵀ(c E[y] − t), H = Ψᵀ diag(c E[y(1−y)]) Ψ of (6). With H and g held fixed this is solved
in closed form. Let P = G Gᵀ, A = H + I, S = GᵀAG = V Λ Vᵀ, g̃ = g + m, s = 1 − e^(−Δτ):

    m ← m − G V diag(s / (1 − s + sΛ)) Vᵀ Gᵀ g̃      G ← G V diag((1 − s + sΛ)^(−½)) Vᵀ     (15)

that is P⁻¹ ← (1−s) P⁻¹ + s A, docs/maths.md (14). Stable for every s in (0, 1]; its fixed point is
P⁻¹ = A, g̃ = 0. An ensemble m + √(J−1) G E with E Eᵀ = I, E 1 = 0 (16) follows the same flow with E
unchanged, because the symmetric root in (15) multiplies G from the right. Where no particle is
watched any other root C, C Cᵀ = ((1−s) I + s S)⁻¹, gives the same P; a Cholesky factor costs a
tenth of V and Λ.

Three additions make it converge in about ten steps where (15) alone needs fifty:

- Line search on s with the evidence bound, docs/maths.md (4), as merit,
      L(m, P) = Σ_n E[log p(t_n | θ)] − ½ (tr P + |m|²) + ½ log det P + const.
- Mean corrections m ← m − α P g̃(m) at the new P (`correct_mean`), which cost N·D each after
  one product of N·D²; the loss they lower is watched, and a step that raised it is taken again,
  shorter. On nearly separable rows E[y(1−y)] depends on μ/√v, and m and P overshoot each other
  unless m follows P at once.
- Aitken's relaxation: s is chosen so that it would have cancelled the change of S − I.

Everything is kept in coordinates of G (B = ΨG, GᵀHG = Bᵀ diag(r) B), where no digits cancel: in
float32 ψᵀPψ computed from P loses all of them once data and prior differ by 10⁴ in precision.

The constants of the line search may be changed: they affect the number of steps, not the fixed
point.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lastlayer.compiling import Array, Bool, Float, compile_on_call
from lastlayer.devices import apply_one_by_one
from lastlayer.likelihoods import FlowRule
from lastlayer.products import Shared, multiply
from lastlayer.rows import (
    Block,
    Blocks,
    Rows,
    map_over_blocks,
    scan_blocks,
    sum_over_blocks,
)

GROWTH, SHRINKAGE = 1.5, 0.5
LONGEST = 0.999_999  # s that still has a finite Δτ
# In Newton steps of P; where rows are saturated the curvature says nothing.
LONGEST_CORRECTION = 32.0
CLOSE = 0.1  # posterior sd: from here one more correction needs no look


class Sums(NamedTuple):
    """Sums over the rows at a state, in coordinates of G; the curvature includes the prior's."""

    curvature: Float[Array, "K r r"]  # S = GᵀAG = GᵀHG + GᵀG
    gradient: Float[Array, "K r"]  # Gᵀg
    log_likelihood: Float[Array, " K"]  # Σ_n E log p(t_n | θ)


class FlowState(NamedTuple):
    """All that the next step reads."""

    mean: Float[Array, "K D"]  # m
    factor: Float[Array, "K D r"]  # G
    sums: Sums  # at (m, G)
    bound: Float[Array, " K"]  # L; −∞ until `sums` are known
    log_det: Float[Array, " K"]  # log det P, up to a constant
    # s of the last step, or of the next if that was refused; 0 at the start
    damping: Float[Array, " K"]
    refused: Bool[Array, " K"]
    misfit: Float[Array, "K r r"]  # S − I at the step before
    time: Float[Array, " K"]  # τ


class FlowInfo(NamedTuple):
    """What a driver or a diagnostic may want; `flow_step` never reads it."""

    mean_residual: Float[Array, " K"]  # |Cᵀ Gᵀ g̃|, the distance to go in posterior sd
    covariance_residual: Float[Array, " K"]  # ‖S − I‖, bounds every variance's relative error


class Line(NamedTuple):
    """Where the mean corrections stand: the best mean yet, and the next to look at."""

    best: Float[Array, "K D"]
    loss: Float[Array, " K"]  # at `best`
    direction: Float[Array, "K D"]
    length: Float[Array, " K"]
    trial: Float[Array, "K D"]  # best − length × direction
    worse: Bool[Array, " K"]  # whether the trial before was
    done: Bool[Array, " K"]  # whether the trial before was so close that this one is the last


@compile_on_call()
def start_flow(mean: Float[Array, "K D"], factor: Float[Array, "K D r"]) -> FlowState:
    """Return a state whose sums are unknown; its first step only evaluates them."""
    K, _, r = factor.shape
    zero = jnp.zeros(K, mean.dtype)
    sums = Sums(jnp.zeros((K, r, r), mean.dtype), jnp.zeros((K, r), mean.dtype), zero)
    return FlowState(mean, factor, sums, zero - jnp.inf, zero, zero, zero > 0, sums.curvature, zero)


def _project(block: Block, factor: Float[Array, "K D r"], rule: FlowRule) -> Array:
    """Return Bᵀ = GᵀΨᵀ: in this shape XLA's CPU product is twice as fast as in the other."""
    return multiply(factor.swapaxes(1, 2), block.features.T[None], rule.precision)


@compile_on_call(static_argnames="rule")
def sum_rows(
    rows: Rows | Blocks,
    mean: Float[Array, "K D"],
    factor: Float[Array, "K D r"],
    rule: FlowRule,
    nodes: Any,
) -> Sums:
    """Return S, the gradient and the log-likelihood of all rows at N(m, GGᵀ): maths (4), (6)."""

    def sum_block(block: Block) -> Sums:
        B = _project(block, factor, rule)
        mu = mean @ block.features.T + block.offsets
        terms = rule.expectation(mu, rule.spread(B, nodes), block)
        weighted = B * (block.counts * terms.slope)[:, None]
        return Sums(
            curvature=multiply(weighted, B.swapaxes(1, 2), rule.precision),
            gradient=jnp.matmul(B, terms.error[..., None])[..., 0],
            log_likelihood=terms.log_likelihood.sum(axis=1),
        )

    sums = sum_over_blocks(sum_block, rows)
    return sums._replace(curvature=sums.curvature + jnp.matmul(factor.swapaxes(1, 2), factor))


@compile_on_call(static_argnames="rule")
def _sum_shared(
    rows: Rows,
    mean: Float[Array, "K D"],
    factor: Float[Array, "K D r"],
    rule: FlowRule,
    spreads: Float[Array, "1 K N"],
    shared: Shared,
) -> Sums:
    """Return what `sum_rows` does, by the products that outputs share; rows are one block."""
    block, G = Block(*(leaf[0] for leaf in rows)), factor
    mu = mean @ block.features.T + block.offsets
    terms = rule.expectation(mu, spreads[0], block)
    A = shared.compute_curvatures(block.counts * terms.slope) + jnp.eye(len(G[0]), dtype=G.dtype)
    gradient = terms.error @ block.features
    return Sums(
        curvature=jnp.matmul(G.swapaxes(1, 2), jnp.matmul(A, G)),
        gradient=jnp.matmul(gradient[:, None], G)[:, 0],
        log_likelihood=terms.log_likelihood.sum(axis=1),
    )


@compile_on_call()
def _spread_shared(factor: Float[Array, "K D r"], shared: Shared) -> Float[Array, "1 K N"]:
    return shared.compute_variances(factor)[None]


@compile_on_call()
def _spread_independent(factor: Float[Array, "K D r"], shared: Shared) -> Float[Array, "1 K N"]:
    return ((factor**2).sum(axis=2) @ (shared.features**2).T)[None]


def _choose_damping(
    state: FlowState, misfit: Float[Array, "K r r"], rule: FlowRule
) -> Float[Array, " K"]:
    """Return s: 0 to evaluate, then the largest, then Aitken's; after a refusal `damping`."""
    s, change = state.damping, misfit - state.misfit
    best = -s * (state.misfit * change).sum(axis=(1, 2)) / (change**2).sum(axis=(1, 2))
    relaxed = jnp.where(best > 0, jnp.clip(best, SHRINKAGE * s, GROWTH * s), GROWTH * s)
    relaxed = jnp.minimum(jnp.where(s > 0, relaxed, 1), rule.largest_damping)
    known = state.bound > -jnp.inf
    return jnp.where(known, jnp.where(state.refused, s, relaxed), 0)


def _apply_symmetric_root(
    S: Float[Array, "K r r"], s: Float[Array, " K"], left: Float[Array, "K n r"]
) -> tuple[Float[Array, "K n r"], Float[Array, " K"]]:
    """Return `left` C and log det C for the root C = ((1−s) I + s S)^(−½) that particles follow."""
    lam, V = jnp.linalg.eigh(S)
    shrink = 1 / (1 - s[:, None] + s[:, None] * jnp.maximum(lam, np.finfo(lam.dtype).tiny))
    root = jnp.matmul(V * jnp.sqrt(shrink)[:, None], V.swapaxes(1, 2))
    return jnp.matmul(left, root), 0.5 * jnp.log(shrink).sum(axis=1)


def _apply_triangular_root(
    S: Float[Array, "K r r"], s: Float[Array, " K"], left: Float[Array, "K n r"]
) -> tuple[Float[Array, "K n r"], Float[Array, " K"]]:
    """Return `left` C and log det C, C Cᵀ = ((1−s) I + s S)⁻¹: cheap, and enough for P alone."""
    identity = jnp.eye(S.shape[-1], dtype=S.dtype)
    L = jnp.linalg.cholesky((1 - s)[:, None, None] * identity + s[:, None, None] * S)
    # C = L⁻ᵀ; solved from this side, XLA's CPU program need not transpose L
    moved = jax.lax.linalg.triangular_solve(L, left.swapaxes(1, 2), left_side=True, lower=True)
    return moved.swapaxes(1, 2), -jnp.log(jnp.diagonal(L, axis1=1, axis2=2)).sum(axis=1)


@compile_on_call(static_argnames="rule")
def propose(state: FlowState, rule: FlowRule) -> tuple[FlowState, FlowInfo]:
    """Apply (15) to the current sums, m − G C (s Cᵀ Gᵀ g̃) with the root C; no rows are read.

    Returns where (15) would go, with the sums of where it starts, and how far that is from the
    fixed point.
    """
    G, S = state.factor, state.sums.curvature
    misfit = S - jnp.eye(S.shape[-1], dtype=S.dtype)
    gradient = state.sums.gradient + jnp.matmul(state.mean[:, None], G)[:, 0]  # Gᵀg̃
    s = _choose_damping(state, misfit, rule)
    apply_root = _apply_symmetric_root if rule.symmetric else _apply_triangular_root
    both = jnp.concatenate([G, gradient[:, None]], axis=1)
    both, log_det = apply_one_by_one(apply_root, S, s, both)
    factor, newton = both[:, :-1], both[:, -1]  # maths (14), (15), which solve (7), (8)
    proposal = state._replace(
        mean=state.mean - s[:, None] * jnp.matmul(factor, newton[..., None])[..., 0],
        factor=factor,
        log_det=state.log_det + 2 * log_det,
        damping=s,
        misfit=misfit,
        time=state.time - jnp.log1p(-jnp.minimum(s, LONGEST)),
    )
    residuals = jnp.linalg.norm(newton, axis=1), jnp.linalg.norm(misfit, axis=(1, 2))
    return proposal, FlowInfo(*(jnp.where(state.bound > -jnp.inf, r, jnp.inf) for r in residuals))


@compile_on_call(static_argnames="rule")
def correct_mean(
    rows: Rows | Blocks,
    mean: Float[Array, "K D"],
    factor: Float[Array, "K D r"],
    damping: Float[Array, " K"],
    careful: Bool[Array, " K"],
    rule: FlowRule,
    nodes: Any,
    spreads: Float[Array, "blocks K rows *J"] | None = None,
) -> Float[Array, "K D"]:
    """Take steps m ← m − α P g̃(m); α is Newton's along the line, since P may be far too wide.

    For fixed P the loss −E log p + ½|m|² is convex in m, so a step that raised it was too long: it
    is taken again at a quarter of its length. The last step is the only one not looked at, and left
    out where it should be `careful`; it is the last because they are used up, or because it starts
    `CLOSE` to the minimum. A mean that was only to be evaluated (s = 0) stays.
    """

    def spread_of(block: Block) -> Array:
        return rule.spread(_project(block, factor, rule), nodes)

    if spreads is None:
        spreads = map_over_blocks(spread_of, rows)

    def evaluate(m: Float[Array, "K D"]) -> tuple[Array, Array, Array]:
        """Return the loss and g̃ at m, and what each row weighs in the curvature there."""

        def sum_block(block: Block, spread: Array) -> tuple[tuple[Array, Array], Array]:
            terms = rule.expectation(m @ block.features.T + block.offsets, spread, block)
            weight = block.counts * terms.slope
            return (-terms.log_likelihood.sum(axis=1), terms.error @ block.features), weight

        (loss, gradient), weights = scan_blocks(sum_block, rows, spreads)
        loss = loss + 0.5 * (m**2).sum(axis=1)
        return loss, gradient + m, weights

    def newton(gradient: Float[Array, "K D"], weights: Array) -> tuple[Array, Array, Array]:
        """Return P g̃, how far to go along it, and whether that is short."""

        def curvature_along(block: Block, weights: Array) -> Array:
            logits = direction @ block.features.T
            return (weights * logits**2).sum(axis=1)

        along = jnp.matmul(gradient[:, None], factor)
        direction = jnp.matmul(along, factor.swapaxes(1, 2))[:, 0]
        curvature = sum_over_blocks(curvature_along, rows, weights) + (direction**2).sum(axis=1)
        slope, longest = (along**2).sum(axis=(1, 2)), jnp.asarray(LONGEST_CORRECTION, mean.dtype)
        tiny = np.finfo(mean.dtype).tiny
        length = jnp.minimum(slope / jnp.maximum(curvature, tiny), longest)
        return direction, length, slope < CLOSE**2

    def correct(loop: tuple[Array, Line]) -> tuple[Array, Line]:
        number, line = loop
        loss, gradient, weights = evaluate(line.trial)
        noise = 16 * np.finfo(mean.dtype).eps * jnp.abs(loss)
        worse = ~(loss <= line.loss + noise)  # NaN is worse too
        direction, length, close = newton(gradient, weights)
        direction = jnp.where(worse[:, None], line.direction, direction)
        length = jnp.where(worse, line.length / 4, length)
        best = jnp.where(worse[:, None], line.best, line.trial)
        trial = best - length[:, None] * direction
        loss = jnp.where(worse, line.loss, loss)
        new = Line(best, loss, direction, length, trial, worse, close & ~worse)
        return number + 1, jax.tree.map(partial(pick, line.done), line, new)

    def is_going(loop: tuple[Array, Line]) -> Array:
        return (loop[0] < rule.corrections) & ~loop[1].done.all()

    nothing = jnp.zeros(len(mean), mean.dtype)
    still = damping <= 0
    line = Line(mean, nothing + jnp.inf, jnp.zeros_like(mean), nothing, mean, still, still)
    line = jax.lax.while_loop(is_going, correct, (jnp.asarray(0), line))[1]
    return jnp.where((line.worse | careful)[:, None], line.best, line.trial)


def pick(which: Bool[Array, " K"], chosen: Array, other: Array) -> Array:
    """Return `chosen` for some outputs, and `other` for the rest."""
    return jnp.where(which.reshape(-1, *[1] * (other.ndim - 1)), chosen, other)


@compile_on_call(static_argnames="rule")
def judge_proposal(
    state: FlowState, proposal: FlowState, mean: Float[Array, "K D"], sums: Sums, rule: FlowRule
) -> FlowState:
    """Take the proposal where the merit did not fall; elsewhere stay, and be careful or halve s."""
    factor, log_det, s = proposal.factor, proposal.log_det, proposal.damping
    spread = (factor**2).sum(axis=(1, 2)) - log_det if rule.merit_has_spread else 0.0
    bound = sums.log_likelihood - 0.5 * ((mean**2).sum(axis=1) + spread)  # maths (4)
    # Round-off of sums whose terms have one sign, which is what the bound consists of.
    noise = 16 * np.finfo(s.dtype).eps * (jnp.abs(bound) + jnp.abs(log_det) + mean.shape[1])
    refused = ~(bound >= state.bound - rule.slack - noise)  # NaN is refused too
    moved = proposal._replace(mean=mean, sums=sums, bound=bound, refused=refused)
    # A first refusal may be the last correction's fault: try the same s with care before a shorter.
    shorter = state.refused | (not rule.corrections)
    stayed = state._replace(damping=jnp.where(shorter, SHRINKAGE * s, s), refused=refused)
    return jax.tree.map(partial(pick, refused), stayed, moved)


def flow_step(
    state: FlowState, rows: Rows | Blocks, rule: FlowRule, nodes: Any = None
) -> tuple[FlowState, FlowInfo]:
    """Try (15); keep it if the merit does not fall, else stay: with care, then with half s."""
    proposal, info = propose(state, rule)
    return evaluate_proposal(state, proposal, rows, rule, nodes), info


def evaluate_proposal(
    state: FlowState,
    proposal: FlowState,
    rows: Rows | Blocks,
    rule: FlowRule,
    nodes: Any = None,
    shared: Shared | None = None,
) -> FlowState:
    """Correct the proposal's mean, sum the rows there, and go there if the merit does not fall.

    Rows that are one block may be `shared` by all outputs; the sums are then cheaper (`products`).
    Compiled in parts on purpose: in one piece XLA's CPU compiler re-lays G inside the loop over
    blocks, and the step takes half as long again.
    """
    mean, factor = proposal.mean, proposal.factor
    spreads = None if shared is None else _spread_shared(factor, shared)
    if rule.corrections:
        moved = proposal.damping, state.refused
        mean = correct_mean(rows, mean, factor, *moved, rule, nodes, spreads)
    if shared is None:
        sums = sum_rows(rows, mean, factor, rule, nodes)
    else:
        sums = _sum_shared(rows, mean, factor, rule, spreads, shared)
    return judge_proposal(state, proposal, mean, sums, rule)


def evaluate_start(
    state: FlowState, rows: Rows | Blocks, rule: FlowRule, shared: Shared
) -> FlowState:
    """Sum the rows at a start where P is diagonal, so that variances of logits cost N·D.

    Returns what `evaluate_proposal` would.
    """
    spreads = _spread_independent(state.factor, shared)
    sums = _sum_shared(rows, state.mean, state.factor, rule, spreads, shared)
    return judge_proposal(state, state, state.mean, sums, rule)
