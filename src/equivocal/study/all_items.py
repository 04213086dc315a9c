"""Every item of a world that is built like those of a study.

The first item of the study is the pattern. A sentence of the world is an item if it begins with as
many constituents, the same markers, and the same agent. In the paper's world these are all pairs of
a situation and what the woman does there to what: sixteen, of which the study has eight. The
reversal is the same sentence with agent and patient exchanged, whatever the world makes of it.
"""

from equivocal.errors import UserError
from equivocal.study.stimuli import Stimuli, Stimulus
from equivocal.world import Utterance, World

__all__ = ["all_items"]

ROLES = ("agent", "patient")


def all_items(stimuli: Stimuli, world: World) -> Stimuli:
    """Stimuli of the same two conditions with every item of the world."""
    baseline, reversal = stimuli.conditions[0], stimuli.conditions[-1]
    pattern, turned = (stimuli.rows[name, stimuli.items[0]] for name in (baseline, reversal))
    agent, patient = (_position(pattern, role, world) for role in ROLES)
    if turned.utterance.tokens != _exchanged(pattern.utterance, agent, patient).tokens:
        raise UserError(
            "items = 'all' needs a study whose last condition exchanges agent and patient of the "
            f"first, unlike {str(pattern.utterance)!r} and {str(turned.utterance)!r}; leave it out."
        )
    rows: dict[tuple[str, str], Stimulus] = {}
    for utterance in _like(pattern, agent, world):
        who, what = (_unit(utterance.constituents[place].word, world) for place in (agent, patient))
        if who == what:
            continue
        name = str(utterance)
        back = _exchanged(utterance, agent, patient)
        tracked, exchanged = {"agent": who, "patient": what}, {"agent": what, "patient": who}
        rows[baseline, name] = Stimulus(baseline, name, utterance, pattern.critical, tracked)
        rows[reversal, name] = Stimulus(reversal, name, back, turned.critical, exchanged)
    return Stimuli((baseline, reversal), tuple(dict.fromkeys(item for _, item in rows)), rows)


def _like(pattern: Stimulus, agent: int, world: World) -> list[Utterance]:
    """Beginnings of the world's sentences that fit the pattern, each once, likeliest first."""
    wanted = pattern.utterance.constituents
    markers = [part.marker for part in wanted]
    found: dict[tuple[tuple[str, ...], ...], Utterance] = {}
    for sentence in world.sentences:
        heard = world.parse(sentence.text).first(len(wanted))
        same_agent = len(heard) > agent and heard.constituents[agent].word == wanted[agent].word
        if same_agent and [part.marker for part in heard] == markers:
            found.setdefault(heard.tokens, heard)
    return list(found.values())


def _position(row: Stimulus, role: str, world: World) -> int:
    """Where in a sentence the filler of a role stands."""
    unit = row.tracked.get(role)
    words = [part.word for part in row.utterance]
    places = [i for i, word in enumerate(words) if unit and _means(word, unit, world)]
    if len(places) != 1:
        raise UserError(
            f"items = 'all' needs one word for the {role} of {str(row.utterance)!r}, found "
            f"{len(places)}; track it in the stimulus file, or leave items out."
        )
    return places[0]


def _means(word: str, unit: str, world: World) -> bool:
    return bool(world.filler_units(word)[world.units.index(unit)])


def _unit(word: str, world: World) -> str:
    if word not in world.units:
        raise UserError(f"items = 'all' needs a unit named {word!r}, as the word; leave it out.")
    return word


def _exchanged(utterance: Utterance, one: int, other: int) -> Utterance:
    parts = list(utterance.constituents)
    parts[one], parts[other] = parts[other], parts[one]
    return Utterance(tuple(parts))
