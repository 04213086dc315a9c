"""The web application: routes, errors, host names and caches. `equivocal.asking` answers.

GET /                         the page
GET /static/…                 its scripts and style
GET /api/health               whether the server is up, with its world and version
GET /api/world                words, examples, prior variances and steps to choose from
GET /api/worlds               the same for every world
GET /api/comprehend           the answer to `sentence`, as `equivocal ask --json` prints it
GET /api/comprehend.csv       the same with every filler, as a table
GET /api/openapi.json         the description of this API

Describe a new route in `equivocal.web.description` too. Only requests to known host names are
answered: otherwise a web site whose name points to this machine could read a loopback server
through its visitors' browsers (DNS rebinding). Every answer has a time limit.

Answers are written as JSON word by word, and the text of a prefix is cached (`Writer`). The text is
that of `Answer.to_dict`; a test compares the two.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from typing import Any

from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from equivocal import __version__
from equivocal.asking import Answer, Comprehender
from equivocal.asking.comprehender import Latest
from equivocal.asking.rendering import list_heading, list_words
from equivocal.errors import UserError, check_known
from equivocal.web import description as api

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
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
RECALLED = "/api/comprehend"
MOST_RECALLED = 1_000  # cached answers, of some 50 kB
MOST_WORDS = 4096  # cached words, some 12 kB each where three networks answer
SECONDS = 5.0  # time limit of an answer, which takes milliseconds
STATIC = resources.files("equivocal.web") / "static"
# for faults of the server; the traceback is in its log, not in the answer
TOO_LATE = "the answer took too long; ask again, or ask a shorter sentence."
FAULT = "something went wrong here; the server's log says what."


def create_app(*comprehenders: Comprehender, hosts: tuple[str, ...] = LOOPBACK_NAMES) -> ASGIApp:
    """Create the whole application.

    Parameters
    ----------
    *comprehenders : Comprehender
        One for each world; the first is asked by default.
    hosts : tuple of str
        The host names that the server answers to; `*` stands for any.

    Returns
    -------
    callable
        An ASGI application.
    """
    by_world = {comprehender.world.name: comprehender for comprehender in comprehenders}
    worlds = [api.describe_world(comprehender).model_dump() for comprehender in comprehenders]
    fixed = {
        "/api/health": {"status": "ok", "world": worlds[0]["name"], "version": __version__},
        "/api/world": worlds[0],
        "/api/worlds": {"worlds": worlds},
        "/api/openapi.json": api.describe_api(comprehenders),
    }

    async def comprehend(request: Request) -> Response:
        question = api.read_question(api.ListQuestion, request.query_params)
        with limit_time(SECONDS):
            content = writer.write(answer(question), question.top)
        response = Response(content, media_type="application/json")
        recalled.keep(request.scope["query_string"], response)
        return response

    async def tabulate(request: Request) -> Response:
        question = api.read_question(api.Question, request.query_params)
        with limit_time(SECONDS):
            return Response(
                answer(question).to_dataframe().to_csv(index=False),
                media_type="text/csv",
                headers={"Content-Disposition": 'attachment; filename="equivocal.csv"'},
            )

    def answer(question: api.Question) -> Answer:
        name = worlds[0]["name"] if question.world is None else question.world
        check_known(name, by_world, "world")
        return by_world[name].answer(
            question.sentence, prior_variance=question.prior_variance, step=question.step
        )

    recalled, writer = Latest(MOST_RECALLED), Writer()  # answers by the query as it was sent
    app = Starlette(
        routes=[
            Route("/", _send_page),
            Mount("/static", StaticFiles(directory=str(STATIC))),
            Route(RECALLED, comprehend),
            Route("/api/comprehend.csv", tabulate),
            *(
                Route(path, JSONResponse(content), methods=["GET"])
                for path, content in fixed.items()
            ),
        ],
        exception_handlers=dict.fromkeys(
            (UserError, HTTPException, TimeoutError, Exception), _answer_error
        ),
    )
    return Guard(app, hosts, recalled)  # outside, so that answers to errors are guarded too


async def _send_page(_: Request) -> Response:
    return FileResponse(str(STATIC / "index.html"))


async def _answer_error(_: Request, error: Exception) -> Response:
    """Explain a mistake of the client; of a fault of the server say only that there is one."""
    if isinstance(error, HTTPException):
        return JSONResponse({"error": f"{error.detail}."}, error.status_code, headers=error.headers)
    if isinstance(error, UserError):
        return JSONResponse({"error": str(error)}, 400)
    if isinstance(error, TimeoutError):
        return JSONResponse({"error": TOO_LATE}, 503)
    return JSONResponse({"error": FAULT}, 500)


class Guard:
    """An application that refuses other host names and adds `HEADERS` to every response.

    Answers that `recalled` holds are sent from there, without passing through the routes.
    """

    def __init__(self, app: ASGIApp, hosts: tuple[str, ...], recalled: Latest) -> None:
        self._app, self._hosts, self._recalled = app, hosts, recalled
        self._added = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # another network may answer the next time, and another version bring other scripts
        caching = b"no-store" if scope["path"].startswith("/api") else b"no-cache"

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [*self._added, (b"cache-control", caching)]
                message["headers"] = [*message["headers"], *added]
            await send(message)

        known = self._has_known_host(scope)
        app = (self._recall(scope) or self._app) if known else REFUSAL
        await app(scope, receive, send_guarded)

    def _recall(self, scope: Scope) -> ASGIApp | None:
        same = scope["path"] == RECALLED and scope["method"] == "GET"
        found: ASGIApp | None = self._recalled.find(scope["query_string"]) if same else None
        return found

    def _has_known_host(self, scope: Scope) -> bool:
        named = [value for name, value in scope["headers"] if name == b"host"]
        given = b"".join(named).decode("latin-1")
        name, _, port = given.rpartition(":")
        host = name if name and port.isdecimal() else given
        return "*" in self._hosts or host.lower() in self._hosts


REFUSAL = JSONResponse({"error": "this server does not answer to that name; use its own."}, 400)


@contextmanager
def limit_time(seconds: float) -> Iterator[None]:
    """Raise `TimeoutError` in a block that takes longer.

    Answers are computed in the event loop itself: they take milliseconds, and a thread would cost
    half as much again. Their bounded input keeps them short; this is the second line of defence.
    It needs the main thread, where `equivocal serve` runs, and a system with timers (not Windows);
    elsewhere there is no limit.
    """
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or not hasattr(signal, "setitimer"):
        yield
        return

    def expire(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Writer:
    """Writes answers as JSON, and caches the text of the words that were asked last.

    Parameters
    ----------
    most : int
        The number of words that are cached.
    """

    def __init__(self, most: int = MOST_WORDS) -> None:
        self._kept = Latest(most)

    def write(self, answer: Answer, top: int) -> bytes:
        """Return an answer as JSON with `top` fillers for each role."""
        keys = [_identify(answer, position, top) for position in range(len(answer.heard))]
        words = [self._kept.find(key) for key in keys]
        if new := [position for position, word in enumerate(words) if word is None]:
            for position, voices in zip(new, list_words(answer, top, new), strict=True):
                parts = (voices[0]["summary"], *voices)
                words[position] = tuple(to_json(part, inf_nan_mode="null") for part in parts)
                self._kept.keep(keys[position], words[position])
        return _join_parts(answer, words)


def _identify(answer: Answer, position: int, top: int) -> tuple[Any, ...]:
    """Return a key of everything that a word's part of an answer depends on."""
    heard = answer.heard.constituents[: position + 1]
    said = answer.said[position]
    # the rest of the sentence decides which construction it is, and so what syntax indicates
    indicated = [pair for pair in answer.indicated.items() if pair[1] in said]
    spoken = tuple((part.word, part.marker) for part in heard)
    chosen = answer.world, answer.prior_variance, answer.step, top
    return *chosen, heard[-1].text, spoken, tuple(indicated)


def _join_parts(answer: Answer, words: list[tuple[bytes, ...]]) -> bytes:
    """Return an answer from the texts of its words: their summaries, all networks, each network."""
    summaries, together, *alone = zip(*words, strict=True)
    networks = [
        b"%b,%b}" % (to_json({"network": one.network, "time": one.time})[:-1], _join_words(said))
        for one, said in zip(answer.networks, alone, strict=True)
    ]
    return b'%b,%b,"indicated":%b,"summary":%b,"networks":[%b]}' % (
        to_json(list_heading(answer))[:-1],
        _join_words(together),
        to_json(answer.indicated),
        summaries[-1],
        b",".join(networks),
    )


def _join_words(words: tuple[bytes, ...]) -> bytes:
    return b'"words":[%b]' % b",".join(words)
