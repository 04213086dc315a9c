"""Every number that decides what a training run ends with."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from equivocal.errors import UserError, did_you_mean, listed

__all__ = ["TrainingSettings"]


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """One run, repeatable from this object, the world and the package version.

    From the paper (its §2.4): 10,000 sentences, Adam, learning rate 4e-3, weight decay, 60 epochs,
    early stopping; ten networks (§2.5). Left open there and chosen here: all the rest.
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
    second_moment: float = 0.95  # Adam's β₂; the usual 0.999 needs about three times the steps
    weight_decay: float = 1e-4  # decoupled (AdamW), relative to the learning rate
    hidden: int = 100  # units in both hidden layers
    gestalt: int = 100  # units in the gestalt layer

    def __post_init__(self) -> None:
        for field in fields(self):
            value, whole = getattr(self, field.name), isinstance(field.default, int)
            fits = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
            self._require(field.name, fits, "a whole number" if whole else "a number")
        for name in ("networks", "sentences", "epochs", "patience", "steps", "questions"):
            self._require(name, getattr(self, name) >= 1, "at least 1")
        for name in ("hidden", "gestalt"):
            self._require(name, getattr(self, name) >= 1, "at least 1")
        self._require("sentences", self.sentences >= 2, "at least 2, one of them held out")
        self._require("seed", self.seed >= 0, "0 or more")
        self._require("held_out", 0 < self.held_out < 1, "between 0 and 1")
        self._require("learning_rate", self.learning_rate > 0, "more than 0")
        self._require("decay_from", 0 <= self.decay_from <= 1, "from 0 to 1")
        self._require("second_moment", 0 < self.second_moment < 1, "between 0 and 1")
        self._require("weight_decay", self.weight_decay >= 0, "0 or more")

    def _require(self, name: str, holds: bool, rule: str) -> None:
        if not holds:
            raise UserError(f"{name} must be {rule}, got {getattr(self, name)!r}.")

    @staticmethod
    def parse(pairs: Sequence[str]) -> dict[str, int | float]:
        """Settings written as `name=value`.

        >>> TrainingSettings.parse(["hidden=50", "weight_decay=1e-3"])
        {'hidden': 50, 'weight_decay': 0.001}
        """
        defaults = asdict(TrainingSettings())
        values: dict[str, int | float] = {}
        for pair in pairs:
            name, _, text = pair.partition("=")
            kind = type(defaults.get(name, 0.0))  # an unknown name is reported by `from_dict`
            try:
                values[name] = kind(text)
            except ValueError:
                what = "a whole number" if kind is int else "a number"
                raise UserError(f"{name} must be {what}, got {pair!r}; write {name}=…") from None
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "TrainingSettings":
        """Settings by name; an unknown name is an error that proposes the nearest."""
        known = [field.name for field in fields(cls)]
        for name in values:
            if name not in known:
                hint = did_you_mean(name, known) or f"; settings are {listed(known, most=99)}."
                raise UserError(f"unknown setting {name!r}{hint}")
        return cls(**values)
