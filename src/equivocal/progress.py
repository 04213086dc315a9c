"""Progress on standard error: a bar with the time left on a terminal, plain lines elsewhere.

Both show signs of life while a step takes long: the bar's clock goes on by itself, and a log never
waits longer than ten seconds for a line. Plain lines keep the logs of batch jobs readable. Work
that ends within two seconds adds nothing to a log.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Event, Thread
from time import monotonic

from rich import progress as widgets
from rich.console import Console
from rich.table import Column

__all__ = ["Advance", "announce", "err", "progress", "report_part", "run_in_stages"]

# No markup: square brackets are tables of a world file here, and names may contain anything.
err = Console(stderr=True, highlight=False, markup=False)

SECONDS_BETWEEN_LINES = 10.0
SECONDS_AT_FIRST, FIRST_SECONDS = 2.0, 180.0  # in the first minutes, while somebody may wait
QUIET_SECONDS = 2.0  # work that ends by then reports nothing

Advance = Callable[[int, int, str], None]  # done, of how many, a word on how it stands
Show = Callable[[float, int, str], None]  # likewise, with a share of the current step

# to the bar that was opened last
_report: ContextVar[Advance] = ContextVar("report", default=lambda *_: None)


def announce(text: str) -> None:
    """Print one line before something long begins."""
    err.print(text, soft_wrap=True)


@contextmanager
def progress(
    what: str, *, quiet: float = QUIET_SECONDS, pause: float = SECONDS_AT_FIRST
) -> Iterator[Advance]:
    """Yield a function that reports progress.

    Parameters
    ----------
    what : str
        What is done.
    quiet : float
        Without a terminal: steps that end within so many seconds print nothing.
    pause : float
        Without a terminal: seconds between lines in the first minutes.
    """
    step, text = (0, 1, ""), f"{what}: starting"
    with _draw_bar(text) if err.is_terminal else _print_lines(text, quiet, pause) as show:

        def advance(done: int, total: int, state: str) -> None:
            nonlocal step
            step = done, total, state
            show(done, total, f"{what}: {done}/{total}, {state}")

        def report(part: int, parts: int, name: str) -> None:
            done, total, state = step
            share = min(max(part / parts, 0.01), 0.99)  # only `advance` begins and ends a step
            states = ", ".join(filter(None, (f"{name} {share:.0%}", state)))
            show(done + share, total, f"{what}: {done}/{total}, {states}")

        token = _report.set(report)
        try:
            yield advance
        finally:
            _report.reset(token)


def report_part(part: int, parts: int, name: str) -> None:
    """Report how much of the current step is done, to the bar that was opened last, if any."""
    _report.get()(part, parts, name)


def run_in_stages(
    what: str, stages: Mapping[str, Callable[[], object]], *, quiet: float = QUIET_SECONDS
) -> None:
    """Run the stages one after the other and report progress, once it takes long."""
    with progress(what, quiet=quiet) as advance:
        for done, (name, work) in enumerate(stages.items(), start=1):
            work()
            advance(done, len(stages), name)


@contextmanager
def _draw_bar(text: str) -> Iterator[Show]:
    """Draw a bar on the terminal; its spinner and its clock move in a thread of their own."""
    cut = Column(ratio=1, no_wrap=True)  # where lines are short, before all else
    columns = (
        widgets.SpinnerColumn(),
        widgets.TimeElapsedColumn(),
        widgets.BarColumn(20),
        widgets.TimeRemainingColumn(),
        widgets.TextColumn("{task.description}", markup=False, table_column=cut),
    )
    with widgets.Progress(*columns, console=err, transient=True, expand=True) as bar:
        key = bar.add_task(text, total=1)
        # the clock of a full bar would stop, whatever comes after the last step
        yield lambda at, of, text: bar.update(key, completed=0.999 * at, total=of, description=text)


@contextmanager
def _print_lines(latest: str, quiet: float, at_first: float) -> Iterator[Show]:
    """Print a line at the first and last step, and every few seconds, whether steps end or not."""
    began, last = monotonic(), 0.0
    first, ended = (float("inf"), 0.0), Event()

    def get_pause(now: float) -> float:
        return at_first if now - began < FIRST_SECONDS else SECONDS_BETWEEN_LINES

    def show(done: float, total: int, text: str) -> None:
        nonlocal first, last, latest
        now, latest = monotonic(), text
        if done > 0:
            first = min(first, (done, now))  # the first step is the slowest (it compiles)
        if first[0] < done < total:
            pace = (now - first[1]) / (done - first[0])
            latest = f"{text}, about {pace * (total - done):.0f} s left"
        due = done in (1, total) or now - last >= get_pause(now)
        if due and now - began >= quiet:
            last = now
            err.print(latest, soft_wrap=True)

    def repeat() -> None:
        nonlocal last
        while not ended.wait(max(began, last) + get_pause(monotonic()) - monotonic()):
            if (now := monotonic()) - last >= get_pause(now):  # no step ended meanwhile
                last = now
                err.print(f"{latest}, {now - began:.0f} s so far", soft_wrap=True)

    thread = Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield show
    finally:
        ended.set()
        thread.join()
