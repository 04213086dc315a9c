"""Check that `.ci/run` skipped nothing for good: `python -m scripts.check_skips FIRST LATER…`.

Each file is what a run of pytest wrote to EQUIVOCAL_SKIPPED: tests and reasons. FIRST is of a run
on a machine with Python and nothing else. What it skipped ran again in one of the others, which may
skip only for the reasons that `tests/needs.py` lists: the needs that `.ci/run` may lack.
"""

import sys
from pathlib import Path

from needs import NEEDS, may_skip, summarize_skips

ABSENT = ("torch", "browser", "node")  # in the first run


def read_skips(file: Path) -> dict[str, str]:
    """Return the reasons, by test."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return dict(line.split("\t", 1) for line in lines)


def find_faults(first: dict[str, str], later: dict[str, str]) -> list[str]:
    """Return a line for each need that the first run had, and each test that never ran."""
    lacked = {f"need {NEEDS[name].advice}" for name in ABSENT}
    present = [f"was there at first: {reason}" for reason in lacked - set(first.values())]
    return present + [
        f"never ran: {test}: {reason}" for test, reason in later.items() if not may_skip(reason)
    ]


def main() -> None:
    """Say what was skipped, and exit with 1 if something was for a reason that is not listed."""
    first, *others = (read_skips(Path(name)) for name in sys.argv[1:])
    later = {test: reason for other in others for test, reason in other.items()}
    print("at first", summarize_skips(first.values()))  # noqa: T201
    print("later", summarize_skips(later.values()))  # noqa: T201
    if faults := find_faults(first, later):
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
