"""Checks of a world file whose keys and types are right (see `schema`).

`find_problems` checks the whole file and returns every problem, each with its table and its fix. A
new rule of the format is a new generator, called there. `find_unused_parts` also needs the events.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import chain, islice

import numpy as np

from equivocal.world.derivations import Derivations
from equivocal.world.errors import Problem, find_unknown
from equivocal.world.grammar import ROLE_PREFIX, Grammar, Names
from equivocal.world.noise import find_noise_problems
from equivocal.world.queries import PLUS
from equivocal.world.schema import ABSENT, ActionSpec, Rule, WorldFile, list_asked_roles
from equivocal.world.spelling import (
    collect_spellings,
    fold,
    inflect_verb,
    is_readable,
    list_declared_spellings,
)
from lastlayer.errors import did_you_mean, join_names

CONTROL = re.compile(r"(?<!\\)\\u00[0189][0-9a-f]|\x7f")  # in JSON, where \n and \t have no number
MOST_PROBLEMS = 100  # as many as anybody reads; each may be compared with all known names
SUM_TOLERANCE = 1e-6  # allows for round-off; 0.33 three times is not 1


def find_problems(file: WorldFile, unused: Iterable[str] = ()) -> list[Problem]:
    """Find the problems of a world file; `unused` are parameters that nothing in it names."""
    names = Names(file)
    found = chain(
        _check_texts(file),
        _check_references(file, names),
        _check_duplicates(file),
        _check_features(file),
        _check_spellings(file),
        _check_groups(file, names),
        _check_actions(file, names),
        _check_constructions(file, names),
        _check_shares(file, names),
        find_noise_problems(file),
        (
            report_unused("[parameters]", f"nothing uses the parameter {n!r}")
            for n in sorted(unused)
        ),
    )
    return list(islice(found, MOST_PROBLEMS))


def _check_texts(file: WorldFile) -> Iterator[Problem]:
    """Check that no text, keys included, has control characters, which could reach a terminal."""
    if CONTROL.search(json.dumps(file.model_dump(warnings=False))):
        yield Problem("", "a text has a control character; remove it.")


def _list_features(file: WorldFile) -> dict[str, list[str]]:
    """Return the features of every word and construction, by their place in the file."""
    words = {
        f"[words.{cls}] {word}": list(features)
        for cls, words in file.words.items()
        for word, features in words.items()
    }
    adds = {f"[[constructions]] {s.name}": [*chain(*s.adds.values())] for s in file.constructions}
    return words | adds


def _find_repeated(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once."""
    return [name for name, times in Counter(names).items() if times > 1]


def _check_references(file: WorldFile, names: Names) -> Iterator[Problem]:
    """Check that every name in use is declared in the table where it must be."""
    roles, add_action = f"roles are {join_names(file.roles)}.", "add an [actions] table for it."
    no_word, no_verb = "add it to a [words] table.", "name a word, or use `action`."
    yield from find_unknown("[verbs]", "word", file.verbs, names.words, no_word)
    yield from find_unknown("[forms]", "word", file.forms, names.words, no_word)
    for name, members in file.groups.items():
        yield from find_unknown(f"[groups] {name}", "word", members, names.known, no_word)
    if file.features is not None:
        declared = dict.fromkeys(file.features)
        for place, features in _list_features(file).items():
            yield from find_unknown(place, "feature", features, declared, "add it to `features`.")
    for name, action in file.actions.items():
        place, words = f"[actions.{name}]", [action.action or name]
        yield from find_unknown(place, "role", action.roles, [*file.roles, "weight"], roles)
        yield from find_unknown(place, "word", words, names.words, no_verb)
    for spec in file.constructions:
        place, actions = f"[[constructions]] {spec.name}", spec.actions or ()
        named = [*spec.order, *spec.mentioned, *spec.markers, *spec.adds]
        markers = chain(*([m] if isinstance(m, str) else m.values() for m in spec.markers.values()))
        yield from find_unknown(place, "role", named, file.roles, roles)
        yield from find_unknown(place, "marker", markers, file.markers, "add it to [markers].")
        yield from find_unknown(place, "action", actions, file.actions, add_action)


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
    """Check the names of features, that they tell words apart, and that all listed are in use."""
    tables, twins = _list_features(file), dict[frozenset[str], str]()
    for place, features in tables.items():
        for feature in features:
            if not feature.strip() or PLUS.strip() in feature or feature.startswith(ROLE_PREFIX):
                rule = f"is empty, has a plus or begins with {ROLE_PREFIX!r}"
                yield Problem(place, f"feature {feature!r} {rule}; rename it.")
        twin = twins.setdefault(frozenset(features), place)
        if twin != place and place.startswith("[words"):
            why = "so no answer can tell the two apart; give one a feature of its own"
            yield Problem(place, f"it has the same features as {twin}, {why}.")
    unused = set(file.features or ()) - set(chain(*tables.values()))
    for feature in sorted(unused - set(file.unused_features)):
        ways_out = "give it to a word, remove it, or keep a silent unit by `unused_features`"
        yield Problem("features", f"no word has the feature {feature!r}; {ways_out}.")
    for feature in sorted(set(file.unused_features) - unused):
        why = "is in use, or not listed in `features`"
        yield Problem("unused_features", f"feature {feature!r} {why}; correct one of the lists.")


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


def _check_groups(file: WorldFile, names: Names) -> Iterator[Problem]:
    """Check that no group contains itself, and that distributions are over words."""
    try:
        TopologicalSorter(file.groups).prepare()
    except CycleError as error:
        circle = " → ".join(reversed(error.args[1]))
        yield Problem("[groups]", f"a group contains itself ({circle}); break the circle.")
    for name, chances in file.distributions.items():
        yield from _check_distribution(names, f"[distributions.{name}]", chances)


def _check_actions(file: WorldFile, names: Names) -> Iterator[Problem]:
    """Check that every action has rules that can be followed."""
    if not any(spec.weight for spec in file.actions.values()):
        yield Problem("[actions]", "all weights are 0, so nothing happens; give one action more.")
    for name, spec in file.actions.items():
        for role, rules in spec.roles.items():
            place = f"[actions.{name}] {role}"
            for number, rule in enumerate(rules, start=1):
                if isinstance(rule.then, dict):
                    yield from _check_distribution(names, place, rule.then)
                elif rule.then not in file.distributions:
                    then = [rule.then] if isinstance(rule.then, str) else rule.then
                    yield from _check_names(names, place, then)
                yield from _check_conditions(names, place, rule, spec)
                if not rule.when and number < len(rules):
                    why = "so the rules after it are never used; move it to the end"
                    yield Problem(place, f"rule {number} has no `when`, {why}.")
        try:
            asks = {role: list_asked_roles(rules) for role, rules in spec.roles.items()}
            TopologicalSorter(asks).prepare()
        except CycleError as error:
            message = f"the rules ask in a circle ({' → '.join(error.args[1])}); drop one `when`."
            yield Problem(f"[actions.{name}]", message)


def _check_conditions(
    names: Names, place: str, rule: Rule, action: ActionSpec
) -> Iterator[Problem]:
    """Check that a rule asks for words in roles that the action fills by rules of their own."""
    for role, wanted in rule.when.items():
        if role not in action.roles:
            hint = did_you_mean(role, action.roles) or f"; ask for {join_names(action.roles)}."
            yield Problem(place, f"`when` asks for role {role!r}, which has no rules here{hint}")
        yield from _check_names(names, place, wanted)


def _check_names(names: Names, place: str, wanted: Iterable[str]) -> Iterator[Problem]:
    """Check that words, classes and groups stand for at least one word each."""
    for name in wanted:
        if name in names.distributions:
            yield Problem(place, f"{name!r} is a distribution; use it on its own.")
        elif name not in names.known and name != ABSENT:
            advice = "add it to a [words] table."
            yield from find_unknown(place, "word", [name], names.known, advice)
        elif not names.expand(name):
            yield Problem(place, f"{name!r} stands for no word; give it one.")


def _check_distribution(names: Names, place: str, chances: dict[str, float]) -> Iterator[Problem]:
    """Check that probabilities belong to single words and sum to one."""
    for word in chances:
        if word in names.collections and word not in names.words:
            yield Problem(place, f"{word!r} is not a single word; give each of its words a number.")
        else:
            yield from _check_names(names, place, [word])
    total = sum(chances.values())
    if abs(total - 1) > SUM_TOLERANCE:
        ways_out = "change them, or write fractions in quotes such as '1/3'"
        yield Problem(place, f"the probabilities sum to {total:.6g}, not 1; {ways_out}.")


def _check_constructions(file: WorldFile, names: Names) -> Iterator[Problem]:
    """Check `mentioned`, `markers` and `adds` of constructions."""
    of_words = {f for words in file.words.values() for features in words.values() for f in features}
    for spec in file.constructions:
        place = f"[[constructions]] {spec.name}"
        for role in dict.fromkeys([*spec.mentioned, *spec.markers]):
            if role in file.roles and role not in spec.order:
                message = f"`mentioned` or `markers` has role {role!r}, which is not in `order`"
                yield Problem(place, f"{message}; add it there.")
        for role, markers in spec.markers.items():
            by_class = [] if isinstance(markers, str) else list(markers)
            yield from _check_names(names, place, by_class)
            for word in _find_repeated(chain(*map(names.expand, by_class))):
                yield Problem(place, f"{word!r} has two markers as {role!r}; leave it one.")
        for feature in sorted(of_words & set(chain(*spec.adds.values()))):
            rule = "use a feature that only constructions add"
            yield Problem(place, f"`adds` gives {feature!r}, which some word has anyway; {rule}.")


def _check_shares(file: WorldFile, names: Names) -> Iterator[Problem]:
    """Check that probabilities of an action's constructions sum to 1, and no sentence is empty."""
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
    """Find words, roles and markers that no event uses.

    Without an enumeration (the world is too large) a word counts as used if any rule names it.
    """
    lexicon = grammar.lexicon
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
    markers = grammar.map_markers_to_words(grammar.constructions)
    for marker, words in markers.items():
        if not words:
            unused.append(("[markers]", f"no construction uses the marker {marker!r}"))
    told = range(len(grammar.constructions)) if enumerated is None else enumerated.construction
    heard = {grammar.constructions[n].noise for n in np.unique(told)}
    for name, spec in file.noise.items():
        if spec.probability > 0 and name not in heard:
            unused.append((f"[noise.{name}]", "nothing that is said can be struck by it"))
    return [report_unused(place, message) for place, message in unused]


def report_unused(place: str, message: str) -> Problem:
    """Describe a part that nothing uses."""
    return Problem(place, f"{message}; use it or remove it.")
