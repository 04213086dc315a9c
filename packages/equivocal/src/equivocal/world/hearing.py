"""In which ways the beginning of a sentence can have come about, whatever the probabilities.

    P(words, event) = Σ_terms ± P(noise) P(construction | action) Π_r u_r(f_r) P(f_r | …)

A term is a construction that was meant, at most one noise, and for every role what its filler has
to be: *said* (one of some words, and mentioned), *skipped* (in its place something else was heard,
so it is absent or was not mentioned) or *open*. A sentence that noise could have affected and did
not has the probability 1 − Σ P(noise); so each noise also gives a term with a minus sign. Whoever
has probabilities of their own for the choices of a grammar (`equivocal.world.learner`) sums these
terms; `equivocal.world.corpus` does the same by enumeration, with the probabilities of the world.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivocal.world.grammar import Construction, Disturbance, Grammar

__all__ = ["SAID", "SKIPPED", "Term", "find_said_roles", "list_terms"]

SAID, SKIPPED = "said", "skipped"
Words = NDArray[np.bool_]  # (words,)
Roles = dict[int, tuple[str, Words]]  # what is known of the fillers; other roles are open


class Term(NamedTuple):
    """One summand of the probability of what was heard."""

    construction: int  # as it was meant
    noise: str  # its name, or "" for none
    factor: float  # of the probability of the noise; −1 where it did not strike
    roles: Roles


def list_terms(grammar: Grammar, pairs: NDArray[np.int32]) -> Iterator[Term]:
    """Yield all terms of a prefix; `pairs` are words and markers, as from `World.encode`."""
    plain, every = len(grammar.plain_constructions), np.ones(len(grammar.lexicon.words), dtype=bool)
    for meant, construction in enumerate(grammar.constructions[:plain]):
        noise = [each for each in grammar.disturbances if each.meant == meant]
        for roles in _align(construction, pairs.tolist(), every):
            yield Term(meant, "", 1.0, roles)
            yield from _disturb(meant, noise, roles, grammar, sign=-1.0)
        for each in noise:
            for roles in _align(grammar.constructions[each.heard], pairs.tolist(), every):
                yield from _disturb(meant, [each], roles, grammar, sign=1.0)


def _disturb(
    meant: int,
    noise: list[Disturbance],
    roles: Roles,
    grammar: Grammar,
    sign: float,
) -> Iterator[Term]:
    """Add to a term what each noise needs, and leave out the noise that cannot have struck."""
    order = grammar.constructions[meant].order
    for each in noise:
        needed: Roles = dict(roles)
        for role, words in each.needs:
            kind, said = roles.get(role, (SAID if role in order else SKIPPED, words))
            needed[role] = (kind, said & words)
        struck = [needed[role] for role, _ in each.needs]
        if all(kind == SAID and said.any() for kind, said in struck):
            yield Term(meant, grammar.constructions[each.heard].noise, sign, needed)


def _align(
    construction: Construction, pairs: list[list[int]], every: Words, place: int = 0
) -> Iterator[Roles]:
    """Yield in which roles of a construction, from a place of its order on, words can be heard."""
    if not pairs:
        yield {}
    elif place < len(construction.order):
        role = construction.order[place]
        for rest in _align(construction, pairs, every, place + 1):
            yield {role: (SKIPPED, every)} | rest
        (word, marker), *left = pairs
        if construction.find_markers(role, np.array([word], dtype=np.int32))[0] == marker:
            for rest in _align(construction, left, every, place + 1):
                yield {role: (SAID, np.arange(len(every)) == word)} | rest


def find_said_roles(grammar: Grammar, pairs: NDArray[np.int32]) -> dict[int, int]:
    """Return the word in each role as a literal reader takes it, who knows no events.

    Of all ways to read the words as the beginning of a construction, those with the fewest roles
    left out count, among them those with the fewest words in a role that they never have; and
    roles on which these agree. Empty where the words are of no construction.
    """
    fillers = {role: grammar.collect_fillers(role) for role in range(len(grammar.lexicon.roles))}
    readings: dict[tuple[int, int], list[dict[int, int]]] = {}
    every = np.ones(len(grammar.lexicon.words), dtype=bool)
    for construction in grammar.plain_constructions:
        for roles in _align(construction, pairs.tolist(), every):
            said = {r: int(words.argmax()) for r, (kind, words) in roles.items() if kind == SAID}
            action = said.get(grammar.action_role)
            if action is None or action in fillers[grammar.action_role]:
                odd = sum(word not in fillers[role] for role, word in said.items())
                readings.setdefault((len(roles) - len(said), odd), []).append(said)
    best = readings[min(readings)] if readings else [{}]
    return {r: w for r, w in best[0].items() if all(other.get(r) == w for other in best)}
