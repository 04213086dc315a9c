"""Processes that sample together: all ask for the same thing, or all give up.

In a run over several hosts (`jax.distributed`) a process that stops alone leaves the others waiting
in their next collective, for ever. So every process finds out what is wrong with its own part
before the first sum over all, inside `refused_together`, and says what it asks for in `check_same`.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import numpy as np

from equivocal.errors import UserError, listed
from equivocal.sampling.inputs import fail
from equivocal.sampling.placement import largest_anywhere
from equivocal.sampling.problem import Problem
from equivocal.sampling.settings import RunSettings

__all__ = ["check_same", "refused_together"]


@contextmanager
def refused_together() -> Iterator[None]:
    """What one process refuses, all refuse. Nothing inside may wait for other processes."""
    try:
        yield
    except UserError:
        largest_anywhere(1)
        raise
    if largest_anywhere(0):
        fail("another process of this run refused what it was given; mend that, and start all.")


def check_same(problem: Problem, method: str, config: Any, settings: RunSettings) -> None:
    """Refuse processes that would compute different things, and name what differs."""
    own = asdict(settings) | asdict(config) | {"memory_budget": None, "observe": None}
    asked = {
        "the number of outputs": problem.num_outputs,
        "the number of features": problem.num_features,
        "dtype": problem.dtype,
        "likelihood": problem.likelihood,
        "prior_mean": problem.prior_mean,
        "prior_variance": problem.prior_scale,
        "method": method,
    } | {name: own[name] for name in sorted(own)}
    numbers = np.array([_number(value) for value in asked.values()])
    # gathered once, or who sees no difference would wait
    most, least = np.split(largest_anywhere(np.concatenate([numbers, -numbers])), 2)
    if (most != -least).any():
        differing = [name for name, here in zip(asked, most != -least, strict=True) if here]
        fail(f"all processes must agree on {listed(differing)}.")


def _number(value: Any) -> float:
    """A few bytes of a hash, exact as a float."""
    content = value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode()
    return float(int.from_bytes(hashlib.sha256(content).digest()[:6]))
