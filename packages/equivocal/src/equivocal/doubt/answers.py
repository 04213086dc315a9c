"""The answers of one network under one kind of uncertainty, at each of its strengths."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors.numpy import save_file

from equivocal.store import parse_json
from equivocal.store.files import refuse_mistakes
from equivocal.truth import PooledBeliefs
from lastlayer.files import Shapes, read_tensors

__all__ = ["Answers", "Setting", "Strength"]

HEADER = "equivocal"


class Setting(NamedTuple):
    """One strength of a kind of uncertainty, and its costs beyond those of a single network."""

    label: str
    value: float = np.nan  # step, b, rate, divisor or number of networks
    prior_variance: float = np.nan
    time: float = np.nan  # sampler time τ, for the paper's sampler
    seconds: float = 0.0
    megabytes: float = 0.0
    converged: bool | None = None  # None where nothing is sampled
    message: str = ""  # the verdict of a sampler


class Strength(NamedTuple):
    """A setting with the beliefs that it gives, (questions, units)."""

    setting: Setting
    beliefs: PooledBeliefs


@dataclass(frozen=True, eq=False)
class Answers:
    """Settings, and beliefs whose first axis is that of the settings, in single precision."""

    settings: tuple[Setting, ...]
    beliefs: PooledBeliefs

    @classmethod
    def collect(cls, strengths: Sequence[Strength]) -> "Answers":
        """Collect the beliefs of every strength of a kind."""
        settings, beliefs = zip(*strengths, strict=True)
        parts = (np.stack(part).astype(np.float32) for part in zip(*beliefs, strict=True))
        return cls(settings, PooledBeliefs(*parts))

    def save(self, path: Path) -> None:
        """Write a safetensors file, which `load` reads back."""
        arrays = {name: np.ascontiguousarray(part) for name, part in self.beliefs._asdict().items()}
        save_file(arrays, path, metadata={HEADER: json.dumps(self.settings)})

    @classmethod
    def load(cls, path: Path) -> "Answers":
        """Read answers, or raise `UnreadableError` if the file does not hold any."""
        settings: list[Setting] = []

        def check(about: dict[str, str], shapes: Shapes) -> None:
            settings.extend(Setting(*row) for row in parse_json(about[HEADER]))
            if shapes.keys() != set(PooledBeliefs._fields) or any(
                shape[:1] != (len(settings),) for shape in shapes.values()
            ):
                raise ValueError("it does not hold the answers of a network")

        with refuse_mistakes(path):
            _, arrays = read_tensors(path, check)
        return cls(tuple(settings), PooledBeliefs(**arrays))
