"""The speed of `equivocal ask` and of the API under load, and how it handles malformed requests.

    python -m benchmarks.serving                 a minute or two
    python -m benchmarks.serving --quick         a few requests, to check that it works
    python -m benchmarks.serving --minutes 10    a load test instead (`benchmarks.serving_load`)

Starts `equivocal serve` as a user does and loads it with `wrk` (Debian's package of that name), a
load generator in C that leaves the cores to the server: first with new sentences, then with twenty
that were asked before. It reports the rate and the server's processor time per answer. `equivocal
ask` is timed as a process of its own, start-up included, and so is the first answer of `equivocal
serve`. Goals: `ask` and the first answer in 3 s; median below 30 ms after warm-up; from 8 clients
on two cores 300 new sentences a second and 1,000 known ones; 100,000 malformed requests: no 5xx,
memory growth of at most 10 %. Run it on an idle machine. Writes
`benchmarks/results/serving.json` (`--quick`: `quick/serving.json`), with `--minutes` the file
`serving_load.json` beside it.
"""

import json
import random
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.clients import measure_memory, measure_time, send_malformed
from benchmarks.machine import RESULTS, describe_machine
from benchmarks.serving_load import load_server
from equivocal.world import World
from lastlayer.files import write_text_atomically

MOST_ASK_SECONDS = 3.0
MOST_MILLISECONDS, FEWEST_PER_SECOND, MOST_GROWTH = 30.0, 300.0, 0.10
FEWEST_KNOWN_PER_SECOND = 1000.0
KNOWN_SENTENCES = 20


def main(
    quick: Annotated[bool, typer.Option(help="Few requests, to see that it runs.")] = False,
    minutes: Annotated[
        float | None, typer.Option(help="Load the server for so long instead, and watch it.")
    ] = None,
) -> None:
    """Measure a server in a process of its own."""
    if shutil.which("wrk") is None:
        raise SystemExit("this benchmark needs wrk: apt-get install wrk")
    if minutes is not None:
        with _run_server() as (port, process):
            load_server(port, process.pid, minutes)
        return
    seconds, malformed = (2, 500) if quick else (20, 100_000)
    terminal = _time_ask(repeats=1 if quick else 7)
    began = time.perf_counter()
    with _run_server() as (port, process), tempfile.TemporaryDirectory() as name:
        _ask_once(port)
        first = time.perf_counter() - began
        script = Path(name) / "ask.lua"
        parts = [_make_sentences(60_000)[start::3] for start in range(3)]  # disjoint
        parts.append(parts[-1][:KNOWN_SENTENCES])
        durations = (2, seconds, seconds, seconds)
        _, one, eight, known = (  # the first warms the server up
            _run_wrk(port, process.pid, script, part, clients=clients, seconds=duration)
            for part, clients, duration in zip(parts, (1, 1, 8, 8), durations, strict=True)
        )
        before = measure_memory(process.pid)
        statuses = send_malformed(port, malformed)
        after = measure_memory(process.pid)
    result: dict[str, Any] = {
        "quick": quick,
        "ask_seconds": terminal,
        "serve_seconds": first,
        "goal_ask_seconds": MOST_ASK_SECONDS,
        "one_client": one,
        "eight_clients": eight,
        "eight_clients_known": known,
        "goal_median_ms": MOST_MILLISECONDS,
        "goal_per_second": FEWEST_PER_SECOND,
        "goal_known_per_second": FEWEST_KNOWN_PER_SECOND,
        "malformed": malformed,
        "statuses": dict(sorted(statuses.items())),
        "memory_before": before,
        "memory_after": after,
        "goal_growth": MOST_GROWTH,
        "met": {
            "ask": terminal <= MOST_ASK_SECONDS,
            "serve": first <= MOST_ASK_SECONDS,
            "median": one["median_ms"] <= MOST_MILLISECONDS,
            "per_second": eight["per_second"] >= FEWEST_PER_SECOND and eight["errors"] == 0,
            "known_per_second": known["per_second"] >= FEWEST_KNOWN_PER_SECOND
            and known["errors"] == 0,
            "no_5xx": not any(status.startswith("5") for status in statuses),
            "memory": after <= (1 + MOST_GROWTH) * before,
        },
        "machine": describe_machine(),
    }
    path = RESULTS / ("quick/serving.json" if quick else "serving.json")
    write_text_atomically(path, json.dumps(result, indent=1) + "\n")
    print(f"equivocal ask: {terminal:.2f} s; first answer of equivocal serve: {first:.2f} s")
    print(f"one client: median {one['median_ms']:.1f} ms, {one['per_second']:.0f} a second")
    for what, found in {"new sentences": eight, "known sentences": known}.items():
        print(
            f"8 clients, {what}: median {found['median_ms']:.1f} ms, {found['per_second']:.0f} a "
            f"second, {found['server_ms']:.1f} ms of processor time each"
        )
    print(f"{malformed:,} malformed: {dict(statuses)}, memory {after / before - 1:+.1%}")
    if not (quick or all(result["met"].values())):
        raise SystemExit(f"missed: {[name for name, met in result['met'].items() if not met]}")


def _time_ask(repeats: int) -> float:
    """Return the median time of the command, once its network and posterior are cached."""
    command = [sys.executable, "-m", "equivocal", "ask", "During dinner, the pizza eats the woman"]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    taken = []
    for _ in range(repeats):
        began = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


@contextmanager
def _run_server() -> Iterator[tuple[int, "subprocess.Popen[str]"]]:
    command = [sys.executable, "-m", "equivocal", "serve", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r":(\d+)/", line)
        assert found, f"the server said {line!r}"
        port = int(found[1])
        _wait_for(port)
        yield port, process
    finally:
        process.terminate()
        process.wait(timeout=10)


def _ask_once(port: int) -> None:
    address = f"http://127.0.0.1:{port}/api/comprehend?sentence=the+pizza+eats+the+woman"
    with urllib.request.urlopen(address) as response:
        json.load(response)


def _wait_for(port: int) -> None:
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit("the server does not answer")


def _make_sentences(number: int) -> list[str]:
    """Make distinct sentences of five words, most of them impossible in the world."""
    world = World.load("paper")
    words = world.file.words
    known = _find_nouns(world)
    nouns = [word for name in words for word in words[name] if word in known]
    rng = random.Random(0)
    made: dict[str, None] = {}  # an ordered set: its order does not depend on the hash seed
    while len(made) < number:
        made[
            f"during {rng.choice(list(words['situations']))} the {rng.choice(nouns)} "
            f"{rng.choice(list(words['actions']))} the {rng.choice(nouns)} "
            f"in the {rng.choice(list(words['locations']))}"
        ] = None
    return list(made)


def _find_nouns(world: World) -> set[str]:
    roles = [world.roles.index(role) for role in ("agent", "patient")]
    numbers = set.union(*(world.grammar.collect_fillers(role) for role in roles))
    return {world.lexicon.words[number] for number in numbers}


def _write_script(sentences: list[str]) -> str:
    """Return a script for wrk that asks one sentence after another."""
    lines = ",\n".join(json.dumps(urllib.parse.quote(sentence)) for sentence in sentences)
    return f"""
local sentences = {{ {lines} }}
local position = 0
request = function()
  position = position % #sentences + 1
  return wrk.format("GET", "/api/comprehend?sentence=" .. sentences[position])
end
done = function(summary, latency, requests)
  io.write(string.format("RESULT %f %f %d %d\\n", latency:percentile(50) / 1000,
    latency:percentile(99) / 1000, summary.requests,
    summary.errors.status + summary.errors.timeout + summary.errors.read))
end
"""


def _run_wrk(
    port: int, pid: int, script: Path, sentences: list[str], *, clients: int, seconds: int
) -> dict[str, Any]:
    script.write_text(_write_script(sentences))
    command = ["wrk", "-t", "1", "-c", str(clients), "-d", f"{seconds}s", "-s", str(script)]
    url, spent = f"http://127.0.0.1:{port}", measure_time(pid)
    done = subprocess.run([*command, url], capture_output=True, text=True, check=True)
    found = re.search(r"RESULT (\S+) (\S+) (\d+) (\d+)", done.stdout)
    assert found, done.stdout
    median, slow, requests, errors = found.groups()
    return {
        "clients": clients,
        "median_ms": float(median),
        "p99_ms": float(slow),
        "per_second": int(requests) / seconds,
        "errors": int(errors),
        "server_ms": 1000 * (measure_time(pid) - spent) / max(1, int(requests)),
    }


if __name__ == "__main__":
    typer.run(main)
