"""A clock that goes backwards, between runs and during one: `libfaketime` in a real process."""

import subprocess
import threading
from pathlib import Path

import pytest

from needs import needs
from tests.faults.conftest import ENVIRONMENT, Tiny, names, results
from tests.faults.damage import killed_at

pytestmark = pytest.mark.slow


def clock(file: Path) -> dict[str, str]:
    """Variables for a process whose time is what a file says."""
    needs("faketime")
    command = ["faketime", "2001-01-01", "printenv", "LD_PRELOAD"]
    library = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return {
        "LD_PRELOAD": library,
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_NO_CACHE": "1",  # the file may change at any moment
        "DONT_FAKE_MONOTONIC": "1",  # no clock-setting changes that one
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def test_the_clock_may_go_backwards(undisturbed: Path, tiny: Tiny) -> None:
    file = tiny.folder / "time"
    file.write_text("@2031-05-05 12:00:00")
    variables = clock(file)
    told = subprocess.run(
        ["date", "+%Y"], env=ENVIRONMENT | variables, capture_output=True, text=True, check=True
    )
    assert told.stdout == "2031\n"
    first = tiny.folder / "out" / "posteriors" / "paper_0.1" / "00.safetensors"
    code, said = killed_at(
        tiny.reproduce("out"), first.exists, cwd=tiny.folder, env=ENVIRONMENT | variables
    )
    assert code == -9, said
    weights = tiny.folder / "out" / "networks" / "00.safetensors"
    made = weights.stat().st_mtime_ns
    file.write_text("@2021-05-05 12:00:00")
    back = threading.Timer(6.0, lambda: file.write_text("@2011-05-05 12:00:00"))
    back.start()
    done = tiny.run("out", **variables)
    back.join()
    assert done.returncode == 0, done.stderr
    assert weights.stat().st_mtime_ns == made
    assert results(tiny.folder / "out") == results(undisturbed)
    assert names(tiny.folder / "out") == names(undisturbed)
    before = {path: path.stat().st_mtime_ns for path in (tiny.folder / "out").rglob("*.*")}
    file.write_text("@2001-05-05 12:00:00")
    done = tiny.run("out", **variables)
    assert "figures and report are up to date" in done.stderr
    assert {p.name for p, t in before.items() if p.stat().st_mtime_ns != t} == set()
