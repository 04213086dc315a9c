"""The command line: parse, call one function of a room, show or save what it gives back."""

import sys

__all__ = ["main"]

INTERRUPTED = 130  # what shells and typer make of Ctrl-C


def main() -> None:
    """Run the command line; Ctrl-C is a clean stop, also while Python is still importing."""
    try:
        from equivocal.cli.app import run

        code = run()
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:
        sys.stderr.write("stopped; nothing half-written is left behind.\n")
    sys.exit(code)
