"""The application: routes, headers, limits. Answers are made by `equivocal.asking`.

GET /                         the page
GET /static/…                 its parts
GET /api/health               is it up, and with what
GET /api/world                words, examples, prior variances and steps to choose from
GET /api/comprehend           the answer to `sentence`, as `equivocal ask --json` prints it
GET /api/comprehend.csv       the same with every filler, as a table
GET /api/openapi.json         all this for machines
"""

import json
from collections.abc import Awaitable, Callable
from functools import partial
from importlib import resources
from typing import Any

import anyio
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from equivocal import __version__
from equivocal.asking import Answer, Comprehender
from equivocal.errors import UserError
from equivocal.web.description import describe
from equivocal.web.facts import world_facts
from equivocal.web.questions import read_question

__all__ = ["create_app"]

SECONDS = 5.0  # for one answer; it takes milliseconds
AT_ONCE = 1  # answers in the making: more would only wait for each other (Python's lock)
STATIC = resources.files("equivocal.web") / "static"
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data: blob:; "
    "style-src 'self'; script-src 'self'; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")

Handler = Callable[[Request], Awaitable[Response]]


def create_app(comprehender: Comprehender, *, hosts: tuple[str, ...] = LOOPBACK_NAMES) -> ASGIApp:
    """The whole page for one comprehender; `hosts` are the names it answers to (`*`: any).

    Answering only to its own names keeps other web sites from reading a loopback server through
    a name of theirs.
    """
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
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))],
        exception_handlers={
            UserError: _bad_question,
            HTTPException: _http_error,
            TimeoutError: _too_long,
            Exception: _our_fault,
        },
    )
    return _SecurityHeaders(app)  # outside, so that answers to faults of ours have them too


class _Api:
    """The JSON endpoints; what does not change is made once."""

    def __init__(self, comprehender: Comprehender) -> None:
        self._comprehender = comprehender
        self._facts = world_facts(comprehender)
        self._description = describe(comprehender)
        self._limiter: anyio.CapacityLimiter | None = None

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
        question = read_question(request.query_params)
        return await self._answered(request, lambda answer: _Json(answer.to_dict(question.top)))

    async def table(self, request: Request) -> Response:
        return await self._answered(request, _as_csv)

    async def _answered(self, request: Request, respond: Callable[[Answer], Response]) -> Response:
        question = read_question(request.query_params)
        answer = partial(
            self._comprehender.answer,
            question.sentence,
            prior_variance=question.prior_variance,
            step=question.step,
        )
        if self._limiter is None:  # belongs to the running event loop
            self._limiter = anyio.CapacityLimiter(AT_ONCE)
        with anyio.fail_after(SECONDS):
            return await run_sync(
                lambda: respond(answer()), abandon_on_cancel=True, limiter=self._limiter
            )


class _Json(JSONResponse):
    """JSON that other programs may not cache: another network may answer the next time."""

    def __init__(self, content: Any, status_code: int = 200) -> None:
        super().__init__(content, status_code, headers={"Cache-Control": "no-store"})

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
    return FileResponse(str(STATIC / "index.html"), headers={"Cache-Control": "no-cache"})


async def _bad_question(request: Request, error: Exception) -> Response:
    del request
    return _Json({"error": str(error)}, 400)


async def _http_error(request: Request, error: Exception) -> Response:
    del request
    assert isinstance(error, HTTPException)
    response = _Json({"error": f"{error.detail}."}, error.status_code)
    response.headers.update(error.headers or {})
    return response


async def _too_long(request: Request, error: Exception) -> Response:
    del request, error
    return _Json({"error": "the answer took too long; ask again, or a shorter sentence."}, 503)


async def _our_fault(request: Request, error: Exception) -> Response:
    del request, error  # the traceback is in the server's log, not in the answer
    return _Json({"error": "something went wrong here; the server's log says what."}, 500)


class _SecurityHeaders:
    """Adds `HEADERS` to every response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._added = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *self._added]
            await send(message)

        await self._app(scope, receive, sending)
