"""Training ten networks: `equivocal` and the plain PyTorch loop side by side, in one run.

    python -m benchmarks.training                          some five minutes on two cores
    python -m benchmarks.training --reference-networks 3   less noisy numbers for the reference
    python -m benchmarks.training --quick                  a check that it works; under a minute

1. The reference (`benchmarks.torch_reference`), for two batch sizes: one epoch with 1, 2, 4 …
   threads determines the fastest number; then it trains for 60 epochs. Its networks are trained one
   after another, so the time for ten is ten times the measured mean per network.
2. `equivocal.network.train("paper", networks=10)`, timed from before the world is loaded, with
   sampling, compilation and the scores after each epoch. Of the reference only the training steps
   are timed.

The target is the reference's held-out loss at its best epoch. Our time is the first moment when
the mean of our networks' held-out losses is as low. It is compared with the reference's time for
all 60 epochs and, more strictly, with its time up to that best epoch. Ten networks can also be
trained by one PyTorch process per core; that time is estimated from the epoch with one thread, as
if the processes did not slow each other down, and gives a third ratio, in the reference's favour.

Run it on an idle machine: PyTorch's threads wait for each other in busy loops, so another program
on one core slows the reference disproportionately. The load of other programs is measured during
the run, warned about and stored with the results.

Prints tables and writes `benchmarks/results/training.json` (`--quick`: `quick/training.json`).
"""

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer
from jaxtyping import Float
from rich.console import Console
from rich.table import Table

from benchmarks.machine import RESULTS, describe_machine
from benchmarks.torch_reference import WEIGHT_DECAY, Data, Epoch, collect_data, fit, split
from equivocal.network import Run, TrainingSettings, train
from equivocal.network.training import EpochReport
from equivocal.store.files import write_text_atomically
from equivocal.world import Corpus, World
from lastlayer.machine import count_cores

WORLD = "paper"
BATCH_SIZES = (32, 128)
MOST_BELIEF_ERROR = 0.015
LEAST_CERTAIN_RIGHT = 0.99
MOST_BUSY_ELSEWHERE = 0.1  # cores used by other programs, above which times are unreliable

console = Console(highlight=False)


@dataclass(frozen=True, kw_only=True)
class Reference:
    """Results of the plain loop with one batch size: one history per trained network."""

    batch_size: int
    threads: int
    trials: dict[int, float]  # threads: seconds for one epoch
    histories: list[list[Epoch]]

    @property
    def best_epochs(self) -> list[int]:
        """The epoch, from 1, with each network's lowest held-out loss."""
        return [1 + int(np.argmin([e.held_out_loss for e in each])) for each in self.histories]

    @property
    def target(self) -> float:
        """The held-out loss at the best epoch, mean over networks."""
        return float(np.mean([min(e.held_out_loss for e in each) for each in self.histories]))

    @property
    def seconds(self) -> float:
        """Seconds for all epochs of one network, mean over networks."""
        return float(np.mean([each[-1].seconds for each in self.histories]))

    @property
    def seconds_to_best(self) -> float:
        """Seconds up to the best epoch of one network, mean over networks."""
        pairs = zip(self.histories, self.best_epochs, strict=True)
        return float(np.mean([each[best - 1].seconds for each, best in pairs]))

    def seconds_on_all_cores(self, networks: int) -> float:
        """Estimate the least seconds for `networks` with one single-threaded process per core."""
        return self.trials[1] * len(self.histories[0]) * math.ceil(networks / count_cores())


@dataclass(frozen=True, kw_only=True)
class Ours:
    """One run of `equivocal`, with the wall-clock time after each epoch."""

    run: Run
    seconds: list[float]  # (epochs,), since before the world was loaded
    losses: Float[np.ndarray, "epochs networks"]  # held out

    def first_moment(self, loss: Float[np.ndarray, " epochs"], target: float) -> float | None:
        """Return the seconds until `loss` is at most `target`; None if it never is."""
        reached = np.flatnonzero(loss <= target)
        return self.seconds[reached[0]] if len(reached) else None


def _list_thread_counts() -> list[int]:
    """Return 1, 2, 4 … up to the number of cores, and that number."""
    cores = count_cores()
    return sorted({min(2**power, cores) for power in range(cores.bit_length() + 1)})


def _measure_elsewhere() -> float | None:
    """Return the processor time of other programs since the machine started, where known."""
    try:
        lines = Path("/proc/stat").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    if sum(line.startswith("cpu") for line in lines) != 1 + count_cores():
        return None  # a container on a larger machine, whose other cores do not matter
    user, nice, system, _, _, irq, softirq, steal = map(int, lines[0].split()[1:9])
    busy = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    own = os.times()
    return busy - own.user - own.system - own.children_user - own.children_system


@contextmanager
def _watch_load(what: str, busy_elsewhere: dict[str, float | None]) -> Iterator[None]:
    """Record how many cores other programs used during the block, and warn if too many."""
    before, began = _measure_elsewhere(), perf_counter()
    yield
    after = _measure_elsewhere()
    if before is None or after is None:
        busy_elsewhere[what] = None
        return
    cores = max(0.0, (after - before) / (perf_counter() - began))
    busy_elsewhere[what] = round(cores, 3)
    if cores > MOST_BUSY_ELSEWHERE:
        console.print(
            f"[bold]warning:[/] other programs kept {cores:.1f} cores busy during {what}; its "
            "times are not to be trusted."
        )


def measure_reference(
    parts: tuple[Data, Data],
    settings: TrainingSettings,
    *,
    batch_size: int,
    networks: int,
    epochs: int,
) -> Reference:
    """Find the fastest number of threads for this batch size, then train with it."""
    trials = {}
    for threads in _list_thread_counts():
        _, (epoch,) = fit(
            *parts, settings, batch_size=batch_size, epochs=1, seed=0, threads=threads
        )
        trials[threads] = epoch.seconds
    best = min(trials, key=lambda threads: trials[threads])
    histories = []
    for seed in range(networks):
        _, history = fit(
            *parts, settings, batch_size=batch_size, epochs=epochs, seed=seed, threads=best
        )
        histories.append(history)
        console.print(
            f"reference, batch {batch_size}, threads {best}, network {seed}: {epochs} epochs in "
            f"{history[-1].seconds:.1f} s, best loss {min(e.held_out_loss for e in history):.4f}"
        )
    return Reference(batch_size=batch_size, threads=best, trials=trials, histories=histories)


def measure_ours(networks: int, epochs: int) -> Ours:
    """Train with `equivocal` and record the time after each epoch."""
    seconds: list[float] = []
    losses: list[Float[np.ndarray, " networks"]] = []

    def on_epoch(report: EpochReport, _: int) -> None:
        seconds.append(perf_counter() - began)
        losses.append(report.test_loss)

    began = perf_counter()
    run = train(WORLD, networks=networks, epochs=epochs, on_epoch=on_epoch)
    console.print(
        f"equivocal, {networks} networks: {len(seconds)} epochs in {seconds[-1]:.1f} s, "
        f"mean loss {losses[-1].mean():.4f}"
    )
    return Ours(run=run, seconds=seconds, losses=np.stack(losses))


def _require_same_sentences(one: Corpus, other: Corpus) -> None:
    """Fail unless both held out the same sentences, without which losses are not comparable."""
    counts = [
        dict(zip(table["sentence"], table["count"], strict=True))
        for table in (
            corpus.to_dataframe().groupby("sentence", as_index=False)["count"].sum()
            for corpus in (one, other)
        )
    ]
    first, second = ({text: n for text, n in each.items() if n} for each in counts)
    if first != second:
        raise RuntimeError("the reference and equivocal held out different sentences")


def compare(reference: Reference, ours: Ours) -> dict[str, Any]:
    """Compare one batch size of the reference with our run, as numbers for the result file."""
    networks = ours.losses.shape[1]
    whole, to_best = reference.seconds * networks, reference.seconds_to_best * networks
    on_all_cores = reference.seconds_on_all_cores(networks)
    mean = ours.first_moment(ours.losses.mean(axis=1), reference.target)
    worst = ours.first_moment(ours.losses.max(axis=1), reference.target)

    def ratio(theirs: float) -> float | None:
        return None if mean is None else theirs / mean

    return {
        "batch_size": reference.batch_size,
        "threads": reference.threads,
        "seconds_per_epoch_by_threads": reference.trials,
        "networks_trained": len(reference.histories),
        "seconds_per_network": reference.seconds,
        "seconds_per_network_to_best": reference.seconds_to_best,
        "best_epochs": reference.best_epochs,
        "target_loss": reference.target,
        "seconds_all_networks": whole,
        "seconds_all_networks_to_best": to_best,
        "seconds_all_networks_on_all_cores_at_best": on_all_cores,
        "equivocal_reached": mean is not None,
        "equivocal_seconds_mean": mean,
        "equivocal_seconds_worst": worst,
        "ratio_whole": ratio(whole),
        "ratio_to_best": ratio(to_best),
        "ratio_on_all_cores_at_best": ratio(on_all_cores),
        "curves": [[epoch._asdict() for epoch in history] for history in reference.histories],
    }


def _list_numbers(ours: Ours) -> dict[str, Any]:
    scores = ours.run.scores[["belief_error", "certain_right"]].reset_index()
    return {
        "networks": ours.losses.shape[1],
        "seconds": ours.seconds[-1],
        "best_loss_per_network": ours.losses.min(axis=0).tolist(),
        "scores": json.loads(scores.to_json(orient="records", double_precision=6)),
        "goals": {"belief_error": MOST_BELIEF_ERROR, "certain_right": LEAST_CERTAIN_RIGHT},
        "goals_met": bool(
            (scores["belief_error"] <= MOST_BELIEF_ERROR).all()
            and (scores["certain_right"] >= LEAST_CERTAIN_RIGHT).all()
        ),
        "settings": asdict(ours.run.settings),
        "curves": {"seconds": ours.seconds, "held_out_loss": ours.losses.tolist()},
    }


def _format_seconds(value: float | None) -> str:
    return "not reached" if value is None else f"{value:.1f} s"


def _format_ratio(value: float | None) -> str:
    return "not reached" if value is None else f"{value:.1f} ×"


def _make_speed_table(comparisons: list[dict[str, Any]], networks: int) -> Table:
    table = Table(
        "",
        title=f"Time for {networks} networks to the same held-out loss",
        caption=f"× {networks}: the reference trains its networks one after another, so its time "
        f"is the measured seconds per network times {networks}.",
    )
    for each in comparisons:
        table.add_column(f"batch {each['batch_size']}", justify="right")

    table.add_row("reference: threads", *(str(c["threads"]) for c in comparisons))
    table.add_row(
        "reference: networks measured", *(str(c["networks_trained"]) for c in comparisons)
    )
    table.add_row(
        "reference: best epoch", *(", ".join(map(str, c["best_epochs"])) for c in comparisons)
    )
    table.add_row(
        "reference: loss there = target", *(f"{c['target_loss']:.4f}" for c in comparisons)
    )
    for label, key in (
        ("reference: one network, all epochs", "seconds_per_network"),
        (f"reference: × {networks}, one by one", "seconds_all_networks"),
        (f"reference: × {networks}, to best epoch", "seconds_all_networks_to_best"),
        (
            f"reference: × {networks}, process per core (est.)",
            "seconds_all_networks_on_all_cores_at_best",
        ),
        ("equivocal: mean at target", "equivocal_seconds_mean"),
        ("equivocal: worst at target", "equivocal_seconds_worst"),
    ):
        table.add_row(label, *(_format_seconds(c[key]) for c in comparisons))
    for label, key in (
        ("ratio: all epochs", "ratio_whole"),
        ("ratio: to best epoch", "ratio_to_best"),
        ("ratio: process per core (est.)", "ratio_on_all_cores_at_best"),
    ):
        table.add_row(label, *(_format_ratio(c[key]) for c in comparisons))
    return table


def _make_score_table(numbers: dict[str, Any]) -> Table:
    table = Table(
        "network",
        "best loss",
        f"belief error (≤ {MOST_BELIEF_ERROR})",
        f"certain right (≥ {LEAST_CERTAIN_RIGHT})",
        title=f"equivocal's networks after {numbers['seconds']:.1f} s",
    )
    for score, loss in zip(numbers["scores"], numbers["best_loss_per_network"], strict=True):
        error, right = score["belief_error"], score["certain_right"]
        table.add_row(
            str(score["network"]),
            f"{loss:.4f}",
            f"{error:.4f}{'' if error <= MOST_BELIEF_ERROR else ', missed'}",
            f"{right:.4f}{'' if right >= LEAST_CERTAIN_RIGHT else ', missed'}",
        )
    return table


def main(
    quick: Annotated[bool, typer.Option(help="A few epochs only, to see that it runs.")] = False,
    reference_networks: Annotated[int, typer.Option(min=1, help="Networks to time.")] = 1,
) -> None:
    """Measure both, print the tables and write the results."""
    facts = describe_machine()
    networks, epochs, reference_epochs = (2, 3, 2) if quick else (10, 60, 60)
    busy: dict[str, float | None] = {}
    settings = TrainingSettings()
    kept, held_out = split(World.load(WORLD), settings)
    parts = collect_data(kept), collect_data(held_out)
    references = []
    for size in BATCH_SIZES:
        with _watch_load(f"reference, batch {size}", busy):
            references.append(
                measure_reference(
                    parts,
                    settings,
                    batch_size=size,
                    networks=reference_networks,
                    epochs=reference_epochs,
                )
            )
    with _watch_load("equivocal", busy):
        ours = measure_ours(networks, epochs)
    _require_same_sentences(held_out, ours.run.held_out)
    comparisons = [compare(reference, ours) for reference in references]
    numbers = _list_numbers(ours)
    console.print(_make_speed_table(comparisons, networks), _make_score_table(numbers))
    content = {
        "machine": facts | {"cores_busy_elsewhere": busy},
        "world": WORLD,
        "reference_settings": {"epochs": reference_epochs, "weight_decay": WEIGHT_DECAY},
        "equivocal": numbers,
        "reference": comparisons,
    }
    path = RESULTS / ("quick/training.json" if quick else "training.json")
    write_text_atomically(path, json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    typer.run(main)
