"""The outcome of an answer in a few plain sentences; every wording is here."""

from equivocal.asking.answer import Answer, Belief
from equivocal.asking.beliefs import LEVEL

__all__ = ["format_percent", "summarise"]

BELIEVED = 0.5  # a filler below this is no reading
AGREES, PARTLY = 0.1, 0.35  # epistemic share of the uncertainty


def summarise(answer: Answer) -> str:
    """Return the final reading, where word order contradicts it, and how uncertain it is."""
    last = len(answer.heard) - 1
    roles = [role for role in answer.roles if role in (*answer.participants, "action")]
    best = {role: answer.beliefs(last, role, top=1)[0] for role in roles}
    read = {role: belief for role, belief in best.items() if belief.bayes >= BELIEVED}
    sentences = [
        _describe_reading(read),
        *_describe_conflict(answer, read),
        _describe_doubt(float(answer.epistemic_share[last])),
    ]
    if answer.is_possible(last) is False:
        sentences.append(f"No event of the world {answer.world} is described this way.")
    return " ".join(sentences)


def _describe_reading(read: dict[str, Belief]) -> str:
    if not read:
        return "The model settles on no reading: no filler of any role reaches 50 %."
    parts = [
        f"{'the ' if role != 'action' else ''}{belief.filler} as {role} "
        f"({format_percent(belief.mle)} trained, {format_percent(belief.bayes)} Bayesian)"
        for role, belief in read.items()
    ]
    return f"The model reads {_join(parts)}."


def _describe_conflict(answer: Answer, read: dict[str, Belief]) -> list[str]:
    """Return a sentence on roles that word order fills otherwise, if there are any."""
    other = {
        role: answer.belief(-1, role, word)
        for role, word in answer.indicated.items()
        if role in answer.participants
        and (role not in read or read[role].filler != word)
        and answer.considers(role, word)
    }
    if not other:
        return []
    made = _join([f"the {belief.filler} the {role}" for role, belief in other.items()])
    given = [_describe_belief(belief) for belief in other.values()]
    if len(given) == 1:
        return [f"Word order makes {made}, but the model gives that reading {given[0]}."]
    each = f"{given[0]} each" if len(set(given)) == 1 else _join(given)
    return [f"Word order makes {made}, but the model gives these readings {each}."]


def _describe_belief(belief: Belief) -> str:
    """Return a belief with its interval, such as "1 % (90 % interval 0.2 % to 4 %; …)"."""
    bayes, low, high, mle = (
        format_percent(value).replace("<", "less than").replace(">", "more than")
        for value in (belief.bayes, belief.low, belief.high, belief.mle)
    )
    if low == high == bayes == mle:
        return bayes
    interval = low if low == high else f"{low} to {high}"
    return f"{bayes} ({100 * LEVEL:.0f} % interval {interval}; trained network {mle})"


def _describe_doubt(share: float) -> str:
    verb = "agrees" if share < AGREES else "partly agrees" if share < PARTLY else "disagrees"
    return f"The ensemble {verb}: {format_percent(share)} of its uncertainty is epistemic."


def format_percent(value: float) -> str:
    """Format a probability; a logistic unit is never quite certain, so none is 100 %.

    >>> [format_percent(value) for value in (0.5, 0.0004, 0.99995, 0.0, 1.0)]
    ['50 %', '0.04 %', '> 99.9 %', '0 %', '> 99.9 %']
    """
    if value == 0:
        return "0 %"
    if value < 0.0001:
        return "< 0.01 %"
    if value > 0.999:
        return "> 99.9 %"
    digits = ".2g" if value < 0.01 else ".1f" if value > 0.99 else ".0f"
    return f"{100 * value:{digits}} %"


def _join(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
