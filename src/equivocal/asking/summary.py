"""The outcome of an answer in two short lines; every wording is here.

First the reading: the action and the participants that are believed most together, different ones
for different roles. A reading is believed no more than its least believed part, so that part's
belief is its own. Early in a sentence only what is believed with some strength is part of it, and
where no word could be part of it yet, it is an expectation. Then its rival: the reading that syntax
indicates, if that differs, or else the strongest other filler; where that is another participant,
the two exchange their roles. Then what is undecided: of the roles that are open, to the networks or
in truth, the one whose beliefs are furthest from the truth or, where that is unknown, the most
uncertain. Shorter wordings replace those that would not fit into a line of a terminal.

Change the wording in `web/static/summary.js` too; that file is given the bounds below.
"""

import re
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from equivocal.asking.answer import Answer, Belief

__all__ = ["describe_doubt", "format_percent", "summarise"]

RIVAL = 0.05  # a filler whose belief and exact probability are both smaller is no rival
EARLY = 0.2  # a filler that is believed less is no part of a reading yet
SETTLED = 0.8  # a role whose best filler reaches this is decided
TRIED = 6  # fillers of each participant among which a reading is sought
WIDTH = 80  # characters of a line

Reading = dict[str, "Belief"]


def summarise(answer: "Answer", position: int) -> str:
    """Return the reading after a word, its rival and what is undecided."""
    whole = _find_reading(answer, position)
    reading = {role: belief for role, belief in whole.items() if belief.bayes >= EARLY}
    if reading:
        rivals = _describe_rival(answer, position, reading)
        begin = "Reads" if len(reading) == len(whole) else "Reads so far"
        said = answer.said[position]
        if not any(answer.considers(role, word) for role in whole for word in said):
            begin = "Expects"
        believed = _format_belief(reading, exact=not rivals)
        first = _fit_line(f"{begin}: {_phrase_reading(answer, reading)} ({believed}).", rivals)
    else:
        first = "Too early to say who does what."
    second = _fit_line("", _describe_undecided(answer, position))
    if answer.is_possible(position) is False:
        second = _fit_line(second, [f" Impossible in the world {answer.world}.", " Impossible."])
    return f"{first}\n{second}"


def _fit_line(begin: str, wordings: list[str]) -> str:
    """Return the beginning of a line with the first wording that fits, or else with the last."""
    lines = [begin + wording for wording in wordings] or [begin]
    return next((line for line in lines if len(line) <= WIDTH), lines[-1])


def _find_reading(answer: "Answer", position: int) -> Reading:
    """Find the fillers of the participants and the action that are believed most together."""
    number = len(answer.participants)
    listed = [answer.beliefs(position, role, TRIED) for role in answer.participants]
    # the other participants can take at most one filler each away from a role
    tried = [sorted(beliefs, key=lambda belief: -belief.bayes)[:number] for beliefs in listed]
    choices = [
        choice
        for choice in product(*tried)
        if len({belief.filler for belief in choice}) == len(choice)
    ]
    # the sum decides between readings whose worst parts are equally doubtful
    best = max(
        choices, key=lambda choice: (min(b.bayes for b in choice), sum(b.bayes for b in choice))
    )
    reading = dict(zip(answer.participants, best, strict=True))
    if "action" in answer.roles:
        reading["action"] = answer.beliefs(position, "action", 1)[0]
    return reading


def _describe_rival(answer: "Answer", position: int, reading: Reading) -> list[str]:
    """Name the reading that syntax indicates, if it differs, or the best other filler.

    Shorter wordings follow longer ones; there are none where there is no rival.
    """
    heard = {part.word for part in answer.heard.constituents[: position + 1]}
    indicated = {
        role: answer.belief(position, role, word)
        for role, word in answer.indicated.items()
        if role in answer.participants and word in heard and answer.considers(role, word)
    }
    if any(b.filler != reading[role].filler for role, b in indicated.items() if role in reading):
        action = {role: b for role, b in reading.items() if role == "action"}
        said = _phrase_reading(answer, action | indicated)
        bare = re.sub(r"\bthe ", "", said)
        believed = _format_belief(indicated, exact=False)
        swapped = {b.filler for b in indicated.values()} == {
            reading[role].filler for role in indicated if role in reading
        }
        return [
            f" Syntax: {said} ({_format_belief(indicated, exact=True)}).",
            f" Syntax: {bare} ({believed}).",
            *([f" Syntax: the reverse ({believed})."] if swapped else []),
            f" Syntax differs ({believed}).",
        ]
    others = [
        (max(belief.bayes, belief.truth or 0), role, belief)
        for role, read in reading.items()
        for belief in answer.beliefs(position, role)
        if belief.filler != read.filler
    ]
    strength, role, belief = max(others, key=lambda other: other[0])
    if strength < RIVAL:
        return []
    rival, name, brief = (
        {role: belief},
        f" {role}: {_phrase_filler(answer, role, belief)}",
        belief.filler,
    )
    for other, read in reading.items():
        if read.filler == belief.filler and {role, other} <= set(answer.participants):
            rival[other] = answer.belief(position, other, reading[role].filler)
            name, brief = f": {_phrase_reading(answer, reading | rival)}", "the reverse"
    believed = _format_belief(rival, exact=False)
    return [
        f" Rival{name} ({_format_belief(rival, exact=True)}).",
        f" Rival{name} ({believed}).",
        f" Rival: {brief} ({believed}).",
    ]


def _describe_undecided(answer: "Answer", position: int) -> list[str]:
    """Name the open role that is furthest from the truth, with its two fillers that matter.

    Shorter wordings give exact probabilities with fewer digits; the shortest names one filler.
    """
    open_roles = {
        role: two
        for role in answer.roles
        if _is_open(two := _choose_two(answer.beliefs(position, role)))
    }
    if not open_roles:
        return ["Nothing is undecided."]

    def rank(role: str) -> tuple[float, float]:
        r = answer.roles.index(role)
        gaps = [abs(b.bayes - b.truth) for b in open_roles[role] if b.truth is not None]
        return max(gaps, default=0.0), float(answer.entropy[position, r])

    role = max(open_roles, key=rank)
    two = open_roles[role]
    begin = "Undecided" if two[0].bayes < SETTLED else "Too sure of the"

    def word(digits: int, named: list["Belief"]) -> str:
        said = " or ".join(f"{b.filler} {format_percent(b.bayes)}" for b in named)
        exact = [format_percent(b.truth, digits) for b in named if b.truth is not None]
        known = f" (exact: {' or '.join(exact)})" if exact else ""
        return f"{begin} {role}: {said}{known}."

    return [word(1, two), word(0, two), word(0, two[:1])]


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


def describe_doubt(answer: "Answer", position: int = -1) -> str:
    """Say how much of the doubt after a word lies in the words, between networks and within each.

    One network's last layers say nothing about other networks.

    Parameters
    ----------
    answer : Answer
        The answer of several networks, or of one.
    position : int
        Position of the word, from 0; -1 is the last.
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


def _phrase_reading(answer: "Answer", reading: Reading) -> str:
    """Say who does what to whom; where other roles take part, all roles are named."""
    named = {role: _phrase_filler(answer, role, belief) for role, belief in reading.items()}
    order = ("agent", "action", "patient")
    if set(named) <= set(order):
        return " ".join(named[role] for role in order if role in named)
    return ", ".join(f"{role} {filler}" for role, filler in named.items())


def _phrase_filler(answer: "Answer", role: str, belief: "Belief") -> str:
    """Return a filler as part of a sentence: a verb inflected, a noun with its article."""
    if role == "action":
        return answer.verbs.get(belief.filler, belief.filler)
    return f"the {belief.filler}"


def _format_belief(reading: Reading, *, exact: bool) -> str:
    """Format the belief in a reading, with its exact probability where that is known and wanted."""
    believed = format_percent(min(belief.bayes for belief in reading.values()))
    truths = [belief.truth for belief in reading.values() if belief.truth is not None]
    if not exact or len(truths) < len(reading):
        return believed
    return f"{believed}; exact: {format_percent(min(truths), digits=1)}"


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
