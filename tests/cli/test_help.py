"""What `--help` shows: its examples can be given, and every option is explained."""

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from equivocal.cli.app import app
from equivocal.cli.console import EXAMPLES

LINES = [line for of in EXAMPLES.values() for line in of]


@pytest.mark.parametrize("line", LINES)
def test_an_example_is_parsed(line: str) -> None:
    command, words = typer.main.get_command(app), shlex.split(line)
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    assert command.make_context(line, words).params


def test_every_option_is_explained() -> None:
    """The words come from docstrings (`read_options`), and a command must not lose any."""
    commands = list(list_commands(typer.main.get_command(app)))
    assert len(commands) > 25
    for command in commands:
        for option in command.params:
            assert option.help or option.hidden, f"{command.name}: {option.name}"
        assert "Options" not in command.help


def list_commands(command: Any) -> Iterator[Any]:
    """List a command, or the commands of a group."""
    if not hasattr(command, "commands"):
        yield command
    for each in getattr(command, "commands", {}).values():
        yield from list_commands(each)
