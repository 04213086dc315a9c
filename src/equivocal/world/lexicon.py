"""The inputs and outputs of a world: tokens of sentences, and units of answers.

Tokens are the words followed by the markers. Units are the roles (`role:agent`, …) followed by the
features. A word's meaning is a row of `features`: which units its filler switches on.
"""

from dataclasses import dataclass

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
