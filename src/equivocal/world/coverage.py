"""Problems that only walking through the whole world can show.

Words and roles that never occur, and events for which a role has rules but none that fits.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from equivocal.world.derivations import Derivations, UncoveredEventError
from equivocal.world.errors import Problem, WorldError
from equivocal.world.grammar import NO_FILLER, Grammar, words_behind_markers
from equivocal.world.lexicon import Lexicon
from equivocal.world.schema import WorldFile

__all__ = ["naming_uncovered_events", "unused_parts"]


@contextmanager
def naming_uncovered_events(lexicon: Lexicon, source: str) -> Iterator[None]:
    """Turn the numbers of an `UncoveredEventError` into a `WorldError` with names."""
    try:
        yield
    except UncoveredEventError as error:
        event = ", ".join(
            f"{role} = {lexicon.words[word]!r}"
            for role, word in zip(lexicon.roles, error.fillers, strict=True)
            if word != NO_FILLER
        )
        role = lexicon.roles[error.role]
        message = (
            f"no rule for {role!r} fits {event}; add a rule, or a last one without `when` "
            "(`{ then = 'absent' }` for none)."
        )
        problem = Problem(f"[actions.{error.action}] {role}", message)
        raise WorldError(source, [problem]) from None


def unused_parts(
    file: WorldFile, lexicon: Lexicon, grammar: Grammar, enumerated: Derivations | None
) -> list[Problem]:
    """Words, roles and markers that no event uses.

    Without an enumeration (the world is too large) a word counts as used if any rule names it.
    """
    by_role = {role: grammar.fillers_of(index) for index, role in enumerate(lexicon.roles)}
    if enumerated is not None:
        columns = enumerated.fillers.T
        by_role = {
            role: fillers & set(column.tolist())
            for (role, fillers), column in zip(by_role.items(), columns, strict=True)
        }
    used = {lexicon.words[number] for fillers in by_role.values() for number in fillers}
    problems = [
        Problem(
            f"[words.{cls}] {word}",
            f"word {word!r} is unreachable: no event has it; use it in an action or remove it.",
        )
        for cls, words in file.words.items()
        for word in words
        if word not in used
    ]
    problems += [
        Problem("roles", f"no action fills the role {role!r}; use it or remove it.")
        for role, fillers in by_role.items()
        if not fillers
    ]
    problems += [
        Problem("[markers]", f"no construction uses the marker {marker!r}; use it or remove it.")
        for marker, words in words_behind_markers(grammar, lexicon).items()
        if not words
    ]
    return problems
