"""Corrections that make the mean follow a new covariance: a few Newton steps along P g̃ of
docs/maths.md (5), each kept only if it lowers the loss.

One product of N·D² for how the logits scatter, then N·D for each step; see `flow` for why they are
needed.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from equivocal.sampling.engine.likelihoods import FlowRule
from equivocal.sampling.engine.products import multiply
from equivocal.sampling.engine.rows import (
    Block,
    Blocks,
    Rows,
    map_over_blocks,
    scan_blocks,
    sum_over_blocks,
)
from equivocal.sampling.engine.shapes import Array, Bool, Float, Int

# In Newton steps of P; where rows are saturated the curvature says nothing.
LONGEST_CORRECTION = 4.0


class Line(NamedTuple):
    """Where the mean corrections stand: the best mean yet, and the next to look at."""

    best: Float[Array, "K D"]
    loss: Float[Array, " K"]  # at `best`
    direction: Float[Array, "K D"]
    length: Float[Array, " K"]
    trial: Float[Array, "K D"]  # best − length × direction
    worse: Bool[Array, " K"]  # whether the trial before was


@partial(jax.jit, static_argnames="rule")
def correct_mean(
    rows: Rows | Blocks,
    mean: Float[Array, "K D"],
    factor: Float[Array, "K D r"],
    damping: Float[Array, " K"],
    careful: Bool[Array, " K"],
    rule: FlowRule,
    nodes: Any,
) -> Float[Array, "K D"]:
    """Take steps m ← m − α P g̃(m); α is Newton's along the line, since P may be far too wide.

    For fixed P the loss −E log p + ½|m|² is convex in m, so a step that raised it was too long: it
    is taken again at a quarter of its length. The last step is the only one not looked at, and left
    out where it should be `careful`. A mean that was only to be evaluated (s = 0) stays.
    """

    def spread_of(block: Block) -> Array:
        return rule.spread(multiply(block.features[None], factor, rule.precision), nodes)

    spreads = map_over_blocks(spread_of, rows)

    def evaluate(m: Float[Array, "K D"]) -> tuple[Array, Array, Array]:
        """Return the loss and g̃ at m, and what each row weighs in the curvature there."""

        def of_block(block: Block, spread: Array) -> tuple[tuple[Array, Array], Array]:
            terms = rule.expectation(m @ block.features.T + block.offsets, spread, block)
            likely = terms.error + block.targets  # c E y
            weight = likely if rule.joint else block.counts * terms.slope
            return (-terms.log_likelihood.sum(axis=1), terms.error @ block.features), weight

        (loss, gradient), weights = scan_blocks(of_block, rows, spreads)
        loss = loss + 0.5 * (m**2).sum(axis=1)
        loss = jnp.broadcast_to(loss.sum(), loss.shape) if rule.joint else loss
        return loss, gradient + m, weights

    def newton(gradient: Float[Array, "K D"], weights: Array) -> tuple[Array, Array]:
        """Return P g̃ and how far to go along it."""

        def curvature_along(block: Block, weights: Array) -> Array:
            logits = direction @ block.features.T
            if rule.joint:  # E[y] weighs the classes: their variance about the row's mean logit
                logits = logits - (weights * logits).sum(axis=0) / jnp.maximum(
                    weights.sum(axis=0), 1e-30
                )
            return (weights * logits**2).sum(axis=1)

        along = jnp.matmul(gradient[:, None], factor)
        direction = jnp.matmul(along, factor.swapaxes(1, 2))[:, 0]
        curvature = sum_over_blocks(curvature_along, rows, weights) + (direction**2).sum(axis=1)
        slope, longest = (along**2).sum(axis=(1, 2)), jnp.asarray(LONGEST_CORRECTION, mean.dtype)
        if rule.joint:
            slope, curvature = (jnp.broadcast_to(x.sum(), x.shape) for x in (slope, curvature))
        tiny = np.finfo(mean.dtype).tiny
        return direction, jnp.minimum(slope / jnp.maximum(curvature, tiny), longest)

    def correct(_: Int[Array, ""], line: Line) -> Line:
        loss, gradient, weights = evaluate(line.trial)
        noise = 16 * np.finfo(mean.dtype).eps * jnp.abs(loss)
        worse = ~(loss <= line.loss + noise)  # NaN is worse too
        direction, length = newton(gradient, weights)
        direction = jnp.where(worse[:, None], line.direction, direction)
        length = jnp.where(worse, line.length / 4, length)
        best = jnp.where(worse[:, None], line.best, line.trial)
        trial = best - length[:, None] * direction
        return Line(best, jnp.where(worse, line.loss, loss), direction, length, trial, worse)

    nothing = jnp.zeros(len(mean), mean.dtype)
    line = Line(mean, nothing + jnp.inf, jnp.zeros_like(mean), nothing, mean, nothing > 0)
    line = jax.lax.fori_loop(0, rule.corrections, correct, line)
    found = jnp.where((line.worse | careful)[:, None], line.best, line.trial)
    return jnp.where((damping > 0)[:, None], found, mean)
