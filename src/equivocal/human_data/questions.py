"""Questions about who did what, asked after the last word of a sentence.

A sentence has a literal reading, what its syntax says (`tracked_units`), and often a rival:
`rival_units`, or in the stimuli of a study what the same item means in another condition. Each
probe of a sentence is a question ("agent": who did it?), with the unit of the literal reading, that
of the rival, and everything else as answers.

The rival is called *plausible* where the world is likelier to bring about its meaning than the
literal one, given the words alone in whatever order: after "the egg eats the man", that the man
eats the egg. Of a plausible sentence the literal reading is also the plausible one; it is called
literal, and any other answer is other.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from equivocal.errors import UserError
from equivocal.study.settings import load_study
from equivocal.suites import CONSTRUCTIONS, load_construction
from equivocal.world import (
    Corpus,
    Utterance,
    World,
    find_plausibility_items,
    find_word_unit,
    name_role_unit,
)
from equivocal.world.items import Item, load_items

__all__ = ["READINGS", "Question", "find_sentences", "list_questions", "load_sentences"]

READINGS = ("literal", "plausible", "other")
PROBES = ("agent", "patient")
SAMPLED = 20_000  # sentences, where a world is too large to enumerate
SHIPPED_STUDY = "paper"  # whose stimuli are asked of networks of its world


@dataclass(frozen=True)
class Question:
    """One probe after one sentence."""

    condition: str
    item: str
    probe: str
    utterance: Utterance
    literal: str  # the unit that the syntax indicates
    rival: str | None  # the unit of the rival reading, where that is another
    plausible: bool  # whether the world favours the rival

    @property
    def units(self) -> tuple[str, ...]:
        """The units whose activation is read."""
        return (self.literal,) if self.rival is None else (self.literal, self.rival)


def list_questions(items: Iterable[Item], world: World) -> list[Question]:
    """List the questions about sentences.

    Parameters
    ----------
    items : iterable of Item
        With tracked units. Without rivals of its own, an item gets those that it tracks in the
        first other condition.
    world : World
        Which says what is plausible.
    """
    items = list(items)
    told = world.all_derivations if world.is_exact else world.sample(SAMPLED)
    questions = []
    for item in items:
        rivals = item.rivals or _find_rivals(item, items)
        literal, other = (
            _weigh_reading(told, item.utterance, units) if units else 0.0
            for units in (item.tracked, rivals)
        )
        for probe, unit in item.tracked.items():
            rival = rivals.get(probe)
            named = (item.condition, item.name, probe, item.utterance, unit)
            questions.append(Question(*named, None if rival == unit else rival, other > literal))
    return questions


def _find_rivals(item: Item, items: list[Item]) -> dict[str, str]:
    """Return what an item tracks in the first other condition in which that is something else."""
    others = (one.tracked for one in items if one.name == item.name and one.tracked != item.tracked)
    return next(others, {})


def _weigh_reading(corpus: Corpus, utterance: Utterance, units: dict[str, str]) -> float:
    """Return how likely an event is that has the words of a sentence and answers as in `units`."""
    world, told = corpus.world, corpus.derivations
    fits = np.ones(len(told), bool)
    words, features = world.lexicon.words, world.lexicon.features
    has_unit = np.vstack([features, np.zeros(features.shape[1], bool)])  # the last: no filler
    roles = {name_role_unit(role): number for number, role in enumerate(world.roles)}
    asked = set[str]()
    for probe, unit in units.items():
        if probe in world.roles:
            fillers = told.fillers[:, world.roles.index(probe)]
            fits &= has_unit[fillers, world.units.index(unit)]
            asked.add(unit)
        elif unit in roles and probe in words:
            fits &= told.fillers[:, roles[unit]] == words.index(probe)
            asked.add(probe)
    for part in utterance:
        if part.word not in asked and part.word in words:
            fits &= (told.fillers == words.index(part.word)).any(axis=1)
    return float(told.weight[fits].sum())


def load_sentences(path: Path, world: World) -> list[Item]:
    """Load sentences of the user's own; see `equivocal.world.items` for the format."""
    return list(load_items(path, world, needs=("tracked_units",), balanced=False).rows.values())


def find_sentences(world: World) -> tuple[list[Item], str]:
    """Find sentences of a world: constructions, the stimuli of the paper, or unlikely reversals.

    The last are in worlds such as `both_ways`: every item of `find_plausibility_items`.

    Returns
    -------
    items : list of Item
        Sentences with tracked units.
    source : str
        Where they are from.

    Raises
    ------
    UserError
        Where there are none.
    """
    found = list(_load_constructions(world))
    if found:
        items = [item for _, own in found for item in own]
        return items, " and ".join(name for name, _ in found)
    study = load_study(SHIPPED_STUDY)
    if World.load(study.world_source).fingerprint == world.fingerprint:
        return load_sentences(study.stimuli_path, world), f"the stimuli of study {study.name}"
    both_ways = list(_list_reversals(world))
    if both_ways:
        return both_ways, f"all sentences of world {world.name!r} in both directions"
    raise UserError(
        f"no sentences are shipped for world {world.name!r}; give some with --sentences FILE.csv "
        "(columns condition, item, sentence, tracked_units and perhaps rival_units)."
    )


def _load_constructions(world: World) -> Iterator[tuple[str, tuple[Item, ...]]]:
    for name in CONSTRUCTIONS:
        construction = load_construction(name)
        if construction.world.fingerprint == world.fingerprint:
            yield name, construction.items


def _list_reversals(world: World) -> Iterator[Item]:
    """List the sentences of a world in both directions, where one of them is unlikely."""
    try:
        found = find_plausibility_items(world)
    except UserError:  # no agents and patients, or too large
        return
    if all(item.plausibility != "unlikely" for item in found):
        return
    for item in found:
        nouns = [world.units[find_word_unit(world, word)] for word in (item.agent, item.patient)]
        yield Item(
            condition=f"{item.plausibility} {item.construction}",
            name=item.item,
            utterance=item.sentence,
            critical=len(item.sentence),
            tracked=dict(zip(PROBES, nouns, strict=True)),
            rivals=dict(zip(PROBES, reversed(nouns), strict=True)),
        )
