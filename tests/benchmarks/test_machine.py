"""What every result says about the machine that it was measured on."""

import subprocess
from pathlib import Path

import pytest
from benchmarks.machine import describe_machine

ROOT = Path(__file__).resolve().parents[2]


def test_results_name_the_commit() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("no repository here")
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    commit = str(describe_machine()["commit"]).removesuffix("-dirty")
    assert len(commit) >= 7
    assert head.startswith(commit)
