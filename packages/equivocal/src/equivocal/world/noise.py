"""Noise between what is meant and what is heard: exchanges, deletions, insertions.

A noise that affects the sentences of a construction turns it into another construction: one in
which agent and patient have changed places, "by" is missing, or a word is inserted next to a role's
own. So a derivation is still an event expressed by a construction, and everything after the grammar
(sentences, beliefs, corpora, training) works as without noise, while answers refer to what was
meant:

    P(meant | heard) ∝ P(meant) P(heard | meant)                                           (1)

At most one noise affects a sentence, so the probabilities of those that may are added, and with the
remaining probability it is heard as it was meant. (1) is the noisy-channel comprehender of Levy
(2008, EMNLP, 234–243) and of Gibson, Bergen & Piantadosi (2013, PNAS 110, 8051–8056).

A new kind of noise is a key of `NoiseSpec` and a method of `_Changer`, called in `list_changes`.
`find_noise_problems` finds mistakes in the [noise] of a file. `refuse_indistinct` finds those that
show only in the enumerated world: noise hides a meaning where two events that are told differently
without noise give every sentence the same probability with it, so that no listener could tell them
apart. A world too large to enumerate is sampled. Two such events are seldom drawn together, so
pairs of events of one action are drawn, and all events of that action with no other words are
enumerated: who acted on whom, and the reverse.
"""

import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivocal.world.corpus import Corpus
from equivocal.world.derivations import bound_derivations, draw_derivations, enumerate_derivations
from equivocal.world.errors import Problem, WorldError, WorldSizeWarning, find_unknown
from equivocal.world.grammar import (
    NO_FILLER,
    Action,
    Choice,
    Construction,
    Disturbance,
    Grammar,
    Lexicon,
    Names,
)
from equivocal.world.schema import NoiseSpec, WorldFile
from lastlayer.errors import join_names

if TYPE_CHECKING:
    from equivocal.world.world import World

Words = NDArray[np.bool_]  # (words,)
DRAWN = 500  # events drawn from a large world
PARTS = 40  # parts of a large world that are checked, each with the words of two events
MAX_PART = 10_000  # derivations of a part
TOLERANCE = 1e-9  # of randomly weighted sums of probabilities


class Change(NamedTuple):
    """One thing that a noise can do to the sentences of a construction."""

    heard: Construction
    share: float  # of the noise's probability
    needs: tuple[tuple[int, Words], ...]  # as in `Disturbance`


def add_noise(grammar: Grammar, file: WorldFile) -> Grammar:
    """Add the noise of a checked world file to a grammar; noise of probability 0 is left out."""
    constructions, disturbances = list(grammar.constructions), list[Disturbance]()
    for meant, construction in enumerate(grammar.constructions):
        for name, spec in file.noise.items():
            if spec.probability > 0:
                for change in list_changes(spec, construction, file, grammar.lexicon):
                    chance = spec.probability * change.share
                    number = len(constructions)
                    disturbances.append(Disturbance(meant, number, chance, change.needs))
                    constructions.append(replace(change.heard, noise=name))
    actions = tuple(
        replace(action, shares=np.append(action.shares, np.zeros(len(disturbances))))
        for action in grammar.actions
    )
    return replace(
        grammar,
        actions=actions,
        constructions=tuple(constructions),
        disturbances=tuple(disturbances),
    )


def list_changes(
    spec: NoiseSpec, construction: Construction, file: WorldFile, lexicon: Lexicon
) -> list[Change]:
    """List the changes that a noise can make to a construction, one for each place."""
    if spec.constructions is not None and construction.name not in spec.constructions:
        return []
    change = _Changer(spec, construction, file, lexicon)
    if spec.exchange is not None:
        of_roles = set(spec.exchange) <= set(lexicon.roles)
        return list(change.exchange_words() if of_roles else change.exchange_markers())
    if spec.delete is not None:
        return list(change.delete())
    return list(change.insert_words() if spec.insert is not None else change.insert_markers())


class _Changer:
    """The changes that one noise makes to one construction."""

    def __init__(
        self, spec: NoiseSpec, construction: Construction, file: WorldFile, lexicon: Lexicon
    ) -> None:
        self.spec, self.construction, self.file, self.lexicon = spec, construction, file, lexicon
        self.role, self.token = lexicon.role_numbers, lexicon.token_numbers
        self.names, self.unchanged = Names(file), Change(construction, 1.0, ())
        struck = spec.words if spec.words is not None else lexicon.words
        every = [word for name in struck for word in self.names.expand(name)]
        self.words: Words = np.isin(lexicon.words, every)

    def exchange_words(self) -> Iterator[Change]:
        """Exchange the fillers of two roles; function words stay where they are."""
        one, other = (self.role[role] for role in self.spec.exchange or ())
        swap = {one: other, other: one}
        before = self.construction
        if {one, other} <= set(before.order):
            markers = before.markers.copy()
            markers[[one, other]] = markers[[other, one]]
            yield Change(
                replace(
                    before,
                    order=tuple(swap.get(role, role) for role in before.order),
                    markers=markers,
                    by_filler={swap.get(role, role): t for role, t in before.by_filler.items()},
                ),
                1.0,
                ((one, self.words), (other, self.words)),
            )

    def exchange_markers(self) -> Iterator[Change]:
        """Exchange two function words, such as two articles that show case."""
        one, other = self.spec.exchange or ()
        for first, second in product(self._find_places(one), self._find_places(other)):
            if first != second:
                tokens = self.token[one], self.token[other]
                half = self._replace_marker(self.unchanged, first, *tokens)
                yield self._replace_marker(half, second, *reversed(tokens))

    def delete(self) -> Iterator[Change]:
        """Delete words of roles and function words: all named ones together."""
        names = self.spec.delete or ()
        for roles in product(*(self._find_places(name) for name in names)):
            change = self.unchanged
            for name, role in zip(names, roles, strict=True):
                if name in self.role:
                    order = tuple(other for other in change.heard.order if other != role)
                    heard = replace(change.heard, order=order)
                    change = Change(heard, 1.0, (*change.needs, (role, self.words)))
                else:
                    change = self._replace_marker(change, role, self.token[name], NO_FILLER)
            yield change

    def _find_places(self, name: str) -> list[int]:
        """Find the roles at which a role's word or a function word may be affected."""
        order = self.construction.order
        if name in self.role:
            return [self.role[name]] if self.role[name] in order else []
        allowed = self.lexicon.roles if self.spec.roles is None else self.spec.roles
        places = [role for role in order if self.lexicon.roles[role] in allowed]
        marker = self.token[name]
        return [role for role in places if marker in self._list_markers(self.construction, role)]

    def _list_markers(self, construction: Construction, role: int) -> NDArray[np.int32]:
        """Return (words,): the marker of each word in a role, or NO_FILLER."""
        every = np.arange(len(self.lexicon.words), dtype=np.int32)
        return construction.find_markers(role, every)

    def _replace_marker(self, change: Change, role: int, old: int, new: int) -> Change:
        """Replace one marker of a role's words by another; NO_FILLER stands for none."""
        heard, column = change.heard, self._list_markers(change.heard, role)
        marked = column == old
        column = np.where(marked, new, column).astype(np.int32)
        markers, by_filler = heard.markers.copy(), dict(heard.by_filler)
        if (column == column[0]).all():
            markers[role] = column[0]
            by_filler.pop(role, None)
        else:
            by_filler[role] = column
        heard = replace(heard, markers=markers, by_filler=by_filler)
        return Change(heard, 1.0, (*change.needs, (role, marked & self.words)))

    def insert_markers(self) -> Iterator[Change]:
        """Insert function words where there are none: all named ones together."""
        change = self.unchanged
        for name, marker in (self.spec.insert_markers or {}).items():
            if self.role[name] not in self.construction.order:
                return
            change = self._replace_marker(change, self.role[name], NO_FILLER, self.token[marker])
        if all(words.any() for _, words in change.needs):
            yield change

    def insert_words(self) -> Iterator[Change]:
        """Insert a word that has no role in the event, beside the word of a role."""
        for name in (*self.spec.before, *self.spec.after):
            if self.role[name] in self.construction.order:
                for word, share in self._list_inserted():
                    inserted = (self.role[name], self.token[word], name in self.spec.before)
                    heard = replace(self.construction, inserted=inserted)
                    yield Change(heard, share, ((self.role[name], self.words),))

    def _list_inserted(self) -> list[tuple[str, float]]:
        """Return the words that may be inserted, with their shares."""
        wanted = self.names.find_fillers(self.spec.insert)
        if isinstance(wanted, dict):
            return [(word, chance) for word, chance in wanted.items() if chance > 0]
        words = list(dict.fromkeys(w for name in wanted for w in self.names.expand(name)))
        return [(word, 1 / len(words)) for word in words]


def count_changes(file: WorldFile, names: Names) -> int:
    """Bound the number of ways in which noise changes constructions."""
    total = 0
    for spec in file.noise.values():
        struck = (*(spec.exchange or ()), *(spec.delete or ()))
        places = prod(1 if name in file.roles else len(file.roles) for name in struck)
        if spec.insert is not None:
            words = names.find_fillers(spec.insert)
            places *= len(spec.before + spec.after) * sum(len(names.expand(w)) for w in words)
        total += places * len(file.constructions)
    return total


def find_noise_problems(file: WorldFile, names: Names) -> Iterator[Problem]:
    """Find names that do not exist, and noise that cannot occur where it is meant to."""
    for name, spec in file.noise.items():
        place = f"[noise.{name}]"
        yield from _check_names(place, spec, file, names)
        yield from (Problem(place, message) for message in _check_kind(spec, file))


def _check_names(place: str, spec: NoiseSpec, file: WorldFile, names: Names) -> Iterator[Problem]:
    """Check that all names that a noise uses exist."""
    roles, added = f"roles are {join_names(file.roles)}.", spec.insert_markers or {}
    told = [construction.name for construction in file.constructions]
    named = (*(spec.roles or ()), *spec.before, *spec.after, *added)
    struck, either = (*(spec.exchange or ()), *(spec.delete or ())), [*file.roles, *file.markers]
    there_are = f"there are {join_names(told)}."
    yield from find_unknown(place, "construction", spec.constructions or (), told, there_are)
    yield from find_unknown(place, "role", named, file.roles, roles)
    yield from find_unknown(place, "role or marker", struck, either, roles)
    yield from find_unknown(place, "marker", added.values(), file.markers, "add it to [markers].")
    add_word = "add it to a [words] table."
    yield from find_unknown(place, "word", spec.words or (), names.known, add_word)


def _check_kind(spec: NoiseSpec, file: WorldFile) -> Iterator[str]:
    """Check what a noise exchanges, deletes or inserts."""
    exchange, delete = spec.exchange or (), spec.delete or ()
    kinds = {name in file.roles for name in exchange}
    if spec.exchange is not None and (len(set(exchange)) != 2 or len(exchange) != 2):
        yield f"`exchange` names two different roles or markers, got {join_names(exchange)}."
    elif len(kinds) == 2 and set(exchange) <= {*file.roles, *file.markers}:
        yield f"`exchange` has a role and a marker, {join_names(exchange)}; name two of a kind."
    if spec.delete is not None and (not delete or len(set(delete)) < len(delete)):
        yield f"`delete` names what is lost, each once, got {join_names(delete)}."
    if spec.insert_markers is not None and not spec.insert_markers:
        yield "`insert_markers` is empty; name a role and its function word."
    if "action" in (*exchange, *delete):
        yield "the action stays in its place; exchange or delete another role."
    if spec.roles is not None and not {*exchange, *delete} & set(file.markers):
        yield "`roles` says where function words are struck; leave it out, or use `words`."
    for name in {*exchange, *delete} & set(file.roles) & set(file.markers):
        yield f"{name!r} is a role and a marker; rename one of them."
    lost = set(delete) & set(file.roles)
    for construction in file.constructions:
        strikes = spec.constructions is None or construction.name in spec.constructions
        stays = "action" in construction.order and construction.mentioned.get("action", 1) == 1
        if strikes and lost & set(construction.order) and not stays:
            what = f"it may leave nothing of a sentence of construction {construction.name!r}"
            yield f"{what}; say the action there, always, or limit it by `constructions`."


def refuse_indistinct(heard: Corpus, meant: Corpus) -> None:
    """Refuse noise that makes two meanings indistinguishable.

    Two events are indistinguishable where each sentence is as probable of the one as of the other,
    though without noise they are told differently.

    Parameters
    ----------
    heard, meant : Corpus
        All sentences of a world, with noise and without.
    """
    fillers = np.concatenate([heard.derivations.fillers, meant.derivations.fillers])
    events, group = np.unique(fillers, axis=0, return_inverse=True)
    event_heard, event_meant = np.split(group.ravel(), [len(heard)])
    with_noise = _summarise_sentences(heard, event_heard, len(events))
    without = _summarise_sentences(meant, event_meant, len(events))
    order = np.lexsort(with_noise.T)
    alike = (np.abs(np.diff(with_noise[order], axis=0)) < TOLERANCE).all(axis=1)
    told_apart = (np.abs(np.diff(without[order], axis=0)) > TOLERANCE).any(axis=1)
    pairs = np.flatnonzero(alike & told_apart)
    if len(pairs):
        world, two = heard.world, events[order[[pairs[0], pairs[0] + 1]]]
        named = (world.lexicon.name_event(event).items() for event in two)
        one, other = (" ".join(map("=".join, event)) for event in named)
        chances = ", ".join(f"{n} {spec.probability:g}" for n, spec in world.file.noise.items())
        message = (
            f"{chances} leaves no listener a way to tell {one!r} and {other!r} apart: every "
            "sentence is as probable of the one as of the other; lower a probability, or limit "
            "where it strikes."
        )
        raise WorldError(world.source, [Problem("[noise]", message)])


def _summarise_sentences(corpus: Corpus, event: NDArray[np.intp], size: int) -> NDArray[np.float64]:
    """Return (events, 3): P(sentence | event), as sums weighted at random.

    Two different distributions have the same sums with probability zero.
    """
    ends = corpus.tree.ends
    values = np.random.default_rng(0).random((int(ends.max()) + 1, 3))[ends]
    total = np.bincount(event, corpus.weight, size)
    sums = [np.bincount(event, corpus.weight * column, size) for column in values.T]
    return np.stack(sums, axis=1) / np.maximum(total, np.finfo(float).tiny)[:, None]


def check_large_world(world: "World") -> None:
    """Draw some sentences, which may reveal a mistake, and look for meanings that noise hides.

    Warns where even a small part of the world has too many derivations to look for them.
    """
    drawn = draw_derivations(world.grammar, DRAWN, np.random.default_rng(0)).fillers
    if not world.has_noise:
        return
    for part in _list_parts(world.grammar, drawn):
        if bound_derivations(part) > MAX_PART:
            warnings.warn(
                f"world {world.name!r} is too large to check whether its noise leaves a way to "
                "tell meanings apart.",
                WorldSizeWarning,
                stacklevel=4,
            )
            return
        heard, meant = (
            Corpus(world, enumerate_derivations(each))
            for each in (part, replace(part, disturbances=()))
        )
        refuse_indistinct(heard, meant)


def _list_parts(grammar: Grammar, events: NDArray[np.int32]) -> Iterator[Grammar]:
    """Yield grammars of one action each, with the words of two events."""
    ordered = events[np.argsort(events[:, grammar.action_role], kind="stable")]
    action = ordered[:, grammar.action_role]
    pairs = np.flatnonzero(action[1:] == action[:-1])
    chosen = pairs[:: max(-(-len(pairs) // PARTS), 1)]
    by_word = {each.word: each for each in grammar.actions}
    for row in chosen:
        words = np.append(ordered[row : row + 2], NO_FILLER)
        yield replace(grammar, actions=(_limit_words(by_word[int(action[row])], words),))


def _limit_words(action: Action, words: NDArray[np.int32]) -> Action:
    """Return an action whose events have these words only; they keep their probabilities."""

    def limit(choice: Choice) -> Choice:
        kept = np.isin(choice.fillers, words)
        chances = choice.probabilities[kept]
        return replace(choice, fillers=choice.fillers[kept], probabilities=chances)

    choices = tuple((role, tuple(map(limit, rules))) for role, rules in action.choices)
    return replace(action, choices=choices)
