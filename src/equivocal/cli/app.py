"""`equivocal`: register the commands, and turn a user's mistake into one sentence and exit code 2.

To add a command, write its function in a module of this folder and register it below.
"""

import errno
import sys
import warnings
from typing import Annotated

import typer
from rich.text import Text
from typer.exceptions import TyperException

from equivocal import __version__
from equivocal.cli import ask, comparisons, doctor, human_data, studies, suites, worlds
from equivocal.cli.console import list_examples, out
from equivocal.errors import UserError, explain_mistake
from equivocal.progress import err

__all__ = ["app", "run"]

BAD_INPUT = 2

app = typer.Typer(
    name="equivocal",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog='Start with `equivocal ask "During dinner, the pizza eats the woman"`.',
)
# `ask` accepts extra words to explain that the quotes around a sentence were forgotten
app.command(epilog=list_examples("ask"), context_settings={"allow_extra_args": True})(ask.ask)
stages = (studies.infer, studies.probe, studies.analyse, studies.report)
for command in (
    *(ask.serve, ask.page, worlds.train, studies.reproduce, *stages),
    *(studies.multiverse, studies.sweep, human_data.compare, human_data.simulate),
    *(comparisons.people, comparisons.doubt, doctor.doctor),
):
    name = "stages" if command in stages else command.__name__
    app.command(epilog=list_examples(name))(command)
app.add_typer(worlds.app, name="world")
app.add_typer(studies.app, name="study")
app.add_typer(suites.app, name="suites")
app.add_typer(suites.constructions, name="constructions")


def _show_version(wanted: bool) -> None:
    if wanted:
        out.print(f"equivocal {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Degrees of belief for neural models of language comprehension."""


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning as one line; where in the code it was raised does not help the reader."""
    err.print(Text.assemble(("note: ", "yellow"), str(message)), soft_wrap=True)


def run() -> int:
    """Run the command line.

    Returns
    -------
    int
        The exit code: 2 after bad input, which is explained in one sentence on standard error.
    """
    warnings.showwarning = _show_warning
    try:
        code: int | None = app(standalone_mode=False)
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


def _explain_usage(error: TyperException) -> str:
    """Explain a mistake in the options in our words where Typer would repeat pydantic's text."""
    from pydantic import ValidationError

    if isinstance(error.__cause__, ValidationError):
        error.message = explain_mistake(error.__cause__.errors()[0], None, "value", "").rstrip(".")
    return error.format_message()


def _print_error(message: str) -> int:
    """Print an error and return the exit code for it."""
    err.print(Text.assemble(("error: ", "bold red"), message), soft_wrap=True)
    return BAD_INPUT
