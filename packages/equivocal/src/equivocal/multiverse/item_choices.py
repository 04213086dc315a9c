"""Other sentences, or another critical word, measured with the posterior of the same study.

`find_all_items` finds every item of the world that is built like those of a study, and
`move_critical_word` returns the same items with another critical word.
"""

from dataclasses import replace

from equivocal.world import Utterance, World
from equivocal.world.items import Item, Items
from lastlayer.errors import UserError

__all__ = ["choose_items"]


def choose_items(stimuli: Items, world: World, items: str, critical_word: str) -> Items:
    """Return the items of a study or all of its world, with its own or another critical word."""
    chosen = find_all_items(stimuli, world) if items == "all" else stimuli
    if critical_word != "study":
        return move_critical_word(chosen, world, critical_word)
    return chosen


def move_critical_word(stimuli: Items, world: World, to: str) -> Items:
    """Return the same sentences with the "verb", or their "last" word, as critical word.

    The verb is the first constituent without a marker that fills none of the tracked roles.

    Raises
    ------
    UserError
        Where a sentence has no such constituent.
    """
    rows = {
        place: replace(row, critical=len(row.utterance) if to == "last" else _find_verb(row, world))
        for place, row in stimuli.rows.items()
    }
    return replace(stimuli, rows=rows)


def _find_verb(row: Item, world: World) -> int:
    tracked = [world.units.index(unit) for unit in row.tracked.values()]
    for position, part in enumerate(row.utterance, start=1):
        if not part.marker and not world.find_filler_units(part.word)[tracked].any():
            return position
    raise UserError(
        f"critical_word = 'verb' needs a verb in {str(row.utterance)!r}: a constituent without a "
        "marker that fills none of the tracked roles; leave it out."
    )


def find_all_items(stimuli: Items, world: World) -> Items:
    """Find every item of a world that is built like those of a study.

    The first item of the study is the pattern. A sentence of the world is an item if it begins with
    as many constituents, the same markers, and the same agent. In the paper's world these are the
    sentences about what the woman does to something in a situation: sixteen, of which the study
    has eight. The reversal is the same sentence with agent and patient exchanged, even if the
    world has no such sentence.

    Parameters
    ----------
    stimuli : Items
        Items of a study whose last condition exchanges agent and patient of the first.
    world : World
        The world to search.

    Raises
    ------
    UserError
        Where the study's stimuli do not have this form.
    """
    baseline, reversal = stimuli.conditions[0], stimuli.conditions[-1]
    pattern, turned = (stimuli.rows[name, stimuli.items[0]] for name in (baseline, reversal))
    agent, patient = (_find_position(pattern, role, world) for role in ("agent", "patient"))
    if turned.utterance.tokens != _exchange(pattern.utterance, agent, patient).tokens:
        raise UserError(
            "items = 'all' needs a study whose last condition exchanges agent and patient of the "
            f"first, unlike {str(pattern.utterance)!r} and {str(turned.utterance)!r}; leave it out."
        )
    rows: dict[tuple[str, str], Item] = {}
    for utterance in _find_similar(pattern, agent, world):
        who, what = (utterance.constituents[place].word for place in (agent, patient))
        if who == what:
            continue
        if unknown := {who, what} - set(world.units):
            raise UserError(
                f"items = 'all' needs a unit named {min(unknown)!r}, as the word; leave it out."
            )
        name = str(utterance)
        back = _exchange(utterance, agent, patient)
        tracked, exchanged = {"agent": who, "patient": what}, {"agent": what, "patient": who}
        rows[baseline, name] = Item(baseline, name, utterance, pattern.critical, tracked)
        rows[reversal, name] = Item(reversal, name, back, turned.critical, exchanged)
    return Items((baseline, reversal), tuple(dict.fromkeys(item for _, item in rows)), rows)


def _find_similar(pattern: Item, agent: int, world: World) -> list[Utterance]:
    """Find sentence prefixes that fit the pattern, each once, most probable first."""
    wanted = pattern.utterance.constituents
    markers = [part.marker for part in wanted]
    found: dict[tuple[tuple[str, ...], ...], Utterance] = {}
    for sentence in world.sentences:
        heard = world.parse(sentence.text).first(len(wanted))
        same_markers = [part.marker for part in heard] == markers
        if same_markers and heard.constituents[agent].word == wanted[agent].word:
            found.setdefault(heard.tokens, heard)
    return list(found.values())


def _find_position(row: Item, role: str, world: World) -> int:
    """Find the position of a role's filler in a sentence."""
    unit = row.tracked.get(role)
    places = [
        place
        for place, part in enumerate(row.utterance)
        if unit and world.find_filler_units(part.word)[world.units.index(unit)]
    ]
    if len(places) != 1:
        raise UserError(
            f"items = 'all' needs one word for the {role} of {str(row.utterance)!r}, found "
            f"{len(places)}; track it in the stimulus file, or leave items out."
        )
    return places[0]


def _exchange(utterance: Utterance, one: int, other: int) -> Utterance:
    parts = list(utterance.constituents)
    parts[one], parts[other] = parts[other], parts[one]
    return Utterance(tuple(parts))
