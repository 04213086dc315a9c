"""A load test of several minutes: does the server keep answering, and does its memory grow?

Eight connections of `wrk` ask without pause, half of the time sentences that were asked before and
half new ones, at several steps of the sampler. Meanwhile malformed requests arrive, and slow
clients: some send half a request, some ask and do not read the answer, some send nothing. Once a
second a question with a known answer is asked. Memory is measured eleven times, first when the
server's caches of answers are full (after a quarter of the time, at most a minute).
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
from equivocal.world import World
from lastlayer.files import write_text_atomically

MOST_GROWTH = 0.05  # of memory, from the end of the warm-up to the end
PATIENCE = 25.0  # seconds that a slow client waits to be dropped; the server drops it after 15
SLOW_CLIENTS = 12
KNOWN = "during dinner, the pizza eats the woman"
QUERY = "/api/comprehend?sentence="


def load_server(port: int, pid: int, minutes: float) -> None:
    """Load a server, print the results, and write them beside those of `benchmarks.serving`."""
    seconds = 60 * minutes
    warm = min(60.0, seconds / 4)
    record = _Record(port)
    clients = [
        threading.Thread(target=work, args=(record,), daemon=True)
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
    record.ended.set()
    for client in clients:
        client.join(timeout=PATIENCE + 5)
    found = re.search(r"RESULT (\d+) (\d+) (\d+) (\d+)", printed)
    assert found, printed
    requests, *errors = map(int, found.groups())
    result = _summarise(record, minutes, requests, errors, memory)
    result["server_share"] = (measure_time(pid) - spent) / seconds
    result["machine"] = describe_machine()
    write_text_atomically(RESULTS / "serving_load.json", json.dumps(result, indent=1) + "\n")
    print(json.dumps({name: result[name] for name in result if name != "machine"}, indent=1))
    if not all(result["met"].values()):
        raise SystemExit(f"missed: {[name for name, met in result['met'].items() if not met]}")


class _Record:
    """Counts of what the clients observed, and the signal for them to stop."""

    def __init__(self, port: int) -> None:
        self.port, self.ended = port, threading.Event()
        self.malformed: Counter[str] = Counter()
        self.slow: Counter[str] = Counter()
        self.known: Counter[str] = Counter()
        self.slowest = 0.0


def _summarise(
    record: _Record, minutes: float, requests: int, errors: list[int], memory: list[int]
) -> dict[str, Any]:
    start, middle, end = memory[0], memory[len(memory) // 2], memory[-1]
    faults = sum(number for status, number in record.malformed.items() if status.startswith("5"))
    return {
        "minutes": minutes,
        "requests": requests,
        "per_second": requests / (60 * minutes),
        "errors": dict(zip(("status", "timeout", "read"), errors, strict=True)),
        "malformed": dict(sorted(record.malformed.items())),
        "slow_clients": dict(sorted(record.slow.items())),
        "known_answers": dict(sorted(record.known.items())),
        "slowest_known_ms": 1000 * record.slowest,
        "memory": {"start": start, "middle": middle, "end": end, "every_tenth": memory},
        "goal_growth": MOST_GROWTH,
        "met": {
            "no_errors": not any(errors) and set(record.known) == {"right"},
            "no_5xx": faults == 0 and sum(record.malformed.values()) > 0,
            "slow_are_dropped": set(record.slow) == {"dropped"},
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


def _send_nonsense(record: _Record) -> None:
    rng = random.Random(2)
    while not record.ended.wait(0.02):
        try:
            record.malformed[send_one_malformed(record.port, rng)] += 1
        except OSError as error:
            record.malformed[type(error).__name__] += 1


def _ask_known(record: _Record) -> None:
    """Ask the same question every second, and check that its answer stays the same."""
    address = f"http://127.0.0.1:{record.port}{QUERY}{urllib.parse.quote(KNOWN)}"
    expected, known = None, record.known
    while not record.ended.wait(1.0):
        began = time.monotonic()
        try:
            with urllib.request.urlopen(f"{address}&top={4 + known.total() % 3}") as response:
                summary = json.load(response)["summary"]
        except OSError as error:
            known[type(error).__name__] += 1
            continue
        expected = expected or summary
        known["right" if summary == expected else "wrong"] += 1
        record.slowest = max(record.slowest, time.monotonic() - began)


def _dawdle(record: _Record) -> None:
    """Be slow in one of three ways until the server closes the connection."""
    ask = f"GET {QUERY}woman HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    # nothing sent; half a request; an answer that is not read
    ways = (("", 0.5), (ask, 0.5), (ask + "\r\n", PATIENCE - 1))
    rng = random.Random(threading.get_ident())
    while not record.ended.is_set():
        sent, pause = rng.choice(ways)
        with closing(socket.socket()) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            client.connect(("127.0.0.1", record.port))
            client.sendall(sent.encode())
            began = time.monotonic()
            dropped = False
            while not dropped and time.monotonic() - began < PATIENCE:
                if record.ended.wait(pause):
                    return
                dropped = _is_closed(client)
            record.slow["dropped" if dropped else "kept"] += 1


def _is_closed(client: socket.socket) -> bool:
    """Read what has arrived, and return whether the server has closed the connection."""
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
    """Return a script for wrk that asks one of twenty known sentences and a new one by turns."""
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
