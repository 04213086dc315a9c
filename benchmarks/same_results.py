"""Compare two finished folders of a study: are all results the same, and if not, how far apart?

    python -m benchmarks.same_results runs/old runs/new

Compares networks, posteriors, answers, tables and claims number by number. Times that a run
measured of itself are left out. Prints each file that differs with its largest
difference, and exits with code 1 if there is one, or a file that one folder lacks.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from safetensors.numpy import load_file

from equivocal.store import read_dataset

COMPARED = ("**/*.safetensors", "*.nc", "**/*.csv")
TIMES = ("seconds",)  # columns and attributes whose names hold one of these
TEXTS_WITH_TIMES = ("claims.csv",)  # a claim is about the time of NUTS


def find_differences(old: Path, new: Path) -> Iterator[str]:
    """Yield a line for each file that is missing or differs."""
    names = [
        {str(path.relative_to(folder)) for kind in COMPARED for path in folder.glob(kind)}
        for folder in (old, new)
    ]
    for name in sorted(names[0] ^ names[1]):
        yield f"{name}: only in {old if name in names[0] else new}"
    for name in sorted(names[0] & names[1]):
        if difference := compare_files(old / name, new / name):
            yield f"{name}: {difference}"


def compare_files(old: Path, new: Path) -> str:
    """Describe how two files differ; empty where they hold the same."""
    if old.read_bytes() == new.read_bytes():
        return ""
    first, second = load_values(old), load_values(new)
    if first.keys() != second.keys():
        return f"only one of them has {', '.join(sorted(first.keys() ^ second.keys()))}"
    found = {name: measure_difference(first[name], second[name]) for name in first}
    worst = max(found, key=lambda name: found[name], default="")
    return f"{worst} differs by up to {found[worst]:.3g}" if worst and found[worst] else ""


def load_values(path: Path) -> dict[str, np.ndarray]:
    """Load the arrays of a file by name, without measured times."""
    if path.suffix == ".safetensors":
        values = load_file(path)
    elif path.suffix == ".nc":
        dataset = read_dataset(path)
        values = {str(name): part.values for name, part in dataset.variables.items()}
        values |= {str(name): np.asarray(value) for name, value in dataset.attrs.items()}
    else:
        table = pd.read_csv(path)
        values = {str(name): column.to_numpy() for name, column in table.items()}
        if path.name in TEXTS_WITH_TIMES:
            values = {name: part for name, part in values.items() if part.dtype.kind in "fib"}
    return {name: part for name, part in values.items() if not any(t in name for t in TIMES)}


def measure_difference(first: np.ndarray, second: np.ndarray) -> float:
    """Return the largest difference of two arrays; infinite for other shapes, texts or gaps."""
    if first.shape != second.shape:
        return float("inf")
    if first.dtype.kind not in "fiub" or second.dtype.kind not in "fiub":
        same = pd.Series(first.ravel()).equals(pd.Series(second.ravel()))
        return 0.0 if same else float("inf")
    first, second = first.astype(float), second.astype(float)
    if not np.array_equal(np.isnan(first), np.isnan(second)):
        return float("inf")
    return float(np.nanmax(np.abs(first - second), initial=0.0))


def main() -> None:
    """Compare the two folders that the command line names."""
    old, new = map(Path, sys.argv[1:])
    lines = [*find_differences(old, new)]
    print("\n".join(lines) or f"{old} and {new} hold the same results")
    raise SystemExit(1 if lines else 0)


if __name__ == "__main__":
    main()
