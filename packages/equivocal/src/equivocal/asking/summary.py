"""The outcome of an answer in short lines; every wording is here.

First the reading: the action and the participants that are believed most, each for itself, with the
belief in each part. Networks are asked one question for each role, so they give a reading as a
whole no probability; the world does, exactly. Only what is believed with some strength is part of a
reading, and where no word could be part of it yet, it is an expectation. Then its rival: the
reading that syntax indicates, verb included, if that differs, or else the strongest other filler;
where that is another participant, the two exchange their roles. Then what is undecided: of the
roles that are open, to the networks or in truth, the one whose beliefs are furthest from the truth
or, where that is unknown, the most uncertain. Last, where the doubt lies.

Change the wording in `static/summary.js` too; that file is given the bounds below.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from equivocal.asking.answer import Answer, Belief

__all__ = [
    "Reading",
    "describe_step",
    "find_readings",
    "format_percent",
    "summarise",
]

RIVAL = 0.05  # a filler whose belief and exact probability are both smaller is no rival
EARLY = 0.2  # a filler that is believed less is no part of a reading yet
SETTLED = 0.8  # a role whose best filler reaches this is decided
ORDER = ("agent", "action", "patient")  # roles whose fillers make a sentence

Parts = dict[str, "Belief"]


class Reading(NamedTuple):
    """Who does what to whom, by role."""

    kind: str  # "reading", or its rival: "syntax" or "rival"
    parts: "dict[str, Belief]"
    truth: float | None  # exact probability of all parts together; None where it is unknown


def summarise(answer: "Answer", position: int) -> str:
    """Return the reading after a word, its rival, what is undecided and where the doubt lies."""
    readings = find_readings(answer, position)
    lines = [_describe_reading(answer, position, *readings[:1])]
    if len(readings) > 1:
        lines.append(_describe_rival(answer, *readings))
    exact = [format_percent(one.truth, 1) for one in readings if one.truth is not None]
    if answer.is_possible(position) is False:
        lines.append(f"Impossible in the world {answer.world}.")
    elif exact:
        of_other = f", of the other {exact[1]}" if exact[1:] else ""
        lines.append(f"Exact probability of the reading {exact[0]}{of_other}.")
    lines += [_describe_undecided(answer, position), _describe_doubt(answer, position)]
    for describe in (_describe_ranges, _describe_warranted):
        lines += describe(answer, position, readings[0]) if readings else []
    return "\n".join(lines)


def find_readings(answer: "Answer", position: int) -> list[Reading]:
    """Find the reading after a word, and its rival if it has one."""
    best = {role: _find_best(answer, position, role) for role in _list_asked(answer)}
    parts = {role: belief for role, belief in best.items() if belief.bayes >= EARLY}
    if not parts:
        return []
    kinds = {"reading": parts, **_find_rival(answer, position, parts)}
    return [
        Reading(kind, each, _find_truth(answer, position, each)) for kind, each in kinds.items()
    ]


def _find_truth(answer: "Answer", position: int, parts: Parts) -> float | None:
    """Find the exact probability of all parts together."""
    if not answer.is_possible(position):
        return None
    fillers = {role: belief.filler for role, belief in parts.items()}
    return answer.find_joint(answer.heard.first(position + 1), fillers)


def _list_asked(answer: "Answer") -> list[str]:
    """List the roles of a reading: the participants, and the action if the world has one."""
    return [*answer.participants, *(role for role in ("action",) if role in answer.roles)]


def _find_best(answer: "Answer", position: int, role: str) -> "Belief":
    """Find the filler of a role that is believed most."""
    best = np.nanargmax(answer.bayes[position, answer.roles.index(role)])
    return answer.belief(position, role, answer.fillers[best])


def _find_rival(answer: "Answer", position: int, reading: Parts) -> dict[str, Parts]:
    """Find the reading that syntax indicates, if it differs, or one with the best other filler."""
    indicated = {
        role: answer.belief(position, role, word)
        for role in _list_asked(answer)
        if (word := answer.indicated.get(role, "")) in answer.said(position)
        and answer.considers(role, word)
    }
    if any(b.filler != reading[role].filler for role, b in indicated.items() if role in reading):
        return {"syntax": indicated}
    others = [
        (max(belief.bayes, belief.truth or 0), role, belief)
        for role, read in reading.items()
        for belief in answer.beliefs(position, role)
        if belief.filler != read.filler
    ]
    strength, role, belief = max(others, key=lambda other: other[0])
    if strength < RIVAL:
        return {}
    rival = reading | {role: belief}
    for other, read in reading.items():
        if read.filler == belief.filler and {role, other} <= set(answer.participants):
            rival[other] = answer.belief(position, other, reading[role].filler)
    return {"rival": rival}


def _describe_reading(answer: "Answer", position: int, found: Reading | None = None) -> str:
    """Say what is read, or expected where no word was heard that could be part of it."""
    if found is None:
        return "Too early to say who does what."
    roles = _list_asked(answer)
    done = len(found.parts) == len(roles) or position + 1 == len(answer.heard)
    heard = any(answer.considers(role, word) for role in roles for word in answer.said(position))
    begin = "Expects" if not heard else "Reads" if done else "Reads so far"
    named = [r for r, b in found.parts.items() if r != "action" or b.bayes < SETTLED]
    return f"{begin}: {_phrase(answer, found.parts, named or list(found.parts))}."


def _describe_rival(answer: "Answer", reading: Reading, rival: Reading) -> str:
    """Say what the rival is; beliefs are given for the parts in which it differs."""
    begin = "Syntax" if rival.kind == "syntax" else "Rival"
    named = [
        role
        for role, belief in rival.parts.items()
        if role not in reading.parts or reading.parts[role].filler != belief.filler
    ]
    return f"{begin}: {_phrase(answer, rival.parts, named)}."


def _phrase(answer: "Answer", parts: Parts, named: list[str]) -> str:
    """Say who does what to whom, with the beliefs in the named parts; all, where others take part.

    A verb is inflected, and a noun has its article where it does not depend on the noun.
    """
    shares = {r: f"{r} {b.filler} {format_percent(b.bayes)}" for r, b in parts.items()}
    if not set(parts) <= set(ORDER):
        return ", ".join(shares.values())
    words = {
        role: answer.verbs.get(belief.filler, belief.filler)
        if role == "action"
        else f"{answer.article}{belief.filler}"
        for role, belief in parts.items()
    }
    said = " ".join(words[role] for role in ORDER if role in words)
    return f"{said} ({', '.join(shares[role] for role in named)})"


def _describe_warranted(answer: "Answer", position: int, reading: Reading) -> list[str]:
    """Say what a learner who counted the same sentences believes, of the participants read."""
    said = []
    for role in (role for role in reading.parts if role in answer.participants):
        listed = answer.beliefs(position, role)
        known = [(b.filler, b.warranted) for b in listed if b.warranted is not None]
        filler, numbers = max(known, key=lambda one: round(one[1][0], 9), default=("", (0.0,)))
        if numbers[0] >= EARLY:
            belief, low, high = map(format_percent, numbers)
            spread = f" ({low} to {high})" if low != high else ""
            said.append(f"{role} {filler} {belief}{spread}")
    heard = f"{answer.warrant.sentences:,} sentences that they heard"
    return [f"Warranted by the {heard}: {', '.join(said)}."] if said else []


def _describe_undecided(answer: "Answer", position: int) -> str:
    """Name the open role that is furthest from the truth, with its two fillers that matter."""
    open_roles = {
        role: two
        for role in answer.roles
        if _is_open(two := _choose_two(answer.beliefs(position, role)))
    }
    if not open_roles:
        return "Nothing is undecided."

    def rank(role: str) -> tuple[float, float]:
        r = answer.roles.index(role)
        gaps = [abs(b.bayes - b.truth) for b in open_roles[role] if b.truth is not None]
        return max(gaps, default=0.0), float(answer.entropy[position, r])

    role = max(open_roles, key=rank)
    two = open_roles[role]
    begin = "Undecided" if two[0].bayes < SETTLED else "Too sure of the"
    said = " or ".join(f"{b.filler} {format_percent(b.bayes)}" for b in two)
    exact = [format_percent(b.truth, 1) for b in two if b.truth is not None]
    known = f" (exact: {' or '.join(exact)})" if exact else ""
    return f"{begin} {role}: {said}{known}."


def _choose_two(beliefs: list["Belief"]) -> list["Belief"]:
    """Return the filler believed most, and the likeliest in truth or else the next in belief."""
    first, *others = sorted(beliefs, key=lambda belief: -belief.bayes)
    likely = max(beliefs, key=lambda belief: belief.truth or 0)
    if likely is not first and likely.truth:
        return [first, likely]
    return [first, *others[:1]]


def _is_open(two: list["Belief"]) -> bool:
    """Return whether a role is undecided: to the networks, in truth, or because they err."""
    first = two[0]
    return first.bayes < SETTLED or (first.truth is not None and first.truth < SETTLED)


def _describe_doubt(answer: "Answer", position: int) -> str:
    """Say how much of the doubt after a word lies in the words, between networks and within each.

    One network's last layers say nothing about other networks.
    """
    number, total = len(answer.networks), float(answer.uncertainty[position])
    epistemic, between = float(answer.epistemic_share[position]), 0.0
    if number > 1 and total > 0:
        between = min(float(answer.between[position]) / total, epistemic)
    words, within = format_percent(1 - epistemic), format_percent(epistemic - between)
    if number > 1:
        apart = f"{format_percent(between)} between the {number} networks"
        return f"Doubt: {words} in the words, {apart}, {within} within each."
    return f"Doubt: {words} in the words, {within} within the network; only one was asked."


def _describe_ranges(answer: "Answer", position: int, reading: Reading) -> list[str]:
    """Say between which beliefs single networks lie, for each participant of the reading."""
    if len(answer.networks) < 2:
        return []
    ranges = []
    for role in (role for role in reading.parts if role != "action"):
        filler = reading.parts[role].filler
        alone = [one.belief(position, role, filler).bayes for one in answer.networks]
        ends = dict.fromkeys(map(format_percent, (min(alone), max(alone))))
        ranges.append(f"{role} {filler} {' to '.join(ends)}")
    return [f"Networks alone: {', '.join(ranges)}."] if ranges else []


def describe_step(step: int | str, time: float | None) -> str:
    """Name a step of the sampler with its time τ, if that is known.

    >>> describe_step(17, 0.0011067), describe_step("converged", None)
    ('step 17 (τ = 0.0011)', 'converged')
    """
    if time is None:
        return str(step) if isinstance(step, str) else f"step {step}"
    return f"step {step} (τ = {time:.2g})"


def format_percent(value: float, digits: int = 0) -> str:
    """Format a probability; a logistic unit is never quite certain, so none is 100 %.

    >>> [format_percent(value) for value in (0.5, 0.0004, 0.99995, 0.0, 1.0)]
    ['50 %', '0.04 %', '> 99.9 %', '0 %', '> 99.9 %']
    >>> format_percent(0.4771, digits=1)
    '47.7 %'
    """
    if value == 0:
        return "0 %"
    if value < 0.0001:
        return "< 0.01 %"
    if value > 0.999:
        return "> 99.9 %"
    shown = ".2g" if value < 0.01 else ".1f" if value > 0.99 else f".{digits}f"
    return f"{100 * value:{shown}} %"
