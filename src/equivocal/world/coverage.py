"""What only walking through a world can show: parts that nothing uses, events without a rule."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from equivocal.world.derivations import Derivations, NoiseSumError, UncoveredEventError
from equivocal.world.errors import Problem, WorldError
from equivocal.world.grammar import NO_FILLER, Grammar, map_markers_to_words
from equivocal.world.lexicon import Lexicon
from equivocal.world.schema import WorldFile


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
    return [make_unused(place, message) for place, message in unused]


def make_unused(place: str, message: str) -> Problem:
    """Describe a part that nothing uses."""
    return Problem(place, f"{message}; use it or remove it.")


@contextmanager
def name_uncovered_events(lexicon: Lexicon, source: str) -> Iterator[None]:
    """Turn what is found while walking through a world into a `WorldError` with names."""
    try:
        yield
    except UncoveredEventError as error:
        event = ", ".join(
            f"{role} = {lexicon.words[word]!r}"
            for role, word in zip(lexicon.roles, error.fillers, strict=True)
            if word != NO_FILLER
        )
        role = lexicon.roles[error.role]
        ways_out = "add a last rule without `when` (`{ then = 'absent' }` for none)"
        message = f"no rule for {role!r} fits {event}; {ways_out}."
        problem = Problem(f"[actions.{error.action}] {role}", message)
        raise WorldError(source, [problem]) from None
    except NoiseSumError as error:
        raise WorldError(source, [Problem("[noise]", f"{error}.")]) from None
