"""Errors about worlds and about sentences that do not belong to one."""

from collections.abc import Sequence
from typing import NamedTuple

from equivocal.errors import UserError


class Problem(NamedTuple):
    """One thing wrong with a world file."""

    table: str  # where: "[actions.eat] patient"
    message: str  # what, and the way out


class WorldError(UserError):
    """A world file that cannot be used. `problems` holds everything found, not just the first."""

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{self._place(p)}: {p.message}" for p in self.problems))

    def _place(self, problem: Problem) -> str:
        return f"{self.source} {problem.table}" if problem.table else self.source


class UnknownWordError(UserError):
    """Text that uses a word the world does not know."""


class ImpossibleSentenceError(UserError):
    """A sentence or probe to which the world assigns no probability, so no belief is true of it."""


class WorldSizeWarning(UserWarning):
    """The world is too large to enumerate; what follows is estimated from sampled sentences."""
