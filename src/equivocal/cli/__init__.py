"""The command line: parse arguments, call one public function, print or save its result.

This file handles interrupts. Commands are functions of the other modules of this folder, registered
in `app.py`. A command that resumes after an interruption must be listed in `RESUMING`.
"""

import io
import os
import signal
import sys
import threading
from _thread import interrupt_main
from types import FrameType

from equivocal.errors import explain_missing

__all__ = ["main"]

# Commands that keep finished results; the others leave nothing behind when they are interrupted.
RESUMING = {
    *("reproduce", "infer", "probe", "analyse", "report", "multiverse", "sweep"),
    *("suites", "constructions", "doubt", "people", "ask", "serve"),
}


def main() -> None:
    """Run the command line; Ctrl-C and `kill` end it cleanly, also while Python is importing."""
    signals = _catch_interrupts()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # show "?" where the terminal lacks a sign
            stream.reconfigure(errors="replace")
    code = 1
    try:
        code = _run()
    except BaseException:  # an interrupted import may raise anything
        if not signals:
            raise
    if signals and code != 0:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)  # a second Ctrl-C ends it at once
        sys.stderr.write(f"interrupted; {_describe_consequence()}.\n")
        sys.stderr.flush()
        # Not sys.exit: Python ends itself by SIGINT if an interrupt once passed through exec("…"),
        # as dataclasses use it, even though it was caught.
        os._exit(128 + signals[0])  # the exit code that shells give
    # The work is done, but libraries take a while to shut down, and at the very end Python has put
    # the default handlers back: a signal would then end the process as if it had failed.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    sys.exit(code)


def _run() -> int:
    """Run the command; where the extra `model` is not installed, say so."""
    try:
        from equivocal.cli.app import run
    except ModuleNotFoundError as error:
        what = " ".join(["equivocal", *sys.argv[1:2]])
        sys.stderr.write(f"error: {explain_missing(f'`{what}`', error)}\n")
        return 2  # the exit code of bad input
    return run()


def _describe_consequence() -> str:
    """Say what an interruption leaves behind, and how to continue."""
    if sys.argv[1:2] and sys.argv[1] in RESUMING:
        kept = "finished results are kept, and the same command continues from there"
        return f"{kept}; an unfinished training starts over"
    return "no partial results are left behind"


def _is_importing(frame: FrameType | None) -> bool:
    """Return whether the interrupted code was importing a module."""
    while frame is not None:
        if frame.f_globals.get("__name__") == "importlib._bootstrap":
            return True
        frame = frame.f_back
    return False


def _catch_interrupts() -> list[int]:
    """Return a list that collects interrupt signals; each also raises `KeyboardInterrupt`.

    An interrupt during an import is raised as soon as the import has ended: modules written in C
    may crash when they are interrupted.
    """
    signals: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        if number not in signals:
            signals.append(number)
        importing = _is_importing(frame)
        # Some C code swallows exceptions of its callbacks: interrupt again, later.
        again = threading.Timer(0.05 if importing else 10.0, interrupt_main, (number,))
        again.daemon = True
        again.start()
        if not importing:
            raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:  # which nohup sets, for example
            signal.signal(number, interrupt)

    def interrupt_again(what: "sys.UnraisableHookArgs") -> None:
        # Python only prints exceptions of garbage-collector callbacks, and JAX has such a callback.
        if what.exc_type is KeyboardInterrupt:
            threading.Timer(0.05, interrupt_main).start()
        else:
            sys.__unraisablehook__(what)

    sys.unraisablehook = interrupt_again
    return signals
