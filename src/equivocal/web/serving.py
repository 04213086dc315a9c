"""Run the application with uvicorn on a socket of this machine, with bounded connections.

uvicorn waits for ever for the rest of a request, and for a client that does not read its answer;
and it answers 503 once many connections are open, whoever holds them. Here every connection has a
deadline, which each finished answer extends, and a new connection replaces the one that has been
idle longest (`BoundedProtocol`).

Several processes may answer at the same socket: they are forked once everything is loaded and share
that memory. Each takes one new connection at a time, so that a free process takes the next one.
"""

import asyncio
import gc
import ipaddress
import os
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from equivocal.asking import Comprehender
from equivocal.errors import UserError
from equivocal.web.app import LOOPBACK_NAMES, create_app

MOST_CONNECTIONS = 256
SECONDS = 15.0  # time for a request to arrive, be answered and be read
LONGEST_HEADERS = 16_384  # bytes of a request's head, beyond what arrives in one piece (64 kB)
IDLE_SECONDS = 10
MOST_WORKERS = 2  # by default
WAITING = 2048  # connections that the system holds until a process takes them


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server that is bound to `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bind_socket(host: str, port: int) -> socket.socket:
    """Bind a socket, so that a port in use is noticed before anything is announced."""
    if not host.strip():
        raise UserError("--host is empty; leave it out, or name an address of this machine.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # named as TCP, or asyncio leaves Nagle's algorithm on and every answer waits for 40 ms
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen()  # or a second server could still bind the same port
    except (OSError, OverflowError) as error:
        bound.close()
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UserError(
            f"cannot serve on {host} port {port} ({reason}); choose another with --port or --host."
        ) from None
    return bound


def configure_server(
    comprehenders: Sequence[Comprehender], host: str, *, seconds: float = SECONDS
) -> uvicorn.Config:
    """Configure uvicorn: bounded requests, and nothing about the server in the answers.

    A connection is dropped if a request takes longer than `seconds` to be sent and answered.
    """
    own = f"[{host}]" if ":" in host else host
    names = (*LOOPBACK_NAMES, own) if is_loopback(host) else ("*",)
    return uvicorn.Config(
        create_app(*comprehenders, hosts=names),
        http=bound_protocol(seconds),
        ws="none",
        lifespan="off",
        log_level="error",  # a malformed request is the client's affair
        access_log=False,
        server_header=False,
        timeout_keep_alive=IDLE_SECONDS,
        h11_max_incomplete_event_size=LONGEST_HEADERS,
    )


def choose_workers(wanted: int | None = None) -> int:
    """Choose how many processes answer.

    Parameters
    ----------
    wanted : int, optional
        How many are asked for; by default two, or one on a single core.

    Returns
    -------
    int
        One where a process cannot be forked safely: on other systems than Linux, and after JAX has
        computed a posterior here, because its threads would be missing in the fork.
    """
    if sys.platform != "linux" or "jax" in sys.modules:
        return 1
    return wanted or min(MOST_WORKERS, len(os.sched_getaffinity(0)))


def serve(
    comprehenders: Sequence[Comprehender], bound: socket.socket, host: str, workers: int = 1
) -> None:
    """Serve comprehenders, one for each world, until the process is interrupted."""
    config = configure_server(comprehenders, host)
    if workers > 1:
        config.backlog = 1  # how many connections a process takes at a time
        gc.collect()
        gc.freeze()  # the collector writes to objects, and memory written to is no longer shared
    helpers = [_start_helper(config, bound) for _ in range(workers - 1)]
    try:
        _Server(config).run(sockets=[bound])
    finally:  # not reached after SIGTERM: see `_Helper`
        for process in helpers:
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(process, signal.SIGTERM)
                os.waitpid(process, 0)


def _start_helper(config: uvicorn.Config, bound: socket.socket) -> int:
    """Fork a process that serves too, and return its process id."""
    parent = os.getpid()
    process = os.fork()
    if process:
        return process
    try:
        _Helper(config, parent).run(sockets=[bound])
    except KeyboardInterrupt:
        pass
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)  # without the clean-up, which is the parent's


class _Server(uvicorn.Server):
    """A server that lets more connections wait than it takes at a time."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        await super().startup(sockets=sockets)
        for each in sockets or ():
            each.listen(WAITING)


class _Helper(_Server):
    """A server that ends with its parent process, however that ends."""

    def __init__(self, config: uvicorn.Config, parent: int) -> None:
        super().__init__(config)
        self._parent = parent

    async def on_tick(self, counter: int) -> bool:
        """Return whether to end; uvicorn calls this ten times a second."""
        return await super().on_tick(counter) or os.getppid() != self._parent


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 by h11, the only one of uvicorn's implementations that can bound headers."""

    seconds = SECONDS
    _deadline: asyncio.TimerHandle | None = None
    _since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the deadline, and drop an idle connection if there are too many."""
        super().connection_made(transport)
        self._extend()
        if len(self.connections) > MOST_CONNECTIONS:
            bounded = [each for each in self.connections if isinstance(each, BoundedProtocol)]
            min(bounded, key=BoundedProtocol._rank).abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadline."""
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Extend the deadline for the next request."""
        self._extend()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer a malformed request, or hang up if an answer has begun already."""
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:
            self.abort()

    def abort(self) -> None:
        """Drop the connection at once, with whatever has not been sent."""
        if self.transport is not None:
            self.transport.abort()

    def _extend(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._since = monotonic()
        self._deadline = self.loop.call_later(self.seconds, self.abort)

    def _rank(self) -> tuple[bool, float]:
        """Rank connections for dropping: idle ones first, those idle longest before others."""
        busy: Any = self.cycle is not None and not self.cycle.response_complete
        return bool(busy), self._since


def bound_protocol(seconds: float) -> type[BoundedProtocol]:
    """Return the protocol for connections that last `seconds` without a finished answer."""
    return type("BoundedProtocol", (BoundedProtocol,), {"seconds": seconds})
