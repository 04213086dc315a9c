"""The names of a world: tokens of sentences, units of answers, and what else its file names.

Tokens are the words followed by the markers. Units are the roles (`role:agent`, …) followed by the
features. A word's meaning is a row of `features`: which units its filler switches on. In a world
file a name is that of a word, of a class of words, or of a group of either (`Names`).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from equivocal.world.schema import WorldFile

ROLE_PREFIX = "role:"  # since `action` is also a feature of every verb


def name_role_unit(role: str) -> str:
    """Return the name of the output unit of a role.

    Parameters
    ----------
    role : str
        The name of the role, such as "agent".

    Returns
    -------
    str
        Such as "role:agent".
    """
    return f"{ROLE_PREFIX}{role}"


@dataclass(frozen=True)
class Lexicon:
    """Names and numbers of everything that goes into a network and comes out of it."""

    words: tuple[str, ...]
    markers: tuple[str, ...]
    roles: tuple[str, ...]
    units: tuple[str, ...]
    features: NDArray[np.bool_]  # (words, units); the role units are never set here

    @property
    def tokens(self) -> tuple[str, ...]:
        """Input tokens: words, then markers."""
        return (*self.words, *self.markers)

    @cached_property
    def role_numbers(self) -> dict[str, int]:
        """The number of each role."""
        return {role: number for number, role in enumerate(self.roles)}

    @cached_property
    def token_numbers(self) -> dict[str, int]:
        """The number of each input token."""
        return {token: number for number, token in enumerate(self.tokens)}

    def mark_units(self, names: tuple[str, ...]) -> NDArray[np.bool_]:
        """Return (units,): which units have these names."""
        return np.isin(self.units, names)


def build_lexicon(file: WorldFile) -> Lexicon:
    """Build the lexicon of a checked world file."""
    meanings = {word: feats for words in file.words.values() for word, feats in words.items()}
    added = [f for spec in file.constructions for feats in spec.adds.values() for f in feats]
    in_use = dict.fromkeys([*(f for feats in meanings.values() for f in feats), *added])
    features = tuple(in_use) if file.features is None else file.features
    units = (*map(name_role_unit, file.roles), *features)
    position = {unit: index for index, unit in enumerate(units)}
    table = np.zeros((len(meanings), len(units)), dtype=bool)
    for row, feats in enumerate(meanings.values()):
        table[row, [position[feature] for feature in feats]] = True
    return Lexicon(tuple(meanings), tuple(file.markers), file.roles, units, table)


class Names:
    """Every name of a world file and the words it stands for.

    Parameters
    ----------
    file : WorldFile
        Need not have been checked: unknown names stand for themselves, circles of groups for
        their words.
    """

    def __init__(self, file: WorldFile) -> None:
        # dicts, in order: worlds of thousands of words ask `in` all the time
        self.words = dict.fromkeys(word for words in file.words.values() for word in words)
        self.collections = {name: tuple(words) for name, words in file.words.items()} | file.groups
        self.distributions = file.distributions
        self.known = {**self.words, **self.collections}

    def find_inserted(
        self, words: str | tuple[str, ...] | dict[str, float] | None
    ) -> tuple[str, ...] | dict[str, float]:
        """Return the names that noise inserts: those of a distribution, where one is named."""
        if isinstance(words, str):
            return self.distributions.get(words, (words,))
        return words or ()

    def expand(self, name: str) -> tuple[str, ...]:
        """Return the words that a word, class or group stands for, each once."""
        words: dict[str, None] = {}
        seen, waiting = set[str](), [name]
        while waiting:
            part = waiting.pop()
            if part in self.words or part not in self.collections:
                words[part] = None
            elif part not in seen:
                seen.add(part)
                waiting += reversed(self.collections[part])
        return tuple(words)
