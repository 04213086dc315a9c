"""Checks of what can happen: groups, distributions, actions and their rules."""

from collections import Counter
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter

from equivocal.errors import did_you_mean, join_names
from equivocal.world.errors import Problem
from equivocal.world.names import Names, UnknownNameError
from equivocal.world.schema import ABSENT, ActionSpec, Rule, WorldFile, asked_roles

__all__ = ["SUM_TOLERANCE", "actions", "distributions", "groups", "repeated"]

SUM_TOLERANCE = 1e-6  # "0.333, 0.333, 0.334" is meant to be one; "0.33" three times is not


def repeated(names: Iterable[str]) -> list[str]:
    """Names that occur more than once."""
    return [name for name, times in Counter(names).items() if times > 1]


def groups(file: WorldFile, names: Names) -> Iterator[Problem]:
    """Every group stands for known words."""
    for group in file.groups:
        yield from _names_resolve(names, f"[groups] {group}", [group], f" in group {group!r}")


def distributions(file: WorldFile, names: Names) -> Iterator[Problem]:
    """Every named distribution is over words and sums to one."""
    for name, chances in file.distributions.items():
        place = f"[distributions.{name}]"
        yield from _table_of_words(names, place, chances, f" in distribution {name!r}")


def actions(file: WorldFile, names: Names) -> Iterator[Problem]:
    """Every action is a word, fills known roles, and its rules can be followed."""
    if not file.actions:
        yield Problem("[actions]", "there is no action; add at least one [actions.NAME] table.")
    for name, spec in file.actions.items():
        word = spec.action or name
        if names.is_collection(word):
            yield Problem(f"[actions.{name}]", f"{word!r} is not a single word; name the action.")
        elif word not in names.words:
            hint = did_you_mean(word, names.words) or "; add it to a [words] table."
            yield Problem(f"[actions.{name}]", f"unknown word {word!r} as action {name!r}{hint}")
        for role, rules in spec.roles.items():
            if role not in file.roles:
                known = [*file.roles, "weight"]
                hint = did_you_mean(role, known) or f"; roles are {join_names(file.roles)}."
                yield Problem(
                    f"[actions.{name}]", f"unknown role {role!r} in action {name!r}{hint}"
                )
            yield from _rules(file, names, name, role)
            never = [index for index, rule in enumerate(rules[:-1]) if not rule.when]
            if never:
                yield Problem(
                    f"[actions.{name}] {role}",
                    f"rule {never[0] + 1} has no `when`, so the rules after it are never used; "
                    "move it to the end.",
                )
        yield from _circular_rules(name, spec)


def _rules(file: WorldFile, names: Names, action: str, role: str) -> Iterator[Problem]:
    place, within = f"[actions.{action}] {role}", f" in action {action!r}"
    spec = file.actions[action]
    for rule in spec.roles[role]:
        if isinstance(rule.then, dict):
            yield from _table_of_words(names, place, rule.then, within)
        elif not (isinstance(rule.then, str) and rule.then in file.distributions):
            wanted = [rule.then] if isinstance(rule.then, str) else rule.then
            if not wanted:
                yield Problem(place, f"no filler is listed{within}; name at least one word.")
            yield from _names_resolve(names, place, wanted, within)
        yield from _conditions(names, rule, spec, place, within)


def _conditions(
    names: Names, rule: Rule, spec: ActionSpec, place: str, within: str
) -> Iterator[Problem]:
    for other, wanted in rule.when.items():
        if other == "action":
            yield Problem(place, f"`when` asks for the action, always the same{within}; drop it.")
        elif other not in spec.roles:
            hint = did_you_mean(other, spec.roles) or f"; it fills {join_names(spec.roles)}."
            yield Problem(place, f"`when` asks for role {other!r}, not filled{within}{hint}")
        if not wanted:
            yield Problem(place, f"`when` names no {other}{within}; name at least one.")
        yield from _names_resolve(names, place, wanted, within)


def _circular_rules(action: str, spec: ActionSpec) -> Iterator[Problem]:
    asks = {role: asked_roles(rules) for role, rules in spec.roles.items()}
    try:
        TopologicalSorter(asks).prepare()
    except CycleError as error:
        circle = " → ".join(error.args[1])
        yield Problem(
            f"[actions.{action}]", f"the rules ask in a circle ({circle}); drop one `when`."
        )


def _names_resolve(
    names: Names, place: str, wanted: Iterable[str], within: str
) -> Iterator[Problem]:
    for name in wanted:
        if name == ABSENT:
            continue
        try:
            if not names.words_of(name, within=within):
                yield Problem(place, f"{name!r} stands for no word{within}; give it one.")
        except UnknownNameError as error:
            yield Problem(place, str(error))


def _table_of_words(
    names: Names, place: str, chances: dict[str, float], within: str
) -> Iterator[Problem]:
    for word in chances:
        if word in names.words or word == ABSENT:
            continue
        if names.is_collection(word):
            yield Problem(
                place, f"{word!r} is not a single word{within}; give each of its words a number."
            )
        else:
            hint = did_you_mean(word, names.words) or "; add it to a [words] table."
            yield Problem(place, f"unknown word {word!r}{within}{hint}")
    total = sum(chances.values())
    if abs(total - 1) > SUM_TOLERANCE:
        yield Problem(
            place,
            f"the probabilities sum to {total:.6g}, not 1; change them, or write fractions "
            "in quotes such as '1/3'.",
        )
