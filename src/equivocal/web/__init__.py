"""`equivocal serve`: the page and its JSON API (extra `web`: starlette and uvicorn)."""

from equivocal.web.app import create_app

__all__ = ["create_app"]
