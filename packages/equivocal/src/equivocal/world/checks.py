"""Checks of a world file that need two of its tables; `schema` checks every value by itself.

`find_problems` checks the whole file and returns every problem, each with its table and its fix. A
new rule of the format is a new generator, called there. `find_unused_parts` also needs the events.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import chain

import numpy as np

from equivocal.world.derivations import Derivations
from equivocal.world.errors import Problem
from equivocal.world.grammar import Grammar, Names
from equivocal.world.schema import ABSENT, SUM_TOLERANCE, WorldFile
from equivocal.world.spelling import (
    collect_spellings,
    fold,
    inflect_verb,
    is_readable,
    list_declared_spellings,
)

CONTROL = re.compile(r"(?<!\\)\\u00[0189][0-9a-f]|\x7f")  # in JSON, where \n and \t have no number


def find_problems(file: WorldFile, unused: Iterable[str] = ()) -> list[Problem]:
    """Find the problems of a valid world file; `unused` are parameters that nothing in it names."""
    problems = [
        *_check_names(file),
        *_check_features(file),
        *_check_spellings(file),
        *_check_actions(file),
    ]
    for name in sorted(unused):
        problems.append(_report_unused("[parameters]", f"nothing uses the parameter {name!r}"))
    # groups that contain each other have no words to go on with
    return problems or [*_check_markers(file), *_check_shares(file)]


def _check_names(file: WorldFile) -> Iterator[Problem]:
    """Check that names are unique and printable, and that no group contains itself."""
    if CONTROL.search(json.dumps(file.model_dump(warnings=False))):  # could reach a terminal
        yield Problem("", "a text has a control character; remove it.")
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
    try:
        TopologicalSorter(file.groups).prepare()
    except CycleError as error:
        circle = " → ".join(reversed(error.args[1]))
        yield Problem("[groups]", f"a group contains itself ({circle}); break the circle.")


def _check_features(file: WorldFile) -> Iterator[Problem]:
    """Check that features tell words apart, and that all listed ones are in use."""
    twins = dict[frozenset[str], str]()
    for cls, words in file.words.items():
        for word, features in words.items():
            place = f"[words.{cls}] {word}"
            twin = twins.setdefault(frozenset(features), place)
            if twin != place:
                why = "so no answer can tell the two apart; give one a feature of its own"
                yield Problem(place, f"it has the same features as {twin}, {why}.")
    of_words, added = set(chain(*twins)), set[str]()
    for spec in file.constructions:
        added |= {feature for features in spec.adds.values() for feature in features}
        for feature in sorted(of_words.intersection(*[chain(*spec.adds.values())])):
            rule = "which some word has anyway; use a feature that only constructions add"
            yield Problem(f"[[constructions]] {spec.name}", f"`adds` gives {feature!r}, {rule}.")
    unused = set(file.features or ()) - of_words - added
    for feature in sorted(unused.symmetric_difference(file.unused_features)):
        ways_out = "list in `unused_features` those that no word has, and no others"
        what = "no word has the feature" if feature in unused else "there is no silent feature"
        yield Problem("features", f"{what} {feature!r}; {ways_out}.")


def _check_spellings(file: WorldFile) -> Iterator[Problem]:
    """Check that spellings can be parsed and belong to one word; markers may share spellings."""
    known = collect_spellings(file)
    markers = [
        ("[markers]", text, marker) for marker in file.markers for text in file.markers[marker]
    ]
    written = [*list_declared_spellings(file), *markers]
    for table, spelling, name in written:
        if not is_readable(spelling):
            rule = "use letters, digits, apostrophes, hyphens and blanks"
            yield Problem(table, f"{name!r} is spelled {spelling!r}, which cannot be read; {rule}.")
    for table, spelling, name in [*written, *(("[markers]", name, name) for name in file.markers)]:
        owner = known.get(fold(spelling), name)
        if owner != name:
            message = f"{spelling!r} is a spelling of both {owner!r} and {name!r}; drop one."
            yield Problem(table, message)
    forms = dict.fromkeys(spec.form for spec in file.constructions)
    for verb in dict.fromkeys(spec.action or name for name, spec in file.actions.items()):
        for form in forms:
            printed = inflect_verb(verb, form, file.verbs.get(verb))
            other = known.get(fold(printed), "another word")
            if other != verb and verb in known.values():
                what = f"{printed!r}, the {form} form of {verb!r}, is read as {other!r}"
                yield Problem("[verbs]", f"{what}; give it another form.")


def _check_actions(file: WorldFile) -> Iterator[Problem]:
    """Check that actions are words, and that at least one happens."""
    words = set(chain(*file.words.values()))
    if not any(spec.weight for spec in file.actions.values()):
        yield Problem("[actions]", "all weights are 0, so nothing happens; give one action more.")
    for name, spec in file.actions.items():
        if (spec.action or name) not in words:
            message = (
                f"unknown word {spec.action or name!r}; declare it, or set `action` to a word."
            )
            yield Problem(f"[actions.{name}]", message)


def _check_markers(file: WorldFile) -> Iterator[Problem]:
    """Check that no word has two markers in one role of a construction."""
    names = Names(file)
    for spec in file.constructions:
        for role, markers in spec.markers.items():
            by_class = [] if isinstance(markers, str) else list(markers)
            for word, times in Counter(chain(*map(names.expand, by_class))).items():
                if times > 1:
                    message = f"{word!r} has two markers as {role!r}; leave it one."
                    yield Problem(f"[[constructions]] {spec.name}", message)


def _check_shares(file: WorldFile) -> Iterator[Problem]:
    """Check that probabilities of an action's constructions sum to 1, and no sentence is empty."""
    names = Names(file)
    for name, action in file.actions.items():
        fitting = [s for s in file.constructions if s.actions is None or name in s.actions]
        place = f"[actions.{name}]"
        if not fitting:
            yield Problem(place, f"no construction puts action {name!r} into words; add one.")
            continue
        total = sum(spec.probability or 0.0 for spec in fitting)
        takes_rest = any(spec.probability is None for spec in fitting)
        if total > 1 + SUM_TOLERANCE or (total < 1 - SUM_TOLERANCE and not takes_rest):
            what = f"the probabilities of its constructions sum to {total:.6g}, not 1"
            ways_out = "change them, or leave `probability` out of one to take the rest"
            yield Problem(place, f"{what}; {ways_out}.")
        certain = [
            role
            for role, rules in action.roles.items()
            if not any(ABSENT in names.find_fillers(rule.then) for rule in rules)
        ]
        for spec in fitting:
            always = (role for role in spec.order if spec.mentioned.get(role, 1) == 1)
            if {"action", *certain}.isdisjoint(always):
                message = f"a sentence about action {name!r} may be empty; say the action, always."
                yield Problem(f"[[constructions]] {spec.name}", message)


def find_unused_parts(
    file: WorldFile, grammar: Grammar, enumerated: Derivations | None
) -> list[Problem]:
    """Find words and roles that no event has, and noise that strikes nothing.

    Without an enumeration (the world is too large) a word counts as used if any rule names it.
    """
    lexicon, unused = grammar.lexicon, list[Problem]()
    by_role = {role: grammar.collect_fillers(index) for index, role in enumerate(lexicon.roles)}
    heard = {each.noise for each in grammar.constructions}
    if enumerated is not None:
        for role, column in zip(lexicon.roles, enumerated.fillers.T, strict=True):
            by_role[role] &= set(column.tolist())
        heard = {grammar.constructions[n].noise for n in np.unique(enumerated.construction)}
    used = {lexicon.words[number] for fillers in by_role.values() for number in fillers}
    for cls, words in file.words.items():
        for word in words:
            if word not in used:
                place = f"[words.{cls}] {word}"
                unused.append(_report_unused(place, f"no event has the word {word!r}"))
    for role, fillers in by_role.items():
        if not fillers:
            unused.append(_report_unused("roles", f"no action fills the role {role!r}"))
    for name, spec in file.noise.items():
        if spec.probability > 0 and name not in heard:
            message = "nothing that is said can be struck by it"
            unused.append(_report_unused(f"[noise.{name}]", message))
    return unused


def _report_unused(place: str, message: str) -> Problem:
    """Describe a part that nothing uses."""
    return Problem(place, f"{message}; use it or remove it.")
