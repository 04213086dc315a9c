"""Presets: a study's numbers and sentences in a TOML file, so that none of them lives in code."""

import tomllib
from dataclasses import dataclass
from importlib import resources

from equivocal.gestalt import TrainingSettings
from equivocal.world import World

__all__ = ["Illustration", "Preset", "load_preset"]

_PRESETS = resources.files("equivocal.study") / "presets"


@dataclass(frozen=True)
class Illustration:
    """Sentences to show word by word, with the probes and units to watch."""

    sentences: dict[str, str]  # title: sentence
    probes: tuple[str, ...]
    units: tuple[str, ...]


@dataclass(frozen=True)
class Preset:
    """A world, how its networks are trained, and what is shown of them."""

    name: str
    world: World
    training: TrainingSettings
    illustration: Illustration


def load_preset(name: str, **changes: int | None) -> Preset:
    """A preset of the package; `changes` that are not None replace training settings."""
    content = tomllib.loads((_PRESETS / f"{name}.toml").read_text(encoding="utf-8"))
    given = {key: value for key, value in changes.items() if value is not None}
    shown = content["illustration"]
    return Preset(
        name=name,
        world=World.load(content["world"]),
        training=TrainingSettings.from_dict(content["training"] | given),
        illustration=Illustration(
            shown["sentences"], tuple(shown["probes"]), tuple(shown["units"])
        ),
    )
