"""Minutes of load on the server: does it answer all the time, and does its memory stay?

Eight connections of `wrk` ask without pause, half of it sentences that were asked before and half
new ones, at several steps of the sampler. Beside them malformed requests arrive, and slow clients:
some send half a request, some ask and do not read, some say nothing. Every second one question is
asked whose answer is known. Memory is read once the server's memories of answers are full (a
quarter of the time, at most a minute), in the middle and at the end.
"""

import json
import random
import re
import socket
import subprocess
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.clients import measure_memory, measure_time, send_one_malformed
from benchmarks.machine import RESULTS, describe_machine
from equivocal.store.files import write_text_atomically
from equivocal.world import World

MOST_GROWTH = 0.05  # of memory, from the end of the warm-up to the end
PATIENCE = 25.0  # seconds that a slow client waits to be dropped; the server gives it 15
SLOW_CLIENTS = 12
KNOWN = "during dinner, the pizza eats the woman"
QUERY = "/api/comprehend?sentence="


def load_server(port: int, pid: int, minutes: float) -> None:
    """Load a server, print what happened, and write it beside the other results."""
    seconds = 60 * minutes
    warm = min(60.0, seconds / 4)
    told = _Record(port)
    clients = [
        threading.Thread(target=work, args=(told,), daemon=True)
        for work in (_send_nonsense, _ask_known, *[_dawdle] * SLOW_CLIENTS)
    ]
    with tempfile.TemporaryDirectory() as name:
        script = Path(name) / "mix.lua"
        script.write_text(_write_script(), encoding="utf-8")
        command = ["wrk", "-t", "1", "-c", "8", "-d", f"{seconds:.0f}s", "-s", str(script)]
        spent = measure_time(pid)
        load = subprocess.Popen(
            [*command, f"http://127.0.0.1:{port}"], stdout=subprocess.PIPE, text=True
        )
        for client in clients:
            client.start()
        memory = _watch_memory(pid, warm, seconds)
        printed = load.communicate()[0]
    told.ended.set()
    for client in clients:
        client.join(timeout=PATIENCE + 5)
    found = re.search(r"RESULT (\d+) (\d+) (\d+) (\d+)", printed)
    assert found, printed
    requests, *errors = map(int, found.groups())
    result = _sum_up(told, minutes, requests, errors, memory)
    result["server_share"] = (measure_time(pid) - spent) / seconds
    result["machine"] = describe_machine()
    write_text_atomically(RESULTS / "serving_load.json", json.dumps(result, indent=1) + "\n")
    print(json.dumps({name: result[name] for name in result if name != "machine"}, indent=1))
    if not all(result["met"].values()):
        raise SystemExit(f"missed: {[name for name, met in result['met'].items() if not met]}")


class _Record:
    """What clients tell, and when they shall end."""

    def __init__(self, port: int) -> None:
        self.port, self.ended = port, threading.Event()
        self.malformed: Counter[str] = Counter()
        self.slow: Counter[str] = Counter()
        self.known: Counter[str] = Counter()
        self.slowest = 0.0


def _sum_up(
    told: _Record, minutes: float, requests: int, errors: list[int], memory: list[int]
) -> dict[str, Any]:
    start, middle, end = memory[0], memory[len(memory) // 2], memory[-1]
    faults = sum(number for status, number in told.malformed.items() if status.startswith("5"))
    return {
        "minutes": minutes,
        "requests": requests,
        "per_second": requests / (60 * minutes),
        "errors": dict(zip(("status", "timeout", "read"), errors, strict=True)),
        "malformed": dict(sorted(told.malformed.items())),
        "slow_clients": dict(sorted(told.slow.items())),
        "known_answers": dict(sorted(told.known.items())),
        "slowest_known_ms": 1000 * told.slowest,
        "memory": {"start": start, "middle": middle, "end": end, "every_tenth": memory},
        "goal_growth": MOST_GROWTH,
        "met": {
            "no_errors": not any(errors) and set(told.known) == {"right"},
            "no_5xx": faults == 0 and sum(told.malformed.values()) > 0,
            "slow_are_dropped": set(told.slow) == {"dropped"},
            "memory": end <= (1 + MOST_GROWTH) * start,
        },
    }


def _watch_memory(pid: int, warm: float, seconds: float) -> list[int]:
    """Return the memory of a process at eleven times, the first after `warm` seconds."""
    began, pause = time.monotonic(), (seconds - warm) / 10.5
    memory = []
    for number in range(11):
        time.sleep(max(0.0, began + warm + number * pause - time.monotonic()))
        memory.append(measure_memory(pid))
    return memory


def _send_nonsense(told: _Record) -> None:
    rng = random.Random(2)
    while not told.ended.wait(0.02):
        try:
            told.malformed[send_one_malformed(told.port, rng)] += 1
        except OSError as error:
            told.malformed[type(error).__name__] += 1


def _ask_known(told: _Record) -> None:
    """Ask what has one answer, at whatever moment."""
    address = f"http://127.0.0.1:{told.port}{QUERY}{urllib.parse.quote(KNOWN)}"
    expected = None
    while not told.ended.wait(1.0):
        began = time.monotonic()
        try:
            with urllib.request.urlopen(f"{address}&top={4 + told.known.total() % 3}") as response:
                summary = json.load(response)["summary"]
        except OSError as error:
            told.known[type(error).__name__] += 1
            continue
        expected = expected or summary
        told.known["right" if summary == expected else "wrong"] += 1
        told.slowest = max(told.slowest, time.monotonic() - began)


def _dawdle(told: _Record) -> None:
    """Be slow in one of three ways until the server has had enough."""
    ask = f"GET {QUERY}woman HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    # silent; half a request; an answer that is not read
    ways = (("", 0.5), (ask, 0.5), (ask + "\r\n", PATIENCE - 1))
    rng = random.Random(threading.get_ident())
    while not told.ended.is_set():
        sent, pause = rng.choice(ways)
        with closing(socket.socket()) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            client.connect(("127.0.0.1", told.port))
            client.sendall(sent.encode())
            began = time.monotonic()
            dropped = False
            while not dropped and time.monotonic() - began < PATIENCE:
                if told.ended.wait(pause):
                    return
                dropped = _is_closed(client)
            told.slow["dropped" if dropped else "kept"] += 1


def _is_closed(client: socket.socket) -> bool:
    """Read what is there, and return whether the server has hung up after it."""
    client.settimeout(0.2)
    try:
        while client.recv(65_536):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


def _write_script() -> str:
    """Return a script for wrk that asks now a sentence of twenty, now one made up."""
    world = World.load("slips")
    words = {name: json.dumps(list(of)) for name, of in world.file.words.items()}
    heard = [urllib.parse.quote(sentence.text) for sentence in world.sentences[:20]]
    patients = world.grammar.collect_fillers(world.roles.index("patient"))
    nouns = [world.lexicon.words[number] for number in sorted(patients)]
    return f"""
local heard = {{ {json.dumps(heard)[1:-1]} }}
local nouns = {{ {json.dumps(nouns)[1:-1]} }}
local actions = {{ {words["actions"][1:-1]} }}
local situations = {{ {words["situations"][1:-1]} }}
local locations = {{ {words["locations"][1:-1]} }}
local steps = {{ "", "", "", "&step=17", "&step=0", "&prior_variance=5" }}
local number = 0
math.randomseed(7)
local function pick(from) return from[math.random(#from)] end
request = function()
  number = number + 1
  local text = pick(heard)
  if number % 2 == 0 then
    text = "during " .. pick(situations) .. " the " .. pick(nouns) .. " " .. pick(actions)
      .. " the " .. pick(nouns) .. " in the " .. pick(locations)
    text = text:gsub(" ", "%%20")
  end
  return wrk.format("GET", "{QUERY}" .. text .. pick(steps))
end
done = function(summary)
  io.write(string.format("RESULT %d %d %d %d\\n", summary.requests, summary.errors.status,
    summary.errors.timeout, summary.errors.read))
end
"""
