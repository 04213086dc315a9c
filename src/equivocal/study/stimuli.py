"""The stimuli of a study: items with a critical word and tracked units, in every condition.

    condition,item,sentence,critical_word,tracked_units
    congruent,dinner,"during dinner, the woman eats the pizza",eats,agent=woman; patient=pizza
    reversal,dinner,"during dinner, the pizza eats the woman",eats,agent=pizza; patient=woman

The first condition of the file is the baseline, whose readings are the plausible ones. The format,
which suites and constructions share, is that of `equivocal.world.items`.

Which sentences are measured, and at which word, are choices that need no other posterior:
`find_all_items` looks through the world for every item that is built like those of a study;
`move_critical_word` reads the same items at another word. Both return stimuli as a file would.
"""

from dataclasses import replace
from pathlib import Path

from equivocal.errors import UserError
from equivocal.world import Utterance, World
from equivocal.world.items import MAX_BYTES, Item, Items, load_items

__all__ = ["MAX_BYTES", "Stimuli", "Stimulus", "load_stimuli"]

Stimuli = Items
Stimulus = Item


def load_stimuli(path: str | Path, world: World) -> Stimuli:
    """Load and check a stimulus file.

    Parameters
    ----------
    path : str or Path
        The CSV file; see `equivocal.world.items`.
    world : World
        The world whose words and units it uses.

    Returns
    -------
    Items
        The sentences, parsed, with their critical words and tracked units.

    Raises
    ------
    UserError
        For any mistake, with the file and the row.
    """
    return load_items(path, world, needs=("critical_word", "tracked_units"))


def choose_items(stimuli: Stimuli, world: World, items: str, critical_word: str) -> Stimuli:
    """Choose the items of a study or all of its world, read at the study's or another word."""
    chosen = find_all_items(stimuli, world) if items == "all" else stimuli
    if critical_word != "study":
        return move_critical_word(chosen, world, critical_word)
    return chosen


def move_critical_word(stimuli: Stimuli, world: World, to: str) -> Stimuli:
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


def _find_verb(row: Stimulus, world: World) -> int:
    tracked = [world.units.index(unit) for unit in row.tracked.values()]
    for position, part in enumerate(row.utterance, start=1):
        if not part.marker and not world.find_filler_units(part.word)[tracked].any():
            return position
    raise UserError(
        f"critical_word = 'verb' needs a verb in {str(row.utterance)!r}: a constituent without a "
        "marker that fills none of the tracked roles; leave it out."
    )


def find_all_items(stimuli: Stimuli, world: World) -> Stimuli:
    """Find every item of a world that is built like those of a study.

    The first item of the study is the pattern. A sentence of the world is an item if it begins with
    as many constituents, the same markers, and the same agent. In the paper's world these are all
    pairs of a situation and what the woman does there to what: sixteen, of which the study has
    eight. The reversal is the same sentence with agent and patient exchanged, whatever the world
    makes of it.

    Parameters
    ----------
    stimuli : Stimuli
        Stimuli of a study whose last condition exchanges agent and patient of the first.
    world : World
        The world whose sentences are looked through.

    Raises
    ------
    UserError
        Where the study's stimuli are built otherwise.
    """
    baseline, reversal = stimuli.conditions[0], stimuli.conditions[-1]
    pattern, turned = (stimuli.rows[name, stimuli.items[0]] for name in (baseline, reversal))
    agent, patient = (_find_position(pattern, role, world) for role in ("agent", "patient"))
    if turned.utterance.tokens != _exchange(pattern.utterance, agent, patient).tokens:
        raise UserError(
            "items = 'all' needs a study whose last condition exchanges agent and patient of the "
            f"first, unlike {str(pattern.utterance)!r} and {str(turned.utterance)!r}; leave it out."
        )
    rows: dict[tuple[str, str], Stimulus] = {}
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
        rows[baseline, name] = Stimulus(baseline, name, utterance, pattern.critical, tracked)
        rows[reversal, name] = Stimulus(reversal, name, back, turned.critical, exchanged)
    return Stimuli((baseline, reversal), tuple(dict.fromkeys(item for _, item in rows)), rows)


def _find_similar(pattern: Stimulus, agent: int, world: World) -> list[Utterance]:
    """Find sentence prefixes that fit the pattern, each once, likeliest first."""
    wanted = pattern.utterance.constituents
    markers = [part.marker for part in wanted]
    found: dict[tuple[tuple[str, ...], ...], Utterance] = {}
    for sentence in world.sentences:
        heard = world.parse(sentence.text).first(len(wanted))
        same_markers = [part.marker for part in heard] == markers
        if same_markers and heard.constituents[agent].word == wanted[agent].word:
            found.setdefault(heard.tokens, heard)
    return list(found.values())


def _find_position(row: Stimulus, role: str, world: World) -> int:
    """Find where in a sentence the filler of a role stands."""
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
