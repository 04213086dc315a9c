"""Everything that can be wrong with a world file whose shape is right (see `schema`).

`find_problems` reads the whole file and returns every problem, each with its table and its fix.
A new rule of the format is a new generator here, called in `find_problems`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter

from equivocal.errors import did_you_mean, listed
from equivocal.world.errors import Problem
from equivocal.world.names import Names, UnknownNameError
from equivocal.world.schema import ABSENT, ActionSpec, Rule, WorldFile, asked_roles
from equivocal.world.spelling import declared_spellings

__all__ = ["find_problems"]

SUM_TOLERANCE = 1e-6  # "0.333, 0.333, 0.334" is meant to be one; "0.33" three times is not


def find_problems(file: WorldFile) -> list[Problem]:
    """All problems of a world file, in the order of its tables."""
    names = Names(file)
    return [
        *_roles(file),
        *_duplicate_names(file),
        *_features(file),
        *_indistinct_words(file),
        *_groups(file, names),
        *_distributions(file, names),
        *_spellings(file, names),
        *_actions(file, names),
        *_constructions(file),
        *_construction_shares(file),
    ]


def _repeated(names: Iterable[str]) -> list[str]:
    return [name for name, times in Counter(names).items() if times > 1]


def _roles(file: WorldFile) -> Iterator[Problem]:
    for role in _repeated(file.roles):
        yield Problem("roles", f"duplicate role {role!r}; name each role once.")
    if "action" not in file.roles:
        yield Problem("roles", "there is no role 'action'; add it, since [actions] fills it.")


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
    if file.features is None:
        return
    for feature in _repeated(file.features):
        yield Problem("features", f"duplicate feature {feature!r}; list each feature once.")
    declared = set(file.features)
    for place, feature in used:
        if feature not in declared:
            hint = did_you_mean(feature, declared) or "; add it to `features`."
            yield Problem(place, f"unknown feature {feature!r}{hint}")
    unowned = declared - {feature for _, feature in used}
    for feature in sorted(unowned - set(file.unused_features)):
        yield Problem(
            "features",
            f"no word has the feature {feature!r}; give it to a word, remove it, "
            "or list it in `unused_features` to keep a silent unit.",
        )
    for feature in sorted(set(file.unused_features) - unowned):
        state = "is in use" if feature in declared else "is not listed in `features`"
        yield Problem("unused_features", f"feature {feature!r} {state}; remove it here.")


def _indistinct_words(file: WorldFile) -> Iterator[Problem]:
    seen: dict[frozenset[str], str] = {}
    for cls, words in file.words.items():
        for word, features in words.items():
            place = f"[words.{cls}] {word}"
            if not features:
                yield Problem(place, f"word {word!r} has no features; give it at least one.")
                continue
            if _repeated(features):
                yield Problem(place, f"feature {_repeated(features)[0]!r} is listed twice.")
            twin = seen.setdefault(frozenset(features), word)
            if twin != word:
                yield Problem(
                    place,
                    f"words {twin!r} and {word!r} have the same features, so no answer can tell "
                    "them apart; give one a feature of its own.",
                )


def _names_resolve(
    names: Names, place: str, wanted: Iterable[str], within: str
) -> Iterator[Problem]:
    for name in wanted:
        try:
            names.words_of(name, within=within)
        except UnknownNameError as error:
            yield Problem(place, str(error))


def _groups(file: WorldFile, names: Names) -> Iterator[Problem]:
    for group in file.groups:
        yield from _names_resolve(names, f"[groups] {group}", [group], f" in group {group!r}")


def _sums_to_one(place: str, chances: dict[str, float]) -> Iterator[Problem]:
    total = sum(chances.values())
    if abs(total - 1) > SUM_TOLERANCE:
        yield Problem(
            place,
            f"the probabilities sum to {total:.6g}, not 1; change them, or write fractions "
            "in quotes such as '1/3'.",
        )


def _distributions(file: WorldFile, names: Names) -> Iterator[Problem]:
    for name, chances in file.distributions.items():
        place = f"[distributions.{name}]"
        yield from _table_of_words(names, place, chances, f" in distribution {name!r}")


def _table_of_words(
    names: Names, place: str, chances: dict[str, float], within: str
) -> Iterator[Problem]:
    for word in chances:
        if word not in names.words and word != ABSENT:
            hint = did_you_mean(word, names.words) or "; add it to a [words] table."
            yield Problem(place, f"unknown word {word!r}{within}{hint}")
    yield from _sums_to_one(place, chances)


def _actions(file: WorldFile, names: Names) -> Iterator[Problem]:
    if not file.actions:
        yield Problem("[actions]", "there is no action; add at least one [actions.NAME] table.")
    for name, spec in file.actions.items():
        place = f"[actions.{name}]"
        yield from _names_resolve(names, place, [spec.action or name], f" as action {name!r}")
        for role, rules in spec.roles.items():
            if role not in file.roles or role == "action":
                known = [r for r in file.roles if r != "action"] + ["action", "weight"]
                hint = did_you_mean(role, known) or f"; roles are {listed(file.roles)}."
                yield Problem(place, f"unknown role {role!r} in action {name!r}{hint}")
            for rule in rules:
                place = f"[actions.{name}] {role}"
                yield from _fillers(file, names, rule, place, f" in action {name!r}")
                yield from _conditions(names, rule, spec, place, f" in action {name!r}")
        yield from _circular_rules(name, spec)


def _fillers(
    file: WorldFile, names: Names, rule: Rule, place: str, within: str
) -> Iterator[Problem]:
    if isinstance(rule.then, dict):
        yield from _table_of_words(names, place, rule.then, within)
    elif not (isinstance(rule.then, str) and rule.then in (*file.distributions, ABSENT)):
        wanted = [rule.then] if isinstance(rule.then, str) else rule.then
        if not wanted:
            yield Problem(place, f"no filler is listed{within}; name at least one word.")
        yield from _names_resolve(names, place, wanted, within)


def _conditions(
    names: Names, rule: Rule, spec: ActionSpec, place: str, within: str
) -> Iterator[Problem]:
    for other, wanted in rule.when.items():
        if other not in spec.roles:
            hint = did_you_mean(other, spec.roles) or f"; it fills {listed(spec.roles)}."
            yield Problem(place, f"`when` asks for role {other!r}, not filled{within}{hint}")
        yield from _names_resolve(names, place, [w for w in wanted if w != ABSENT], within)


def _circular_rules(action: str, spec: ActionSpec) -> Iterator[Problem]:
    asks = {role: asked_roles(rules) for role, rules in spec.roles.items()}
    try:
        TopologicalSorter(asks).prepare()
    except CycleError as error:
        circle = " → ".join(error.args[1])
        yield Problem(
            f"[actions.{action}]", f"the rules ask in a circle ({circle}); drop one `when`."
        )


def _constructions(file: WorldFile) -> Iterator[Problem]:
    if not file.constructions:
        yield Problem("[[constructions]]", "there is no construction; add one with an `order`.")
    for name in _repeated(spec.name for spec in file.constructions):
        yield Problem("[[constructions]]", f"duplicate construction {name!r}; rename one.")
    for spec in file.constructions:
        place = f"[[constructions]] {spec.name}"
        for role in _repeated(spec.order):
            yield Problem(place, f"role {role!r} stands twice in `order`; once is enough.")
        for role in [*spec.order, *spec.mentioned, *spec.markers, *spec.adds]:
            if role not in file.roles:
                hint = did_you_mean(role, file.roles) or f"; roles are {listed(file.roles)}."
                yield Problem(place, f"unknown role {role!r}{hint}")
        for marker in spec.markers.values():
            if marker not in file.markers:
                hint = did_you_mean(marker, file.markers) or "; add it to [markers]."
                yield Problem(place, f"unknown marker {marker!r}{hint}")
        for action in spec.actions or ():
            if action not in file.actions:
                hint = did_you_mean(action, file.actions) or "; add an [actions] table for it."
                yield Problem(place, f"unknown action {action!r}{hint}")
        for role, chance in spec.mentioned.items():
            if chance > 1:
                yield Problem(place, f"`mentioned` for {role!r} is {chance:g}; at most 1.")


def _construction_shares(file: WorldFile) -> Iterator[Problem]:
    for name, action in file.actions.items():
        fitting = [s for s in file.constructions if s.actions is None or name in s.actions]
        place = f"[actions.{name}]"
        if not fitting:
            yield Problem(place, f"no construction puts action {name!r} into words; add one.")
            continue
        total = sum(spec.probability or 0.0 for spec in fitting)
        takes_rest = any(spec.probability is None for spec in fitting)
        if total > 1 + SUM_TOLERANCE or (total < 1 - SUM_TOLERANCE and not takes_rest):
            yield Problem(
                place,
                f"the constructions of action {name!r} have probabilities that sum to {total:.6g}, "
                "not 1; change them, or leave `probability` out of one to take the rest.",
            )
        for spec in fitting:
            said = {r for r in spec.order if spec.mentioned.get(r, 1.0) == 1.0}
            if not said & {"action", *action.roles}:
                yield Problem(
                    f"[[constructions]] {spec.name}",
                    f"a sentence about action {name!r} may be empty; add 'action' to `order`.",
                )


def _spellings(file: WorldFile, names: Names) -> Iterator[Problem]:
    for table, keys in (("[verbs]", file.verbs), ("[forms]", file.forms)):
        for word in keys:
            if word not in names.words:
                hint = did_you_mean(word, names.words) or "; it is in no [words] table."
                yield Problem(table, f"unknown word {word!r}{hint}")
    owners: dict[str, str] = {}
    for spelling, word in declared_spellings(file):
        owner = owners.setdefault(spelling, word)
        if owner != word:
            yield Problem(
                "[forms]", f"{spelling!r} is a spelling of both {owner!r} and {word!r}; drop one."
            )
    for marker, spellings in file.markers.items():
        if not spellings:
            yield Problem("[markers]", f"marker {marker!r} has no spelling; give it one.")
