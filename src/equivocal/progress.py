"""Progress on standard error: a bar with the time left on a terminal, plain lines elsewhere.

Plain lines keep the logs of batch jobs readable. Work that ends within two seconds reports nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["Advance", "announce", "err", "progress", "run_in_stages"]

# No markup: square brackets are tables of a world file here, and names may contain anything.
err = Console(stderr=True, highlight=False, markup=False)

SECONDS_BETWEEN_LINES = 10.0
QUIET_SECONDS = 2.0  # work that ends by then reports nothing

Advance = Callable[[int, int, str], None]  # done, of how many, a word on how it stands


def announce(text: str) -> None:
    """Print one line before something long begins."""
    err.print(text, soft_wrap=True)


@contextmanager
def progress(what: str, *, quiet: float = QUIET_SECONDS) -> Iterator[Advance]:
    """Yield a function that reports progress; plain lines begin after `quiet` seconds."""
    if err.is_terminal:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TextColumn("{task.fields[state]}"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=err, transient=True) as bar:
            task = bar.add_task(what, total=1, state="starting")
            yield lambda done, total, state: bar.update(
                task, completed=done, total=total, state=state
            )
        return
    yield _print_lines(what, quiet)


def run_in_stages(
    what: str, stages: Mapping[str, Callable[[], object]], *, quiet: float = QUIET_SECONDS
) -> None:
    """Run the stages one after the other and report progress."""
    with progress(what, quiet=quiet) as advance:
        for done, (name, work) in enumerate(stages.items(), start=1):
            work()
            advance(done, len(stages), name)


def _print_lines(what: str, quiet: float) -> Advance:
    """Return a function that prints a line at the first and last step and every ten seconds."""
    began, last = monotonic(), 0.0
    first: tuple[int, float] | None = None

    def advance(done: int, total: int, state: str) -> None:
        nonlocal first, last
        now = monotonic()
        if done > 0 and first is None:
            first = done, now  # the first step is slower than the others (it compiles)
        if now - began < quiet:
            return
        if done in (1, total) or now - last >= SECONDS_BETWEEN_LINES:
            last = now
            left = ""
            if first is not None and first[0] < done < total:
                pace = (now - first[1]) / (done - first[0])
                left = f", about {pace * (total - done):.0f} s left"
            err.print(f"{what}: {done}/{total}, {state}{left}", soft_wrap=True)

    return advance
