"""What a flow is told by those who use it: how logits scatter, and what that makes of the rows.

`flow_step` is one; exact flow, mean field, Laplace and softmax are four rules for it. A rule is
hashable, so that it is static under jit.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from equivocal.sampling.engine.products import Precision
from equivocal.sampling.engine.rows import Block
from equivocal.sampling.engine.shapes import Array, Float

__all__ = ["FlowRule", "RowTerms"]


class RowTerms(NamedTuple):
    """Expectations for each output and row of a block, over N(m, GGᵀ)."""

    error: Float[Array, "K rows"]  # c E y − t
    slope: Float[Array, "K rows"]  # E y(1 − y)
    log_likelihood: Float[Array, "K rows"]  # E log p(t | θ), counts included


# How the logits of a block scatter about their means: from B = ΨG and the rule's own nodes.
Spread = Callable[[Float[Array, "K rows r"], Any], Float[Array, "K rows *J"]]
# The averages over that scatter: from the means μ of the logits and their spread.
Expectation = Callable[[Float[Array, "K rows"], Float[Array, "K rows *J"], Block], RowTerms]


class FlowRule(NamedTuple):
    """What distinguishes the users of `flow_step`."""

    spread: Spread
    expectation: Expectation
    merit_has_spread: bool = True  # (2); False: the log posterior at m (Laplace)
    joint: bool = False  # outputs share one likelihood (softmax), hence one bound and one s
    largest_damping: float = 0.99
    corrections: int = 3  # of the mean, after each step
    symmetric: bool = False  # take the symmetric root in (1), which particles need
    slack: float = 0.0  # a fall of the merit that is let pass, beside round-off
    precision: Precision = Precision.FULL  # of the products that cost N·D²
