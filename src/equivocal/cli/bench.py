"""`equivocal bench`."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equivocal.cli.console import err, out, progress
from equivocal.errors import UserError
from equivocal.files import ensure_writable, write_text_atomically

if TYPE_CHECKING:
    from equivocal.bench import BenchSettings

__all__ = ["BENCH_EXAMPLES", "bench"]

BENCH_EXAMPLES = (
    "Examples: `equivocal bench --quick`, `equivocal bench --json bench.json`, "
    "`equivocal bench --only sklearn --only literal --run runs/paper`"
)
DEFAULT_RUN = Path("runs/paper")

Only = Annotated[
    list[str] | None,
    typer.Option(help="sklearn, nuts, literal or linearity; may be repeated [all]."),
]
Json = Annotated[
    str | None, typer.Option(help="Write all numbers to this file; `-` is standard output.")
]
Folder = Annotated[
    Path | None,
    typer.Option(help=f"Trained networks whose rows to use [{DEFAULT_RUN}; made-up if --quick]."),
]


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes: does it run?")] = False,
    full: Annotated[bool, typer.Option("--full", help="A million rows, too.")] = False,
    only: Only = None,
    json: Json = None,
    run: Folder = None,
    nuts_outputs: Annotated[
        int | None, typer.Option(min=1, help="Outputs that NUTS is timed on [3].")
    ] = None,
) -> None:
    """Measure the samplers against scikit-learn, NUTS and the literal algorithm.

    Takes some minutes, most of them for NUTS. Close other programs first: the times are those of
    this machine as it is now.
    """
    from equivocal.bench import run_bench

    settings = _settings(quick, full, nuts_outputs)
    _check_writable(json)
    if run is None and not quick and (DEFAULT_RUN / "run.toml").exists():
        run = DEFAULT_RUN
    with progress("measuring") as advance:
        report = run_bench(settings, run=run, only=only or (), on_progress=advance)
    (err if json == "-" else out).print(report.table())
    if json == "-":
        out.print(report.to_json(), end="", soft_wrap=True)
    elif json is not None:
        write_text_atomically(json, report.to_json())
        out.print(f"wrote {json}", soft_wrap=True)


def _settings(quick: bool, full: bool, nuts_outputs: int | None) -> "BenchSettings":
    from equivocal.bench import BenchSettings

    if quick and full:
        raise UserError("--quick and --full exclude each other; give one of them.")
    settings = BenchSettings.quick() if quick else BenchSettings.full() if full else BenchSettings()
    return settings if nuts_outputs is None else replace(settings, nuts_outputs=nuts_outputs)


def _check_writable(json: str | None) -> None:
    """Before the work rather than after it."""
    if json is None or json == "-":
        return
    if Path(json).exists():
        raise UserError(f"{json} exists already; choose another name or remove it first.")
    ensure_writable(Path(json).parent)
