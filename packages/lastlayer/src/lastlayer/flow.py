"""One damped step of Gaussian variational inference: the exact flow with frozen H and g.

The deterministic sampler (arXiv:2309.04742) moves the mean m and the deviations of an ensemble by
maths.md (7), here with the prior N(0, I),

    dθ/dτ = −½ P (H (θ − m) + 2g) − ½ P (θ + m) + ½ (θ − m)

with g = Ψᵀ(c E[y] − t), H = Ψᵀ diag(c E[y(1−y)]) Ψ of (6). With H and g held fixed this is solved
in closed form. Let P = G Gᵀ, A = H + I, S = GᵀAG = V Λ Vᵀ, g̃ = g + m, s = 1 − e^(−Δτ):

    m ← m − G V diag(s / (1 − s + sΛ)) Vᵀ Gᵀ g̃      G ← G V diag((1 − s + sΛ)^(−½)) Vᵀ     (15)

that is P⁻¹ ← (1−s) P⁻¹ + s A, maths.md (14). Stable for every s in (0, 1]; its fixed point is
P⁻¹ = A, g̃ = 0. An ensemble m + √(J−1) G E with E Eᵀ = I, E 1 = 0 (16) follows the same flow with E
unchanged, because the symmetric root in (15) multiplies G from the right. Where no particle is
watched any other root C, C Cᵀ = ((1−s) I + s S)⁻¹, gives the same P; the Cholesky factor taken here
costs a tenth of V and Λ.

Three additions make it converge in about ten steps where (15) alone needs fifty:

- Line search on s with the evidence bound, maths.md (4), as merit,
      L(m, P) = Σ_n E[log p(t_n | θ)] − ½ (tr P + |m|²) + ½ log det P + const.
- Mean corrections m ← m − α P g̃(m) at the new P (`correct_mean`), which cost N·D each after
  one product of N·D²; the loss they lower is watched, and a step that raised it is taken again,
  shorter. On nearly separable rows E[y(1−y)] depends on μ/√v, and m and P overshoot each other
  unless m follows P at once.
- Aitken's relaxation: s is chosen so that it would have cancelled the change of S − I.

Everything is kept in coordinates of G (B = ΨG, GᵀHG = Bᵀ diag(r) B), where no digits cancel: in
float32 ψᵀPψ computed from P loses all of them once data and prior differ by 10⁴ in precision.

These functions compute in compiled programs, or in NumPy if they are given NumPy arrays. The
constants of the line search may be changed: they affect the number of steps, not the fixed point.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from lastlayer.compiling import (
    Bool,
    Either,
    Float,
    choose_namespace,
    compile_unless_numpy,
    loop_while,
)
from lastlayer.logits import Expectation
from lastlayer.rows import (
    Block,
    Rows,
    map_over_blocks,
    scan_blocks,
    sum_over_blocks,
    weigh_rows,
)

DAMPING_GROWTH, DAMPING_SHRINKAGE = 1.5, 0.5
LARGEST_DAMPING = 0.999_999  # s that still has a finite Δτ
# In Newton steps of P; where rows are saturated the curvature says nothing.
LONGEST_CORRECTION = 32.0
LAST_CORRECTION = 0.1  # posterior sd: from here one more correction needs no look
ALONE = 512  # features from which a GPU factorises matrices one by one
ROUND_OFF = 16  # of a sum whose terms have one sign, in units of its last digit


class FlowRule(NamedTuple):
    """The parts in which the flow and Laplace's approximation differ; static under jit."""

    expectation: Expectation
    corrections: int = 8  # largest number of corrections of the mean after each step


class Sums(NamedTuple):
    """Sums over the rows at a state, in coordinates of G; the curvature includes the prior's."""

    curvature: Float[Either, "K D D"]  # S = GᵀAG = GᵀHG + GᵀG
    gradient: Float[Either, "K D"]  # Gᵀg
    log_likelihood: Float[Either, " K"]  # Σ_n E log p(t_n | θ)


class FlowState(NamedTuple):
    """All that the next step reads."""

    mean: Float[Either, "K D"]  # m
    factor: Float[Either, "K D D"]  # G
    sums: Sums  # at (m, G)
    bound: Float[Either, " K"]  # L; −∞ until `sums` are known
    log_det: Float[Either, " K"]  # log det P, up to a constant
    # s of the last step, or of the next if that was refused; 0 at the start
    damping: Float[Either, " K"]
    refused: Bool[Either, " K"]
    misfit: Float[Either, "K D D"]  # S − I at the step before
    time: Float[Either, " K"]  # τ


class FlowInfo(NamedTuple):
    """What a driver or a diagnostic may want; `flow_step` never reads it."""

    mean_residual: Float[Either, " K"]  # |Cᵀ Gᵀ g̃|, the distance to go in posterior sd
    covariance_residual: Float[Either, " K"]  # ‖S − I‖, bounds every variance's relative error


class Line(NamedTuple):
    """Where the mean corrections stand: the best mean yet, and the next to look at."""

    best: Float[Either, "K D"]
    loss: Float[Either, " K"]  # at `best`
    direction: Float[Either, "K D"]
    length: Float[Either, " K"]
    trial: Float[Either, "K D"]  # best − length × direction
    worse: Bool[Either, " K"]  # whether the trial before was
    done: Bool[Either, " K"]  # whether the trial before was so close that this one is the last


@compile_unless_numpy()
def start_flow(mean: Float[Either, "K D"], factor: Float[Either, "K D D"]) -> FlowState:
    """Return a state whose sums are unknown; its first step only evaluates them."""
    xp = choose_namespace(mean)
    square, zero = xp.zeros_like(factor), xp.zeros(len(mean), mean.dtype)
    sums = Sums(square, xp.zeros_like(mean), zero)
    return FlowState(mean, factor, sums, zero - np.inf, zero, zero, zero > 0, square, zero)


def _project(block: Block, factor: Float[Either, "K D D"]) -> Any:
    """Return Bᵀ = GᵀΨᵀ: in this shape XLA's CPU product is twice as fast as in the other."""
    return factor.swapaxes(1, 2) @ block.features.T[None]


@compile_unless_numpy(static_argnames="rule")
def sum_rows(
    rows: Rows, mean: Float[Either, "K D"], factor: Float[Either, "K D D"], rule: FlowRule
) -> Sums:
    """Return S, the gradient and the log-likelihood of all rows at N(m, GGᵀ): maths (4), (6)."""

    def sum_block(block: Block) -> Sums:
        B = _project(block, factor)
        mu = mean @ block.features.T + block.offsets
        terms = rule.expectation(mu, (B * B).sum(axis=1), block)
        weighted = B * (block.counts * terms.slope)[:, None]
        return Sums(
            curvature=weighted @ B.swapaxes(1, 2),
            gradient=(B @ terms.error[..., None])[..., 0],
            log_likelihood=terms.log_likelihood.sum(axis=1),
        )

    sums = sum_over_blocks(sum_block, rows)
    return sums._replace(curvature=sums.curvature + factor.swapaxes(1, 2) @ factor)


def _choose_damping(state: FlowState, misfit: Float[Either, "K D D"]) -> Any:
    """Return s: 0 to evaluate, then the largest, then Aitken's; after a refusal `damping`."""
    xp, s, change = choose_namespace(misfit), state.damping, misfit - state.misfit
    best = -s * (state.misfit * change).sum(axis=(1, 2)) / (change**2).sum(axis=(1, 2))
    clipped = xp.clip(best, DAMPING_SHRINKAGE * s, DAMPING_GROWTH * s)
    relaxed = xp.where(best > 0, clipped, DAMPING_GROWTH * s)
    relaxed = xp.minimum(xp.where(s > 0, relaxed, 1), 1)
    return xp.where(state.bound > -np.inf, xp.where(state.refused, s, relaxed), 0).astype(s.dtype)


def _apply_root(S: Any, s: Any, left: Any) -> tuple[Any, Any]:
    """Return `left` C and log det C, C Cᵀ = ((1−s) I + s S)⁻¹."""
    xp, identity = choose_namespace(S), np.eye(S.shape[-1], dtype=S.dtype)
    mixed = (1 - s)[:, None, None] * identity + s[:, None, None] * S
    # C = L⁻ᵀ; solved from this side, XLA's CPU program need not transpose L
    if xp is np:
        L: Either = _factorize(mixed)
        moved: Either = np.linalg.solve(L, left.swapaxes(1, 2))
    else:
        alone = S.shape[-1] >= ALONE and jax.default_backend() == "gpu"
        solve = partial(jax.lax.map, _solve_root) if alone else _solve_root
        L, moved = solve((mixed, left.swapaxes(1, 2)))
    return moved.swapaxes(1, 2), -xp.log(xp.diagonal(L, axis1=1, axis2=2)).sum(axis=1)


def _solve_root(given: tuple[Any, Any]) -> tuple[Any, Any]:
    L = jax.lax.linalg.cholesky(given[0], symmetrize_input=False)
    return L, jax.lax.linalg.triangular_solve(L, given[1], left_side=True, lower=True)


def _factorize(matrices: np.ndarray) -> np.ndarray:
    """Return Cholesky factors; the identity's multiple NaN where a matrix is not positive."""
    try:
        return np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        if len(matrices) > 1:
            return np.concatenate([_factorize(each[None]) for each in matrices])
        return np.nan * np.eye(matrices.shape[-1], dtype=matrices.dtype)[None]


@compile_unless_numpy()
def propose(state: FlowState) -> tuple[FlowState, FlowInfo]:
    """Apply (15) to the current sums, m − G C (s Cᵀ Gᵀ g̃) with the root C; no rows are read.

    Returns where (15) would go, with the sums of where it starts, and how far that is from the
    fixed point.
    """
    xp, G, S = choose_namespace(state.mean), state.factor, state.sums.curvature
    misfit = S - np.eye(S.shape[-1], dtype=S.dtype)
    gradient = state.sums.gradient + (state.mean[:, None] @ G)[:, 0]  # Gᵀg̃
    s = _choose_damping(state, misfit)
    both = xp.concatenate([G, gradient[:, None]], axis=1)
    both, log_det = _apply_root(S, s, both)
    factor, newton = both[:, :-1], both[:, -1]  # maths (14), (15), which solve (7), (8)
    proposal = state._replace(
        mean=state.mean - s[:, None] * (factor @ newton[..., None])[..., 0],
        factor=factor,
        log_det=state.log_det + 2 * log_det,
        damping=s,
        misfit=misfit,
        time=state.time - xp.log1p(-xp.minimum(s, LARGEST_DAMPING)),
    )
    residuals = xp.linalg.norm(newton, axis=1), xp.linalg.norm(misfit, axis=(1, 2))
    return proposal, FlowInfo(*(xp.where(state.bound > -np.inf, r, np.inf) for r in residuals))


@compile_unless_numpy(static_argnames="rule")
def correct_mean(
    rows: Rows,
    mean: Float[Either, "K D"],
    factor: Float[Either, "K D D"],
    damping: Float[Either, " K"],
    careful: Bool[Either, " K"],
    rule: FlowRule,
    variances: Float[Either, "blocks K rows"] | None = None,
) -> Any:
    """Take steps m ← m − α P g̃(m); α is Newton's along the line, since P may be far too wide.

    For fixed P the loss −E log p + ½|m|² is convex in m, so a step that raised it was too long: it
    is taken again at a quarter of its length. The last step is the only one not looked at, and left
    out where it should be `careful`; it is the last because they are used up, or because it starts
    `LAST_CORRECTION` from the minimum. A mean that was only to be evaluated (s = 0) stays.
    """
    xp, kind = choose_namespace(mean), np.finfo(mean.dtype)
    if variances is None:
        variances = map_over_blocks(lambda b: (_project(b, factor) ** 2).sum(axis=1), rows)

    def evaluate(m: Any) -> tuple[Any, Any, Any]:
        """Return the loss and g̃ at m, and what each row weighs in the curvature there."""

        def sum_block(block: Block, variance: Any) -> tuple[tuple[Any, Any], Any]:
            terms = rule.expectation(m @ block.features.T + block.offsets, variance, block)
            weight = block.counts * terms.slope
            gradient = weigh_rows(terms.error, block.features)
            return (-terms.log_likelihood.sum(axis=1), gradient), weight

        (loss, gradient), weights = scan_blocks(sum_block, rows, variances)
        return loss + 0.5 * (m**2).sum(axis=1), gradient + m, weights

    def newton(gradient: Any, weights: Any) -> tuple[Any, Any, Any]:
        """Return P g̃, how far to go along it, and whether that is short."""
        along = gradient[:, None] @ factor
        direction = (along @ factor.swapaxes(1, 2))[:, 0]

        def curvature_along(block: Block, weights: Any) -> Any:
            return (weights * (direction @ block.features.T) ** 2).sum(axis=1)

        curvature = sum_over_blocks(curvature_along, rows, weights) + (direction**2).sum(axis=1)
        slope = (along**2).sum(axis=(1, 2))
        length = xp.minimum(slope / xp.maximum(curvature, kind.tiny), LONGEST_CORRECTION)
        return direction, length, slope < LAST_CORRECTION**2

    def correct(loop: tuple[Any, Line]) -> tuple[Any, Line]:
        number, line = loop
        loss, gradient, weights = evaluate(line.trial)
        worse = ~(loss <= line.loss + ROUND_OFF * kind.eps * xp.abs(loss))  # NaN is worse too
        direction, length, close = newton(gradient, weights)
        direction = xp.where(worse[:, None], line.direction, direction)
        length = xp.where(worse, line.length / 4, length)
        best = xp.where(worse[:, None], line.best, line.trial)
        loss = xp.where(worse, line.loss, loss)
        trial = best - length[:, None] * direction
        new = Line(best, loss, direction, length, trial, worse, close & ~worse)
        return number + 1, jax.tree.map(partial(pick, line.done), line, new)

    def is_going(loop: tuple[Any, Line]) -> Any:
        return (loop[0] < rule.corrections) & ~loop[1].done.all()

    nothing, still = xp.zeros(len(mean), mean.dtype), damping <= 0
    line = Line(mean, nothing + np.inf, xp.zeros_like(mean), nothing, mean, still, still)
    line = loop_while(is_going, correct, (xp.asarray(0), line))[1]
    return xp.where((line.worse | careful)[:, None], line.best, line.trial)


def pick(which: Bool[Either, " K"], chosen: Any, other: Any) -> Any:
    """Return `chosen` for some outputs, and `other` for the rest."""
    xp = choose_namespace(which)
    return xp.where(which.reshape(-1, *[1] * (other.ndim - 1)), chosen, other)


@compile_unless_numpy(static_argnames="rule")
def judge_proposal(
    state: FlowState, proposal: FlowState, mean: Float[Either, "K D"], sums: Sums, rule: FlowRule
) -> FlowState:
    """Take the proposal where the merit did not fall; elsewhere stay, and be careful or halve s."""
    xp, factor, log_det, s = (
        choose_namespace(mean),
        proposal.factor,
        proposal.log_det,
        proposal.damping,
    )
    spread = (factor**2).sum(axis=(1, 2)) - log_det
    bound = sums.log_likelihood - 0.5 * ((mean**2).sum(axis=1) + spread)  # maths (4)
    noise = xp.abs(bound) + xp.abs(log_det) + mean.shape[1]
    noise = ROUND_OFF * np.finfo(s.dtype).eps * noise
    refused = ~(bound >= state.bound - noise)  # NaN is refused too
    moved = proposal._replace(mean=mean, sums=sums, bound=bound, refused=refused)
    # A first refusal may be the last correction's fault: try the same s with care before a shorter.
    shorter = state.refused | (not rule.corrections)
    stayed = state._replace(damping=xp.where(shorter, DAMPING_SHRINKAGE * s, s), refused=refused)
    return jax.tree.map(partial(pick, refused), stayed, moved)


def evaluate_proposal(
    state: FlowState, proposal: FlowState, rows: Rows, rule: FlowRule
) -> FlowState:
    """Correct the proposal's mean, sum the rows there, and go there if the merit does not fall.

    Compiled in parts on purpose: in one piece XLA's CPU compiler re-lays G inside the loop over
    blocks, and the step takes half as long again.
    """
    mean, factor = proposal.mean, proposal.factor
    if rule.corrections:
        mean = correct_mean(rows, mean, factor, proposal.damping, state.refused, rule)
    return judge_proposal(state, proposal, mean, sum_rows(rows, mean, factor, rule), rule)


def flow_step(state: FlowState, rows: Rows, rule: FlowRule) -> tuple[FlowState, FlowInfo]:
    """Try (15); keep it if the merit does not fall, else stay: with care, then with half s."""
    proposal, info = propose(state)
    return evaluate_proposal(state, proposal, rows, rule), info
