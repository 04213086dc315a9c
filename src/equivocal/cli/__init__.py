"""The command line: parse, call one function of a room, show or save what it gives back."""

from equivocal.cli.app import main

__all__ = ["main"]
