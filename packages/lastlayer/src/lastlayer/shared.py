"""Sums that outputs share where their rows fit into one block: half the time of sums by blocks.

Outputs share features, so that a step can be two wide matrix products (`Shared`). With the
products of each row's features, Φ = (ψ_i ψ_j) for i ≤ j, the variances of all logits and
the curvatures of all outputs are, maths.md (26),

    v = vec(P) Φ,          vec(H) = (c E[y(1−y)]) Φᵀ,

K × D(D+1)/2 × N each: half the arithmetic of B = ΨG and Bᵀ diag(r) B, since a symmetric matrix is
counted once, and in the shape in which a matrix product is fastest. Where Φ would be too large, the
same sums are made output by output. On 6,635 rows, D = 101 and K = 176 a posterior takes 1.0 s on
two cores instead of 2.1 s.

What this costs is digits: v is a sum that may cancel, and GᵀHG takes H from large to small
directions. In the basis of the rows' own principal directions (`rotate`) entries are as small as
their directions are, and rounding is relative to each. The prior N(0, I) is the same in every such
basis. Outputs that do not converge this way are left to the sums of `flow`.

The same basis gives a start that is nearer than the prior (`approach`), a Gaussian whose weights
are independent. At the prior no row is saturated, at the posterior most may be: from the prior the
first steps of the flow are its longest, and the curvature there is a hundred times too large. Where
P is diagonal a pass over the rows costs N·D, not N·D²:

    1/P_ii ← √(a_i / P_ii),   a_i = 1 + Σ_n c E[y(1−y)] ψ_ni²,      m ← m − α d,

with d the conjugate direction of the gradient g̃ under the preconditioner 1/a (Fletcher and Reeves
1964, The Computer Journal 7:149) and α Newton's along it. The bound is not checked on the way: the
flow does that from where this ends, and its fixed point does not depend on the start.
"""

from functools import partial, reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lastlayer.compiling import Array, Bool, Float, compile_on_call
from lastlayer.flow import FlowRule, FlowState, Sums, correct_mean, judge_proposal, pick
from lastlayer.rows import PARTS, Block, Rows, weigh_rows

# Tuning of `approach`; these affect the number of steps.
MOST_PASSES = 12
APPROACHED = 0.005  # posterior sd from the mean sought, and relative change of P: near enough
LONGEST_PASS = 4.0  # α


@compile_on_call()
def rotate(
    features: Float[Array, "1 N D"], counts: Float[Array, " n"]
) -> tuple[Float[Array, "1 N D"], Float[Array, "D D"]]:
    """Return the rows in w' = Uᵀw, and U: eigenvectors of their weighted covariance."""
    psi = features[0]
    some = psi[: len(counts)]
    U = jnp.linalg.eigh((some.T * counts) @ some)[1][:, ::-1]
    return (psi @ U)[None], U


@compile_on_call()
def turn(
    U: Float[Array, "D D"], mean: Float[Array, "K D"], factor: Float[Array, "K D D"]
) -> tuple[Float[Array, "K D"], Float[Array, "K D D"]]:
    """Return U m and U G."""
    return mean @ U.T, jnp.einsum("de,kef->kdf", U, factor)


class Shared(NamedTuple):
    """The rows of a flow as one block, and their products if there is room for these."""

    features: Float[Array, "N D"]
    products: tuple[Float[Array, "T R"], ...] | None  # Φ of parts of the rows, one row for i ≤ j

    def compute_variances(self, factor: Float[Array, "K D D"]) -> Float[Array, "K N"]:
        """Return ψᵀPψ of every row, P = GGᵀ: maths (26)."""
        if self.products is None:
            return jax.lax.map(lambda G: ((self.features @ G) ** 2).sum(axis=1), factor)
        i, j = np.triu_indices(factor.shape[1])
        twice = np.where(i == j, 1, 2).astype(factor.dtype)
        P = jnp.matmul(factor, factor.swapaxes(1, 2))[:, i, j] * twice
        return jnp.maximum(jnp.concatenate([P @ part for part in self.products], axis=1), 0)

    def compute_curvatures(self, weights: Float[Array, "K N"]) -> Float[Array, "K D D"]:
        """Return Ψᵀ diag(w) Ψ for the weights of every output: maths (26)."""
        if self.products is None:
            return jax.lax.map(lambda w: weigh_rows(self.features.T * w, self.features), weights)
        D = self.features.shape[1]
        i, j = np.triu_indices(D)
        at = np.zeros((D, D), int)
        at[i, j] = at[j, i] = np.arange(len(i))
        parts = zip(jnp.split(weights, len(self.products), axis=1), self.products, strict=True)
        return reduce(jnp.add, (w @ part.T for w, part in parts))[:, at]


@compile_on_call(static_argnames="products")
def share_rows(features: Float[Array, "1 N D"], products: bool) -> Shared:
    """Return what outputs share of rows in one block."""
    psi = features[0]
    if not products:
        return Shared(psi, None)
    i, j = np.triu_indices(psi.shape[1])
    # smaller parts take a third less time to form
    parts = psi.reshape(PARTS, -1, psi.shape[1])
    return Shared(psi, tuple(part.T[i] * part.T[j] for part in parts))


@compile_on_call(static_argnames="rule")
def sum_shared(
    rows: Rows,
    mean: Float[Array, "K D"],
    factor: Float[Array, "K D D"],
    rule: FlowRule,
    variances: Float[Array, "1 K N"],
    shared: Shared,
) -> Sums:
    """Return what `flow.sum_rows` does; rows are one block."""
    block, G = Block(*(leaf[0] for leaf in rows)), factor
    mu = mean @ block.features.T + block.offsets
    terms = rule.expectation(mu, variances[0], block)
    A = shared.compute_curvatures(block.counts * terms.slope) + jnp.eye(len(G[0]), dtype=G.dtype)
    gradient = weigh_rows(terms.error, block.features)
    return Sums(
        curvature=jnp.matmul(G.swapaxes(1, 2), jnp.matmul(A, G)),
        gradient=jnp.matmul(gradient[:, None], G)[:, 0],
        log_likelihood=terms.log_likelihood.sum(axis=1),
    )


@compile_on_call()
def _compute_variances(factor: Float[Array, "K D D"], shared: Shared) -> Float[Array, "1 K N"]:
    return shared.compute_variances(factor)[None]


class Approach(NamedTuple):
    """What the next pass reads."""

    mean: Float[Array, "K D"]
    precision: Float[Array, "K D"]  # 1/P_ii
    direction: Float[Array, "K D"]
    decline: Float[Array, " K"]  # g̃ᵀ diag(1/a) g̃ of the pass before
    done: Bool[Array, " K"]


@compile_on_call(static_argnames="rule")
def approach(rows: Rows, rule: FlowRule) -> tuple[Float[Array, "K D"], Float[Array, "K D D"]]:
    """Return the mean and the diagonal factor of each output; the rows are one block."""
    block = Block(*(leaf[0] for leaf in rows))
    psi, c, t = block.features, block.counts, block.targets
    square = psi * psi

    def take_pass(loop: tuple[Array, Approach]) -> tuple[Array, Approach]:
        number, held = loop
        m, before = held.mean, held.precision
        terms = rule.expectation(m @ psi.T + block.offsets, (1 / before) @ square.T, block)
        r, gradient = c * terms.slope, weigh_rows(terms.error, psi) + m
        a = 1 + weigh_rows(r, square)
        decline = (gradient * gradient / a).sum(axis=1)
        kept = jnp.where(number > 0, jnp.minimum(decline / held.decline, 1), 0)
        direction = gradient / a + kept[:, None] * held.direction
        along, curved = direction @ psi.T, (direction * direction).sum(axis=1)
        curvature = (r * along * along).sum(axis=1) + curved
        length = jnp.clip((gradient * direction).sum(axis=1) / curvature, 0, LONGEST_PASS)
        moved, precision = m - length[:, None] * direction, jnp.sqrt(a * before)
        steady = jnp.abs(a / before - 1).max(axis=1) < APPROACHED
        near = (decline < APPROACHED**2) & steady
        finite = jnp.isfinite(moved).all(axis=1) & jnp.isfinite(precision).all(axis=1)
        new = Approach(moved, precision, direction, decline, near)
        return number + 1, jax.tree.map(partial(pick, held.done | ~finite), held, new)

    def is_going(loop: tuple[Array, Approach]) -> Array:
        return (loop[0] < MOST_PASSES) & ~loop[1].done.all()

    every = jnp.broadcast_to(c, t.shape)
    rate = (t.sum(axis=1) + 0.5) / (every.sum(axis=1) + 1)
    precision = 1 + (rate * (1 - rate))[:, None] * (every @ square)
    zero = jnp.zeros_like(precision)
    start = Approach(zero, precision, zero, zero[:, 0], zero[:, 0] > 0)
    end = jax.lax.while_loop(is_going, take_pass, (jnp.asarray(0), start))[1]
    return end.mean, jax.vmap(jnp.diag)(end.precision**-0.5)


def evaluate_shared(
    state: FlowState, proposal: FlowState, rows: Rows, rule: FlowRule, shared: Shared
) -> FlowState:
    """Do what `flow.evaluate_proposal` does."""
    variances, damping = _compute_variances(proposal.factor, shared), proposal.damping
    mean, factor = proposal.mean, proposal.factor
    if rule.corrections:
        mean = correct_mean(rows, mean, factor, damping, state.refused, rule, variances)
    sums = sum_shared(rows, mean, factor, rule, variances, shared)
    return judge_proposal(state, proposal, mean, sums, rule)


def evaluate_start(state: FlowState, rows: Rows, rule: FlowRule, shared: Shared) -> FlowState:
    """Sum the rows where P is diagonal, so that variances of logits cost N·D."""
    variances = _compute_independent(state.factor, shared)
    sums = sum_shared(rows, state.mean, state.factor, rule, variances, shared)
    return judge_proposal(state, state, state.mean, sums, rule)


@compile_on_call()
def _compute_independent(factor: Float[Array, "K D D"], shared: Shared) -> Float[Array, "1 K N"]:
    return ((factor**2).sum(axis=2) @ (shared.features**2).T)[None]
