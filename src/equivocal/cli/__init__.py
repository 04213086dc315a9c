"""The command line: parse, call one function of a room, show or save what it gives back."""

import io
import os
import signal
import sys
import threading
from _thread import interrupt_main
from types import FrameType

__all__ = ["main"]

# Commands that keep what is finished; the others leave nothing behind when they are stopped.
RESUMING = {
    *("reproduce", "infer", "probe", "analyse", "report", "multiverse", "sweep"),
    *("suites", "constructions", "doubt"),
}


def main() -> None:
    """Run the command line; Ctrl-C and `kill` are a clean stop, also while Python is importing."""
    stops = _watched_stops()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that lacks a sign shows a "?" for it
            stream.reconfigure(errors="replace")
    code = 1
    try:
        from equivocal.cli.app import run

        code = run()
    except BaseException:  # a stop in the middle of an import may come out as anything
        if not stops:
            raise
    if stops and code != 0:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)  # whoever insists is obeyed at once
        sys.stderr.write(f"stopped; {_what_now()}.\n")
        sys.stderr.flush()
        # Not sys.exit: Python ends itself by SIGINT if an interrupt once passed through exec("…"),
        # as dataclasses use it, even though it was caught.
        os._exit(128 + stops[0])  # as shells have it
    sys.exit(code)


def _what_now() -> str:
    if sys.argv[1:2] and sys.argv[1] in RESUMING:
        return "run the same command again, and it goes on where it was"
    return "nothing half-written is left behind"


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_globals.get("__name__") == "importlib._bootstrap":
            return True
        frame = frame.f_back
    return False


def _watched_stops() -> list[int]:
    """The signals that asked for a stop; each also raises `KeyboardInterrupt`.

    Not in the middle of an import, though: modules written in C take that badly, up to a crash. It
    is then raised as soon as the import has ended.
    """
    stops: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        if number not in stops:
            stops.append(number)
        importing = _is_importing(frame)
        # Some code written in C swallows what is raised while it calls back: ask again, later.
        again = threading.Timer(0.05 if importing else 10.0, interrupt_main, (number,))
        again.daemon = True
        again.start()
        if not importing:
            raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, stop)

    def lost(what: "sys.UnraisableHookArgs") -> None:
        # In a callback of the garbage collector (JAX has one) Python would print and forget it.
        if what.exc_type is KeyboardInterrupt:
            threading.Timer(0.05, interrupt_main).start()
        else:
            sys.__unraisablehook__(what)

    sys.unraisablehook = lost
    return stops
