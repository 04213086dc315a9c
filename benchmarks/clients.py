"""Clients that send malformed requests to a server, and the memory and time its process uses."""

import os
import random
import re
import socket
import urllib.parse
from collections import Counter
from pathlib import Path

__all__ = ["measure_memory", "measure_time", "send_malformed", "send_one_malformed"]


def send_malformed(port: int, number: int) -> Counter[str]:
    """Count the statuses of many malformed requests; `closed` is a connection without answer."""
    rng = random.Random(1)
    return Counter(send_one_malformed(port, rng) for _ in range(number))


def send_one_malformed(port: int, rng: random.Random) -> str:
    """Send one malformed request as raw bytes, and return its status or `closed`."""
    request = _make_malformed(rng)
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        head = connection.recv(64)
    found = re.match(rb"HTTP/1\.1 (\d{3})", head)
    return found[1].decode() if found else "closed"


def _make_malformed(rng: random.Random) -> bytes:
    """Return a request that is malformed in one of many ways."""
    noise = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 60)))
    quoted = urllib.parse.quote(noise)
    letters = "".join(rng.choice("abcdefgh ") for _ in range(rng.randrange(1, 2_000)))
    paths = [
        "/api/comprehend",
        "/api/comprehend?sentence=",
        f"/api/comprehend?sentence={quoted}",
        f"/api/comprehend?sentence={urllib.parse.quote(letters)}",
        f"/api/comprehend?sentence=the+woman&step={quoted}",
        f"/api/comprehend?sentence=the+woman&prior_variance={rng.choice(['nan', 'inf', '1e999'])}",
        f"/api/comprehend?sentence=the+woman&top={rng.randrange(-(10**12), 10**12) * 1000 + 21}",
        "/api/comprehend?sentence=woman&sentence=man",
        f"/api/comprehend?{quoted}",
        f"/static/../../{quoted}",
        f"/{quoted}",
        "/api/comprehend?sentence=%ff%fe%00",
        "/api/comprehend?sentence=" + "woman+" * 3_000,
    ]
    host = "Host: 127.0.0.1\r\n"
    method = rng.choice(["GET", "GET", "GET", "POST", "DELETE", "TRACE", "BREW"])
    whole = f"{method} {rng.choice(paths)} HTTP/1.1\r\n{host}Connection: close\r\n\r\n".encode()
    spoilt = [whole, whole, whole, noise + b"\r\n\r\n", whole[: len(whole) // 2], noise + whole]
    return rng.choice(spoilt)


def measure_memory(pid: int) -> int:
    """Return the memory of a process and its children in bytes; shared memory counts once."""
    shares = [
        re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{each}/smaps_rollup").read_text(), re.MULTILINE)
        for each in _list_processes(pid)
    ]
    return sum(int(found[1]) for found in shares if found) * 1024


def _list_processes(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8")
    return [pid, *map(int, children.split())]


def measure_time(pid: int) -> float:
    """Return the processor time of a process and its children, in seconds."""
    ticks = 0
    for each in _list_processes(pid):
        fields = Path(f"/proc/{each}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
