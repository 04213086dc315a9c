"""A table of items in the example world, for networks that are trained in a second."""

from pathlib import Path

import pytest

from equivocal.measuring.paradigms import Paradigm, load_paradigm
from equivocal.world import read_example

EXPECTATIONS = """
[chase]
title = "Who is chased"
world = "garden.toml"
sources = ["Ferreira (2003), Cognitive Psychology 47, 164–203", "another"]

[[chase.expected]]
says = "an odd patient moves the gestalt more than a likely one"
larger = "odd"
smaller = "likely"
"""
CSV = """condition,item,sentence,critical
likely,dog,the dog chases the cat,cat
likely,cat,the cat chases the mouse on the lawn,mouse
odd,dog,the dog chases the bone,bone
odd,cat,bone finds bone,bone
"""


@pytest.fixture(scope="session")
def chase_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chase")
    (folder / "garden.toml").write_text(read_example())
    (folder / "chase.csv").write_text(CSV)
    (folder / "expectations.toml").write_text(EXPECTATIONS)
    return folder / "chase.csv"


@pytest.fixture(scope="session")
def chase(chase_file: Path) -> Paradigm:
    return load_paradigm(chase_file)
