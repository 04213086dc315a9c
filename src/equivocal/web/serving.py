"""Runs the application with uvicorn."""

import ipaddress
import socket

import uvicorn
from starlette.types import ASGIApp

from equivocal.asking import Comprehender
from equivocal.errors import UserError
from equivocal.web.app import LOOPBACK_NAMES, create_app

__all__ = ["configured", "is_loopback", "listening", "serve"]

LONGEST_HEADERS = 16_384  # bytes of a request before its body
IDLE_SECONDS = 10
MOST_CONNECTIONS = 256


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that is bound to `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listening(host: str, port: int) -> socket.socket:
    """A bound socket, so that a taken port is known before anything is said."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # named as TCP, or asyncio leaves Nagle's algorithm on and every answer waits for 40 ms
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except (OSError, OverflowError) as error:
        bound.close()
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UserError(
            f"cannot serve on {host} port {port} ({reason}); choose another with --port or --host."
        ) from None
    return bound


def configured(app: ASGIApp) -> uvicorn.Config:
    """Uvicorn's settings: bounded requests, nothing about itself in the answers."""
    return uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=IDLE_SECONDS,
        h11_max_incomplete_event_size=LONGEST_HEADERS,
    )


def serve(comprehender: Comprehender, bound: socket.socket, host: str) -> None:
    """Serve until it is stopped."""
    app = create_app(comprehender, hosts=LOOPBACK_NAMES if is_loopback(host) else ("*",))
    uvicorn.Server(configured(app)).run(sockets=[bound])
