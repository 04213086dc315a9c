"""The command line: parse, call one function of a room, show or save what it gives back."""

import io
import signal
import sys
import threading
from _thread import interrupt_main
from types import FrameType

__all__ = ["main"]

# Commands that keep what is finished; the others leave nothing behind when they are stopped.
RESUMING = {"reproduce", "infer", "probe", "analyse", "report", "multiverse", "sweep"}


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
        code = 128 + stops[0]  # as shells have it
        sys.stderr.write(f"stopped; {_what_now()}.\n")
    sys.exit(code)


def _what_now() -> str:
    if sys.argv[1:2] and sys.argv[1] in RESUMING:
        return "run the same command again, and it goes on where it was"
    return "nothing half-written is left behind"


def _watched_stops() -> list[int]:
    """The signals that asked for a stop, as they come; each also raises `KeyboardInterrupt`."""
    stops: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        del frame
        stops.append(number)
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
