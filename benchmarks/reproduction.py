"""Time and peak memory of the whole reproduction, compared with the training of its networks.

    python -m benchmarks.reproduction            ten networks, three priors; 25 minutes
    python -m benchmarks.reproduction --quick    a check that it works; two minutes
    python -m benchmarks.reproduction --out runs/paper    keep the results, in a new folder

Goals: at most 5 times the time of training, and less than 3 GB. Everything is computed afresh, in
a temporary folder unless `--out` names one. Run it on an idle machine. Writes
`benchmarks/results/reproduction.json` (`--quick`: `quick/reproduction.json`).
"""

import json
import resource
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from benchmarks.machine import RESULTS, describe_machine
from equivocal.store.files import write_text_atomically

MOST_TIMES_TRAINING, MOST_BYTES = 5.0, 3e9


def main(
    quick: Annotated[bool, typer.Option(help="Small sizes, to see that it runs.")] = False,
    kept: Annotated[Path | None, typer.Option("--out", help="A new folder to keep it in.")] = None,
) -> None:
    """Run the command as a user would, in a process of its own."""
    if kept is not None and kept.exists():
        raise SystemExit(f"{kept} exists; what it holds would be used again: name a new folder.")
    with tempfile.TemporaryDirectory() as name:
        out = kept or Path(name) / "run"
        command = [sys.executable, "-m", "equivocal", "reproduce", "--out", str(out)]
        began = perf_counter()
        subprocess.run([*command, *["--quick"] * quick], check=True)
        seconds = perf_counter() - began
        training = tomllib.loads((out / "run.toml").read_text(encoding="utf-8"))["seconds"]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    peak = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    result = {
        "quick": quick,
        "seconds": seconds,
        "processor_seconds": used.ru_utime + used.ru_stime,
        "seconds_training": training,
        "times_training": seconds / training,
        "goal_times_training": MOST_TIMES_TRAINING,
        "peak_bytes": peak,
        "goal_bytes": MOST_BYTES,
        "machine": describe_machine(),
    }
    path = RESULTS / ("quick/reproduction.json" if quick else "reproduction.json")
    write_text_atomically(path, json.dumps(result, indent=1) + "\n")
    print(f"{seconds:.0f} s, {seconds / training:.1f} × training, peak {peak / 1e9:.2f} GB")


if __name__ == "__main__":
    typer.run(main)
