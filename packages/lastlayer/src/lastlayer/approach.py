"""A start for the flow that is nearer than the prior: a Gaussian whose weights are independent.

At the prior no row is saturated, at the posterior most may be: from the prior the first steps of
the flow are its longest, and the curvature there is a hundred times too large. Here P is diagonal,
in the rows' principal directions (`products.rotate`), so that a pass over the rows costs N·D, not
N·D²:

    1/P_ii ← √(a_i / P_ii),   a_i = 1 + Σ_n c E[y(1−y)] ψ_ni²,      m ← m − α d,

with d the conjugate direction of the gradient g̃ under the preconditioner 1/a (Fletcher and Reeves
1964, The Computer Journal 7:149) and α Newton's along it, at most `LONGEST`. The bound is not
checked on the way: the flow does that from where this ends, and its fixed point does not depend on
the start.

`PASSES`, `NEAR` and `LONGEST` may be changed: they affect the number of steps.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lastlayer.compiling import Array, Bool, Float, compile_on_call
from lastlayer.flow import pick
from lastlayer.likelihoods import FlowRule
from lastlayer.plan import Plan
from lastlayer.problem import Problem, Start
from lastlayer.rows import Block, Rows
from lastlayer.streaming import iterate_outputs

__all__ = ["approach", "start_nearby"]

PASSES = 12
NEAR = 0.005  # posterior sd from the mean sought, and relative change of P: near enough
LONGEST = 4.0  # α


class Approach(NamedTuple):
    """What the next pass reads."""

    mean: Float[Array, "K D"]
    precision: Float[Array, "K D"]  # 1/P_ii
    direction: Float[Array, "K D"]
    decline: Float[Array, " K"]  # g̃ᵀ diag(1/a) g̃ of the pass before
    done: Bool[Array, " K"]


def start_nearby(problem: Problem, rule: FlowRule, plan: Plan, first: Rows) -> Start:
    """Return where each output starts, for rows in their principal directions (`rotate`).

    `first` has the rows of the outputs that are first in flight.
    """
    K, slots = problem.num_outputs, plan.slots
    found = [jax.device_get(approach(first, rule))]
    if slots < K:
        rest = np.arange(slots, K)
        filled = problem.select(np.resize(rest, -(-len(rest) // slots) * slots))
        groups = iterate_outputs(filled, plan, slots)
        found += [jax.device_get(approach(rows, rule)) for _, rows in groups]
    mean, precision = (np.concatenate(part) for part in zip(*found, strict=True))
    return lambda k: (mean[k], np.diag(precision[k] ** -0.5))


@compile_on_call(static_argnames="rule")
def approach(rows: Rows, rule: FlowRule) -> tuple[Float[Array, "K D"], Float[Array, "K D"]]:
    """Return the mean and the precision of each weight; the rows are one block."""
    block = Block(*(leaf[0] for leaf in rows))
    psi, c, t = block.features, block.counts, block.targets
    square = psi * psi

    def take_pass(loop: tuple[Array, Approach]) -> tuple[Array, Approach]:
        number, held = loop
        m, before = held.mean, held.precision
        terms = rule.expectation(m @ psi.T + block.offsets, (1 / before) @ square.T, block)
        r, gradient = c * terms.slope, terms.error @ psi + m
        a = 1 + r @ square
        decline = (gradient * gradient / a).sum(axis=1)
        kept = jnp.where(number > 0, jnp.minimum(decline / held.decline, 1), 0)
        direction = gradient / a + kept[:, None] * held.direction
        along, curved = direction @ psi.T, (direction * direction).sum(axis=1)
        curvature = (r * along * along).sum(axis=1) + curved
        length = jnp.clip((gradient * direction).sum(axis=1) / curvature, 0, LONGEST)
        moved, precision = m - length[:, None] * direction, jnp.sqrt(a * before)
        near = (decline < NEAR**2) & (jnp.abs(a / before - 1).max(axis=1) < NEAR)
        finite = jnp.isfinite(moved).all(axis=1) & jnp.isfinite(precision).all(axis=1)
        new = Approach(moved, precision, direction, decline, near)
        return number + 1, jax.tree.map(partial(pick, held.done | ~finite), held, new)

    def is_going(loop: tuple[Array, Approach]) -> Array:
        return (loop[0] < PASSES) & ~loop[1].done.all()

    every = jnp.broadcast_to(c, t.shape)
    rate = (t.sum(axis=1) + 0.5) / (every.sum(axis=1) + 1)
    precision = 1 + (rate * (1 - rate))[:, None] * (every @ square)
    zero = jnp.zeros_like(precision)
    start = Approach(zero, precision, zero, zero[:, 0], zero[:, 0] > 0)
    found = jax.lax.while_loop(is_going, take_pass, (jnp.asarray(0), start))[1]
    return found.mean, found.precision
