"""What an answer comes to, in a few plain sentences for people."""

from equivocal.asking.answer import Answer, Belief
from equivocal.asking.settings import LEVEL

__all__ = ["percent", "summary"]

BELIEVED = 0.5  # a filler below this is no reading
AGREE, DIFFER = 0.1, 0.35  # share of the uncertainty that is not knowing


def summary(answer: Answer) -> str:
    """The reading after the last word, what the order of words says against it, and the doubt."""
    last = len(answer.heard) - 1
    best = {role: answer.beliefs(last, role, top=1)[0] for role in _told(answer)}
    read = {role: belief for role, belief in best.items() if belief.bayes >= BELIEVED}
    sentences = [_reading(read), *_against(answer, read), _doubt(answer, last)]
    if answer.possible(last) is False:
        sentences.append(f"Nothing that happens in world {answer.world} is told so.")
    return " ".join(sentences)


def _told(answer: Answer) -> list[str]:
    """Who does what to whom; in the order of the world's roles."""
    return [role for role in answer.roles if role in (*answer.participants, "action")]


def _reading(read: dict[str, Belief]) -> str:
    if not read:
        return "It settles on no reading: no filler of any role is believed by half."
    parts = [
        f"{'the ' if role != 'action' else ''}{belief.filler} as {role} "
        f"({percent(belief.mle)} trained, {percent(belief.bayes)} Bayesian)"
        for role, belief in read.items()
    ]
    return f"It reads {_joined(parts)}."


def _against(answer: Answer, read: dict[str, Belief]) -> list[str]:
    """Where the order of the words says otherwise."""
    last = len(answer.heard) - 1
    other = {
        role: word
        for role, word in answer.indicated.items()
        if role in answer.participants
        and (role not in read or read[role].filler != word)
        and answer.considers(role, word)
    }
    if not other:
        return []
    parts = []
    for role, word in other.items():
        belief = answer.belief(last, role, word)
        parts.append(
            f"the {word} as {role} {percent(belief.bayes)} ({_spread(belief)}; trained "
            f"{percent(belief.mle)})"
        )
    return [f"The order of the words says otherwise; it gives {_joined(parts)}."]


def _spread(belief: Belief) -> str:
    low, high = percent(belief.low), percent(belief.high)
    if low == high:
        return f"{100 * LEVEL:.0f} % of the ensemble {low}"
    return f"{100 * LEVEL:.0f} % of the ensemble between {low} and {high}"


def _doubt(answer: Answer, last: int) -> str:
    share = float(answer.unknown_share[last])
    word = "agrees" if share < AGREE else "differs" if share < DIFFER else "disagrees"
    return f"The ensemble {word}: {percent(share)} of its uncertainty is not knowing."


def percent(value: float) -> str:
    """A probability for people; a logistic unit is never quite certain, so none is 100 %.

    >>> percent(0.5), percent(0.0004), percent(0.99995), percent(0.0), percent(1.0)
    ('50 %', '0.04 %', '> 99.9 %', '0 %', '> 99.9 %')
    """
    if value == 0:
        return "0 %"
    if value < 0.0001:
        return "< 0.01 %"
    if value > 0.999:
        return "> 99.9 %"
    if value < 0.01 or value > 0.99:
        return f"{100 * value:.2g} %" if value < 0.01 else f"{100 * value:.1f} %"
    return f"{100 * value:.0f} %"


def _joined(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
