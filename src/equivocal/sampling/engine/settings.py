"""What a run is told, whatever its method: sizes, seed, budget, and who wants to watch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np

from equivocal.sampling.engine.products import Precision

__all__ = ["Observer", "RunSettings", "Snapshot", "output_keys"]


class Snapshot(NamedTuple):
    """An ensemble on its way, in the caller's coordinates."""

    outputs: range  # which of the K outputs
    step: int
    time: np.ndarray  # τ of each of them
    particles: np.ndarray  # (outputs, J, D)


Observer = Callable[[Snapshot], None]


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """The same for all methods; what one method alone needs is in its own config."""

    num_particles: int  # J
    num_steps: int | None  # None: the method's own limit
    tolerance: float  # on the residuals of the fixed-point equations
    seed: int
    memory_budget: int | None
    observe: Observer | None = None
    precision: Precision = Precision.FULL


def output_keys(seed: int, outputs: range) -> jax.Array:
    """One key per output, so that no result depends on which outputs run together."""
    return _folded(jax.random.key(seed), np.array(outputs, np.uint32))


@jax.jit
def _folded(root: jax.Array, numbers: jax.Array) -> jax.Array:
    return jax.vmap(lambda k: jax.random.fold_in(root, k))(numbers)
