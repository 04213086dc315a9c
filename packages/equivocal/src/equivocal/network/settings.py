"""Training settings, and the recipes: named sets of defaults for them.

`recipes.toml` holds every default. `paper` follows the paper to the letter and, where the paper
gives no detail, does what a plain loop in a common framework does; `fast` takes a fraction of the
steps; `sg2018` trains as Rabovsky, Hansen & McClelland (2018) did. A new setting is a field of
`TrainingSettings` with a value in `fast` that leaves its results unchanged; the other recipes list
only what differs from `fast`. The reference has a table of all of them.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import resources
from typing import Any, Literal, get_args, get_type_hints

import numpy as np

from equivocal.store import read_toml, split_pair
from equivocal.world import Corpus, World
from equivocal.world.world import MAX_SAMPLE
from lastlayer.errors import UserError, check_known, join_names

__all__ = ["RECIPES", "split_corpus"]

_FILE = read_toml(str(resources.files("equivocal.network") / "recipes.toml"))
_FAST: dict[str, Any] = _FILE["fast"]
LIMITS: dict[str, list[float]] = _FILE.pop("limits") | {"sentences": [2, MAX_SAMPLE]}
OPEN = _FILE.pop("open")  # settings that must lie strictly between their limits
RECIPES: dict[str, dict[str, Any]] = {name: _FAST | changes for name, changes in _FILE.items()}
LARGEST = 1e300  # larger whole numbers may not fit a float, or be too long to print


@dataclass(frozen=True, init=False)
class TrainingSettings:
    """Every setting that affects the result of a training run.

    A run can be repeated from this object, the world and the package version. `recipe` gives the
    values of all fields that are not given by name; a value out of range is a `UserError`.

    >>> TrainingSettings(recipe="paper", networks=2).decay
    'coupled'
    """

    recipe: str  # a name in RECIPES, which supplies the values that are not given
    networks: int  # how many, from different initial weights
    seed: int  # decides corpus, held-out part, initial weights and draws
    sentences: int  # size of the sampled corpus, held-out part included
    held_out: float  # share of the sentences kept for early stopping
    epochs: int  # passes over the corpus, at most
    patience: int  # epochs without a better held-out loss before a network stops; 0: never stop
    batch: int  # sentences in a step; 0: draw questions from the whole corpus instead
    steps: int  # if batch is 0: optimiser steps in an epoch, for a corpus of any size
    questions: int  # if batch is 0: questions drawn for a step
    loss: Literal["sum", "mean", "total"]  # sum or mean over units, or total over a sentence
    optimiser: Literal["adam", "sgd"]  # sgd: plain gradient descent
    learning_rate: float  # at the start
    decay_from: float  # share of the steps after which the rate falls to zero; 1: constant rate
    momentum: float  # Adam's β₁, or the momentum of plain gradient descent
    second_moment: float  # Adam's β₂
    decay: Literal["decoupled", "coupled"]  # weight decay apart from the gradient, or added to it
    weight_decay: float  # its strength
    through_time: bool  # whether gradients flow back to earlier words
    initial_weights: Literal["glorot", "framework", "uniform"]  # see `network.create_network`
    initial_range: float  # if uniform: the width of the range
    dropout: float  # share ρ of hidden2 that is left out at random, anew for each question
    smoothing: float  # label smoothing: the share of ½ in every answer
    word_noise: float  # share of words that are dropped or exchanged at random, anew in each step
    hidden: int  # units in both hidden layers
    gestalt: int  # units in the gestalt layer

    def __init__(self, *, recipe: Any = "fast", **given: Any) -> None:
        check_known(recipe, RECIPES, "recipe")
        for name in given:
            check_known(name, _FAST, "setting")
        object.__setattr__(self, "recipe", recipe)
        for name, usual in (RECIPES[recipe] | given).items():
            object.__setattr__(self, name, _check_value(name, usual))
        if self.batch == 0 and (self.loss == "total" or not self.through_time):
            raise UserError(
                "loss = 'total' and through_time = false need batches of sentences; set batch, "
                "for example to 32."
            )

    @classmethod
    def parse(cls, pairs: Sequence[str]) -> dict[str, Any]:
        """Read settings written as `name=value`, without checking names or ranges.

        Parameters
        ----------
        pairs : sequence of str
            Each as `name=value`.

        Returns
        -------
        dict
            Numbers and truth values where the text can be read as one, text otherwise, unchecked.

        Examples
        --------
        >>> TrainingSettings.parse(["hidden=50", "weight_decay=1e-3", "decay=coupled"])
        {'hidden': 50, 'weight_decay': 0.001, 'decay': 'coupled'}
        """
        split = (split_pair(pair, "--set", "hidden=50") for pair in pairs)
        return {name: _read_value(text) for name, text in split}

    def change(self, changes: dict[str, Any]) -> "TrainingSettings":
        """Return these settings with some values replaced.

        With another recipe, only values that differ from the defaults of the old one are kept.

        Parameters
        ----------
        changes : dict
            New values by name.

        Returns
        -------
        TrainingSettings
            New settings; these are unchanged.

        Raises
        ------
        UserError
            For an unknown name, with the nearest one, or a value out of range.
        """
        values = asdict(self)
        if changes.get("recipe", self.recipe) != self.recipe:
            values = {
                k: v for k, v in values.items() if v != RECIPES[self.recipe].get(k, self.recipe)
            }
        return TrainingSettings(**values | changes)


def _read_value(text: str) -> Any:
    """Read a whole number, another number, or true or false; return any other text unchanged."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return {"true": True, "false": False}.get(text, text)


def _check_value(name: str, value: Any) -> Any:
    """Check a value and convert it to the field's type: `learning_rate = 1` becomes 1.0."""
    example = _FAST[name]
    if isinstance(example, bool):
        rule, fits = "true or false", isinstance(value, bool)
    elif isinstance(example, str):
        choices = get_args(get_type_hints(TrainingSettings)[name])
        rule, fits = f"one of {join_names(choices)}", value in choices
    else:
        whole = isinstance(example, int)
        rule = f"a {'whole ' * whole}number such as {example}"
        fits = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not fits:
        raise UserError(f"{name} must be {rule}, got {value!r:.60}.")
    if name in LIMITS:
        _check_range(name, value)
    return type(example)(value)


def _check_range(name: str, value: int | float) -> None:
    low, high = LIMITS[name]
    if not low <= value <= high or (name in OPEN and value in (low, high)):  # or NaN
        rule = f"from {low:,} to {high:,}" + ", these two excluded" * (name in OPEN)
        given = value if abs(value) < LARGEST else "a value outside"
        raise UserError(f"{name} must be {rule}, got {given}.")


def split_corpus(world: World, settings: TrainingSettings) -> tuple[Corpus, Corpus]:
    """Return the sentences to learn from and those held out."""
    corpus = world.sample(settings.sentences, seed=settings.seed)
    size = min(max(1, round(settings.held_out * settings.sentences)), settings.sentences - 1)
    # a random rank for each sentence, from another random stream than the corpus
    ranks = np.random.default_rng([settings.seed, 1]).permutation(settings.sentences)
    return corpus.split(ranks < size)
