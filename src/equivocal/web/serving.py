"""The application run by uvicorn on a socket of this machine, with bounded headers.

Limits of connections are in `equivocal.web.connections`.
"""

import ipaddress
import socket
from collections.abc import Sequence

import uvicorn

from equivocal.asking import Comprehender
from equivocal.errors import UserError
from equivocal.web.app import LOOPBACK_NAMES, create_app
from equivocal.web.connections import BoundedProtocol

LONGEST_HEADERS = 16_384  # bytes of a request's head, beyond what arrives in one piece (64 kB)
IDLE_SECONDS = 10


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server that is bound to `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bind_socket(host: str, port: int) -> socket.socket:
    """Bind a socket, so that a taken port is known before anything is announced."""
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


def configure_server(comprehenders: Sequence[Comprehender], host: str) -> uvicorn.Config:
    """Configure uvicorn: bounded requests, and nothing about the server in the answers."""
    own = f"[{host}]" if ":" in host else host
    names = (*LOOPBACK_NAMES, own) if is_loopback(host) else ("*",)
    return uvicorn.Config(
        create_app(*comprehenders, hosts=names),
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_level="error",  # a malformed request is the client's affair
        access_log=False,
        server_header=False,
        timeout_keep_alive=IDLE_SECONDS,
        h11_max_incomplete_event_size=LONGEST_HEADERS,
    )


def serve(comprehenders: Sequence[Comprehender], bound: socket.socket, host: str) -> None:
    """Serve comprehenders, one for each world, until the process is interrupted."""
    uvicorn.Server(configure_server(comprehenders, host)).run(sockets=[bound])
