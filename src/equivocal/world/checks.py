"""Everything that can be wrong with a world file whose shape is right (see `schema`).

`find_problems` reads the whole file and returns every problem, each with its table and its fix. The
checks of words and features stand here, those of events and of constructions in their own modules.
A new rule of the format is a new generator, called in `find_problems`.
"""

import unicodedata
from collections.abc import Iterator
from itertools import chain, islice

from equivocal.errors import did_you_mean
from equivocal.world.construction_checks import constructions, shares
from equivocal.world.errors import Problem
from equivocal.world.event_checks import actions, distributions, groups, repeated
from equivocal.world.lexicon import ROLE_PREFIX
from equivocal.world.names import Names
from equivocal.world.queries import PLUS
from equivocal.world.schema import ABSENT, WorldFile
from equivocal.world.spelling import declared_spellings, fold, known_spellings, verb_form

__all__ = ["find_problems", "too_large"]

MOST_PROBLEMS = 100  # each may look for the nearest of all names; nobody reads more at once
MOST_ROLES = 100  # columns of every table of events
MOST_FEATURES = 1 << 31  # words × units, a byte each; 30,000 words with a feature each are fewer
MOST_PAIRS = 10_000_000  # actions × constructions, all looked at


def too_large(file: WorldFile) -> list[Problem]:
    """Sizes that no check below could take, or that would take all memory afterwards."""
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
    """The problems of a world file, in the order of its tables."""
    names = Names(file)
    found = chain(
        _name_and_roles(file),
        _duplicate_names(file),
        _features(file),
        _indistinct_words(file),
        groups(file, names),
        distributions(file, names),
        _spellings(file, names),
        actions(file, names),
        constructions(file, names),
        shares(file),
    )
    return list(islice(found, MOST_PROBLEMS))


def _name_and_roles(file: WorldFile) -> Iterator[Problem]:
    if not file.name.strip():
        yield Problem("name", "the name is empty; give the world one.")
    for text in _all_texts(file.model_dump(warnings=False)):
        if any(unicodedata.category(c) == "Cc" and c not in "\n\t" for c in text):
            yield Problem("", f"{text!r} has a control character; remove it.")
    for role in repeated(file.roles):
        yield Problem("roles", f"duplicate role {role!r}; name each role once.")
    if "action" not in file.roles:
        yield Problem("roles", "there is no role 'action'; add it, since [actions] fills it.")
    if "weight" in file.roles:
        yield Problem("roles", "a role cannot be called 'weight', a key of [actions]; rename it.")


def _all_texts(value: object) -> Iterator[str]:
    """Every text in a file, keys included; names end up on terminals."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in (*value, *value.values()):
            yield from _all_texts(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _all_texts(part)


def _duplicate_names(file: WorldFile) -> Iterator[Problem]:
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
            yield Problem(
                place, f"duplicate name {name!r}, taken by {owners[name]}; rename one of them."
            )
        else:
            owners[name] = place


def _features(file: WorldFile) -> Iterator[Problem]:
    used = [
        (f"[words.{cls}] {word}", feature)
        for cls, words in file.words.items()
        for word, features in words.items()
        for feature in features
    ]
    used += [
        (f"[[constructions]] {spec.name}", feature)
        for spec in file.constructions
        for features in spec.adds.values()
        for feature in features
    ]
    for place, feature in used:
        if feature.startswith(ROLE_PREFIX):
            yield Problem(place, f"{feature!r} begins like the unit of a role; rename the feature.")
        if not feature.strip() or PLUS.strip() in feature:
            yield Problem(place, f"{feature!r} is empty or has a plus; rename the feature.")
    if file.features is None:
        if file.unused_features:
            yield Problem("unused_features", "this needs a list of all `features`; add it.")
        return
    for feature in repeated(file.features):
        yield Problem("features", f"duplicate feature {feature!r}; list each feature once.")
    declared = set(file.features)
    for place, feature in used:
        if feature not in declared:
            hint = did_you_mean(feature, declared) or "; add it to `features`."
            yield Problem(place, f"unknown feature {feature!r}{hint}")
    yield from _unowned_features(file, declared - {feature for _, feature in used})


def _unowned_features(file: WorldFile, unowned: set[str]) -> Iterator[Problem]:
    for feature in sorted(unowned - set(file.unused_features)):
        yield Problem(
            "features",
            f"no word has the feature {feature!r}; give it to a word, remove it, "
            "or list it in `unused_features` to keep a silent unit.",
        )
    for feature in sorted(set(file.unused_features) - unowned):
        known = feature in (file.features or ())
        state = "is in use" if known else "is not listed in `features`"
        yield Problem("unused_features", f"feature {feature!r} {state}; remove it here.")


def _indistinct_words(file: WorldFile) -> Iterator[Problem]:
    seen: dict[frozenset[str], str] = {}
    for cls, words in file.words.items():
        for word, features in words.items():
            place = f"[words.{cls}] {word}"
            if not features:
                yield Problem(place, f"word {word!r} has no features; give it at least one.")
                continue
            if repeated(features):
                yield Problem(place, f"feature {repeated(features)[0]!r} is listed twice.")
            twin = seen.setdefault(frozenset(features), word)
            if twin != word:
                yield Problem(
                    place,
                    f"words {twin!r} and {word!r} have the same features, so no answer can tell "
                    "them apart; give one a feature of its own.",
                )


def _spellings(file: WorldFile, names: Names) -> Iterator[Problem]:
    for table, keys in (("[verbs]", file.verbs), ("[forms]", file.forms)):
        for word in keys:
            if word not in names.words:
                hint = did_you_mean(word, names.words) or "; it is in no [words] table."
                yield Problem(table, f"unknown word {word!r}{hint}")
    owners: dict[str, str] = {}
    for table, spelling, word in declared_spellings(file):
        owner = owners.setdefault(fold(spelling), word)
        if owner != word:
            yield Problem(
                table, f"{spelling!r} is a spelling of both {owner!r} and {word!r}; drop one."
            )
        yield from _readable(table, f"word {word!r}", spelling)
    known = known_spellings(file)
    for marker, spellings in file.markers.items():
        if not spellings:
            yield Problem("[markers]", f"marker {marker!r} has no spelling; give it one.")
        for spelling in spellings:
            yield from _readable("[markers]", f"marker {marker!r}", spelling)
        for spelling in dict.fromkeys([*spellings, marker]):
            if fold(spelling) in known:
                yield Problem(
                    "[markers]",
                    f"{spelling!r} is a spelling of the marker {marker!r} and of the word "
                    f"{known[fold(spelling)]!r}; drop one.",
                )
    yield from _printed_verbs(file, known)


def _printed_verbs(file: WorldFile, known: dict[str, str]) -> Iterator[Problem]:
    """What the constructions print must be read back as the same verb."""
    forms = dict.fromkeys(spec.form for spec in file.constructions)
    for verb in dict.fromkeys(spec.action or name for name, spec in file.actions.items()):
        for form in forms:
            printed = verb_form(verb, form, file.verbs.get(verb))
            other = known.get(fold(printed))
            if other != verb and verb in known.values():
                reading = f"is read as {other!r}" if other else "is shared with another word"
                yield Problem(
                    "[verbs]",
                    f"{printed!r}, the {form} form of {verb!r}, {reading}; give it another form.",
                )


def _readable(table: str, what: str, spelling: str) -> Iterator[Problem]:
    """The parser sees words and blanks; anything else in a spelling would be lost."""
    written = unicodedata.normalize("NFC", spelling).casefold().replace("’", "'").replace("-", " ")
    if not fold(spelling) or " ".join(written.split()) != fold(spelling):
        yield Problem(
            table,
            f"{what} is spelled {spelling!r}, which cannot be read in a text; use letters, "
            "digits, apostrophes, hyphens and blanks.",
        )
