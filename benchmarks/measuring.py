"""The time of all nine paradigms with ten networks, compared with the training of the networks.

    python -m benchmarks.measuring            ten networks; some minutes
    python -m benchmarks.measuring --quick    a check that it works; half a minute

Goal: at most twice the time of training, with trained beliefs; if it is missed the program
fails (not with `--quick`, whose training is too short for a comparison). Everything is computed
afresh, in a temporary folder. Run it on an idle machine. Writes `benchmarks/results/measuring.json`
(`--quick`: `quick/measuring.json`).
"""

import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from time import perf_counter
from typing import Annotated

import pandas as pd
import typer

from benchmarks.machine import RESULTS, describe_machine
from equivocal.store.files import write_text_atomically

MOST_TIMES_TRAINING = 2.0


def main(
    quick: Annotated[bool, typer.Option(help="Small sizes, to see that it runs.")] = False,
) -> None:
    """Run the command as a user would, in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "measure"
        command = [sys.executable, "-m", "equivocal", "measure", "--beliefs", "trained"]
        began = perf_counter()
        subprocess.run([*command, "--out", str(out), *["--quick"] * quick], check=True)
        seconds = perf_counter() - began
        run = out / "networks" / "sg2018" / "run.toml"
        training = tomllib.loads(run.read_text(encoding="utf-8"))["seconds"]
        findings = pd.read_csv(out / "tables" / "findings.csv").query(
            "measure == 'semantic_update'"
        )
    verdicts = {str(name): int(count) for name, count in findings["verdict"].value_counts().items()}
    times = seconds / training
    met = times <= MOST_TIMES_TRAINING
    result = {
        "quick": quick,
        "seconds": seconds,
        "seconds_training": training,
        "times_training": times,
        "goal_times_training": MOST_TIMES_TRAINING,
        "met": met,
        "verdicts": verdicts,
        "machine": describe_machine(),
    }
    path = RESULTS / ("quick/measuring.json" if quick else "measuring.json")
    write_text_atomically(path, json.dumps(result, indent=1) + "\n")
    print(f"{seconds:.0f} s, {times:.2f} × training (goal: at most {MOST_TIMES_TRAINING:g} ×)")
    print(verdicts)
    if not quick and not met:
        raise SystemExit(f"missed: all nine within {MOST_TIMES_TRAINING:g} × the time of training")


if __name__ == "__main__":
    typer.run(main)
