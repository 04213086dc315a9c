"""The command line: every feature registers its commands; a user's mistake ends in one sentence.

A command parses its arguments, calls one public function, prints or saves the result. A feature is
a folder whose `command.py` defines `register(app)`; its line in `FEATURES` makes it a command. One
that resumes after an interruption must be listed in `RESUMING`. Libraries are imported after the
handlers of interrupts are in place.
"""

import errno
import io
import os
import signal
import sys
import threading
import warnings
from _thread import interrupt_main
from importlib import import_module
from types import FrameType
from typing import TYPE_CHECKING, Annotated

if TYPE_CHECKING:
    import typer
    from typer.exceptions import TyperException

__all__ = ["build_app", "hand_over", "main", "run"]

FEATURES = (
    "asking.command",
    "measuring.command",
    "people.command",
    "paper.command",
    "multiverse.command",
    "doubt.command",
    "english.command",
    "world.command",
    "network.command",
    "doctor",
)
# Commands that keep finished results; the others leave nothing behind when they are interrupted.
RESUMING = {"reproduce", "multiverse", "measure", "doubt", "people", "ask", "english"}
# a flag hands a command to that of the same name in another feature: `ask --english TEXT`
HANDED_OVER = {"--english": "english"}
BAD_INPUT = 2  # exit code


def main() -> None:
    """Run the command line; Ctrl-C and `kill` end it cleanly, also while Python is importing."""
    signals = _catch_interrupts()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # show "?" where the terminal lacks a sign
            stream.reconfigure(errors="replace")
    code = 1
    try:
        code = run()
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


def build_app() -> "typer.Typer":
    """Register the commands of every feature."""
    import typer

    app = typer.Typer(
        name="equivocal",
        no_args_is_help=True,
        rich_markup_mode="markdown",
        add_completion=False,
        pretty_exceptions_enable=False,
        epilog='Start with `equivocal ask "During dinner, the pizza eats the woman"`.',
    )

    @app.callback(invoke_without_command=True)
    def root(
        *, version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False
    ) -> None:
        """Degrees of belief for neural models of language comprehension."""
        if version:
            from equivocal import __version__

            typer.echo(f"equivocal {__version__}")
            raise typer.Exit

    for name in FEATURES:
        import_module(f"equivocal.{name}").register(app)
    return app


def run() -> int:
    """Run the command line.

    Returns
    -------
    int
        The exit code: 2 after bad input, which is explained in one sentence on standard error.
    """
    from typer.exceptions import TyperException

    from lastlayer.errors import UserError

    warnings.showwarning = _show_warning
    try:
        code: int | None = build_app()(hand_over(sys.argv[1:]), standalone_mode=False)
        sys.stdout.flush()
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return _print_error(f"cannot write: {error.strerror}; make room, or write elsewhere.")
    except UserError as error:
        return _print_error(str(error))
    except TyperException as error:
        if type(error).__name__ != "NoArgsIsHelpError":  # the help has been printed
            _print_error(f"{_explain_usage(error)} (`--help` shows the usage)")
        return BAD_INPUT
    return code or 0


def hand_over(arguments: list[str]) -> list[str]:
    """Put the feature that a flag names in front of the command.

    Parameters
    ----------
    arguments : list of str
        The words of a command line.

    Returns
    -------
    list of str
        The words with which Typer is called.

    Examples
    --------
    >>> hand_over(["ask", "--english", "Dogs bite."])
    ['english', 'ask', 'Dogs bite.']
    """
    for flag, feature in HANDED_OVER.items():
        if flag in arguments:
            return [feature, *(word for word in arguments if word != flag)]
    return arguments


def _explain_usage(error: "TyperException") -> str:
    """Explain a mistake in the options in our words where Typer would repeat pydantic's text."""
    from pydantic import ValidationError

    from equivocal.errors import explain_mistake

    if isinstance(error.__cause__, ValidationError):
        error.message = explain_mistake(error.__cause__.errors()[0], None, "value", "").rstrip(".")
    return error.format_message()


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning as one line; where in the code it was raised does not help the reader."""
    _print("note: ", "yellow", str(message))


def _print_error(message: str) -> int:
    """Print an error and return the exit code for it."""
    _print("error: ", "bold red", message)
    return BAD_INPUT


def _print(label: str, style: str, message: str) -> None:
    from rich.text import Text

    from equivocal.progress import err

    err.print(Text.assemble((label, style), message), soft_wrap=True)


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
