"""Posteriors over a last layer compared with other methods on the same network and rows.

    python -m benchmarks.peers                        five seeds; two hours or so on two cores
    python -m benchmarks.peers --quick --out DIR      three seeds (one for many labels); 6 minutes
    python -m benchmarks.peers --data yeast --methods ours --methods ridge

Writes `DIR/peers.csv`, one row for each data set, method and seed, after every fit, so that an
interrupted run keeps what it has. `nll`, `brier` and `ece` (pooled over labels) are those of the
test rows. `fit_s` is on top of the trained network; `deep-ensemble` and `mc-dropout` train networks
of their own, which is included. `predict_s` is the time of a second call on the test rows,
`peak_mb` the growth of resident memory while fitting. BLAS and PyTorch have one thread each: with
two they wait for each other on problems of this size and take five to twelve times as long.
`benchmarks.comparison` has the data, networks, methods and measures. Methods and data that need a
missing package are skipped with a message. The recorded numbers are in
`benchmarks/results/peers.csv`; `python -m benchmarks.tabulate_peers` makes the tables of
benchmarks/peers.md from them.
"""

import csv
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.comparison.data import DATA, MissingPackageError, make_task
from benchmarks.comparison.measures import COLUMNS, measure_method
from benchmarks.comparison.methods import METHODS, Method
from benchmarks.comparison.networks import train_networks
from benchmarks.comparison.problem import Problem
from lastlayer.errors import UserError, check_known
from lastlayer.machine import use_one_blas_thread

SEEDS, QUICK_SEEDS = 5, 3
SLOW_DATA = {"wide-513"}
QUICK_OUTPUTS = 50  # with more, one seed is enough for --quick
QUICK_LABELS = {  # the most labels for which --quick runs a method
    "laplace-diag": 20,
    "laplace-grid": 0,
    "laplace-kron": 20,
    "laplace-full": 20,
    "ours-hmc": 20,
    "ours-paper": 20,
    "ours-probit": 20,
    "ours-unit-prior": 20,
    "vbll": 0,
}


def list_rows(
    data: list[str], methods: list[str], seeds: int, *, quick: bool
) -> Iterator[dict[str, Any]]:
    """Yield the row of each data set, method and seed; print once why something is skipped."""
    said: set[str] = set()
    for name in data:
        fitted: set[str] = set()
        for seed in range(seeds):
            try:
                task = make_task(name, seed)
            except MissingPackageError as error:
                print(f"{name}: skipped, {error}")
                break
            if quick and seed and task.num_outputs > QUICK_OUTPUTS:
                break
            problem = Problem(task, train_networks(task)[0])
            for chosen in methods:
                reason = _find_obstacle(METHODS[chosen], chosen, problem, quick)
                try:
                    if not reason:
                        first = chosen not in fitted
                        row = measure_method(problem, chosen, METHODS[chosen], first)
                        fitted.add(chosen)
                        yield row
                        continue
                except MissingPackageError as error:
                    reason = str(error)
                if f"{name} {chosen}" not in said:
                    said.add(f"{name} {chosen}")
                    print(f"{name}, {chosen}: skipped, {reason}")


def _find_obstacle(method: Method, name: str, problem: Problem, quick: bool) -> str:
    most, K = QUICK_LABELS.get(name), problem.task.num_outputs
    if quick and most is not None and most < K:
        return f"--quick leaves it out for {K} outputs"
    return method.find_obstacle(problem)


def main(
    quick: Annotated[bool, typer.Option("--quick", help="Three seeds; minutes.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for peers.csv.")] = Path("runs/peers"),
    data: Annotated[
        list[str] | None, typer.Option(help="Names as in peers.csv; all unless given.")
    ] = None,
    methods: Annotated[
        list[str] | None, typer.Option(help="Names as in peers.csv; all unless given.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="How many [5; --quick: 3].")] = None,
) -> None:
    """Fit every method on every data set, print and write."""
    some = [name for name in DATA if not (quick and name in SLOW_DATA)]
    data, methods = data or some, methods or list(METHODS)
    try:
        for name in data:
            check_known(name, DATA, "data set")
        for name in methods:
            check_known(name, METHODS, "method")
    except UserError as error:
        raise typer.BadParameter(str(error)) from None
    _use_one_torch_thread()
    out.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")  # of other packages, such as changes of defaults
    with (
        use_one_blas_thread(),
        (out / "peers.csv").open("w", encoding="utf-8", newline="") as file,
    ):
        writer = None
        for row in list_rows(
            data, methods, seeds or (QUICK_SEEDS if quick else SEEDS), quick=quick
        ):
            if writer is None:
                writer = csv.DictWriter(file, list(row), lineterminator="\n")
                writer.writeheader()
            writer.writerow({name: _format(value) for name, value in row.items()})
            file.flush()
            print(_describe(row), flush=True)
        if writer is None:
            csv.writer(file, lineterminator="\n").writerow(COLUMNS)


def _use_one_torch_thread() -> None:
    with suppress(ImportError):
        import torch

        torch.set_num_threads(1)


def _format(value: Any) -> Any:
    return f"{value:.5g}" if isinstance(value, float) else value


def _describe(row: dict[str, Any]) -> str:
    scores = "  ".join(f"{name} {row[name]:.4f}" for name in ("nll", "brier", "ece"))
    cost = f"fit {row['fit_s']:.2f} s  predict {row['predict_s']:.3f} s  {row['peak_mb']:.0f} MB"
    return f"{row['dataset']:16} {row['method']:14} seed {row['seed']}  {scores}  {cost}"


if __name__ == "__main__":
    typer.run(main)
