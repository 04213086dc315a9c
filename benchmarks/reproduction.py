"""Time and peak memory of the whole reproduction, compared with the training of its networks.

    python -m benchmarks.reproduction            ten networks, three priors
    python -m benchmarks.reproduction --quick    a check that it works; two minutes
    python -m benchmarks.reproduction --out runs/paper    keep the results, in a new folder
    python -m benchmarks.reproduction --against ../old    and then time another checkout's code

Goals: at most 5 times the time of training, less than 3 GB, a folder of at most 70 MB; with
`--against`, at most 60 % of the other code's time, with the same results
(`benchmarks.same_results`). Everything is computed afresh, in a temporary folder unless
`--out` names one. Run it on an idle machine. Writes `benchmarks/results/reproduction.json`
(`--quick`: `quick/reproduction.json`).
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from benchmarks.machine import RESULTS, describe_machine
from benchmarks.same_results import find_differences
from equivocal.store.files import write_text_atomically

MOST_TIMES_TRAINING, MOST_BYTES, MOST_FOLDER_BYTES, MOST_OF_OTHER = 5.0, 3e9, 70e6, 0.6


def main(
    quick: Annotated[bool, typer.Option(help="Small sizes, to see that it runs.")] = False,
    kept: Annotated[Path | None, typer.Option("--out", help="A new folder to keep it in.")] = None,
    against: Annotated[Path | None, typer.Option(help="Another checkout of the code.")] = None,
) -> None:
    """Run the command as a user would, in a process of its own."""
    if kept is not None and kept.exists():
        raise SystemExit(f"{kept} exists; what it holds would be used again: name a new folder.")
    with tempfile.TemporaryDirectory() as name:
        out = kept or Path(name) / "run"
        seconds = _time_command(out, quick)
        training = tomllib.loads((out / "run.toml").read_text(encoding="utf-8"))["seconds"]
        written = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        compared: dict[str, Any] = {}
        if against is not None:
            other = Path(name) / "other"
            compared["seconds_other"] = _time_command(other, quick, against)
            compared["share_of_other"] = seconds / compared["seconds_other"]
            compared["goal_share_of_other"] = MOST_OF_OTHER
            compared["differences"] = [*find_differences(other, out)]
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
        "folder_bytes": written,
        "goal_folder_bytes": MOST_FOLDER_BYTES,
        **compared,
        "machine": describe_machine(),
    }
    path = RESULTS / ("quick/reproduction.json" if quick else "reproduction.json")
    write_text_atomically(path, json.dumps(result, indent=1) + "\n")
    print(
        f"{seconds:.0f} s, {seconds / training:.1f} × training, peak {peak / 1e9:.2f} GB, "
        f"folder {written / 1e6:.0f} MB"
    )
    if compared:
        print(f"{compared['share_of_other']:.0%} of the other code's time; differences:")
        print("\n".join(compared["differences"]) or "none")


def _time_command(out: Path, quick: bool, checkout: Path | None = None) -> float:
    """Return the seconds that the command takes, with the code of another checkout if given."""
    command = [sys.executable, "-m", "equivocal", "reproduce", "--out", str(out)]
    path = {} if checkout is None else {"PYTHONPATH": str(checkout.resolve() / "src")}
    began = perf_counter()
    subprocess.run([*command, *["--quick"] * quick], check=True, env=os.environ | path)
    return perf_counter() - began


if __name__ == "__main__":
    typer.run(main)
