"""Where the command line speaks: results to standard output, all else to standard error."""

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from equivocal.progress import Advance, err, in_stages, progress

__all__ = ["Advance", "err", "in_stages", "on_device", "out", "progress", "show_table"]

# No markup: square brackets are tables of a world file here, and names are anybody's.
out = Console(highlight=False, markup=False)


def on_device() -> str:
    """`" on NVIDIA H200"` where JAX found more than a CPU, which goes without saying."""
    import jax

    device = jax.devices()[0]
    return "" if device.platform == "cpu" else f" on {device.device_kind}"


def show_table(table: Table) -> None:
    """As wide as its cells need, whatever the terminal: a number cut short is another number."""
    needed = Measurement.get(out, out.options.update(max_width=1_000), table).maximum
    Console(highlight=False, markup=False, width=max(out.width, needed)).print(table)
