"""The outcome of an answer in two short lines; every wording is here.

First the reading: for the action and each participant the filler believed most, the participants
different ones. A reading is believed no more than its least believed part, so that part's belief is
its own. Then its rival: what word order says, if that is another reading, or else the strongest
other filler. Then what is undecided: the role with the most doubt, and where that doubt lies.
"""

from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from equivocal.asking.answer import Answer, Belief

__all__ = ["format_percent", "summarise"]

RIVAL = 0.05  # a filler that is believed less, and less probable, is no rival
SETTLED = 0.8  # a role whose best filler reaches this is decided
TRIED = 6  # fillers of each participant among which a reading is sought
MOSTLY = 2 / 3  # share of the epistemic doubt that makes it a doubt between or within networks

Reading = dict[str, "Belief"]


def summarise(answer: "Answer", position: int = -1) -> str:
    """Return the reading after a word, its rival and what is undecided."""
    position = position % len(answer.heard)
    reading = _find_reading(answer, position)
    first = f"Reads: {_say(answer, reading)} ({_percent(reading)})."
    if rival := _describe_rival(answer, position, reading):
        first += f" {rival}"
    second = _describe_undecided(answer, position)
    if answer.is_possible(position) is False:
        second += f" No event of the world {answer.world} is said this way."
    return f"{first}\n{second}"


def _find_reading(answer: "Answer", position: int) -> Reading:
    """Find the fillers of the action and the participants that are believed most together."""
    best = {role: answer.beliefs(position, role, TRIED) for role in answer.participants}
    combined = [
        dict(zip(best, choice, strict=True))
        for choice in product(*best.values())
        if len({belief.filler for belief in choice}) == len(choice)
    ]
    # the sum decides between readings that are as doubtful in their worst part
    reading = max(combined, key=lambda read: (_get_belief(read), sum(b.bayes for b in read.values())))
    if "action" in answer.roles:
        reading["action"] = answer.beliefs(position, "action", 1)[0]
    return reading


def _get_belief(reading: Reading) -> float:
    return min(belief.bayes for belief in reading.values())


def _describe_rival(answer: "Answer", position: int, reading: Reading) -> str:
    """Name what word order says where it says something else, or the best other filler."""
    heard = {part.word for part in answer.heard.constituents[: position + 1]}
    indicated = {
        role: answer.belief(position, role, word)
        for role, word in answer.indicate(position).items()
        if role in answer.participants and word in heard and answer.considers(role, word)
    }
    if any(belief.filler != reading[role].filler for role, belief in indicated.items()):
        whole = {**indicated}
        if "action" in reading:
            whole["action"] = reading["action"]
        only = {role: b for role, b in whole.items() if role in indicated}
        return f"Word order says {_say(answer, whole)} ({_percent(only, exact=True)})."
    others = [
        (max(belief.bayes, belief.truth or 0), role, belief)
        for role, read in reading.items()
        for belief in answer.beliefs(position, role)
        if belief.filler != read.filler
    ]
    if not others:
        return ""
    strength, role, belief = max(others, key=lambda other: other[0])
    if strength < RIVAL:
        return ""
    return f"Rival: {_name(role, belief)} as {role} ({_percent({role: belief}, exact=True)})."


def _describe_undecided(answer: "Answer", position: int) -> str:
    """Name the role with the most doubt, and whether networks disagree or each is unsure."""
    r = int(answer.entropy[position].argmax())
    role = answer.roles[r]
    first, *others = answer.beliefs(position, role, 2)[:2]
    if first.bayes >= SETTLED and (first.truth is None or first.truth >= SETTLED):
        return "Nothing is undecided."
    said = " or ".join(f"{b.filler} {format_percent(b.bayes)}" for b in (first, *others))
    exact = [format_percent(b.truth) for b in (first, *others) if b.truth is not None]
    known = f" (exact: {' or '.join(exact)})" if exact else ""
    return f"Undecided: the {role}, {said}{known}. {_locate_doubt(answer, position, r)}"


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
    """Say who does what to whom; roles without such an order are named."""
    named = {role: _name(role, belief) for role, belief in reading.items()}
    if "action" in named:
        named["action"] = answer.verbs.get(named["action"], named["action"])
    if {"agent", "action", "patient"} >= set(named):
        order = [named[role] for role in ("agent", "action", "patient") if role in named]
        return " ".join(order)
    return ", ".join(f"{role} {filler}" for role, filler in named.items())


def _name(role: str, belief: "Belief") -> str:
    return belief.filler if role == "action" else f"the {belief.filler}"


def _percent(reading: Reading, *, exact: bool = False) -> str:
    """Format the belief in a reading, and its exact probability where it is known."""
    believed = format_percent(_get_belief(reading))
    truths = [belief.truth for belief in reading.values()]
    known = [truth for truth in truths if truth is not None]
    if not exact or len(known) < len(truths):
        return believed
    return f"{believed}; exact: {format_percent(min(known), digits=1)}"


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
