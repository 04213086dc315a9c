"""Checks of how events are put into words."""

from collections.abc import Iterator

from equivocal.errors import did_you_mean, join_names
from equivocal.world.errors import Problem
from equivocal.world.event_checks import SUM_TOLERANCE, repeated
from equivocal.world.names import Names, UnknownNameError
from equivocal.world.schema import ABSENT, ConstructionSpec, Rule, WorldFile

__all__ = ["constructions", "shares"]


def constructions(file: WorldFile, names: Names) -> Iterator[Problem]:
    """Every construction names known roles, markers and actions."""
    if not file.constructions:
        yield Problem("[[constructions]]", "there is no construction; add one with an `order`.")
    for name in repeated(spec.name for spec in file.constructions):
        yield Problem("[[constructions]]", f"duplicate construction {name!r}; rename one.")
    for spec in file.constructions:
        place = f"[[constructions]] {spec.name}"
        yield from _roles(file, spec, place)
        yield from _markers(file, names, spec, place)
        for action in spec.actions or ():
            if action not in file.actions:
                hint = did_you_mean(action, file.actions) or "; add an [actions] table for it."
                yield Problem(place, f"unknown action {action!r}{hint}")
        for feature in dict.fromkeys(f for features in spec.adds.values() for f in features):
            if any(feature in has for words in file.words.values() for has in words.values()):
                yield Problem(
                    place,
                    f"`adds` gives {feature!r}, which some word has anyway; use a feature that "
                    "only constructions add.",
                )
        for role, chance in spec.mentioned.items():
            if chance > 1:
                yield Problem(place, f"`mentioned` for {role!r} is {chance:g}; at most 1.")


def _markers(
    file: WorldFile, names: Names, spec: ConstructionSpec, place: str
) -> Iterator[Problem]:
    for role, given in spec.markers.items():
        by_class = {} if isinstance(given, str) else given
        for marker in dict.fromkeys([given] if isinstance(given, str) else given.values()):
            if marker not in file.markers:
                hint = did_you_mean(marker, file.markers) or "; add it to [markers]."
                yield Problem(place, f"unknown marker {marker!r}{hint}")
        words: list[str] = []
        for name in by_class:
            try:
                words += names.words_of(name, within=f" in `markers` of {role!r}")
            except UnknownNameError as error:
                yield Problem(place, str(error))
        for word in repeated(words):
            yield Problem(place, f"{word!r} has two markers as {role!r}; leave it one.")


def _roles(file: WorldFile, spec: ConstructionSpec, place: str) -> Iterator[Problem]:
    for role in repeated(spec.order):
        yield Problem(place, f"role {role!r} stands twice in `order`; once is enough.")
    for role in dict.fromkeys([*spec.order, *spec.mentioned, *spec.markers, *spec.adds]):
        if role not in file.roles:
            hint = did_you_mean(role, file.roles) or f"; roles are {join_names(file.roles)}."
            yield Problem(place, f"unknown role {role!r}{hint}")
    for key, roles in (("mentioned", spec.mentioned), ("markers", spec.markers)):
        for role in roles:
            if role in file.roles and role not in spec.order:
                yield Problem(
                    place, f"`{key}` speaks of role {role!r}, which is not in `order`; add it."
                )


def shares(file: WorldFile) -> Iterator[Problem]:
    """The constructions of each action have probabilities that sum to one, and say something."""
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
        always = {"action"} | {
            role
            for role, rules in action.roles.items()
            if not any(_may_be_absent(file, rule) for rule in rules)
        }
        for spec in fitting:
            said = {role for role in spec.order if spec.mentioned.get(role, 1.0) == 1.0}
            if not said & always:
                yield Problem(
                    f"[[constructions]] {spec.name}",
                    f"a sentence about action {name!r} may be empty; say the action, always.",
                )


def _may_be_absent(file: WorldFile, rule: Rule) -> bool:
    then = rule.then
    if isinstance(then, str):
        then = file.distributions.get(then, (then,))
    return ABSENT in then
