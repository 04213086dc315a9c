"""Make the items of the constructions, `world/data/items/*.csv`, from their worlds.

    python -m scripts.make_construction_items FOLDER        writes all files

Passives are made from those frames of the paradigms (`scripts.make_paradigm_items`) that have one,
each with both of its patients. Word order and attachment use all sentences of their small worlds.
"""

import sys
from collections.abc import Callable, Iterator
from itertools import permutations, product
from pathlib import Path

from equivocal.store.files import write_text_atomically
from equivocal.world import ImpossibleSentenceError, World, name_role_unit
from equivocal.world.items import COLUMNS
from equivocal.world.spelling import inflect_verb
from scripts.make_paradigm_items import find_frames, format_csv

__all__ = ["MAKERS", "make_csv"]

Row = tuple[str, str, str, str, str]  # condition, item, sentence, tracked units, rival units
AGENT, PATIENT = name_role_unit("agent"), name_role_unit("patient")
INSTRUMENT, ATTRIBUTE = name_role_unit("instrument"), name_role_unit("attribute")


def _make_passive(world: World) -> Iterator[Row]:
    passive = next(c for c in world.file.constructions if c.name == "passive")
    for frame in find_frames(world):
        if frame.action not in (passive.actions or ()):
            continue
        done = inflect_verb(frame.action, "participle", world.file.verbs.get(frame.action))
        for patient in (frame.probable, frame.improbable):
            name = f"{frame.action} {patient}"
            for how, (who, whom) in (
                ("plausible", (frame.agent, patient)),
                ("implausible", (patient, frame.agent)),
            ):
                units, active = _ask_roles(who, whom), f"the {who} {frame.verb} the {whom}"
                yield f"{how} active", name, active, *units
                yield f"{how} passive", name, f"the {whom} was {done} by the {who}", *units


def _ask_roles(agent: str, patient: str) -> tuple[str, str]:
    """Return the tracked units of both roles, and those of the rival reading, which swaps them."""
    return f"agent={agent}; patient={patient}", f"agent={patient}; patient={agent}"


def _ask_part(word: str, answer: str, rival: str) -> tuple[str, str]:
    """Return the tracked role of a word, and its role in the rival reading."""
    return f"{word}={answer}", f"{word}={rival}"


def _make_word_order(world: World) -> Iterator[Row]:
    unit = {word: has[-1] for words in world.file.words.values() for word, has in words.items()}
    masculine, feminine = world.file.words["masculine"], world.file.words["feminine"]
    for noun in masculine:
        yield "first noun der", noun, f"der {noun}", *_ask_part(noun, AGENT, PATIENT)
        yield "first noun den", noun, f"den {noun}", *_ask_part(noun, PATIENT, AGENT)
    for noun in feminine:
        yield "first noun die", noun, f"die {noun}", *_ask_part(noun, AGENT, PATIENT)
    happens = {(e.roles["agent"], e.roles["action"], e.roles["patient"]) for e in world.events}
    for verb, (who, whom) in product(world.file.actions, permutations([*masculine, *feminine], 2)):
        forth, back = (who, verb, whom) in happens, (whom, verb, who) in happens
        says = inflect_verb(verb, "third", world.file.verbs.get(verb))
        acts = f"{'der' if who in masculine else 'die'} {who}"
        suffers = f"{'den' if whom in masculine else 'die'} {whom}"
        said: dict[str, str] = {}  # by condition; `who` is agent by case or by coming first
        if who in feminine and whom in feminine:
            kind = "undecided" if forth and back else "decided by the world"
            said = {kind: f"{acts} {says} {suffers}"} if forth or back else {}
        elif forth and whom in masculine:
            said["subject first"] = f"{acts} {says} {suffers}"
            said["object first"] = f"{suffers} {says} {acts}"
        elif forth:
            said["object first, told late"] = f"{suffers} {says} {acts}"
        elif back:
            said["impossible, subject first"] = f"{acts} {says} {suffers}"
            said["impossible, object first"] = f"{suffers} {says} {acts}"
        for condition, sentence in said.items():
            turned = condition == "decided by the world" and back
            agent, patient = (whom, who) if turned else (who, whom)
            name = f"{verb} {who} {whom}"
            yield condition, name, sentence, *_ask_roles(unit[agent], unit[patient])


def _make_attachment(world: World) -> Iterator[Row]:
    words = world.file.words
    events = product(world.file.actions, words["children"], words["adults"], words["things"])
    for verb, agent, patient, thing in events:
        says = inflect_verb(verb, "third", world.file.verbs.get(verb))
        clause, name = f"the {agent} {says} the {patient}", f"{agent} {verb} {patient} {thing}"
        plain = f"{clause} with the {thing}"
        try:
            chance = world.true_beliefs(plain, filler=thing)[INSTRUMENT]
        except ImpossibleSentenceError:
            continue
        kind = "undecided" if 0 < chance < 1 else "decided by the world"
        readings = (INSTRUMENT, ATTRIBUTE) if chance > 0 else (ATTRIBUTE, INSTRUMENT)
        yield kind, name, plain, *_ask_part(thing, *readings)
        if chance > 0:
            fronted = f"with the {thing}, {clause}"
            yield "instrument by place", name, fronted, *_ask_part(thing, INSTRUMENT, ATTRIBUTE)
        if chance < 1:
            relative = f"{clause} who has the {thing}"
            yield "attribute by word", name, relative, *_ask_part(thing, ATTRIBUTE, INSTRUMENT)


MAKERS: dict[str, Callable[[World], Iterator[Row]]] = {
    "passive": _make_passive,
    "word_order": _make_word_order,
    "attachment": _make_attachment,
}
WORLDS = {"passive": "sg2018"}  # the other constructions have a world of the same name


def make_csv(name: str) -> str:
    """Make the item file of one construction."""
    columns = (*COLUMNS, "tracked_units", "rival_units")
    return format_csv(columns, MAKERS[name](World.load(WORLDS.get(name, name))))


if __name__ == "__main__":
    for construction in MAKERS:
        write_text_atomically(Path(sys.argv[1]) / f"{construction}.csv", make_csv(construction))
