"""A construction as data: sentences with two readings, in conditions.

`NAME.toml` says what it is about, and `NAME.csv` holds its items (`equivocal.world.items`):

    condition,item,sentence,tracked_units,rival_units
    implausible passive,eat egg,the man was eaten by the egg,agent=egg,agent=man

Under one reading a probe is answered by its unit in `tracked_units`, under the other by that in
`rival_units`. The CSV files are made from the worlds by `scripts.make_construction_items`.
"""

from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path

from equivocal.errors import UserError, did_you_mean, join_names
from equivocal.store import read_toml
from equivocal.world import World
from equivocal.world.items import Item, load_items

__all__ = ["CONSTRUCTIONS", "DATA", "Construction", "check_construction", "load_construction"]

DATA = resources.files("equivocal.suites") / "constructions"
CONSTRUCTIONS = ("passive", "word_order", "attachment")


@dataclass(frozen=True, eq=False)
class Construction:
    """Sentences of one kind, in conditions."""

    name: str
    title: str
    world: World
    sources: tuple[str, ...]
    readings: dict[str, str]  # what figures call `answer` (the tracked units) and `rival`
    conditions: dict[str, str]  # name: an example, and after a colon what is special about it
    curves: tuple[str, ...]  # conditions followed over prior variances and sentences heard
    people: dict[str, float]  # condition: share of people who took the rival reading, as published
    items: tuple[Item, ...]

    @cached_property
    def units(self) -> tuple[str, ...]:
        """All tracked and rival units, in the order of the world."""
        asked = {u for i in self.items for u in (*i.tracked.values(), *i.rivals.values())}
        return tuple(unit for unit in self.world.units if unit in asked)


def check_construction(name: str) -> str:
    """Return the name of a construction, or raise a `UserError` that proposes the nearest."""
    if name not in CONSTRUCTIONS:
        hint = did_you_mean(name, CONSTRUCTIONS) or f"; there are {join_names(CONSTRUCTIONS)}."
        raise UserError(f"there is no construction {name!r:.80}{hint}")
    return name


def load_construction(name: str) -> Construction:
    """Load a construction that comes with the package.

    Parameters
    ----------
    name : str
        One of `CONSTRUCTIONS`.

    Raises
    ------
    UserError
        Where there is none of that name.
    """
    path = Path(str(DATA / f"{check_construction(name)}.toml"))
    about = read_toml(path)
    world = World.load(about["world"])
    items = load_items(
        path.with_suffix(".csv"),
        world,
        needs=("tracked_units", "rival_units"),
        conditions=about["conditions"],
        balanced=False,  # a sentence that is impossible in one condition may be said in another
    )
    return Construction(
        name=name,
        title=about["title"],
        world=world,
        sources=tuple(about["sources"]),
        readings=about["readings"],
        conditions=about["conditions"],
        curves=tuple(about.get("curves", ())),
        people=about.get("people", {}),
        items=tuple(items.rows.values()),
    )
