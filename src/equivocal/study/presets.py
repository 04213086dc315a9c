"""Presets: a study's numbers in a TOML file, so that none of them lives in code."""

import tomllib
from dataclasses import dataclass
from importlib import resources

from equivocal.gestalt import TrainingSettings
from equivocal.world import World

__all__ = ["Preset", "load_preset"]

_PRESETS = resources.files("equivocal.study") / "presets"


@dataclass(frozen=True)
class Preset:
    """A world and how its networks are trained."""

    name: str
    world: World
    training: TrainingSettings


def load_preset(name: str, **changes: int | None) -> Preset:
    """A preset of the package; `changes` that are not None replace training settings."""
    content = tomllib.loads((_PRESETS / f"{name}.toml").read_text(encoding="utf-8"))
    given = {key: value for key, value in changes.items() if value is not None}
    training = TrainingSettings.from_dict(content["training"] | given)
    return Preset(name, World.load(content["world"]), training)
