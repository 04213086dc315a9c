"""Checks of a world file: what can happen (groups, actions, rules), and how it is told.

Each check is a generator of `Problem`s, called in `equivocal.world.checks`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter

from equivocal.errors import did_you_mean, join_names
from equivocal.world.errors import Problem
from equivocal.world.names import Names, UnknownNameError
from equivocal.world.schema import ABSENT, ConstructionSpec, Rule, WorldFile, list_asked_roles

SUM_TOLERANCE = 1e-6  # "0.333, 0.333, 0.334" is meant to be one; "0.33" three times is not


def find_repeated(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once."""
    return [name for name, times in Counter(names).items() if times > 1]


def check_known(
    place: str, what: str, names: Iterable[str], known: Iterable[str], otherwise: str
) -> Iterator[Problem]:
    """Check that names are known; for one that is not, propose the nearest or say otherwise.

    `what` may have a place for the name: "role {} in action 'eat'".
    """
    what = what if "{}" in what else f"{what} {{}}"
    for name in dict.fromkeys(names):
        if name not in known:
            hint = did_you_mean(name, known) or f"; {otherwise}"
            yield Problem(place, f"unknown {what.format(repr(name))}{hint}")


def check_groups(file: WorldFile, names: Names) -> Iterator[Problem]:
    """Check that groups stand for known words, and that distributions are over words."""
    for group in file.groups:
        yield from _check_names(names, f"[groups] {group}", [group], f" in group {group!r}")
    for name, chances in file.distributions.items():
        within = f" in distribution {name!r}"
        yield from _check_distribution(names, f"[distributions.{name}]", chances, within)


def check_actions(file: WorldFile, names: Names) -> Iterator[Problem]:
    """Check that every action is a word, fills known roles, and has rules that can be followed."""
    roles = f"roles are {join_names(file.roles)}."
    for name, spec in file.actions.items():
        word, place, within = spec.action or name, f"[actions.{name}]", f" in action {name!r}"
        if names.is_collection(word):
            yield Problem(place, f"{word!r} is not a single word; name the action.")
        else:
            what = f"word {{}} as action {name!r}"
            yield from check_known(place, what, [word], names.words, "add it to a [words] table.")
        known = dict.fromkeys([*file.roles, "weight"])
        yield from check_known(place, f"role {{}}{within}", spec.roles, known, roles)
        for role, rules in spec.roles.items():
            for number, rule in enumerate(rules, start=1):
                yield from _check_rule(file, names, rule, f"{place} {role}", within)
                yield from _check_conditions(names, rule, spec.roles, f"{place} {role}", within)
                if not rule.when and number < len(rules):
                    yield Problem(
                        f"{place} {role}",
                        f"rule {number} has no `when`, so the rules after it are never used; "
                        "move it to the end.",
                    )
        try:
            asks = {role: list_asked_roles(rules) for role, rules in spec.roles.items()}
            TopologicalSorter(asks).prepare()
        except CycleError as error:
            circle = " → ".join(error.args[1])
            yield Problem(place, f"the rules ask in a circle ({circle}); drop one `when`.")


def _check_rule(
    file: WorldFile, names: Names, rule: Rule, place: str, within: str
) -> Iterator[Problem]:
    """Check that what a rule gives a role are words."""
    if isinstance(rule.then, dict):
        yield from _check_distribution(names, place, rule.then, within)
    elif not isinstance(rule.then, str):
        yield from _check_names(names, place, rule.then, within)
    elif rule.then not in file.distributions:
        yield from _check_names(names, place, [rule.then], within)


def _check_conditions(
    names: Names, rule: Rule, filled: Iterable[str], place: str, within: str
) -> Iterator[Problem]:
    """Check that a rule asks for words in roles that the action fills."""
    for role, wanted in rule.when.items():
        if role == "action":
            yield Problem(place, f"`when` asks for the action, always the same{within}; drop it.")
        elif role not in filled:
            hint = did_you_mean(role, filled) or f"; it fills {join_names(filled)}."
            yield Problem(place, f"`when` asks for role {role!r}, not filled{within}{hint}")
        yield from _check_names(names, place, wanted, within)


def _check_names(names: Names, place: str, wanted: Iterable[str], within: str) -> Iterator[Problem]:
    """Check that words, classes and groups stand for at least one word each."""
    for name in wanted:
        try:
            if name != ABSENT and not names.expand(name, within=within):
                yield Problem(place, f"{name!r} stands for no word{within}; give it one.")
        except UnknownNameError as error:
            yield Problem(place, str(error))


def _check_distribution(
    names: Names, place: str, chances: dict[str, float], within: str
) -> Iterator[Problem]:
    """Check that probabilities belong to single words and sum to one."""
    groups = [word for word in chances if names.is_collection(word)]
    for word in groups:
        message = f"{word!r} is not a single word{within}; give each of its words a number."
        yield Problem(place, message)
    words = (word for word in chances if word not in groups and word != ABSENT)
    what = f"word {{}}{within}"
    yield from check_known(place, what, words, names.words, "add it to a [words] table.")
    total = sum(chances.values())
    if abs(total - 1) > SUM_TOLERANCE:
        yield Problem(
            place,
            f"the probabilities sum to {total:.6g}, not 1; change them, or write fractions "
            "in quotes such as '1/3'.",
        )


def check_constructions(file: WorldFile, names: Names) -> Iterator[Problem]:
    """Check that every construction names known roles, markers, actions and features."""
    for name in find_repeated(spec.name for spec in file.constructions):
        yield Problem("[[constructions]]", f"duplicate construction {name!r}; rename one.")
    of_words = {f for words in file.words.values() for features in words.values() for f in features}
    roles, actions = f"roles are {join_names(file.roles)}.", "add an [actions] table for it."
    for spec in file.constructions:
        place = f"[[constructions]] {spec.name}"
        for role in find_repeated(spec.order):
            yield Problem(place, f"role {role!r} stands twice in `order`; once is enough.")
        named = [*spec.order, *spec.mentioned, *spec.markers, *spec.adds]
        yield from check_known(place, "role", named, file.roles, roles)
        for key, of_key in (("mentioned", spec.mentioned), ("markers", spec.markers)):
            for role in of_key:
                if role in file.roles and role not in spec.order:
                    message = f"`{key}` speaks of role {role!r}, which is not in `order`; add it."
                    yield Problem(place, message)
        yield from _check_markers(file, names, spec, place)
        yield from check_known(place, "action", spec.actions or (), file.actions, actions)
        for feature in dict.fromkeys(f for features in spec.adds.values() for f in features):
            if feature in of_words:
                yield Problem(
                    place,
                    f"`adds` gives {feature!r}, which some word has anyway; use a feature that "
                    "only constructions add.",
                )


def _check_markers(
    file: WorldFile, names: Names, spec: ConstructionSpec, place: str
) -> Iterator[Problem]:
    """Check that markers are known, and that no word has two in one role."""
    for role, given in spec.markers.items():
        markers = [given] if isinstance(given, str) else given.values()
        yield from check_known(place, "marker", markers, file.markers, "add it to [markers].")
        words: list[str] = []
        for name in () if isinstance(given, str) else given:
            try:
                words += names.expand(name, within=f" in `markers` of {role!r}")
            except UnknownNameError as error:
                yield Problem(place, str(error))
        for word in find_repeated(words):
            yield Problem(place, f"{word!r} has two markers as {role!r}; leave it one.")


def check_shares(file: WorldFile) -> Iterator[Problem]:
    """Check that each action's constructions have probabilities that sum to one and say a word."""
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
        always = {"action"}
        for role, rules in action.roles.items():
            if not any(_may_be_absent(file, rule) for rule in rules):
                always.add(role)
        for spec in fitting:
            if not any(role in always and spec.mentioned.get(role, 1) == 1 for role in spec.order):
                yield Problem(
                    f"[[constructions]] {spec.name}",
                    f"a sentence about action {name!r} may be empty; say the action, always.",
                )


def _may_be_absent(file: WorldFile, rule: Rule) -> bool:
    then = rule.then
    return ABSENT in (file.distributions.get(then, (then,)) if isinstance(then, str) else then)
