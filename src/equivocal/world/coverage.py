"""Checks of a world that need its events: unused parts, missing rules, noise that hides meanings.

Noise hides a meaning where two events that are told differently without noise give every sentence
the same probability with it: no listener could tell them apart.

A world too large to enumerate is sampled. Two such events are seldom drawn together, so pairs of
events of one action are drawn, and all events of that action with no other words are enumerated:
who acted on whom, and the reverse.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from equivocal.world.corpus import Corpus
from equivocal.world.derivations import (
    Derivations,
    NoiseSumError,
    UncoveredEventError,
    bound_derivations,
    draw_derivations,
    enumerate_derivations,
)
from equivocal.world.errors import Problem, WorldError, WorldSizeWarning
from equivocal.world.grammar import (
    NO_FILLER,
    Action,
    Choice,
    Grammar,
    Lexicon,
    map_markers_to_words,
)
from equivocal.world.schema import WorldFile

if TYPE_CHECKING:
    from equivocal.world.world import World

DRAWN = 500  # events
PARTS = 40  # of the world, each with the words of two events
MAX_PART = 10_000  # derivations of a part
TOLERANCE = 1e-9  # of probabilities that are compared by a weighted sum


def find_unused_parts(
    file: WorldFile, lexicon: Lexicon, grammar: Grammar, enumerated: Derivations | None
) -> list[Problem]:
    """Find words, roles and markers that no event uses.

    Without an enumeration (the world is too large) a word counts as used if any rule names it.
    """
    by_role = {role: grammar.collect_fillers(index) for index, role in enumerate(lexicon.roles)}
    if enumerated is not None:
        for role, column in zip(lexicon.roles, enumerated.fillers.T, strict=True):
            by_role[role] &= set(column.tolist())
    used = {lexicon.words[number] for fillers in by_role.values() for number in fillers}
    unused = [
        (f"[words.{cls}] {word}", f"no event has the word {word!r}")
        for cls, words in file.words.items()
        for word in words
        if word not in used
    ]
    unused += [("roles", f"no action fills the role {r!r}") for r in by_role if not by_role[r]]
    markers = map_markers_to_words(grammar, lexicon, grammar.constructions)
    for marker, words in markers.items():
        if not words:
            unused.append(("[markers]", f"no construction uses the marker {marker!r}"))
    if enumerated is None:
        heard = {construction.noise for construction in grammar.constructions}
    else:
        heard = {grammar.constructions[n].noise for n in np.unique(enumerated.construction)}
    for name, spec in file.noise.items():
        if spec.probability > 0 and name not in heard:
            unused.append((f"[noise.{name}]", "nothing that is said can be struck by it"))
    return [report_unused(place, message) for place, message in unused]


def report_unused(place: str, message: str) -> Problem:
    """Describe a part that nothing uses."""
    return Problem(place, f"{message}; use it or remove it.")


@contextmanager
def name_uncovered_events(lexicon: Lexicon, source: str) -> Iterator[None]:
    """Turn what is found while walking through a world into a `WorldError` with names."""
    try:
        yield
    except UncoveredEventError as error:
        named = lexicon.name_event(error.fillers)
        event = ", ".join(f"{role} = {word!r}" for role, word in named.items())
        role = lexicon.roles[error.role]
        ways_out = "add a last rule without `when` (`{ then = 'absent' }` for none)"
        message = f"no rule for {role!r} fits {event}; {ways_out}."
        problem = Problem(f"[actions.{error.action}] {role}", message)
        raise WorldError(source, [problem]) from None
    except NoiseSumError as error:
        raise WorldError(source, [Problem("[noise]", f"{error}.")]) from None


def refuse_indistinct(heard: Corpus, meant: Corpus) -> None:
    """Refuse noise that makes two meanings indistinguishable.

    Two events are indistinguishable where each sentence is as probable of the one as of the other,
    though without noise they are told differently.

    Parameters
    ----------
    heard, meant : Corpus
        Everything that is said in a world, with noise and without.
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
    """Draw some sentences, which may find a fault, and look for meanings that noise makes alike.

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
    choices = tuple(
        (role, tuple(_limit_choice(choice, words) for choice in rules))
        for role, rules in action.choices
    )
    return replace(action, choices=choices)


def _limit_choice(choice: Choice, words: NDArray[np.int32]) -> Choice:
    kept = np.isin(choice.fillers, words)
    return replace(choice, fillers=choice.fillers[kept], probabilities=choice.probabilities[kept])
