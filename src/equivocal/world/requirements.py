"""What an analysis needs of a world: exact probabilities, and some roles."""

from collections.abc import Sequence

from equivocal.errors import UserError
from equivocal.world.world import World

__all__ = ["require_exact", "require_roles"]


def require_exact(world: World, consequence: str) -> None:
    """Refuse a world that is too large to enumerate; `consequence` says what is not known then."""
    if not world.is_exact:
        raise UserError(
            f"world {world.name!r} is too large to enumerate, so {consequence}; use a smaller one."
        )


def require_roles(world: World, roles: Sequence[str], why: str) -> None:
    """Refuse a world that lacks one of two or more roles; `why` says what they are needed for."""
    if lacking := [role for role in roles if role not in world.roles]:
        all_of_them = "both" if len(roles) == 2 else "all of them"
        raise UserError(
            f"{why}, and world {world.name!r} has no role {' and no role '.join(lacking)}; use a "
            f"world that has {all_of_them}."
        )
