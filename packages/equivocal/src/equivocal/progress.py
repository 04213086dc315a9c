"""Progress on standard error: a bar with the time left on a terminal, plain lines elsewhere.

Both show signs of life during a long step: the bar's clock keeps running, and a log gets its first
line after two seconds, the next ones after a quarter of the time so far, and at least one every ten
seconds. Plain lines keep the logs of batch jobs readable. Work that ends within two seconds adds
nothing to a log. An estimate of the time left is counted down, and not shown once it has passed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from threading import Event, Thread
from time import monotonic

from rich import progress as widgets
from rich.console import Console
from rich.table import Column
from rich.text import Text

__all__ = ["Advance", "announce", "err", "progress", "report_part"]

# No markup: square brackets are tables of a world file here, and names may contain anything.
err = Console(stderr=True, highlight=False, markup=False)

SECONDS_BETWEEN_LINES = 10.0
SECONDS_AT_FIRST = 2.0
WAITING = 0.25  # share of the time so far that passes between two lines
QUIET_SECONDS = 2.0  # work that ends by then reports nothing

Advance = Callable[[int, int, str], None]  # steps done, steps in all, a short text on the state
Show = Callable[[float, int, str], None]  # the same, where a share of the current step is done too

# reports to the bar that was opened last
_report: ContextVar[Advance] = ContextVar("report", default=lambda *_: None)


def announce(text: str) -> None:
    """Print one line before something long begins."""
    err.print(text, soft_wrap=True)


@contextmanager
def progress(
    what: str,
    *,
    begin: str = "starting",
    quiet: float = QUIET_SECONDS,
    pause: float = SECONDS_AT_FIRST,
) -> Iterator[Advance]:
    """Yield a function that reports progress.

    Parameters
    ----------
    what : str
        What the work is called at the start of each line.
    begin : str
        The state that is shown before the first report.
    quiet : float
        Without a terminal: steps that end within so many seconds print nothing.
    pause : float
        Without a terminal: seconds between the first lines.
    """
    step, text = (0, 1, ""), f"{what}: {begin}"
    with _draw_bar(text) if err.is_terminal else _print_lines(text, quiet, pause) as show:

        def describe(done: int, total: int, state: str) -> str:
            counted = f"{done}/{total}, " if total > 1 else ""  # a single step shows only its share
            return f"{what}: {counted}{state}"

        def advance(done: int, total: int, state: str) -> None:
            nonlocal step
            step = done, total, state
            show(done, total, describe(done, total, state))

        def report(part: int, parts: int, name: str) -> None:
            done, total, state = step
            share = min(max(part / parts, 0.01), 0.99)  # only `advance` begins and ends a step
            states = ", ".join(filter(None, (f"{name} {share:.0%}", state)))
            show(done + share, total, describe(done, total, states))

        token = _report.set(report)
        try:
            yield advance
        finally:
            _report.reset(token)


def report_part(part: int, parts: int, name: str) -> None:
    """Report how much of the current step is done, to the bar that was opened last, if any."""
    _report.get()(part, parts, name)


class _TimeLeft(widgets.ProgressColumn):
    """The time left, counted down from the last estimate; dashes once that has passed."""

    def render(self, task: widgets.Task) -> Text:
        """Format the time left as rich formats the elapsed time."""
        left = (task.time_remaining or 0) - (monotonic() - task.fields["reported"])
        shown = str(timedelta(seconds=int(left))) if left >= 1 else "-:--:--"
        return Text(shown, style="progress.remaining")


@contextmanager
def _draw_bar(text: str) -> Iterator[Show]:
    """Draw a bar on the terminal; its spinner and its clock move in a thread of their own."""
    cut = Column(ratio=1, no_wrap=True)  # on a narrow terminal, only this column is cut
    columns = (
        widgets.SpinnerColumn(),
        widgets.TimeElapsedColumn(),
        widgets.BarColumn(20),
        _TimeLeft(),
        widgets.TextColumn("{task.description}", markup=False, table_column=cut),
    )
    with widgets.Progress(*columns, console=err, transient=True, expand=True) as bar:
        key = bar.add_task(text, total=1, reported=monotonic())

        def show(at: float, of: int, text: str) -> None:
            # rich stops the clock of a full bar, but work may follow the last step
            done = 0.999 * at
            bar.update(key, completed=done, total=of, description=text, reported=monotonic())

        yield show


@contextmanager
def _print_lines(latest: str, quiet: float, at_first: float) -> Iterator[Show]:
    """Print a line at the first and last step, and every few seconds, whether steps end or not."""
    began, last = monotonic(), 0.0
    first, end, ended = (float("inf"), 0.0), 0.0, Event()

    def get_pause(now: float) -> float:
        return min(max(at_first, WAITING * (now - began)), SECONDS_BETWEEN_LINES)

    def describe(now: float) -> str:
        return f"{latest}, about {end - now:.0f} s left" if end - now >= 1 else latest

    def show(done: float, total: int, text: str) -> None:
        nonlocal first, last, latest, end
        now, latest, end = monotonic(), text, 0.0
        if done > 0:
            first = min(first, (done, now))  # the first step is the slowest (it compiles)
        if first[0] + 0.1 < done < total:  # less says nothing about the rest
            end = now + (now - first[1]) / (done - first[0]) * (total - done)
        due = done in (1, total) or now - last >= get_pause(now)
        if due and now - began >= quiet:
            last = now
            err.print(describe(now), soft_wrap=True)

    def repeat() -> None:
        nonlocal last
        while not ended.wait(max(began, last) + get_pause(monotonic()) - monotonic()):
            if (now := monotonic()) - last >= get_pause(now):  # no step ended meanwhile
                last = now
                err.print(f"{describe(now)}, {now - began:.0f} s so far", soft_wrap=True)

    thread = Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield show
    finally:
        ended.set()
        thread.join()
