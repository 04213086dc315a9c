"""The outcome of an answer in two short lines; every wording is here.

First the reading: the action and the participants that are believed most together, different ones
for different roles. A reading is believed no more than its least believed part, so that part's
belief is its own. Early in a sentence only what is believed with some strength is part of it. Then
its rival: what word order says, if that is another reading, or else the
strongest other filler; where that is another participant, the two exchange their roles. Then what
is undecided: the most uncertain role, by the networks or by exact beliefs, and why it is uncertain.

A change of the wording is made in `web/static/summary.js` too, which is given the bounds below.
"""

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from equivocal.asking.answer import Answer, Belief

__all__ = ["format_percent", "summarise"]

RIVAL = 0.05  # a filler that is believed less, and less probable, is no rival
EARLY = 0.2  # a filler that is believed less is no part of a reading yet
SETTLED = 0.8  # a role whose best filler reaches this is decided
TRIED = 6  # fillers of each participant among which a reading is sought
MOSTLY = 2 / 3  # share of the epistemic doubt that makes it a doubt between or within networks

Reading = dict[str, "Belief"]


def summarise(answer: "Answer", position: int) -> str:
    """Return the reading after a word, its rival and what is undecided."""
    whole = _find_reading(answer, position)
    reading = {role: belief for role, belief in whole.items() if belief.bayes >= EARLY}
    if reading:
        rival = _describe_rival(answer, position, reading)
        begin = "Reads" if len(reading) == len(whole) else "Reads so far"
        first = f"{begin}: {_say(answer, reading)} ({_format_belief(reading, exact=not rival)})."
    else:
        first, rival = "Too early to say who does what.", ""
    second = _describe_undecided(answer, position)
    if answer.is_possible(position) is False:
        second += f" No event of the world {answer.world} is said this way."
    return f"{first}{rival}\n{second}"


def _find_reading(answer: "Answer", position: int) -> Reading:
    """Find the fillers of the participants and the action that are believed most together."""
    number = len(answer.participants)
    listed = [answer.beliefs(position, role, TRIED) for role in answer.participants]
    # more than the others can take away from a role need not be tried
    tried = [sorted(beliefs, key=lambda belief: -belief.bayes)[:number] for beliefs in listed]
    choices = [
        choice
        for choice in product(*tried)
        if len({belief.filler for belief in choice}) == len(choice)
    ]
    # the sum decides between readings that are as doubtful in their worst part
    best = max(
        choices, key=lambda choice: (min(b.bayes for b in choice), sum(b.bayes for b in choice))
    )
    reading = dict(zip(answer.participants, best, strict=True))
    if "action" in answer.roles:
        reading["action"] = answer.beliefs(position, "action", 1)[0]
    return reading


def _describe_rival(answer: "Answer", position: int, reading: Reading) -> str:
    """Name the reading that word order suggests, if it differs, or the best other filler."""
    heard = {part.word for part in answer.heard.constituents[: position + 1]}
    indicated = {
        role: answer.belief(position, role, word)
        for role, word in answer.indicated.items()
        if role in answer.participants and word in heard and answer.considers(role, word)
    }
    if any(b.filler != reading[role].filler for role, b in indicated.items() if role in reading):
        said = _say(
            answer, {role: b for role, b in reading.items() if role == "action"} | indicated
        )
        return f" Word order says {said} ({_format_belief(indicated, exact=True)})."
    others = [
        (max(belief.bayes, belief.truth or 0), role, belief)
        for role, read in reading.items()
        for belief in answer.beliefs(position, role)
        if belief.filler != read.filler
    ]
    strength, role, belief = max(others, key=lambda other: other[0])
    if strength < RIVAL:
        return ""
    for other, read in reading.items():
        if read.filler == belief.filler and {role, other} <= set(answer.participants):
            exchanged = {
                role: belief,
                other: answer.belief(position, other, reading[role].filler),
            }
            said = _say(answer, reading | exchanged)
            return f" Rival: {said} ({_format_belief(exchanged, exact=True)})."
    named = _name(answer, role, belief)
    return f" Rival {role}: {named} ({_format_belief({role: belief}, exact=True)})."


def _describe_undecided(answer: "Answer", position: int) -> str:
    """Name the role with the most doubt, and whether networks disagree or each is unsure."""
    r = int(np.maximum(answer.entropy[position], answer.true_entropy[position]).argmax())
    role = answer.roles[r]
    two = sorted(answer.beliefs(position, role), key=lambda belief: -belief.bayes)[:2]
    said = " or ".join(f"{b.filler} {format_percent(b.bayes)}" for b in two)
    exact = [format_percent(b.truth) for b in two if b.truth is not None]
    known = f" (exact: {' or '.join(exact)})" if exact else ""
    if two[0].bayes < SETTLED:
        return f"Undecided: the {role}, {said}{known}. {_locate_doubt(answer, position, r)}"
    if two[0].truth is not None and two[0].truth < SETTLED:
        return f"Too sure of the {role}: {said}{known}."
    return "Nothing is undecided."


def _locate_doubt(answer: "Answer", position: int, r: int) -> str:
    """Say where the doubt about a role lies: in what was said, within or between networks."""
    total, epistemic = float(answer.entropy[position, r]), float(answer.epistemic[position, r])
    if epistemic < total / 2:
        return "The words leave it open."
    number = len(answer.networks)
    if number < 2:
        return "The network is unsure of its weights."
    within = sum(float(one.epistemic[position, r]) for one in answer.networks) / number
    share = 1 - within / epistemic
    if share >= MOSTLY:
        return f"The {number} networks disagree."
    if share <= 1 - MOSTLY:
        return f"Each of the {number} networks is unsure of its weights."
    return f"The {number} networks disagree, and each is unsure of its weights."


def _say(answer: "Answer", reading: Reading) -> str:
    """Say who does what to whom; where there are other participants, their roles are named."""
    named = {role: _name(answer, role, belief) for role, belief in reading.items()}
    order = ("agent", "action", "patient")
    if set(named) <= set(order):
        return " ".join(named[role] for role in order if role in named)
    return ", ".join(f"{role} {filler}" for role, filler in named.items())


def _name(answer: "Answer", role: str, belief: "Belief") -> str:
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
