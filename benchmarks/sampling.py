"""Posteriors against scikit-learn, NUTS and the literal algorithm, for the record.

    python -m benchmarks.sampling                  everything, a million rows included
    python -m benchmarks.sampling --quick          does it still work? about a minute
    python -m benchmarks.sampling --run runs/ten   rows of other networks than runs/paper's

The same as `equivocal bench --full`; what is compared with what, and what is counted, stands in the
modules of `benchmarks.sampler`. Run it on a machine that does nothing else. Prints the table and
writes `benchmarks/results/sampling.json` (`--quick`: `quick/sampling.json`).
"""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.machine import RESULTS
from benchmarks.sampler import BenchSettings, run_bench
from equivocal.store.files import write_text_atomically

# Without this folder, and no other named, rows are made up; the table says which.
PAPER = Path("runs/paper")


def main(
    quick: Annotated[bool, typer.Option(help="Small sizes, to see that it runs.")] = False,
    run: Annotated[Path, typer.Option(help="Trained networks to take rows from.")] = PAPER,
) -> None:
    """Measure, print the table and write the results."""
    console = Console(highlight=False, markup=False)
    settings = BenchSettings.quick() if quick else BenchSettings.full()
    report = run_bench(
        settings,
        run=None if run == PAPER and not run.exists() else run,
        on_progress=lambda done, total, state: console.print(f"{done}/{total}, {state}"),
    )
    console.print(report.table())
    path = RESULTS / ("quick/sampling.json" if quick else "sampling.json")
    write_text_atomically(path, report.to_json())


if __name__ == "__main__":
    typer.run(main)
