"""`equivocal bench`."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from equivocal.cli.console import err, out, progress
from equivocal.errors import UserError

__all__ = ["BENCH_EXAMPLES", "bench"]

BENCH_EXAMPLES = (
    "Examples: `equivocal bench --quick`, `equivocal bench --json bench.json`, "
    "`equivocal bench --only sklearn --only literal --run runs/paper`"
)
DEFAULT_RUN = Path("runs/paper")


def bench(
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes, to see that everything runs.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="A million rows, too.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(help="sklearn, nuts, literal or linearity; may be repeated [all]."),
    ] = None,
    json: Annotated[
        str | None, typer.Option(help="Write all numbers to this file; `-` is standard output.")
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(
            help=f"Trained networks whose rows to use [{DEFAULT_RUN}; with --quick made-up ones]."
        ),
    ] = None,
    nuts_outputs: Annotated[
        int | None, typer.Option(min=1, help="Outputs that NUTS is timed on [3].")
    ] = None,
) -> None:
    """Measure the samplers against scikit-learn, NUTS and the literal algorithm.

    Takes some minutes, most of them for NUTS. Close other programs first: both cold and warm times
    are of this machine as it is now.
    """
    from equivocal.bench import BenchSettings, run_bench

    if quick and full:
        raise UserError("--quick and --full exclude each other; give one of them.")
    settings = BenchSettings.quick() if quick else BenchSettings.full() if full else BenchSettings()
    if nuts_outputs is not None:
        settings = replace(settings, nuts_outputs=nuts_outputs)
    _check_writable(json)
    if run is None and not quick and (DEFAULT_RUN / "run.toml").exists():
        run = DEFAULT_RUN
    with progress("measuring") as advance:
        report = run_bench(settings, run=run, only=only or (), on_progress=advance)
    (err if json == "-" else out).print(report.table())
    if json == "-":
        out.print(report.to_json(), end="", soft_wrap=True)
    elif json is not None:
        from equivocal.files import write_text_atomically

        write_text_atomically(json, report.to_json())
        out.print(f"wrote {json}", soft_wrap=True)


def _check_writable(json: str | None) -> None:
    """Before the work rather than after it."""
    from equivocal.files import ensure_writable

    if json is None or json == "-":
        return
    if Path(json).exists():
        raise UserError(f"{json} exists already; choose another name or remove it first.")
    ensure_writable(Path(json).parent)
