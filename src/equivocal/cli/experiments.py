"""What commands share that train networks for an experiment: sizes, settings, tables, an end."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equivocal.cli.console import out

if TYPE_CHECKING:
    import pandas as pd

    from equivocal.gestalt import TrainingSettings

__all__ = ["SMALL", "Quick", "tell_written", "training_of", "write_tables"]

SMALL = {"networks": 2, "epochs": 10, "sentences": 1_000}

Quick = Annotated[
    bool, typer.Option("--quick", help="Two small networks: does it run? Not to be quoted.")
]


def training_of(networks: int | None, seed: int | None, *, quick: bool) -> "TrainingSettings":
    """The usual settings, or those of `SMALL` networks; what was given comes before both."""
    from equivocal.gestalt import TrainingSettings

    given = {"networks": networks, "seed": seed}
    return TrainingSettings.from_dict(
        (SMALL if quick else {})
        | {name: value for name, value in given.items() if value is not None}
    )


def write_tables(folder: Path, tables: "Mapping[str, pd.DataFrame]") -> None:
    """NAME.csv for each table, six digits of each number."""
    from equivocal.store.files import write_text_atomically

    for name, table in tables.items():
        text = table.to_csv(index=False, float_format="%.6g")
        write_text_atomically(folder / f"{name}.csv", text)


def tell_written(folder: Path, *, quick: bool) -> None:
    """Where the results are, and what those of `SMALL` networks are not for."""
    out.print(f"wrote {folder / 'tables'} and {folder / 'figures'}", soft_wrap=True)
    if quick:
        out.print("Results of small networks show that it runs; they are not to be quoted.")
