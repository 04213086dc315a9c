"""Where the command line speaks: results to standard output, all else to standard error."""

from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from equivocal.progress import Advance, err, in_stages, progress

__all__ = [
    "Advance",
    "err",
    "in_stages",
    "on_device",
    "out",
    "progress",
    "show_results",
    "show_table",
]

# No markup: square brackets are tables of a world file here, and names are anybody's.
out = Console(highlight=False, markup=False)


def on_device() -> str:
    """`" on NVIDIA H200"` where JAX found more than a CPU, which goes without saying."""
    import jax

    device = jax.devices()[0]
    return "" if device.platform == "cpu" else f" on {device.device_kind}"


def show_results(summary: Iterable[str], folder: Path, *, quick: bool) -> None:
    """Print what an experiment found and where its results are."""
    for line in summary:
        out.print(line, soft_wrap=True)
    out.print(f"wrote {folder / 'tables'} and {folder / 'figures'}", soft_wrap=True)
    if quick:
        out.print("Results of small networks show that it runs; they are not to be quoted.")


def show_table(table: Table) -> None:
    """As wide as its cells need, whatever the terminal: a number cut short is another number."""
    needed = Measurement.get(out, out.options.update(max_width=1_000), table).maximum
    Console(highlight=False, markup=False, width=max(out.width, needed)).print(table)
