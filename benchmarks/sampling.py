"""Posteriors against scikit-learn, NUTS and the literal algorithm, measured on this machine.

    python -m benchmarks.sampling --quick                   a check that it works; about a minute
    python -m benchmarks.sampling                           all comparisons
    python -m benchmarks.sampling --full --record           a million rows too, for the record
    python -m benchmarks.sampling --only sklearn --json -   one comparison, as JSON

The modules of `benchmarks.sampler` describe what is compared and what is timed. Close other
programs first, since they would slow down some of the measurements.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.machine import RESULTS
from benchmarks.sampler import BenchSettings, run_bench
from equivocal.store.files import ensure_writable, write_text_atomically
from equivocal.store.folders import has_run
from lastlayer.errors import UserError

# Rows are taken from this folder if no other is named, and made up if it does not exist.
PAPER = Path("runs/paper")

Only = Annotated[
    list[str] | None,
    typer.Option(
        help="sklearn, laplace, nuts, hmc, verdict, literal or linearity; may be repeated [all]."
    ),
]
Json = Annotated[
    str | None, typer.Option(help="Write all numbers to this file; `-` is standard output.")
]
Folder = Annotated[
    Path | None,
    typer.Option(help=f"Trained networks whose rows to use [{PAPER}; made-up if --quick]."),
]


def measure(
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes: does it run?")] = False,
    full: Annotated[bool, typer.Option("--full", help="A million rows, too.")] = False,
    only: Only = None,
    json: Json = None,
    run: Folder = None,
    nuts_outputs: Annotated[
        int | None, typer.Option(min=1, help="Outputs that NUTS is timed on [3].")
    ] = None,
    record: Annotated[
        bool, typer.Option("--record", help="Overwrite benchmarks/results/sampling.json.")
    ] = False,
) -> None:
    """Measure the samplers against scikit-learn, NUTS and the literal algorithm.

    Takes some minutes, most of them for NUTS. Example: python -m benchmarks.sampling --quick
    """
    if quick and full:
        raise UserError("--quick and --full exclude each other; give one of them.")
    settings = BenchSettings.quick() if quick else BenchSettings.full() if full else BenchSettings()
    if nuts_outputs is not None:
        settings = replace(settings, nuts_outputs=nuts_outputs)
    _check_writable(json)
    if run is None and not quick and has_run(PAPER):
        run = PAPER
    to_err = Console(highlight=False, markup=False, stderr=True)
    to_out = Console(highlight=False, markup=False)
    report = run_bench(
        settings,
        run=run,
        only=only or (),
        on_progress=lambda done, total, state: to_err.print(f"{done}/{total}, {state}"),
    )
    (to_err if json == "-" else to_out).print(report.table())
    if json == "-":
        to_out.print(report.to_json(), end="", soft_wrap=True)
    elif json is not None:
        write_text_atomically(json, report.to_json())
        to_out.print(f"wrote {json}", soft_wrap=True)
    if record:
        write_text_atomically(RESULTS / "sampling.json", report.to_json())


def _check_writable(json: str | None) -> None:
    """Refuse a file that cannot be written before the work rather than after it."""
    if json is None or json == "-":
        return
    if Path(json).exists():
        raise UserError(f"{json} exists already; choose another name or remove it first.")
    ensure_writable(Path(json).parent)


def main() -> None:
    """Run the command; report a user's mistake in one sentence with exit code 2."""
    try:
        typer.run(measure)
    except UserError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
