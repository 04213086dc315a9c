"""The items of the nine suites, made from a world; `data/*.csv` is what this makes of `sg2018`.

    python -m equivocal.suites.making FOLDER        writes them all

A *frame* is a kind of event that leaves little open: an action, with its situation if it has
several, whose patients are few. It has a probable patient, an improbable one, and a *stranger*: a
word of the same class that no frame has for a patient. Where something unrelated is needed, a frame
takes it from another, always the same number of frames further on: the smallest number at which
the patients of no two frames share a feature. So each word serves as often unrelated as related.
"""

import csv
import io
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

from equivocal.store.files import write_text_atomically
from equivocal.suites.items import COLUMNS
from equivocal.world import World
from equivocal.world.spelling import inflect_verb

__all__ = ["MAKERS", "Frame", "frames_of", "in_blocks", "items_csv"]

ADULTS, CHILDREN = ("man", "woman"), ("boy", "girl")
FEW_PATIENTS = 2
BEFORE = {  # how English puts them; a world reads them all alike
    "breakfast": "at",
    "dinner": "at",
    "morning": "in the",
    "evening": "in the",
    "afternoon": "in the",
    "holiday": "on a",
    "excursion": "during the",
    "Sunday": "on",
}
Row = tuple[str, str, str, str]  # condition, item, sentence, critical word


@dataclass(frozen=True)
class Frame:
    """A kind of event, as an adult has part in it."""

    name: str  # of the item
    action: str
    verb: str  # third person
    agent: str
    situation: str | None
    one_of_several: bool  # the situation must be said for the patient to be expected
    probable: str
    improbable: str
    stranger: str

    @property
    def setting(self) -> str:
        """The beginning that names the situation."""
        return f"{BEFORE[self.situation]} {self.situation}, " if self.situation else ""

    def up_to_verb(self, *, agent: str = "", verb: str = "", always: bool = False) -> str:
        """Agent and verb, after the situation where it is needed, or `always`."""
        setting = self.setting if always or self.one_of_several else ""
        return f"{setting}the {agent or self.agent} {verb or self.verb}"


def frames_of(world: World) -> tuple[Frame, ...]:
    """All frames, in the order of the world's actions and then of its situations."""
    known: dict[tuple[str, str | None], dict[str, float]] = {}
    for event in world.events:
        roles = event.roles
        if roles.get("agent") in ADULTS:
            patients = known.setdefault((roles["action"], roles.get("situation")), {})
            patient = roles["patient"]
            patients[patient] = patients.get(patient, 0.0) + event.probability
    chosen = {key: row for key, row in known.items() if len(row) == FEW_PATIENTS}
    words = list(world.lexicon.words)
    order = sorted(
        chosen, key=lambda key: (words.index(key[0]), words.index(key[1]) if key[1] else -1)
    )
    strangers = _strangers(world, {word for row in chosen.values() for word in row})
    agents = cycle(ADULTS)
    frames = []
    for action, situation in order:
        patients = chosen[action, situation]
        probable, improbable = sorted(patients, key=patients.__getitem__, reverse=True)
        several = sum(other == action for other, _ in order) > 1
        frames.append(
            Frame(
                name=f"{action} ({situation})" if several else action,
                action=action,
                verb=inflect_verb(action, "third", world.file.verbs.get(action)),
                agent=next(agents),
                situation=situation,
                one_of_several=several,
                probable=probable,
                improbable=improbable,
                stranger=next(strangers[_class_of(world, probable)]),
            )
        )
    return tuple(frames)


def _class_of(world: World, word: str) -> str:
    return next(cls for cls, words in world.file.words.items() if word in words)


def _strangers(world: World, patients: set[str]) -> dict[str, Iterator[str]]:
    """By class, the words that are no patient of any frame."""
    return {
        cls: iter([word for word in words if word not in patients])
        for cls, words in world.file.words.items()
    }


def _elsewhere(world: World, frames: tuple[Frame, ...]) -> dict[Frame, Frame]:
    """The frame from which each takes what is unrelated to it."""
    features = [
        set(world.lexicon.features[world.lexicon.words.index(f.probable)].nonzero()[0].tolist())
        for f in frames
    ]
    for shift in range(1, len(frames)):
        moved = features[shift:] + features[:shift]
        if not any(a & b for a, b in zip(features, moved, strict=True)):
            return dict(zip(frames, frames[shift:] + frames[:shift], strict=True))
    raise ValueError("no two frames of this world are unrelated throughout")


def _semantic_incongruity(world: World) -> Iterator[Row]:
    frames = frames_of(world)
    other = _elsewhere(world, frames)
    for frame in frames:
        yield "congruent", frame.name, f"{frame.up_to_verb()} the {frame.probable}", frame.probable
        word = other[frame].probable
        yield "incongruent", frame.name, f"{frame.up_to_verb()} the {word}", word


def _cloze_probability(world: World) -> Iterator[Row]:
    for frame in frames_of(world):
        for condition, word in (("probable", frame.probable), ("improbable", frame.improbable)):
            yield condition, frame.name, f"{frame.up_to_verb()} the {word}", word


def _categorical_relatedness(world: World) -> Iterator[Row]:
    frames = frames_of(world)
    other = _elsewhere(world, frames)
    for frame in frames:
        words = (
            ("congruent", frame.probable),
            ("related", frame.stranger),
            ("unrelated", other[frame].stranger),
        )
        for condition, word in words:
            yield condition, frame.name, f"{frame.up_to_verb()} the {word}", word


def _sentence_position(world: World) -> Iterator[Row]:
    for frame in (f for f in frames_of(world) if f.situation):
        sentence = f"{frame.up_to_verb(always=True)} the {frame.probable}"
        critical = (str(frame.situation), frame.agent, frame.verb, frame.probable)
        for condition, word in zip(("first", "second", "third", "fourth"), critical, strict=True):
            yield condition, frame.name, sentence, word


def _lexical_frequency(world: World) -> Iterator[Row]:
    pairs = [*zip(ADULTS, CHILDREN, strict=True)]
    pairs += [(frame.probable, frame.improbable) for frame in frames_of(world)]
    for frequent, rare in pairs:
        yield "frequent", frequent, frequent, frequent
        yield "rare", frequent, rare, rare


def _primed(condition: str, prime_of: Callable[[Frame], str]) -> Callable[[World], Iterator[Row]]:
    """A prime and the probable patient as target, one after the other from silence."""

    def make(world: World) -> Iterator[Row]:
        frames = frames_of(world)
        other = _elsewhere(world, frames)
        for frame in frames:
            target = frame.probable
            yield condition, frame.name, f"{prime_of(frame)} {target}", target
            yield "unrelated", frame.name, f"{prime_of(other[frame])} {target}", target

    return make


def _reversal_anomaly(world: World) -> Iterator[Row]:
    frames = tuple(f for f in frames_of(world) if f.situation)
    other = _elsewhere(world, frames)
    for frame in frames:
        rows = (
            ("congruent", frame.agent, frame.verb),
            ("reversal", frame.probable, frame.verb),
            ("incongruent", frame.agent, other[frame].verb),
        )
        for condition, agent, verb in rows:
            sentence = frame.up_to_verb(agent=agent, verb=verb, always=True)
            yield condition, frame.name, sentence, verb


MAKERS: dict[str, Callable[[World], Iterator[Row]]] = {
    "semantic_incongruity": _semantic_incongruity,
    "cloze_probability": _cloze_probability,
    "categorical_relatedness": _categorical_relatedness,
    "sentence_position": _sentence_position,
    "lexical_frequency": _lexical_frequency,
    "semantic_priming": _primed("related", lambda frame: frame.improbable),
    "associative_priming": _primed("related", lambda frame: frame.action),
    "repetition_priming": _primed("repeated", lambda frame: frame.probable),
    "reversal_anomaly": _reversal_anomaly,
}


def items_csv(name: str, world: World) -> str:
    """The item file of one suite."""
    return in_blocks(COLUMNS, MAKERS[name](world))


def in_blocks(columns: Sequence[str], made: Iterable[Sequence[str]]) -> str:
    """Rows as CSV, those of a condition (the first column) together."""
    rows = list(made)
    order = list(dict.fromkeys(row[0] for row in rows))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(row for condition in order for row in rows if row[0] == condition)
    return text.getvalue()


if __name__ == "__main__":
    for suite in MAKERS:
        path = Path(sys.argv[1]) / f"{suite}.csv"
        write_text_atomically(path, items_csv(suite, World.load("sg2018")))
