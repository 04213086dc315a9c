"""Everything that can be wrong with a world file whose shape is right (see `schema`).

`find_problems` reads the whole file and returns every problem, each with its table and its fix. A
new rule of the format is a new generator, called there. Words, features and spellings are checked
here, events and constructions in `event_checks`; what only walking through the world can show is
found by `find_unused_parts` and `name_uncovered_events`.
"""

import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice

from equivocal.world.derivations import Derivations, UncoveredEventError
from equivocal.world.errors import Problem, WorldError
from equivocal.world.event_checks import (
    check_actions,
    check_constructions,
    check_groups,
    check_known,
    check_shares,
    find_repeated,
)
from equivocal.world.grammar import NO_FILLER, Grammar, map_markers_to_words
from equivocal.world.lexicon import ROLE_PREFIX, Lexicon
from equivocal.world.names import Names
from equivocal.world.queries import PLUS
from equivocal.world.schema import ABSENT, WorldFile
from equivocal.world.spelling import collect_spellings, fold, inflect_verb, list_declared_spellings

MOST_PROBLEMS = 100  # each may look for the nearest of all names; nobody reads more at once
MOST_ROLES = 100  # columns of every table of events
MOST_FEATURES = 1 << 31  # words × units, a byte each; 30,000 words with a feature each are fewer
MOST_PAIRS = 10_000_000  # actions × constructions, all looked at


def find_oversize(file: WorldFile) -> list[Problem]:
    """Find sizes that no check could take, or that would take all memory afterwards."""
    words = sum(map(len, file.words.values()))
    used = {feature for words in file.words.values() for has in words.values() for feature in has}
    units = len(used | set(file.features or ())) + len(file.roles)
    pairs = len(file.actions) * len(file.constructions)
    sizes = [
        ("roles", len(file.roles), MOST_ROLES, "roles"),
        ("[words]", words * units, MOST_FEATURES, "words times features"),
        ("[[constructions]]", pairs, MOST_PAIRS, "actions times constructions"),
    ]
    return [
        Problem(table, f"there are {found:,} {what}, and at most {most:,} are read; use fewer.")
        for table, found, most, what in sizes
        if found > most
    ]


def find_problems(file: WorldFile) -> list[Problem]:
    """Find the problems of a world file, in the order of its tables."""
    names = Names(file)
    found = chain(
        _check_texts(file),
        _check_roles(file),
        _check_duplicates(file),
        _check_features(file),
        _check_meanings(file),
        check_groups(file, names),
        _check_spellings(file, names),
        _check_printed(file, collect_spellings(file)),
        check_actions(file, names),
        check_constructions(file, names),
        check_shares(file),
    )
    return list(islice(found, MOST_PROBLEMS))


def _check_texts(file: WorldFile) -> Iterator[Problem]:
    """Check names and prose, which end up on terminals."""
    if not file.name.strip():
        yield Problem("name", "the name is empty; give the world one.")
    for text in _list_texts(file.model_dump(warnings=False)):
        if any(unicodedata.category(c) == "Cc" and c not in "\n\t" for c in text):
            yield Problem("", f"{text!r} has a control character; remove it.")


def _list_texts(value: object) -> Iterator[str]:
    """Yield every text in a file, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _list_texts([*value, *value.values()])
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _list_texts(part)


def _check_roles(file: WorldFile) -> Iterator[Problem]:
    for role in find_repeated(file.roles):
        yield Problem("roles", f"duplicate role {role!r}; name each role once.")
    if "action" not in file.roles:
        yield Problem("roles", "there is no role 'action'; add it, since [actions] fills it.")
    if "weight" in file.roles:
        yield Problem("roles", "a role cannot be called 'weight', a key of [actions]; rename it.")


def _check_duplicates(file: WorldFile) -> Iterator[Problem]:
    """Check that words, markers, classes, groups and distributions have different names."""
    owners: dict[str, str] = {ABSENT: "the reserved filler for a missing role"}
    claims = [
        *((word, f"[words.{cls}]") for cls, words in file.words.items() for word in words),
        *((name, "[markers]") for name in file.markers),
        *((name, f"[words.{name}]") for name in file.words),
        *((name, "[groups]") for name in file.groups),
        *((name, f"[distributions.{name}]") for name in file.distributions),
    ]
    for name, place in claims:
        if name in owners:
            message = f"duplicate name {name!r}, taken by {owners[name]}; rename one of them."
            yield Problem(place, message)
        owners.setdefault(name, place)


def _check_features(file: WorldFile) -> Iterator[Problem]:
    """Check the names of features and, where the file lists them, that the list is complete."""
    tables = {
        f"[words.{cls}] {word}": features
        for cls, words in file.words.items()
        for word, features in words.items()
    }
    for spec in file.constructions:
        tables[f"[[constructions]] {spec.name}"] = tuple(chain(*spec.adds.values()))
    declared = None if file.features is None else dict.fromkeys(file.features)
    for place, features in tables.items():
        for feature in features:
            if feature.startswith(ROLE_PREFIX):
                message = f"{feature!r} begins like the unit of a role; rename the feature."
                yield Problem(place, message)
            if not feature.strip() or PLUS.strip() in feature:
                yield Problem(place, f"{feature!r} is empty or has a plus; rename the feature.")
        if declared is not None:
            yield from check_known(place, "feature", features, declared, "add it to `features`.")
    unused = set(declared or ()) - set(chain(*tables.values()))
    if file.features is None and file.unused_features:
        yield Problem("unused_features", "this needs a list of all `features`; add it.")
        return
    for feature in find_repeated(file.features or ()):
        yield Problem("features", f"duplicate feature {feature!r}; list each feature once.")
    for feature in sorted(unused - set(file.unused_features)):
        yield Problem(
            "features",
            f"no word has the feature {feature!r}; give it to a word, remove it, "
            "or list it in `unused_features` to keep a silent unit.",
        )
    for feature in sorted(set(file.unused_features) - unused):
        state = "is in use" if feature in (file.features or ()) else "is not listed in `features`"
        yield Problem("unused_features", f"feature {feature!r} {state}; remove it here.")


def _check_meanings(file: WorldFile) -> Iterator[Problem]:
    """Check that no two words have the same features."""
    seen: dict[frozenset[str], str] = {}
    for cls, words in file.words.items():
        for word, features in words.items():
            place = f"[words.{cls}] {word}"
            for feature in find_repeated(features):
                yield Problem(place, f"feature {feature!r} is listed twice; once is enough.")
            twin = seen.setdefault(frozenset(features), word)
            if twin != word:
                yield Problem(
                    place,
                    f"words {twin!r} and {word!r} have the same features, so no answer can tell "
                    "them apart; give one a feature of its own.",
                )


def _check_spellings(file: WorldFile, names: Names) -> Iterator[Problem]:
    """Check that spellings belong to one word each, and can be read."""
    for table, keys in (("[verbs]", file.verbs), ("[forms]", file.forms)):
        yield from check_known(table, "word", keys, names.words, "it is in no [words] table.")
    owners: dict[str, str] = {}
    for table, spelling, word in list_declared_spellings(file):
        owner = owners.setdefault(fold(spelling), word)
        if owner != word:
            message = f"{spelling!r} is a spelling of both {owner!r} and {word!r}; drop one."
            yield Problem(table, message)
        yield from _check_readable(table, f"word {word!r}", spelling)


def _check_printed(file: WorldFile, known: dict[str, str]) -> Iterator[Problem]:
    """Check that markers are not taken for words, and that printed verbs are read as such."""
    for marker, spellings in file.markers.items():
        for spelling in spellings:
            yield from _check_readable("[markers]", f"marker {marker!r}", spelling)
        for spelling in dict.fromkeys([*spellings, marker]):
            if word := known.get(fold(spelling)):
                yield Problem(
                    "[markers]",
                    f"{spelling!r} is a spelling of the marker {marker!r} and of the word "
                    f"{word!r}; drop one.",
                )

    forms = dict.fromkeys(spec.form for spec in file.constructions)
    for verb in dict.fromkeys(spec.action or name for name, spec in file.actions.items()):
        for form in forms:
            printed = inflect_verb(verb, form, file.verbs.get(verb))
            other = known.get(fold(printed))
            if other != verb and verb in known.values():
                reading = f"is read as {other!r}" if other else "is shared with another word"
                yield Problem(
                    "[verbs]",
                    f"{printed!r}, the {form} form of {verb!r}, {reading}; give it another form.",
                )


def _check_readable(table: str, what: str, spelling: str) -> Iterator[Problem]:
    """Check a spelling: the parser sees words and blanks, and anything else would be lost."""
    written = unicodedata.normalize("NFC", spelling).casefold().replace("’", "'").replace("-", " ")
    if not fold(spelling) or " ".join(written.split()) != fold(spelling):
        yield Problem(
            table,
            f"{what} is spelled {spelling!r}, which cannot be read in a text; use letters, "
            "digits, apostrophes, hyphens and blanks.",
        )


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
    problems = [
        Problem(
            f"[words.{cls}] {word}",
            f"word {word!r} is unreachable: no event has it; use it in an action or remove it.",
        )
        for cls, words in file.words.items()
        for word in words
        if word not in used
    ]
    roles = [role for role, fillers in by_role.items() if not fillers]
    introduced = map_markers_to_words(grammar, lexicon).items()
    markers = [marker for marker, words in introduced if not words]
    parts = [("roles", "action fills the role", role) for role in roles]
    parts += [("[markers]", "construction uses the marker", marker) for marker in markers]
    return problems + [
        Problem(table, f"no {what} {name!r}; use it or remove it.") for table, what, name in parts
    ]


@contextmanager
def name_uncovered_events(lexicon: Lexicon, source: str) -> Iterator[None]:
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
