"""One thing that was looked at."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Finding", "State", "is_well"]


class State(StrEnum):
    """Only a problem is something wrong; a note is something one may want."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Finding:
    """What was found, and where it is not well, what to do."""

    section: str
    name: str
    found: str
    state: State = State.OK
    advice: str = ""


def is_well(findings: Iterable[Finding]) -> bool:
    """Whether nothing is wrong; optional parts may be missing."""
    return all(finding.state is not State.PROBLEM for finding in findings)
