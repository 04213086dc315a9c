"""A world file turned into numbers: which fillers, with which probability, in which order.

Words and roles are integers here. Each action is a small Bayesian network over roles: `choices`
lists its roles so that every role comes after those its rules ask about.

A new key of the world file is declared in `schema`, checked in `checks` and given its meaning here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from graphlib import TopologicalSorter

import numpy as np
from numpy.typing import NDArray

from equivocal.world.lexicon import Lexicon, Names
from equivocal.world.schema import (
    ABSENT,
    ActionSpec,
    ConstructionSpec,
    Rule,
    WorldFile,
    list_asked_roles,
)

__all__ = ["NO_FILLER", "Construction"]

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
    noise: str = ""  # what was done to a sentence that was meant to be said without it
    inserted: tuple[int, int, bool] | None = None  # role, a word beside its filler, before it?

    def find_markers(self, role: int, fillers: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the token switched on with each of these words in a role, or NO_FILLER."""
        if role in self.by_filler:
            return self.by_filler[role][fillers]
        return np.full(len(fillers), self.markers[role], dtype=np.int32)


@dataclass(frozen=True)
class Disturbance:
    """What one noise does to sentences of one construction; they are then heard as of another."""

    meant: int
    heard: int
    probability: float
    needs: tuple[tuple[int, NDArray[np.bool_]], ...]  # role: (words,), one of which is said there


@dataclass(frozen=True)
class Grammar:
    """All that is needed to enumerate or to sample a world."""

    actions: tuple[Action, ...]
    constructions: tuple[Construction, ...]
    added_features: NDArray[np.bool_]  # (sets, units); row 0 adds nothing
    action_role: int
    disturbances: tuple[Disturbance, ...] = ()  # at most one strikes a sentence

    @property
    def plain_constructions(self) -> tuple[Construction, ...]:
        """The constructions of the file, which come first; the others are disturbed by noise."""
        return tuple(c for c in self.constructions if not c.noise)

    def collect_fillers(self, role: int) -> set[int]:
        """Return the word numbers that some rule lets this role have."""
        if role == self.action_role:
            return {action.word for action in self.actions}
        choices = [c for a in self.actions for r, rules in a.choices if r == role for c in rules]
        return {int(word) for choice in choices for word in choice.fillers} - {NO_FILLER}


def map_markers_to_words(
    grammar: Grammar, lexicon: Lexicon, constructions: Iterable[Construction]
) -> dict[str, set[str]]:
    """Return, for each marker, the words that it introduces in some of the constructions."""
    words: dict[str, set[str]] = {marker: set() for marker in lexicon.markers}
    for construction in constructions:
        for role in construction.order:
            fillers = np.array(sorted(grammar.collect_fillers(role)), dtype=np.int32)
            tokens = construction.find_markers(role, fillers)
            for token, word in zip(tokens.tolist(), fillers.tolist(), strict=True):
                if token != NO_FILLER:
                    words[lexicon.tokens[token]].add(lexicon.words[word])
    return words


def build_grammar(file: WorldFile, lexicon: Lexicon) -> Grammar:
    """Build the grammar of a checked world file."""
    return _Builder(file, lexicon).build()


class _Builder:
    """The tables that turn the names of a world file into numbers."""

    def __init__(self, file: WorldFile, lexicon: Lexicon) -> None:
        self.file, self.lexicon, self.names = file, lexicon, Names(file)
        self.role, self.token = lexicon.role_numbers, lexicon.token_numbers
        self.added: list[tuple[str, ...]] = [()]  # sets of features that constructions add

    def build(self) -> Grammar:
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
        return Grammar(actions, constructions, masks, self.role["action"])

    def _build_choices(self, spec: ActionSpec) -> tuple[tuple[int, tuple[Choice, ...]], ...]:
        """Order the roles of an action so that each comes after those it asks about."""
        asks = {role: list_asked_roles(rules) for role, rules in spec.roles.items()}
        return tuple(
            (self.role[role], tuple(map(self._build_choice, spec.roles[role])))
            for role in TopologicalSorter(asks).static_order()
        )

    def _build_choice(self, rule: Rule) -> Choice:
        when = tuple((self.role[role], self._encode(words)) for role, words in rule.when.items())
        then = rule.then
        if isinstance(then, str):
            then = self.file.distributions.get(then, (then,))
        if isinstance(then, dict):
            chances = {word: chance for word, chance in then.items() if chance > 0}
            weights = np.array(list(chances.values()))
            return Choice(when, self._encode(chances), weights / weights.sum())
        fillers = self._encode(then)
        return Choice(when, fillers, np.full(len(fillers), 1 / len(fillers)))

    def _encode(self, names: Iterable[str]) -> NDArray[np.int32]:
        """Return the numbers of all words that names stand for, each once."""
        words = [w for n in names for w in ([n] if n == ABSENT else self.names.expand(n))]
        numbers = [NO_FILLER if w == ABSENT else self.token[w] for w in dict.fromkeys(words)]
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
        """Compute each construction's probability; those without a number share what is left."""
        specs = self.file.constructions
        fits = [spec.actions is None or action in spec.actions for spec in specs]
        given = np.array([spec.probability or 0.0 for spec in specs]) * fits
        open_ended = np.array([spec.probability is None for spec in specs]) & fits
        rest = max(0.0, 1 - given.sum())
        shares = given + open_ended * rest / max(1, int(open_ended.sum()))
        normalised: NDArray[np.float64] = shares / shares.sum()  # 0.333 three times is one, nearly
        return normalised
