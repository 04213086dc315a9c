"""A construction as data: `NAME.toml` says what it is about, `NAME.csv` holds its sentences.

    condition,item,sentence,question,answer,rival
    implausible passive,eat egg,the man was eaten by the egg,agent,egg,man
    implausible passive,eat egg,the man was eaten by the egg,patient,man,egg

A sentence has two readings. Each question tells them apart: when it is asked, the unit `answer` is
on in the one and the unit `rival` in the other. A question is a role ("who is the agent?") or a
word of the sentence ("what part does the telescope play?"). Rows with the same condition and item
are questions to one sentence; it may be the beginning of one. The CSV files are made from the
worlds by `equivocal.suites.construction_making`.
"""

from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path

from equivocal.errors import UserError, did_you_mean, join_names
from equivocal.store import read_table, read_toml
from equivocal.world import Utterance, World

__all__ = ["COLUMNS", "DATA", "SHIPPED", "Construction", "Item", "Question", "load_construction"]

DATA = resources.files("equivocal.suites") / "constructions"
SHIPPED = ("passive", "word_order", "attachment")
COLUMNS = ("condition", "item", "sentence", "question", "answer", "rival")


@dataclass(frozen=True)
class Question:
    """What is asked, and the units that would say the one or the other."""

    probe: str  # a role or a word
    answer: str
    rival: str


@dataclass(frozen=True)
class Item:
    """One sentence with its questions; it is asked when its last word has been heard."""

    condition: str
    name: str
    utterance: Utterance
    questions: tuple[Question, ...]

    @property
    def probes(self) -> list[str]:
        """What is asked."""
        return [question.probe for question in self.questions]


@dataclass(frozen=True, eq=False)
class Construction:
    """Sentences of one kind, in conditions."""

    name: str
    title: str
    world: World
    sources: tuple[str, ...]
    readings: dict[str, str]  # what figures call `answer` and `rival`
    conditions: dict[str, str]  # name: an example, and after a colon what is special about it
    curves: tuple[str, ...]  # conditions followed over prior variances and sentences heard
    people: dict[str, float]  # condition: share of people who took the rival reading, as published
    items: tuple[Item, ...]

    @cached_property
    def units(self) -> tuple[str, ...]:
        """Every unit that some question compares, in the order of the world."""
        asked = {u for i in self.items for q in i.questions for u in (q.answer, q.rival)}
        return tuple(unit for unit in self.world.units if unit in asked)


def load_construction(name: str) -> Construction:
    """One that comes with the package."""
    if name not in SHIPPED:
        hint = did_you_mean(name, SHIPPED) or f"; there are {join_names(SHIPPED)}."
        raise UserError(f"there is no construction {name!r}{hint}")
    about = read_toml(Path(str(DATA / f"{name}.toml")))
    world = World.load(about["world"])
    path = Path(str(DATA / f"{name}.csv"))
    return Construction(
        name=name,
        title=about["title"],
        world=world,
        sources=tuple(about["sources"]),
        readings=about["readings"],
        conditions=about["conditions"],
        curves=tuple(about.get("curves", ())),
        people=about.get("people", {}),
        items=_items(path, world),
    )


def _items(path: Path, world: World) -> tuple[Item, ...]:
    rows = read_table(path)
    return tuple(
        Item(
            condition=str(condition),
            name=str(name),
            utterance=world.parse(str(asked["sentence"].iloc[0])),
            questions=tuple(
                Question(str(row.question), str(row.answer), str(row.rival))
                for row in asked.itertuples()
            ),
        )
        for (condition, name), asked in rows.groupby(["condition", "item"], sort=False)
    )
