"""Damaged files of every kind are read, or refused with a sentence: nothing else may happen.

A thousand files in `make test`, a hundred thousand with `make fuzz` (EQUIVOCAL_FUZZ=100000). While
a file is read, no more than 1 GiB may be taken, and no more than half a minute.
"""

import os
import resource
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lastlayer.errors import UserError
from tests.fuzz.conftest import Kind
from tests.fuzz.damage import STEPS, VALUES, damaged, replaced

TOTAL = int(os.environ.get("EQUIVOCAL_FUZZ", "1000"))
NAMES = [
    *("world", "stimuli", "study", "grid", "sweep", "run", "older", "curves", "network"),
    *("asked", "posterior", "record", "activations.nc", "path.nc", "exact.nc", "nuts.nc"),
    *("suite", "items", "trials", "packed", "measures", "members", "readings"),
]
PARSED = [
    *("world", "study", "grid", "sweep", "run", "older", "network", "asked"),
    *("posterior", "record", "suite", "members", "readings"),
]
SHARE = -(-TOTAL // (len(NAMES) + len(PARSED)))
MEMORY = 1 << 30
SECONDS = 30

fuzz = settings(
    max_examples=SHARE,
    deadline=None,
    database=None,
    derandomize=TOTAL <= 1000,  # CI tries the same thousand every time
    suppress_health_check=list(HealthCheck),
)


def _late(_number: int, _frame: FrameType | None) -> None:
    raise TimeoutError(f"more than {SECONDS} seconds")


@contextmanager
def bounded() -> Iterator[None]:
    """A limit to what may be taken on top of what this process has, and to the time."""
    with open("/proc/self/statm", encoding="ascii") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGALRM, _late)
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, hard))
    signal.alarm(SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of damaged files
            yield
    finally:
        signal.alarm(0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGALRM, before)


def try_with(kind: Kind, content: bytes) -> None:
    """Read a changed file, and put the whole one back."""
    whole = kind.path.read_bytes()
    kind.path.write_bytes(content)
    try:
        with bounded():
            kind.load()
    except UserError as error:
        assert 20 < len(str(error)) < 20_000
        assert str(error).endswith((".", "?"))
    finally:
        kind.path.write_bytes(whole)


@pytest.mark.parametrize("name", NAMES)
def test_damaged_bytes(name: str, kinds: dict[str, Kind]) -> None:
    kind = kinds[name]
    whole = kind.path.read_bytes()

    @fuzz
    @given(steps=STEPS)
    def check(steps: list[tuple[str, bool, int, int]]) -> None:
        try_with(kind, damaged(whole, steps))

    check()


@pytest.mark.parametrize("name", PARSED)
def test_other_values(name: str, kinds: dict[str, Kind]) -> None:
    """Files that are in order as TOML, JSON or safetensors, with a value that is not."""
    kind = kinds[name]
    whole = kind.path.read_bytes()

    @fuzz
    @given(place=st.integers(0, 10**6), value=VALUES)
    def check(place: int, value: Any) -> None:
        try_with(kind, replaced(whole, kind.format, place, value))

    check()
