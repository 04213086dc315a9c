"""Results and tables on standard output, options that commands share, and examples of the help.

Everything else that is printed, such as progress and warnings, goes to `equivocal.progress.err`.
"""

from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from math import isnan
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.measure import Measurement
from rich.table import Column, Table

from equivocal.store import read_toml

if TYPE_CHECKING:
    import pandas as pd

# No markup: square brackets are tables of a world file here, and names may contain anything.
out = Console(highlight=False, markup=False)

FOLDER = resources.files("equivocal")
EXAMPLES, NOTES = (read_toml(str(FOLDER / f"{name}.toml")) for name in ("examples", "notes"))

Folder = Annotated[Path, typer.Option("--out", help="Folder for the results; made if needed.")]
QuickFolder = Annotated[
    Path | None,
    typer.Option("--out", help="Folder for all results [runs/COMMAND; -quick is added to it]."),
]
Networks = Annotated[int | None, typer.Option(min=1, help="How many networks to train [ten].")]
Seed = Annotated[int | None, typer.Option(min=0, help="The same seed gives the same networks [0].")]
Recipe = Annotated[
    str | None, typer.Option(help="How networks are trained: fast, paper or sg2018 [fast].")
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Worker processes on this machine [one for each core]."),
]
Quick = Annotated[
    bool,
    typer.Option(
        "--quick", help="Only check that the command works, with two small networks; do not report."
    ),
]


def list_examples(command: str) -> str:
    """List the examples of a command for the end of its help."""
    examples = [f"`equivocal {line}`" for line in EXAMPLES[command]]
    return f"Example{'s' * (len(examples) > 1)}: {', '.join(examples)}"


def show_summary(summary: Sequence[str]) -> None:
    """Print what an experiment found, the most important sentence in bold."""
    for place, line in enumerate(summary):
        out.print(line, style=None if place else "bold", soft_wrap=True)


def show_results(summary: Sequence[str], folder: Path, *, quick: bool) -> None:
    """Print what an experiment found and where its results are."""
    show_summary(summary)
    out.print(f"wrote {folder / 'tables'} and {folder / 'figures'}", soft_wrap=True)
    warn_quick(quick)


def show_note(name: str, more: str = "", **values: object) -> None:
    """Print a note of `notes.toml`, with its values filled in."""
    out.print(NOTES[name].format(**values) + more, style="dim")


def warn_quick(quick: bool) -> None:
    """Print a warning below the results of small networks."""
    if quick:
        out.print(
            "Results of small networks only check that the command works; do not report them."
        )


def make_table(
    columns: Iterable[str | Column], rows: Iterable[Iterable[str]], **look: Any
) -> Table:
    """Make a table of texts; `look` are further arguments of `rich.table.Table`."""
    table = Table(*columns, title_justify="left", **look)
    for row in rows:
        table.add_row(*row)
    return table


def show_table(table: Table) -> None:
    """Print a table as wide as its cells need: a truncated number would be a different number."""
    needed = Measurement.get(out, out.options.update(max_width=1_000), table).maximum
    Console(highlight=False, markup=False, width=max(out.width, needed)).print(table)


def show_rows(
    heads: Iterable[str], rows: Iterable[Iterable[str]], *, left: int = 1, **look: Any
) -> None:
    """Print a table of texts; all but the first `left` columns are aligned to the right.

    Parameters
    ----------
    heads : iterable of str
        The names of the columns.
    rows : iterable of iterable of str
        The cells.
    left : int
        How many columns are names, which are not wrapped.
    **look
        Further arguments of `rich.table.Table`.
    """
    columns = [
        Column(head, no_wrap=True) if place < left else Column(head, justify="right")
        for place, head in enumerate(heads)
    ]
    show_table(make_table(columns, rows, **look))


def show_frame(
    frame: "pd.DataFrame", cells: Mapping[str, str], *, left: int = 1, **look: Any
) -> None:
    """Print a table of data: `cells` gives the format of each column, as `"{power:.3f}"`."""
    form = _CellFormatter()
    rows: Any = frame.to_dict("records")
    texts = ([form.vformat(cell, (), row) for cell in cells.values()] for row in rows)
    show_rows(cells, texts, left=left, **look)


class _CellFormatter(Formatter):
    """Formats like `str.format`, with a dash for a missing number."""

    def format_field(self, value: Any, format_spec: str) -> str:
        missing = isinstance(value, float) and isnan(value)
        return "–" if missing else str(super().format_field(value, format_spec))
