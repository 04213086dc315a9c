"""The server against clients that are slow, silent or wrong: no 5xx, and others are answered."""

import os
import random
import socket
import struct
import time
import urllib.parse
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, suppress

import pytest

from equivocal.asking import Comprehender
from equivocal.web.serving import MOST_CONNECTIONS
from tests.web.conftest import running
from tests.web.test_api import get

WELL_FORMED = b"GET /api/comprehend?sentence=woman HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
MALFORMED = int(os.environ.get("EQUIVOCAL_FUZZ", "300"))  # `make fuzz` sends a hundred thousand


@pytest.fixture(scope="module")
def address(mind: Comprehender) -> Iterator[tuple[str, int]]:
    """A server that waits for half a second where others wait for fifteen."""
    from equivocal.web.serving import bind_socket

    bound = bind_socket("127.0.0.1", 0)
    with running(bound, "127.0.0.1", mind, seconds=0.5):
        yield "127.0.0.1", bound.getsockname()[1]


def connect(address: tuple[str, int]) -> socket.socket:
    client = socket.create_connection(address, timeout=10)
    # closed without a farewell, or the ports of many clients would stay taken for a minute
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return client


def is_answered(address: tuple[str, int]) -> bool:
    return get("http://{}:{}".format(*address), "/api/comprehend", sentence="the woman")[0] == 200


def is_dropped(client: socket.socket, parts: Iterable[bytes], pause: float = 0) -> bool:
    """Whether the server closes the connection before all parts are sent."""
    try:
        for part in parts:
            client.sendall(part)
            time.sleep(pause)
    except ConnectionError:
        return True
    return False


def read_all(client: socket.socket) -> bytes:
    """What the server sends until it closes the connection."""
    received = []
    while True:
        try:
            part = client.recv(65_536)
        except ConnectionError:
            break
        if not part:
            break
        received.append(part)
    return b"".join(received)


def test_silent_clients_are_dropped_and_take_no_room(address: tuple[str, int]) -> None:
    with ExitStack() as stack:
        silent = [
            stack.enter_context(closing(connect(address))) for _ in range(MOST_CONNECTIONS + 50)
        ]
        for client in silent[::2]:  # half of them begin a request and never end it
            try:
                client.sendall(WELL_FORMED[:30])
            except ConnectionError:  # dropped already, to make room
                continue
        assert is_answered(address)
        started = time.monotonic()
        assert all(read_all(client) == b"" for client in silent)
        assert time.monotonic() - started < 5


def test_a_client_that_sends_byte_by_byte_is_dropped(address: tuple[str, int]) -> None:
    with closing(connect(address)) as client:
        assert is_dropped(client, [bytes([byte]) for byte in WELL_FORMED], pause=0.06)
        assert is_answered(address)


def test_a_client_that_does_not_read_is_dropped(address: tuple[str, int]) -> None:
    with closing(connect(address)) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        # far more than the buffers between the two hold
        assert is_dropped(client, [WELL_FORMED * 1000] * 1000)
        assert is_answered(address)


@pytest.mark.parametrize(("method", "status"), [("GET", b"200"), ("POST", b"405")])
def test_a_large_body_is_ignored(address: tuple[str, int], method: str, status: bytes) -> None:
    size = 1_000_000
    head = f"{method} /api/comprehend?sentence=woman HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    with closing(connect(address)) as client:
        client.sendall(f"{head}Content-Length: {size}\r\nConnection: close\r\n\r\n".encode())
        with suppress(ConnectionError):  # answered and closed before all was sent
            client.sendall(b"x" * size)
        received = read_all(client)
    assert received.startswith(b"HTTP/1.1 " + status) or received == b""
    assert is_answered(address)


def test_malformed_requests_get_no_server_error(address: tuple[str, int]) -> None:
    """Requests with bytes changed, removed and inserted, and queries of random text."""
    chance = random.Random(0)
    statuses = set()
    for number in range(MALFORMED):
        with closing(connect(address)) as client:
            client.sendall(_spoil(chance) if number % 2 else _ask_nonsense(chance))
            client.shutdown(socket.SHUT_WR)
            statuses.add(read_all(client)[9:12])
    assert b"400" in statuses
    assert not [status for status in statuses if status.startswith(b"5")]
    assert is_answered(address)


def _spoil(chance: random.Random) -> bytes:
    request = bytearray(WELL_FORMED)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(request))
        request[place : place + chance.randint(0, 2)] = chance.randbytes(chance.randint(0, 3))
    return bytes(request)


def _ask_nonsense(chance: random.Random) -> bytes:
    names = ("sentence", "step", "top", "prior_variance", "x")
    query = "&".join(
        f"{chance.choice(names)}={urllib.parse.quote(chance.randbytes(chance.randint(0, 12)))}"
        for _ in range(chance.randint(0, 4))
    )
    return f"GET /api/comprehend?{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
