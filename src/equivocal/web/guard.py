"""Around the application: answers only to its own names, and tells browsers to be careful.

Answering to other names would let a web site that has its own name point to this machine read a
loopback server through its visitors' browsers (DNS rebinding).
"""

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["LOOPBACK_NAMES", "Guard"]

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
    """Refuses other hosts; adds `HEADERS` to every response of the application."""

    def __init__(self, app: ASGIApp, hosts: tuple[str, ...]) -> None:
        self._app, self._hosts = app, hosts
        self._added = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # another network may answer the next time, and another version bring other scripts
        lasting = b"no-store" if scope["path"].startswith("/api") else b"no-cache"

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [*self._added, (b"cache-control", lasting)]
                message["headers"] = [*message["headers"], *added]
            await send(message)

        app = self._app if self._is_ours(Headers(scope=scope)) else REFUSAL
        await app(scope, receive, sending)

    def _is_ours(self, headers: Headers) -> bool:
        name, _, port = headers.get("host", "").rpartition(":")
        host = name if name and port.isdecimal() else headers.get("host", "")
        return "*" in self._hosts or host.lower() in self._hosts


REFUSAL = JSONResponse({"error": "this server does not answer to that name; use its own."}, 400)
