"""Noise between what is meant and what is heard: exchanges of words, lost or added function words.

A noise that affects the sentences of a construction turns it into another construction: one in
which agent and patient have changed places, or "by" is missing. So a derivation is still an event
expressed by a construction, and everything after the grammar (sentences, beliefs, corpora,
training) works as without noise, while answers refer to what was meant:

    P(meant | heard) ∝ P(meant) P(heard | meant)                                           (1)

At most one noise affects a sentence, so the probabilities of those that may are added, and with the
remaining probability it is heard as it was meant. (1) is the noisy-channel comprehender of Levy
(2008, EMNLP, 234–243) and of Gibson, Bergen & Piantadosi (2013, PNAS 110, 8051–8056).

A new kind of noise is a key of `NoiseSpec` and a method of `_Changer`, called in `list_changes`.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivocal.world.grammar import NO_FILLER, Construction, Disturbance, Grammar, Lexicon
from equivocal.world.schema import NoiseSpec, WorldFile

Words = NDArray[np.bool_]  # (words,)


class Change(NamedTuple):
    """One thing that a noise can do to the sentences of a construction."""

    heard: Construction
    needs: tuple[tuple[int, Words], ...]  # as in `Disturbance`


def add_noise(grammar: Grammar, file: WorldFile) -> Grammar:
    """Add the noise of a checked world file to a grammar; noise of probability 0 is left out."""
    constructions, disturbances = list(grammar.constructions), list[Disturbance]()
    for meant, construction in enumerate(grammar.constructions):
        for name, spec in file.noise.items():
            if spec.probability > 0:
                for change in list_changes(spec, construction, grammar.lexicon):
                    number, chance = len(constructions), spec.probability
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


def list_changes(spec: NoiseSpec, construction: Construction, lexicon: Lexicon) -> list[Change]:
    """List the changes that a noise can make to a construction, one for each place."""
    if spec.constructions is not None and construction.name not in spec.constructions:
        return []
    change = _Changer(spec, construction, lexicon)
    if spec.exchange is not None:
        of_roles = set(spec.exchange) <= set(lexicon.roles)
        return list(change.exchange_words() if of_roles else change.exchange_markers())
    return list(change.delete_markers() if spec.delete is not None else change.insert_markers())


class _Changer:
    """The changes that one noise makes to one construction."""

    def __init__(self, spec: NoiseSpec, construction: Construction, lexicon: Lexicon) -> None:
        self.spec, self.construction, self.lexicon = spec, construction, lexicon
        self.role, self.token = lexicon.role_numbers, lexicon.token_numbers
        self.unchanged, self.every = Change(construction, ()), np.ones(len(lexicon.words), bool)

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
                ((one, self.every), (other, self.every)),
            )

    def exchange_markers(self) -> Iterator[Change]:
        """Exchange two function words, such as two articles that show case."""
        one, other = self.spec.exchange or ()
        for first, second in product(self._find_places(one), self._find_places(other)):
            if first != second:
                tokens = self.token[one], self.token[other]
                half = self._replace_marker(self.unchanged, first, *tokens)
                yield self._replace_marker(half, second, *reversed(tokens))

    def delete_markers(self) -> Iterator[Change]:
        """Delete function words: all named ones together."""
        names = self.spec.delete or ()
        for roles in product(*(self._find_places(name) for name in names)):
            change = self.unchanged
            for name, role in zip(names, roles, strict=True):
                change = self._replace_marker(change, role, self.token[name], NO_FILLER)
            yield change

    def _find_places(self, marker: str) -> list[int]:
        """Find the roles before whose words a function word stands."""
        places, token = self.construction.order, self.token[marker]
        return [role for role in places if token in self._list_markers(self.construction, role)]

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
        return Change(heard, (*change.needs, (role, marked)))

    def insert_markers(self) -> Iterator[Change]:
        """Insert function words where there are none: all named ones together."""
        change = self.unchanged
        for name, marker in (self.spec.insert_markers or {}).items():
            if self.role[name] not in self.construction.order:
                return
            change = self._replace_marker(change, self.role[name], NO_FILLER, self.token[marker])
        if all(words.any() for _, words in change.needs):
            yield change
