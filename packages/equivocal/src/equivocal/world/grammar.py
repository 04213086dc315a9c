"""A world file as numbers: the lexicon, and the grammar with the probability of each filler.

Input tokens are the words followed by the markers. Output units are the roles (`role:agent`, …)
followed by the features; a word's meaning is a row of `features`: which units its filler switches
on. A name in a world file stands for a word, a class of words, or a group of either (`Names`).

In the grammar words and roles are integers. Each action is a small Bayesian network over roles:
`choices` lists its roles so that every role comes after those its rules ask about.

A new key of the world file is declared in `schema`, checked in `checks` and given its meaning here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from graphlib import TopologicalSorter
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from equivocal.world.schema import (
    ABSENT,
    ROLE_PREFIX,
    ActionSpec,
    ConstructionSpec,
    Rule,
    WorldFile,
    list_asked_roles,
)

__all__ = ["NO_FILLER", "Construction", "name_role_unit"]


NO_FILLER = -1  # in place of a word number: the event lacks the role


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
    """Names and numbers of the input tokens and output units of a network."""

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

    def name_event(self, fillers: NDArray[np.int32]) -> dict[str, str]:
        """Return the word in each role that an event has."""
        both = zip(self.roles, fillers.tolist(), strict=True)
        return {role: self.words[word] for role, word in both if word != NO_FILLER}

    def find_word_unit(self, word: str) -> int:
        """Find the output unit that identifies a word.

        It is the unit named like the word, or else the one of its features that the fewest words
        share.
        """
        row = self.features[self.words.index(word)]
        if word in self.units and row[named := self.units.index(word)]:
            return named
        shared = self.features.sum(axis=0)
        return int(np.argmin(np.where(row, shared, shared.max() + 1)))

    def mark_units(self, names: tuple[str, ...]) -> NDArray[np.bool_]:
        """Return (units,): which units have these names."""
        return np.isin(self.units, names)


def build_lexicon(file: WorldFile) -> Lexicon:
    """Build the lexicon of a checked world file."""
    meanings = {word: feats for words in file.words.values() for word, feats in words.items()}
    added = chain(*(spec.adds.values() for spec in file.constructions))
    in_use = dict.fromkeys(chain(*meanings.values(), *added))
    features = tuple(in_use) if file.features is None else file.features
    units = (*map(name_role_unit, file.roles), *features)
    position = {unit: index for index, unit in enumerate(units)}
    table = np.zeros((len(meanings), len(units)), dtype=bool)
    for row, names in zip(table, meanings.values(), strict=True):
        row[[position[name] for name in names]] = True
    return Lexicon(tuple(meanings), tuple(file.markers), file.roles, units, table)


class Names:
    """Every name of a world file and the words it stands for.

    Parameters
    ----------
    file : WorldFile
        An unknown name stands for itself; no group may contain itself.
    """

    def __init__(self, file: WorldFile) -> None:
        # dicts keep the order, and `in` is fast in worlds of thousands of words
        self.words = dict.fromkeys(chain(*file.words.values()))
        self.collections = {name: tuple(words) for name, words in file.words.items()} | file.groups
        self.distributions = file.distributions

    def find_fillers(
        self, words: str | tuple[str, ...] | dict[str, float] | None
    ) -> tuple[str, ...] | dict[str, float]:
        """Return names of fillers; the name of a distribution is replaced by its table."""
        if isinstance(words, str):
            return self.distributions.get(words, (words,))
        return words or ()

    def expand(self, name: str) -> tuple[str, ...]:
        """Return the words that a word, class or group stands for, each once."""
        if name in self.words or name not in self.collections:
            return (name,)
        return tuple(dict.fromkeys(chain(*map(self.expand, self.collections[name]))))


@dataclass(frozen=True)
class Choice:
    """One rule: where every `(role, allowed words)` fits, draw from `fillers`."""

    when: tuple[tuple[int, NDArray[np.int32]], ...]
    fillers: NDArray[np.int32]
    probabilities: NDArray[np.float64]  # sums to one


@dataclass(frozen=True)
class Action:
    """The events of one action and the constructions that express them."""

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
    noise: str = ""  # name of the noise that made this construction of another, if any

    def find_markers(self, role: int, fillers: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the token switched on with each of these words in a role, or NO_FILLER."""
        if role in self.by_filler:
            return self.by_filler[role][fillers]
        return np.full(len(fillers), self.markers[role], dtype=np.int32)


@dataclass(frozen=True)
class Disturbance:
    """A noise that affects sentences of one construction, which are then heard as of another."""

    meant: int
    heard: int
    probability: float
    needs: tuple[tuple[int, NDArray[np.bool_]], ...]  # role, (words,): which of them may fill it


@dataclass(frozen=True)
class Grammar:
    """Everything needed to enumerate or to sample a world."""

    actions: tuple[Action, ...]
    constructions: tuple[Construction, ...]
    added_features: NDArray[np.bool_]  # (sets, units); row 0 adds nothing
    action_role: int
    lexicon: Lexicon
    source: str  # the name of the world in error messages
    disturbances: tuple[Disturbance, ...] = ()  # at most one affects a sentence

    @property
    def plain_constructions(self) -> tuple[Construction, ...]:
        """The constructions of the file, which come first; the others are disturbed by noise."""
        return tuple(c for c in self.constructions if not c.noise)

    def collect_fillers(self, role: int) -> set[int]:
        """Return the numbers of all words that some rule allows in this role."""
        if role == self.action_role:
            return {action.word for action in self.actions}
        choices = chain(*(dict(action.choices).get(role, ()) for action in self.actions))
        return set(chain(*(choice.fillers.tolist() for choice in choices))) - {NO_FILLER}

    def map_markers_to_words(self, constructions: Iterable[Construction]) -> dict[str, set[str]]:
        """Return, for each marker, the words that it introduces in some of the constructions."""
        lexicon = self.lexicon
        words: dict[str, set[str]] = {marker: set() for marker in lexicon.markers}
        for construction in constructions:
            for role in construction.order:
                fillers = np.array(sorted(self.collect_fillers(role)), dtype=np.int32)
                tokens = construction.find_markers(role, fillers)
                for token, word in zip(tokens.tolist(), fillers.tolist(), strict=True):
                    if token != NO_FILLER:
                        words[lexicon.tokens[token]].add(lexicon.words[word])
        return words


def build_grammar(file: WorldFile, lexicon: Lexicon, source: str) -> Grammar:
    """Build the grammar of a checked world file; `source` is its name in error messages."""
    return _Builder(file, lexicon).build(source)


class _Builder:
    """Builds a grammar, with the tables that turn names of a world file into numbers."""

    def __init__(self, file: WorldFile, lexicon: Lexicon) -> None:
        self.file, self.lexicon, self.names = file, lexicon, Names(file)
        self.role, self.token = lexicon.role_numbers, lexicon.token_numbers
        self.added: list[tuple[str, ...]] = [()]  # sets of features that constructions add

    def build(self, source: str) -> Grammar:
        constructions = tuple(map(self._build_construction, self.file.constructions))
        total = sum(spec.weight for spec in self.file.actions.values())
        actions = tuple(
            Action(
                name=name,
                word=self.token[spec.action or name],
                probability=spec.weight / total,
                choices=self._build_choices(spec),
                shares=self._compute_shares(name),
            )
            for name, spec in self.file.actions.items()
            if spec.weight > 0
        )
        masks = np.stack([self.lexicon.mark_units(features) for features in self.added])
        return Grammar(actions, constructions, masks, self.role["action"], self.lexicon, source)

    def _build_choices(self, spec: ActionSpec) -> tuple[tuple[int, tuple[Choice, ...]], ...]:
        """Order the roles of an action so that each comes after those it asks about."""
        asks = {role: list_asked_roles(rules) for role, rules in spec.roles.items()}
        return tuple(
            (self.role[role], tuple(map(self._build_choice, spec.roles[role])))
            for role in TopologicalSorter(asks).static_order()
        )

    def _build_choice(self, rule: Rule) -> Choice:
        when = tuple((self.role[role], self._encode(words)) for role, words in rule.when.items())
        then = self.names.find_fillers(rule.then)
        if isinstance(then, dict):
            chances = {word: chance for word, chance in then.items() if chance > 0}
            weights = np.array(list(chances.values()))
            return Choice(when, self._encode(chances), weights / weights.sum())
        fillers = self._encode(then)
        return Choice(when, fillers, np.full(len(fillers), 1 / len(fillers)))

    def _encode(self, names: Iterable[str]) -> NDArray[np.int32]:
        """Return the numbers of all words that names stand for, each once."""
        words = dict.fromkeys(word for name in names for word in self.names.expand(name))
        numbers = [NO_FILLER if word == ABSENT else self.token[word] for word in words]
        return np.array(numbers, dtype=np.int32)

    def _build_construction(self, spec: ConstructionSpec) -> Construction:
        roles = self.lexicon.roles
        mentioned = np.array([spec.mentioned.get(role, 1.0) for role in roles])
        markers = np.full(len(roles), NO_FILLER, dtype=np.int32)
        adds = np.zeros(len(roles), dtype=np.int32)
        by_filler: dict[int, NDArray[np.int32]] = {}
        for role, marker in spec.markers.items():
            if isinstance(marker, str):
                markers[self.role[role]] = self.token[marker]
                continue
            column = np.full(len(self.lexicon.words), NO_FILLER, dtype=np.int32)
            for name, its_own in marker.items():
                column[self._encode([name])] = self.token[its_own]
            by_filler[self.role[role]] = column
        for role, features in spec.adds.items():
            if features not in self.added:
                self.added.append(features)
            adds[self.role[role]] = self.added.index(features)
        order = tuple(self.role[role] for role in spec.order)
        return Construction(spec.name, order, mentioned, markers, by_filler, adds, spec.form)

    def _compute_shares(self, action: str) -> NDArray[np.float64]:
        """Compute each construction's probability; those without one share the remainder."""
        specs = self.file.constructions
        fits = [spec.actions is None or action in spec.actions for spec in specs]
        given = np.array([spec.probability or 0.0 for spec in specs]) * fits
        open_ended = np.array([spec.probability is None for spec in specs]) & fits
        rest = max(0.0, 1 - given.sum())
        shares = given + open_ended * rest / max(1, int(open_ended.sum()))
        normalised: NDArray[np.float64] = shares / shares.sum()  # sums to 1 but for round-off
        return normalised
