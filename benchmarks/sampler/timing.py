"""Wall-clock time of a call, and the part of it that JAX spent on compiling."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any, TypeVar

import jax

__all__ = ["measure_time", "record_compilation", "sum_spans"]

COMPILING = "/jax/core/compile/"  # prefix of JAX's events of tracing, lowering and compiling

T = TypeVar("T")
Span = tuple[float, float]  # from, to


def measure_time(work: Callable[[], T]) -> tuple[float, T]:
    """Return the wall-clock seconds of a call, and its result."""
    began = perf_counter()
    result = work()
    return perf_counter() - began, result


@contextmanager
def record_compilation() -> Iterator[list[Span]]:
    """Record when JAX traced, lowered or compiled within the block; spans may overlap."""
    spans: list[Span] = []

    def note(event: str, duration_secs: float, **_: Any) -> None:
        if event.startswith(COMPILING):
            now = perf_counter()  # events are reported when they end
            spans.append((now - duration_secs, now))

    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        yield spans
    finally:
        jax.monitoring.unregister_event_duration_listener(note)


def sum_spans(spans: list[Span]) -> float:
    """Return the seconds that lie in at least one span.

    >>> sum_spans([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0)])
    4.0
    """
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total
