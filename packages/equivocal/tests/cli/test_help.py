"""The examples that `--help` shows are commands that can be given."""

import shlex

import pytest
import typer

from equivocal.cli import build_app, hand_over
from equivocal.console import EXAMPLES

LINES = [line for of in EXAMPLES.values() for line in of]


@pytest.mark.parametrize("line", LINES)
def test_an_example_is_parsed(line: str) -> None:
    command, words = typer.main.get_command(build_app()), hand_over(shlex.split(line))
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    assert command.make_context(line, words).command is command
