"""Worlds with values of their parameters behind the name, wherever files give a world by name."""

from pathlib import Path

import pytest

from equivocal.measuring.paradigms import load_paradigm
from equivocal.paper.settings import load_study, parse_changes, write_example
from equivocal.world import World
from lastlayer.errors import UserError
from tests.measuring.test_paradigm_files import EXPECTATIONS, write

WORLD = 'extends = "slips"\nname = "mine"\n'


def load_world(path: Path, name: str) -> World:
    path.write_text(path.read_text().replace('world = "paper"', f'world = "{name}"'))
    return World.load(load_study(path).world_source)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    write_example(path)
    (tmp_path / "mine.toml").write_text(WORLD)
    return path


def test_a_change_of_a_study_sets_parameters(study: Path) -> None:
    for name in ("slips:rare=0.03", "mine.toml:rare=0.03", f"{study.parent}/mine.toml:rare=0.03"):
        settings = load_study(study, parse_changes([f"world={name}"]))
        assert World.load(settings.world_source).parameters["rare"] == 0.03


@pytest.mark.parametrize(
    "name", ["../mine.toml:rare=0.03", "link.toml:rare=0.03", "link:rare=0.03"]
)
def test_files_elsewhere_are_refused_with_values_too(study: Path, name: str) -> None:
    for link in ("link.toml", "link:rare=0.03"):
        study.with_name(link).symlink_to("/etc/hostname")
    with pytest.raises(UserError, match="leads out of its folder"):
        load_world(study, name)
    paradigm = write(study.parent, EXPECTATIONS.replace("sg2018", name))
    with pytest.raises(UserError, match="leads out of its folder"):
        load_paradigm(paradigm)


def test_a_paradigm_sets_parameters(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text(WORLD)
    for name in ("slips:slip=0.1", "other.toml:slip=0.1"):
        paradigm = load_paradigm(write(tmp_path, EXPECTATIONS.replace("sg2018", name)))
        assert paradigm.world.parameters["slip"] == 0.1
