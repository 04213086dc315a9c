"""Where the command line speaks: results to standard output, all else to standard error."""

from rich.console import Console

from equivocal.progress import Advance, err, in_stages, progress

__all__ = ["Advance", "err", "in_stages", "out", "progress"]

# No markup: square brackets are tables of a world file here, and names are anybody's.
out = Console(highlight=False, markup=False)
