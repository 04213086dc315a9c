"""A world file turned into numbers: which fillers, with which probability, in which order.

Words and roles are integers here. Each action is a small Bayesian network over roles: `choices`
lists its roles so that every role comes after those its rules ask about.
"""

from dataclasses import dataclass
from graphlib import TopologicalSorter

import numpy as np
from numpy.typing import NDArray

from equivocal.world.lexicon import Lexicon
from equivocal.world.names import Names
from equivocal.world.schema import (
    ABSENT,
    ActionSpec,
    ConstructionSpec,
    Rule,
    WorldFile,
    asked_roles,
)

__all__ = [
    "NO_FILLER",
    "Action",
    "Choice",
    "Construction",
    "Grammar",
    "build_grammar",
    "words_behind_markers",
]

NO_FILLER = -1  # in place of a word number: the event lacks the role


@dataclass(frozen=True)
class Choice:
    """One rule: where every `(role, allowed words)` fits, draw from `fillers`."""

    when: tuple[tuple[int, NDArray[np.int32]], ...]
    fillers: NDArray[np.int32]
    probabilities: NDArray[np.float64]  # sums to one


@dataclass(frozen=True)
class Action:
    """The events of one action and the constructions they are told in."""

    name: str
    word: int
    probability: float
    choices: tuple[tuple[int, tuple[Choice, ...]], ...]  # (role, its rules), in order of choice
    shares: NDArray[np.float64]  # probability of each construction of the grammar


@dataclass(frozen=True)
class Construction:
    """How an event becomes a sequence of constituents."""

    name: str
    order: tuple[int, ...]  # roles
    mentioned: NDArray[np.float64]  # (roles,): probability of being put into words
    markers: NDArray[np.int32]  # (roles,): token switched on with any filler, or NO_FILLER
    by_filler: dict[int, NDArray[np.int32]]  # role: (words,), where the marker depends on the word
    adds: NDArray[np.int32]  # (roles,): row of `Grammar.added_features`
    verb_form: str

    def marker_of(self, role: int, fillers: NDArray[np.int32]) -> NDArray[np.int32]:
        """The token switched on with each of these words in a role, or NO_FILLER."""
        if role in self.by_filler:
            return self.by_filler[role][fillers]
        return np.full(len(fillers), self.markers[role], dtype=np.int32)


@dataclass(frozen=True)
class Grammar:
    """All that is needed to enumerate or to sample a world."""

    actions: tuple[Action, ...]
    constructions: tuple[Construction, ...]
    added_features: NDArray[np.bool_]  # (sets, units); row 0 adds nothing
    action_role: int

    def fillers_of(self, role: int) -> set[int]:
        """Word numbers that some rule lets this role have."""
        if role == self.action_role:
            return {action.word for action in self.actions}
        choices = [c for a in self.actions for r, rules in a.choices if r == role for c in rules]
        return {int(word) for choice in choices for word in choice.fillers} - {NO_FILLER}


def words_behind_markers(grammar: Grammar, lexicon: Lexicon) -> dict[str, set[str]]:
    """Marker: the words it introduces in some construction."""
    words: dict[str, set[str]] = {marker: set() for marker in lexicon.markers}
    for construction in grammar.constructions:
        for role in construction.order:
            fillers = np.array(sorted(grammar.fillers_of(role)), dtype=np.int32)
            tokens = construction.marker_of(role, fillers)
            for token, word in zip(tokens.tolist(), fillers.tolist(), strict=True):
                if token != NO_FILLER:
                    words[lexicon.tokens[token]].add(lexicon.words[word])
    return words


def build_grammar(file: WorldFile, lexicon: Lexicon) -> Grammar:
    """The grammar of a checked world file."""
    names = Names(file)
    number = {word: index for index, word in enumerate(lexicon.words)} | {ABSENT: NO_FILLER}
    added: list[tuple[str, ...]] = [()]
    constructions = tuple(
        _construction(spec, lexicon, names, number, added) for spec in file.constructions
    )
    total = sum(spec.weight for spec in file.actions.values())
    actions = tuple(
        Action(
            name=name,
            word=number[spec.action or name],
            probability=spec.weight / total,
            choices=_choices(file, lexicon, names, number, spec),
            shares=_shares(file, name),
        )
        for name, spec in file.actions.items()
    )
    masks = np.stack([lexicon.unit_mask(features) for features in added])
    return Grammar(actions, constructions, masks, lexicon.roles.index("action"))


def _choices(
    file: WorldFile, lexicon: Lexicon, names: Names, number: dict[str, int], spec: ActionSpec
) -> tuple[tuple[int, tuple[Choice, ...]], ...]:
    asks = {role: asked_roles(rules) for role, rules in spec.roles.items()}
    return tuple(
        (
            lexicon.roles.index(role),
            tuple(_choice(file, lexicon, names, number, rule) for rule in spec.roles[role]),
        )
        for role in TopologicalSorter(asks).static_order()
    )


def _choice(
    file: WorldFile, lexicon: Lexicon, names: Names, number: dict[str, int], rule: Rule
) -> Choice:
    def numbers(wanted: tuple[str, ...]) -> NDArray[np.int32]:
        words = [w for name in wanted for w in (names.words_of(name) if name != ABSENT else [name])]
        return np.array([number[word] for word in dict.fromkeys(words)], dtype=np.int32)

    when = tuple((lexicon.roles.index(role), numbers(words)) for role, words in rule.when.items())
    then = rule.then
    if isinstance(then, str) and then in file.distributions:
        then = file.distributions[then]
    if isinstance(then, dict):
        chances = {word: chance for word, chance in then.items() if chance > 0}
        weights = np.array(list(chances.values()))
        return Choice(when, numbers(tuple(chances)), weights / weights.sum())
    fillers = numbers((then,) if isinstance(then, str) else then)
    return Choice(when, fillers, np.full(len(fillers), 1 / len(fillers)))


def _construction(
    spec: ConstructionSpec,
    lexicon: Lexicon,
    names: Names,
    number: dict[str, int],
    added: list[tuple[str, ...]],
) -> Construction:
    """One construction; feature sets it adds are appended to `added` when new."""
    mentioned = np.array([spec.mentioned.get(role, 1.0) for role in lexicon.roles])
    markers = np.full(len(lexicon.roles), NO_FILLER, dtype=np.int32)
    adds = np.zeros(len(lexicon.roles), dtype=np.int32)
    by_filler: dict[int, NDArray[np.int32]] = {}
    token = {name: len(lexicon.words) + at for at, name in enumerate(lexicon.markers)}
    for role, marker in spec.markers.items():
        row = lexicon.roles.index(role)
        if isinstance(marker, str):
            markers[row] = token[marker]
            continue
        by_filler[row] = np.full(len(lexicon.words), NO_FILLER, dtype=np.int32)
        for name, its_own in marker.items():
            by_filler[row][[number[word] for word in names.words_of(name)]] = token[its_own]
    for role, features in spec.adds.items():
        if features not in added:
            added.append(features)
        adds[lexicon.roles.index(role)] = added.index(features)
    order = tuple(lexicon.roles.index(role) for role in spec.order)
    return Construction(spec.name, order, mentioned, markers, by_filler, adds, spec.form)


def _shares(file: WorldFile, action: str) -> NDArray[np.float64]:
    """Probability of each construction; those without a number share what is left."""
    fits = [spec.actions is None or action in spec.actions for spec in file.constructions]
    given = np.array([spec.probability or 0.0 for spec in file.constructions]) * fits
    open_ended = np.array([spec.probability is None for spec in file.constructions]) & fits
    rest = max(0.0, 1 - given.sum())
    shares = given + open_ended * rest / max(1, int(open_ended.sum()))
    normalised: NDArray[np.float64] = shares / shares.sum()  # 0.333 three times is one, nearly
    return normalised
