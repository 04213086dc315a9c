"""The sentences of the constructions, made from their worlds; `data/*.csv` is what this makes.

    python -m equivocal.suites.construction_making FOLDER        writes them all

Passives come from the frames of the paradigm suites (`equivocal.suites.making`) that have one, each
with both of its patients. Word order and attachment take all that their small worlds offer.
"""

import sys
from collections.abc import Callable, Iterator
from itertools import permutations, product
from pathlib import Path

from equivocal.store.files import write_text_atomically
from equivocal.suites.construction_items import COLUMNS
from equivocal.suites.making import frames_of, in_blocks
from equivocal.world import ImpossibleSentenceError, World, role_unit
from equivocal.world.spelling import inflect_verb

__all__ = ["MAKERS", "items_csv"]

Row = tuple[str, str, str, str, str, str]  # as COLUMNS
AGENT, PATIENT = role_unit("agent"), role_unit("patient")
INSTRUMENT, ATTRIBUTE = role_unit("instrument"), role_unit("attribute")


def _passive(world: World) -> Iterator[Row]:
    passive = next(c for c in world.file.constructions if c.name == "passive")
    for frame in frames_of(world):
        if frame.action not in (passive.actions or ()):
            continue
        done = inflect_verb(frame.action, "participle", world.file.verbs.get(frame.action))
        for patient in (frame.probable, frame.improbable):
            name = f"{frame.action} {patient}"
            for how, (who, whom) in (
                ("plausible", (frame.agent, patient)),
                ("implausible", (patient, frame.agent)),
            ):
                active = f"the {who} {frame.verb} the {whom}"
                yield from _roles(f"{how} active", name, active, who, whom)
                told = f"the {whom} was {done} by the {who}"
                yield from _roles(f"{how} passive", name, told, who, whom)


def _roles(condition: str, name: str, sentence: str, agent: str, patient: str) -> Iterator[Row]:
    """Both roles are asked for; the rival reading exchanges them."""
    yield condition, name, sentence, "agent", agent, patient
    yield condition, name, sentence, "patient", patient, agent


def _word_order(world: World) -> Iterator[Row]:
    unit = {word: has[-1] for words in world.file.words.values() for word, has in words.items()}
    masculine, feminine = world.file.words["masculine"], world.file.words["feminine"]
    for noun in masculine:
        yield "first noun der", noun, f"der {noun}", noun, AGENT, PATIENT
        yield "first noun den", noun, f"den {noun}", noun, PATIENT, AGENT
    for noun in feminine:
        yield "first noun die", noun, f"die {noun}", noun, AGENT, PATIENT
    happens = {(e.roles["agent"], e.roles["action"], e.roles["patient"]) for e in world.events}
    for verb, (who, whom) in product(world.file.actions, permutations([*masculine, *feminine], 2)):
        forth, back = (who, verb, whom) in happens, (whom, verb, who) in happens
        says = inflect_verb(verb, "third", world.file.verbs.get(verb))
        acts = f"{'der' if who in masculine else 'die'} {who}"
        suffers = f"{'den' if whom in masculine else 'die'} {whom}"
        told: dict[str, str] = {}  # condition: sentence in which `who` acts, by case or first
        if who in feminine and whom in feminine:
            kind = "undecided" if forth and back else "decided by the world"
            told = {kind: f"{acts} {says} {suffers}"} if forth or back else {}
        elif forth and whom in masculine:
            told["subject first"] = f"{acts} {says} {suffers}"
            told["object first"] = f"{suffers} {says} {acts}"
        elif forth:
            told["object first, told late"] = f"{suffers} {says} {acts}"
        elif back:
            told["impossible, subject first"] = f"{acts} {says} {suffers}"
            told["impossible, object first"] = f"{suffers} {says} {acts}"
        for condition, sentence in told.items():
            turned = condition == "decided by the world" and back
            agent, patient = (whom, who) if turned else (who, whom)
            name = f"{verb} {who} {whom}"
            yield from _roles(condition, name, sentence, unit[agent], unit[patient])


def _attachment(world: World) -> Iterator[Row]:
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
        yield kind, name, plain, thing, *readings
        if chance > 0:
            fronted = f"with the {thing}, {clause}"
            yield "instrument by place", name, fronted, thing, INSTRUMENT, ATTRIBUTE
        if chance < 1:
            told = f"{clause} who has the {thing}"
            yield "attribute by word", name, told, thing, ATTRIBUTE, INSTRUMENT


MAKERS: dict[str, Callable[[World], Iterator[Row]]] = {
    "passive": _passive,
    "word_order": _word_order,
    "attachment": _attachment,
}
WORLDS = {"passive": "sg2018"}  # the others are called as their world


def items_csv(name: str) -> str:
    """The item file of one construction."""
    return in_blocks(COLUMNS, MAKERS[name](World.load(WORLDS.get(name, name))))


if __name__ == "__main__":
    for construction in MAKERS:
        write_text_atomically(Path(sys.argv[1]) / f"{construction}.csv", items_csv(construction))
