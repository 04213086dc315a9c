"""Connections that are bounded: a client that sends or reads too slowly is dropped.

uvicorn waits for ever for the rest of a request, and for a client that does not read its answer;
and it answers 503 once many connections are open, whoever holds them. Here every connection has a
deadline, which each finished answer extends, and a new one takes the place of the one that has been
idle longest.
"""

import asyncio
from time import monotonic
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["BoundedProtocol", "bound_protocol"]

MOST_CONNECTIONS = 256
SECONDS = 15.0  # for a request to arrive, be answered and be read


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 by h11, the one of uvicorn's implementations that can bound headers."""

    seconds = SECONDS
    _deadline: asyncio.TimerHandle | None = None
    _since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock, and make room where there is none."""
        super().connection_made(transport)
        self._extend()
        if len(self.connections) > MOST_CONNECTIONS:
            bounded = [each for each in self.connections if isinstance(each, BoundedProtocol)]
            min(bounded, key=BoundedProtocol._rank).abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Give the next request its own time."""
        self._extend()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer a malformed request, or hang up where an answer has already been begun."""
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:
            self.abort()

    def abort(self) -> None:
        """Drop the connection at once, whatever has not been sent."""
        if self.transport is not None:
            self.transport.abort()

    def _extend(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._since = monotonic()
        self._deadline = self.loop.call_later(self.seconds, self.abort)

    def _rank(self) -> tuple[bool, float]:
        """Those without a request under way come first, and the longest silent of them."""
        busy: Any = self.cycle is not None and not self.cycle.response_complete
        return bool(busy), self._since


def bound_protocol(seconds: float) -> type[BoundedProtocol]:
    """Return the protocol for connections that last `seconds` without a finished answer."""
    return type("BoundedProtocol", (BoundedProtocol,), {"seconds": seconds})
