"""What surrounds an answer: the names it is given to, the headers it is sent with, its time limit.

Answering to other names would let a web site that has its own name point to this machine read a
loopback server through its visitors' browsers (DNS rebinding).
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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


class Guard:
    """An application that refuses other host names and adds `HEADERS` to every response."""

    def __init__(self, app: ASGIApp, hosts: tuple[str, ...]) -> None:
        self._app, self._hosts = app, hosts
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

        app = self._app if self._has_known_host(Headers(scope=scope)) else REFUSAL
        await app(scope, receive, send_guarded)

    def _has_known_host(self, headers: Headers) -> bool:
        name, _, port = headers.get("host", "").rpartition(":")
        host = name if name and port.isdecimal() else headers.get("host", "")
        return "*" in self._hosts or host.lower() in self._hosts


REFUSAL = JSONResponse({"error": "this server does not answer to that name; use its own."}, 400)


@contextmanager
def limit_time(seconds: float) -> Iterator[None]:
    """Raise `TimeoutError` in a block that takes longer.

    Answers are made in the event loop itself: they take milliseconds, and a thread would cost half
    as much again. Their bounded input keeps them short; this is the second line of defence. It
    needs the main thread, where `equivocal serve` runs, and a system with timers (not Windows);
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
