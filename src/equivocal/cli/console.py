"""Where the command line speaks: results to standard output, all else to standard error."""

from rich.console import Console

from equivocal.progress import Advance, err, in_stages, progress

__all__ = ["Advance", "err", "in_stages", "on_device", "out", "progress"]

# No markup: square brackets are tables of a world file here, and names are anybody's.
out = Console(highlight=False, markup=False)


def on_device() -> str:
    """`" on NVIDIA H200"` where JAX found more than a CPU, which goes without saying."""
    import jax

    device = jax.devices()[0]
    return "" if device.platform == "cpu" else f" on {device.device_kind}"
