"""The page: served with its JSON API (`equivocal serve`, extra `web`), or as one file.

`equivocal page` writes the file; it needs neither a server nor the extra.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equivocal.web.app import create_app

__all__ = ["create_app"]


def __getattr__(name: str) -> Any:
    """Import the server when it is asked for: the page alone does not need its packages."""
    if name == "create_app":
        from equivocal.web.app import create_app

        return create_app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
