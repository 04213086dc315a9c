"""The application: routes and limits. Answers are made by `equivocal.asking`.

GET /                         the page
GET /static/…                 its parts
GET /api/health               is it up, and with what
GET /api/world                words, examples, prior variances and steps to choose from
GET /api/comprehend           the answer to `sentence`, as `equivocal ask --json` prints it
GET /api/comprehend.csv       the same with every filler, as a table
GET /api/openapi.json         all this for machines
"""

import json
from importlib import resources
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from equivocal import __version__
from equivocal.asking import Answer, Comprehender
from equivocal.errors import UserError
from equivocal.web.description import describe
from equivocal.web.facts import world_facts
from equivocal.web.guard import LOOPBACK_NAMES, Guard
from equivocal.web.questions import ListQuestion, Question, read_question
from equivocal.web.time_limit import time_limit

__all__ = ["create_app"]

SECONDS = 5.0  # for one answer; it takes milliseconds
STATIC = resources.files("equivocal.web") / "static"


def create_app(comprehender: Comprehender, *, hosts: tuple[str, ...] = LOOPBACK_NAMES) -> ASGIApp:
    """The whole page for one comprehender; `hosts` are the names it answers to (`*`: any)."""
    api = _Api(comprehender)
    app = Starlette(
        routes=[
            Route("/", _page),
            Mount("/static", StaticFiles(directory=str(STATIC))),
            Route("/api/health", api.health),
            Route("/api/world", api.world),
            Route("/api/comprehend", api.comprehend),
            Route("/api/comprehend.csv", api.table),
            Route("/api/openapi.json", api.openapi),
        ],
        exception_handlers={
            UserError: _bad_question,
            HTTPException: _http_error,
            TimeoutError: _too_long,
            Exception: _our_fault,
        },
    )
    return Guard(app, hosts)  # outside, so that answers to faults of ours are guarded too


class _Api:
    """The JSON endpoints; what does not change is made once."""

    def __init__(self, comprehender: Comprehender) -> None:
        self._comprehender = comprehender
        self._facts = world_facts(comprehender)
        self._description = describe(comprehender)

    async def health(self, request: Request) -> Response:
        del request
        return _Json(
            {"status": "ok", "world": self._comprehender.world.name, "version": __version__}
        )

    async def world(self, request: Request) -> Response:
        del request
        return _Json(self._facts)

    async def openapi(self, request: Request) -> Response:
        del request
        return _Json(self._description)

    async def comprehend(self, request: Request) -> Response:
        question = read_question(ListQuestion, request.query_params)
        with time_limit(SECONDS):
            return _Json(self._answer(question).to_dict(question.top))

    async def table(self, request: Request) -> Response:
        question = read_question(Question, request.query_params)
        with time_limit(SECONDS):
            return _as_csv(self._answer(question))

    def _answer(self, question: Question) -> Answer:
        return self._comprehender.answer(
            question.sentence, prior_variance=question.prior_variance, step=question.step
        )


class _Json(JSONResponse):
    """JSON as browsers take it: no NaN in it."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, ensure_ascii=False, allow_nan=False).encode()


def _as_csv(answer: Answer) -> Response:
    return Response(
        answer.to_dataframe().to_csv(index=False),
        media_type="text/csv",
        headers={"Content-Disposition": 'attachment; filename="equivocal.csv"'},
    )


async def _page(request: Request) -> Response:
    del request
    return FileResponse(str(STATIC / "index.html"))


async def _bad_question(request: Request, error: Exception) -> Response:
    del request
    return _Json({"error": str(error)}, 400)


async def _http_error(request: Request, error: Exception) -> Response:
    del request
    assert isinstance(error, HTTPException)
    return _Json({"error": f"{error.detail}."}, error.status_code, headers=error.headers)


async def _too_long(request: Request, error: Exception) -> Response:
    del request, error
    return _Json({"error": "the answer took too long; ask again, or a shorter sentence."}, 503)


async def _our_fault(request: Request, error: Exception) -> Response:
    del request, error  # the traceback is in the server's log, not in the answer
    return _Json({"error": "something went wrong here; the server's log says what."}, 500)
