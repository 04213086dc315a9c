"""Every number that decides what a training run ends with."""

from collections.abc import Sequence
from dataclasses import Field, dataclass, fields
from typing import Any

from equivocal.errors import UserError, did_you_mean, join_names
from equivocal.world import MAX_SAMPLE

__all__ = ["TrainingSettings"]

LARGEST = 1e300  # a whole number may be too large for a float, and even to be printed


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """One run, repeatable from this object, the world and the package version.

    From the paper: 10,000 sentences (its §2.3), Adam, learning rate 4e-3, weight decay, 60 epochs,
    early stopping (§2.4), ten networks (§2.5). Left open there and chosen here: all the rest.
    """

    networks: int = 10
    seed: int = 0
    sentences: int = 10_000  # size of the sampled corpus, held-out part included
    held_out: float = 0.1  # share of the sentences kept for early stopping
    epochs: int = 60  # at most
    patience: int = 15  # epochs without a better held-out loss before a network stops
    steps: int = 40  # optimiser steps in an epoch, whatever the size of the corpus
    questions: int = 512  # questions looked at in one step (see `training`)
    learning_rate: float = 4e-3
    decay_from: float = 0.6  # share of the epochs after which the learning rate falls to zero
    second_moment: float = 0.95  # Adam's β₂; sentences repeat so often that a short memory will do
    weight_decay: float = 1e-4  # decoupled (AdamW), relative to the learning rate
    hidden: int = 100  # units in both hidden layers
    gestalt: int = 100  # units in the gestalt layer

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, _number(field, getattr(self, field.name)))
        for name in ("networks", "hidden", "gestalt"):
            self._require(name, 1 <= getattr(self, name) <= 10_000, "from 1 to 10,000")
        for name in ("epochs", "patience", "steps", "questions"):
            self._require(name, 1 <= getattr(self, name) <= 1_000_000, "from 1 to 1,000,000")
        self._require("sentences", 2 <= self.sentences <= MAX_SAMPLE, f"from 2 to {MAX_SAMPLE:,}")
        self._require("seed", 0 <= self.seed < 2**32, "from 0 to 2³² − 1")
        self._require("held_out", 0 < self.held_out < 1, "between 0 and 1")
        self._require("learning_rate", self.learning_rate > 0, "more than 0")
        self._require("decay_from", 0 <= self.decay_from <= 1, "from 0 to 1")
        self._require("second_moment", 0 < self.second_moment < 1, "between 0 and 1")
        self._require("weight_decay", self.weight_decay >= 0, "0 or more")

    def _require(self, name: str, holds: bool, rule: str) -> None:
        if not holds:
            raise UserError(f"{name} must be {rule}, got {getattr(self, name)!r}.")

    @classmethod
    def parse(cls, pairs: Sequence[str]) -> dict[str, int | float]:
        """Settings written as `name=value`.

        >>> TrainingSettings.parse(["hidden=50", "weight_decay=1e-3"])
        {'hidden': 50, 'weight_decay': 0.001}
        """
        values: dict[str, int | float] = {}
        for pair in pairs:
            name, _, text = pair.partition("=")
            whole = isinstance(cls._field(name).default, int)
            try:
                values[name] = int(text) if whole else float(text)
            except ValueError:
                what = "a whole number" if whole else "a number"
                example = f"{name}={cls._field(name).default}"
                raise UserError(f"{name} must be {what}, got {pair!r}; write {example}.") from None
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "TrainingSettings":
        """Settings by name; an unknown name is an error that proposes the nearest."""
        numbers: dict[str, Any] = {n: _number(cls._field(n), value) for n, value in values.items()}
        return cls(**numbers)

    @classmethod
    def _field(cls, name: str) -> "Field[Any]":
        known = {field.name: field for field in fields(cls)}
        if name not in known:
            hint = did_you_mean(name, known) or f"; settings are {join_names(known, most=99)}."
            raise UserError(f"unknown setting {name!r}{hint}")
        return known[name]


def _number(field: "Field[Any]", value: Any) -> int | float:
    """As the field has it: `learning_rate = 1` is 1.0."""
    whole = isinstance(field.default, int)
    fits = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not fits:
        what = "a whole number" if whole else "a number"
        raise UserError(f"{field.name} must be {what}, got {value!r:.60}.")
    if not abs(value) < LARGEST:  # nor is NaN
        raise UserError(f"{field.name} must be a number between -{LARGEST:g} and {LARGEST:g}.")
    return int(value) if whole else float(value)
