"""Make the items of the nine paradigms, `measuring/data/*.csv`, from the world `sg2018`.

    python -m scripts.make_paradigm_items FOLDER        writes all files

A *frame* is a predictable kind of event: an action, with its situation if it has several, that has
only two patients. It has a probable patient, an improbable one, and a *stranger*: a word of the
same class that is a patient of no frame. Unrelated words are taken from another frame, always the
same number of frames further on: the smallest number for which the patients of no two paired frames
share a feature. So each word occurs as often unrelated as related.
"""

import csv
import io
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

from equivocal.store.files import write_text_atomically
from equivocal.world import World
from equivocal.world.items import COLUMNS
from equivocal.world.spelling import inflect_verb

__all__ = ["MAKERS", "Frame", "find_frames", "format_csv", "make_csv"]

ADULTS, CHILDREN = ("man", "woman"), ("boy", "girl")
FEW_PATIENTS = 2
BEFORE = {  # the English preposition of each situation; a world treats them all alike
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
    """A kind of event with an adult as its agent."""

    name: str  # the name of its items
    action: str
    verb: str  # third person
    agent: str
    situation: str | None
    one_of_several: bool  # the patient depends on the situation, which must be mentioned
    probable: str
    improbable: str
    stranger: str

    def say_situation(self) -> str:
        """Return the phrase that names the situation, to begin a sentence with."""
        return f"{BEFORE[self.situation]} {self.situation}, " if self.situation else ""

    def say_with(self, patient: str) -> str:
        """Return a sentence with this patient, and with the situation if it is needed."""
        situation = self.say_situation() if self.one_of_several else ""
        return f"{situation}the {self.agent} {self.verb} the {patient}"


Maker = Callable[[Frame, Frame], Iterator[Row]]  # takes a frame and an unrelated one


def find_frames(world: World) -> list[Frame]:
    """Find all frames, in the order of the world's actions and then of its situations."""
    known: dict[tuple[str, str | None], dict[str, float]] = {}
    for event in world.events:
        roles = event.roles
        if roles.get("agent") in ADULTS:
            patients = known.setdefault((roles["action"], roles.get("situation")), {})
            patients[roles["patient"]] = patients.get(roles["patient"], 0.0) + event.probability
    chosen = {key: row for key, row in known.items() if len(row) == FEW_PATIENTS}
    rank: dict[str | None, int] = {word: n for n, word in enumerate(world.lexicon.words)}
    order = sorted(chosen, key=lambda key: (rank[key[0]], rank.get(key[1], -1)))
    taken = {word for patients in chosen.values() for word in patients}
    strangers = [(w for w in words if w not in taken) for words in world.file.words.values()]
    frames = []
    for (action, situation), agent in zip(order, cycle(ADULTS), strict=False):
        patients = chosen[action, situation]
        probable, improbable = sorted(patients, key=patients.__getitem__, reverse=True)
        several = sum(other == action for other, _ in order) > 1
        own_class = next(n for n, w in enumerate(world.file.words.values()) if probable in w)
        frame = Frame(
            name=f"{action} ({situation})" if several else action,
            action=action,
            verb=inflect_verb(action, "third", world.file.verbs.get(action)),
            agent=agent,
            situation=situation,
            one_of_several=several,
            probable=probable,
            improbable=improbable,
            stranger=next(strangers[own_class]),
        )
        frames.append(frame)
    return frames


def _pair_frames(world: World, frames: list[Frame]) -> Iterator[tuple[Frame, Frame]]:
    """Pair each frame with the one from which its unrelated words are taken."""
    index, features = world.lexicon.words.index, world.lexicon.features
    own = [set(features[index(frame.probable)].nonzero()[0].tolist()) for frame in frames]
    for shift in range(1, len(frames)):
        moved = own[shift:] + own[:shift]
        if not any(a & b for a, b in zip(own, moved, strict=True)):
            return zip(frames, frames[shift:] + frames[:shift], strict=True)
    raise ValueError("no two frames of this world are unrelated throughout")


def _vary_patient(choose: Callable[[Frame, Frame], dict[str, str]]) -> Maker:
    """Return a maker of sentences whose last word depends on the condition."""

    def make(frame: Frame, other: Frame) -> Iterator[Row]:
        for condition, word in choose(frame, other).items():
            yield condition, frame.name, frame.say_with(word), word

    return make


def _vary_prime(condition: str, choose: Callable[[Frame], str]) -> Maker:
    """Return a maker of related and unrelated primes, each followed by the probable patient."""

    def make(frame: Frame, other: Frame) -> Iterator[Row]:
        target = frame.probable
        yield condition, frame.name, f"{choose(frame)} {target}", target
        yield "unrelated", frame.name, f"{choose(other)} {target}", target

    return make


def _vary_position(frame: Frame, _: Frame) -> Iterator[Row]:
    sentence = f"{frame.say_situation()}the {frame.agent} {frame.verb} the {frame.probable}"
    critical = (str(frame.situation), frame.agent, frame.verb, frame.probable)
    for condition, word in zip(("first", "second", "third", "fourth"), critical, strict=True):
        yield condition, frame.name, sentence, word


def _vary_verb(frame: Frame, other: Frame) -> Iterator[Row]:
    for condition, agent, verb in (
        ("congruent", frame.agent, frame.verb),
        ("reversal", frame.probable, frame.verb),
        ("incongruent", frame.agent, other.verb),
    ):
        yield condition, frame.name, f"{frame.say_situation()}the {agent} {verb}", verb


def _compare_frequency(frequent: str, rare: str) -> Iterator[Row]:
    yield "frequent", frequent, frequent, frequent
    yield "rare", frequent, rare, rare


MAKERS: dict[str, Maker] = {
    "semantic_incongruity": _vary_patient(
        lambda frame, other: {"congruent": frame.probable, "incongruent": other.probable}
    ),
    "cloze_probability": _vary_patient(
        lambda frame, _: {"probable": frame.probable, "improbable": frame.improbable}
    ),
    "categorical_relatedness": _vary_patient(
        lambda frame, other: {
            "congruent": frame.probable,
            "related": frame.stranger,
            "unrelated": other.stranger,
        }
    ),
    "sentence_position": _vary_position,
    "lexical_frequency": lambda frame, _: _compare_frequency(frame.probable, frame.improbable),
    "semantic_priming": _vary_prime("related", lambda frame: frame.improbable),
    "associative_priming": _vary_prime("related", lambda frame: frame.action),
    "repetition_priming": _vary_prime("repeated", lambda frame: frame.probable),
    "reversal_anomaly": _vary_verb,
}
WITH_SITUATION = ("sentence_position", "reversal_anomaly")


def make_csv(name: str, world: World) -> str:
    """Make the item file of one paradigm."""
    frames = [f for f in find_frames(world) if f.situation or name not in WITH_SITUATION]
    rows = [row for pair in _pair_frames(world, frames) for row in MAKERS[name](*pair)]
    if name == "lexical_frequency":  # starts with people, who are patients of no frame
        people = zip(ADULTS, CHILDREN, strict=True)
        rows = [row for pair in people for row in _compare_frequency(*pair)] + rows
    return format_csv((*COLUMNS, "critical_word"), rows)


def format_csv(columns: Sequence[str], made: Iterable[Sequence[str]]) -> str:
    """Format rows as CSV, grouped by condition (the first column)."""
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
        write_text_atomically(path, make_csv(suite, World.load("sg2018")))
