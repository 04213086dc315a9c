"""Errors about world files and sentences, and checks that a world is fit for an analysis."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from lastlayer.errors import UserError

if TYPE_CHECKING:
    from equivocal.world.world import World

__all__ = ["require_exact", "require_roles"]


class Problem(NamedTuple):
    """One thing wrong with a world file."""

    table: str  # table and key, such as "[actions.eat] patient"
    message: str  # the mistake and how to correct it


class WorldError(UserError):
    """A world file that cannot be used; `problems` lists all mistakes that were found."""

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{self._locate(p)}: {p.message}" for p in self.problems))

    def _locate(self, problem: Problem) -> str:
        return f"{self.source} {problem.table}" if problem.table else self.source


class UnknownWordError(UserError):
    """Text with a word that the world does not have."""


class ImpossibleSentenceError(UserError):
    """A sentence or probe of probability zero in the world, about which there is no true belief."""


class WorldSizeWarning(UserWarning):
    """The world is too large to enumerate; what follows is estimated from sampled sentences."""


def require_exact(world: "World", consequence: str) -> None:
    """Refuse a world that is too large to enumerate; `consequence` says what is then unknown."""
    if not world.is_exact:
        raise UserError(
            f"world {world.name!r} is too large to enumerate, so {consequence}; use a smaller one."
        )


def require_roles(world: "World", roles: Sequence[str], why: str) -> None:
    """Refuse a world that lacks one of two or more roles; `why` says what they are needed for."""
    if lacking := [role for role in roles if role not in world.roles]:
        all_of_them = "both" if len(roles) == 2 else "all of them"
        raise UserError(
            f"{why}, and world {world.name!r} has no role {' and no role '.join(lacking)}; use a "
            f"world that has {all_of_them}."
        )
