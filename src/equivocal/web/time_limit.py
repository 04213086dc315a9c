"""A limit on how long an answer may take, without threads.

Answers are made in the event loop itself: they take milliseconds, and handing them to a thread
costs half as much again, since the two would wait for Python's lock in turn. What keeps an answer
short is its bounded input; this is the second line of defence.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["time_limit"]


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `TimeoutError` in a block that takes longer.

    Needs the main thread, where `equivocal serve` runs, and a system with timers (not Windows);
    elsewhere the block is left alone.
    """
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or not hasattr(signal, "setitimer"):
        yield
        return

    def expire(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
