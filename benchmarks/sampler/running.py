"""Runs sections one after another, on the same rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks.sampler.facts import describe_machine
from benchmarks.sampler.lines import Findings
from benchmarks.sampler.report import Report
from benchmarks.sampler.settings import BenchSettings
from lastlayer.errors import UserError, did_you_mean, join_names

if TYPE_CHECKING:
    from benchmarks.sampler.ours import OurTimes
    from benchmarks.sampler.problems import Data

__all__ = ["SECTIONS", "Workbench", "run_bench"]

# name: module with a function `measure(bench)`; imported late, since jax is slow to start
SECTIONS = {
    "sklearn": "versus_sklearn",
    "laplace": "versus_laplace",
    "nuts": "versus_nuts",
    "hmc": "exact_draws",
    "verdict": "verdict",
    "literal": "versus_literal",
    "linearity": "linearity",
}

OnProgress = Callable[[int, int, str], None]  # sections done, their number, the current task


@dataclass(eq=False)
class Workbench:
    """What sections share: settings, rows, and our own times on them, each computed once."""

    settings: BenchSettings
    run: Path | None = None  # a folder with trained networks; None for made-up rows
    say: Callable[[str], None] = field(default=lambda _: None)

    @cached_property
    def data(self) -> "Data":
        """The rows and targets."""
        from benchmarks.sampler.problems import collect_run_rows, make_network_rows

        self.say("preparing rows")
        if self.run is None:
            return make_network_rows(self.settings)
        return collect_run_rows(self.run, self.settings)

    @cached_property
    def ours(self) -> "OurTimes":
        """Times of the posterior of all outputs, cold and warm."""
        from benchmarks.sampler.ours import time_ours

        data = self.data
        self.say(f"equivocal, {data.targets.shape[1]} outputs")
        return time_ours(data, self.settings)


def run_bench(
    settings: BenchSettings,
    *,
    run: Path | None = None,
    only: Sequence[str] = (),
    on_progress: OnProgress = lambda _done, _total, _state: None,
) -> Report:
    """Measure the sections named in `only`, by default all of them."""
    for name in only:
        if name not in SECTIONS:
            hint = did_you_mean(name, SECTIONS) or f"; choose from {join_names(SECTIONS)}."
            raise UserError(f"there is no comparison named {name!r}{hint}")
    machine, began = describe_machine(), perf_counter()
    names = [name for name in SECTIONS if not only or name in only]
    bench = Workbench(settings, run)
    found: dict[str, Findings] = {}
    for done, name in enumerate(names):
        bench.say = partial(on_progress, done, len(names))
        bench.say(name)
        found[name] = import_module(f"benchmarks.sampler.{SECTIONS[name]}").measure(bench)
        on_progress(done + 1, len(names), f"{name} done")
    return Report(
        settings=settings,
        source="made-up rows" if run is None else f"the features of {run}",
        machine=machine,
        sections=found,
        seconds=perf_counter() - began,
    )
