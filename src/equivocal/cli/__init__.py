"""The command line: parse, call one function of a room, show or save what it gives back."""

import io
import sys

__all__ = ["main"]

INTERRUPTED = 130  # what shells and typer make of Ctrl-C


def main() -> None:
    """Run the command line; Ctrl-C is a clean stop, also while Python is still importing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that lacks a sign shows a "?" for it
            stream.reconfigure(errors="replace")
    try:
        from equivocal.cli.app import run

        code = run()
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:
        sys.stderr.write("stopped; nothing half-written is left behind.\n")
    sys.exit(code)
