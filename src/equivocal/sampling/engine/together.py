"""Processes that sample together: all ask for the same thing, or all give up.

In a run over several hosts (`jax.distributed`) a process that stops alone leaves the others waiting
in their next collective, for ever. So every process finds out what is wrong with its own part
before the first sum over all, inside `refused_together`, and says what it asks for in `check_same`.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from equivocal.errors import join_names
from equivocal.sampling.engine.inputs import fail
from equivocal.sampling.engine.placement import largest_anywhere
from equivocal.sampling.engine.problem import Problem
from equivocal.sampling.engine.settings import RunSettings

__all__ = ["check_same", "refused_together"]


@contextmanager
def refused_together() -> Iterator[None]:
    """Where one process gives up, all do. Nothing inside may wait for other processes."""
    try:
        yield
    except Exception:  # too little memory, or a file that cannot be read
        largest_anywhere(1)
        raise
    if largest_anywhere(0):
        fail("another process of this run gave up, and said why; mend that, and start all again.")


def check_same(problem: Problem, method: str, config: Any, settings: RunSettings) -> None:
    """Refuse processes that would compute different things, and name what differs."""
    # an observer is the caller's own, and may be anything; processes may have unequal memory
    own = asdict(replace(settings, memory_budget=None, observe=None)) | asdict(config)
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
        fail(f"all processes must agree on {join_names(differing)}.")


def _number(value: Any) -> float:
    """A few bytes of a hash, exact as a float."""
    content = value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode()
    return float(int.from_bytes(hashlib.sha256(content).digest()[:6]))
