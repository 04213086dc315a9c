"""The console for results: standard output, through `out` and `show_table`; examples for help.

Everything else, such as progress and warnings, goes to `equivocal.progress.err`.
"""

from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from equivocal.store import read_toml

# No markup: square brackets are tables of a world file here, and names may contain anything.
out = Console(highlight=False, markup=False)

EXAMPLES = read_toml(str(resources.files("equivocal.cli") / "examples.toml"))


def list_examples(command: str) -> str:
    """List the examples of a command for the end of its help."""
    examples = [f"`equivocal {line}`" for line in EXAMPLES[command]]
    return f"Example{'s' * (len(examples) > 1)}: {', '.join(examples)}"


def show_results(summary: Iterable[str], folder: Path, *, quick: bool) -> None:
    """Print what an experiment found and where its results are."""
    for line in summary:
        out.print(line, soft_wrap=True)
    out.print(f"wrote {folder / 'tables'} and {folder / 'figures'}", soft_wrap=True)
    if quick:
        out.print("Results of small networks show that it runs; they are not to be quoted.")


def show_table(table: Table) -> None:
    """Print a table as wide as its cells need: a truncated number would be a different number."""
    needed = Measurement.get(out, out.options.update(max_width=1_000), table).maximum
    Console(highlight=False, markup=False, width=max(out.width, needed)).print(table)
