"""Paradigms: tables of items, and what is expected of them.

Items are a CSV file in the format of `equivocal.world.items`: sentences in conditions, with a
critical word (the last, if none is named). What is expected of a table, if anything, is in a file
`expectations.toml` beside it, under the table's name:

    [reversal_anomaly]
    world = "sg2018"
    sources = ["Kim & Osterhout (2005), Journal of Memory and Language 52, 205–225"]

    [[reversal_anomaly.expected]]
    says = "an incongruent verb gives a larger N400 than the congruent one"
    larger = "incongruent"
    smaller = "congruent"

An expectation that compares more than two conditions gives a `contrast` instead: weights that sum
to zero, whose weighted sum of means is predicted to be positive. Its `measures` are columns of the
table of words, by default those that are linked with the N400; its `source` is by default the
first of the table's.

A construction is a table whose sentences have two readings, named under `readings`. Under one a
probe is answered by its unit in `tracked_units`, under the other by that in `rival_units`; see
`equivocal.measuring.readings`.

A paradigm of the package is a CSV file and a part of the expectations in `data/`, and a name in
`PARADIGMS`, `CONSTRUCTIONS` or `EXPLORATORY`. `published_2018.csv` holds the mean semantic update
of each published network in each condition (Rabovsky, Hansen & McClelland 2018, standard model);
`published` maps conditions to its names.
"""

from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, model_validator

from equivocal.errors import validate
from equivocal.measuring.measures import MEASURES, list_linked
from equivocal.store import read_table, read_toml
from equivocal.store.files import is_plain_name, resolve_inside
from equivocal.world import World, list_shipped_worlds, split_world_name
from equivocal.world.items import Item, find_shipped_items, load_items
from lastlayer.errors import UserError, check_known

__all__ = ["CONSTRUCTIONS", "EXPLORATORY", "PARADIGMS", "Expectation", "Paradigm"]

DATA = Path(str(resources.files("equivocal.measuring") / "data"))
EXPECTATIONS = "expectations.toml"
PUBLISHED_MEASURE = "semantic_update"
PARADIGMS = (  # in the order of the 2018 article's argument: sentences, single words, pairs, roles
    "semantic_incongruity",
    "cloze_probability",
    "categorical_relatedness",
    "sentence_position",
    "lexical_frequency",
    "semantic_priming",
    "associative_priming",
    "repetition_priming",
    "reversal_anomaly",
)
CONSTRUCTIONS = ("passive", "word_order", "attachment")
EXPLORATORY = ("impossible_reversals", "unlikely_reversals")  # in a world with noise


class Expectation(BaseModel):
    """A contrast of conditions that should be positive in some measures."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    says: str
    larger: str = ""
    smaller: str = ""
    contrast: dict[str, float] = {}
    measures: tuple[str, ...] = list_linked("N400")
    source: str = ""

    @model_validator(mode="after")
    def _check_contrast(self) -> "Expectation":
        named = self.larger and self.smaller and self.larger != self.smaller
        if bool(self.larger or self.smaller) == bool(self.contrast) or not (named or self.contrast):
            raise ValueError("name two conditions, larger and smaller, or give a contrast")
        # NaN is refused too
        if not abs(sum(self.weights.values())) < 1e-9 or not any(self.weights.values()):
            raise ValueError("the weights of a contrast must sum to zero and not all be zero")
        return self

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each condition; they sum to zero."""
        if self.contrast:
            return {name: weight for name, weight in self.contrast.items() if weight}
        return {self.larger: 1.0, self.smaller: -1.0}


class _Expectations(BaseModel):
    """What is expected of one table of items."""

    model_config = ConfigDict(extra="forbid")

    title: str = ""
    world: str = ""
    sources: tuple[str, ...] = ()
    published: dict[str, str] = {}
    expected: tuple[Expectation, ...] = ()
    readings: dict[Literal["answer", "rival"], str] = {}
    people: dict[str, float] = {}


@dataclass(frozen=True, eq=False)
class Paradigm:
    """Items in conditions, and what is expected of them."""

    name: str
    title: str
    world: World
    rows: dict[tuple[str, str], Item]  # by condition and item
    expected: tuple[Expectation, ...] = ()
    sources: tuple[str, ...] = ()
    published: dict[str, str] = field(default_factory=dict)  # the published name of a condition
    readings: dict[str, str] = field(default_factory=dict)  # how figures call answer and rival
    people: dict[str, float] = field(default_factory=dict)  # published shares of the rival reading

    @property
    def conditions(self) -> tuple[str, ...]:
        """The names of the conditions, in the order of the table."""
        return tuple(dict.fromkeys(name for name, _ in self.rows))

    @property
    def items(self) -> tuple[str, ...]:
        """The names of the items."""
        return tuple(dict.fromkeys(name for _, name in self.rows))

    def cite(self, expectation: Expectation | None = None) -> str:
        """Return authors and year of an expectation's source, which is by default the first."""
        source = (expectation and expectation.source) or next(iter(self.sources), "")
        authors, sign, _ = source.partition("),")
        return f"{authors})" if sign else source


def load_paradigm(name_or_path: str | Path, world: World | None = None) -> Paradigm:
    """Load a table of items, with what is expected of it.

    Parameters
    ----------
    name_or_path : str or Path
        The name of a table of the package, or the path of one of your own (.csv), perhaps with
        `expectations.toml` beside it.
    world : World, optional
        The world whose words the sentences use, where the expectations name none.

    Raises
    ------
    UserError
        For any mistake in either file; the message names the file, the place and what to change.
    """
    path, place = _find_files(str(name_or_path))
    about = _read_expectations(place, path.stem)
    if about.world:
        world = _load_world(place, about.world)
    if world is None:
        raise UserError(
            f"{path} does not say in which world its sentences are; give one (--world), or the "
            "folder of trained networks (--run)."
        )
    needs = ("tracked_units", "rival_units") if about.readings else ()
    items = load_items(path, world, needs=needs, balanced=False)
    for one in about.expected:
        for name in one.weights:
            check_known(name, items.conditions, "condition", f"{place}, {one.says!r:.80}: ")
        for name in one.measures:
            check_known(name, MEASURES, "measure", f"{place}, {one.says!r:.80}: ")
    named = dict(about) | {"title": about.title or path.stem, "world": world}
    return Paradigm(name=path.stem, rows=items.rows, **named)


def _find_files(name: str) -> tuple[Path, Path]:
    """Return the paths of a table of items, and of what is expected of it."""
    path = Path(name)
    if not path.suffix:
        shipped = (*PARADIGMS, *CONSTRUCTIONS, *EXPLORATORY)
        check_known(name, shipped, "paradigm", advice=", and a table of your own ends in .csv")
        path = find_shipped_items(name) if name in CONSTRUCTIONS else DATA / f"{name}.csv"
        return path, DATA / EXPECTATIONS
    if path.suffix == ".toml":
        raise UserError(
            f"{path}: give the table of items (.csv); what is expected of it is read from "
            f"{EXPECTATIONS} beside it."
        )
    if not is_plain_name(path.stem):
        raise UserError(f"{path}: figures are named after it; give it a shorter, plain name.")
    return path, path.with_name(EXPECTATIONS)


def _read_expectations(place: Path, name: str) -> _Expectations:
    """Read what is expected of a table; nothing, if there is no such file or part of it."""
    if not place.exists():
        return _Expectations()
    part = read_toml(place).get(name, {})
    return validate(_Expectations, part, "key", f"{place}, [{name}]: ")


def _load_world(place: Path, name: str) -> World:
    """Load the world of a paradigm: one of the package, or a file beside the expectations."""
    plain, values = split_world_name(name)
    if plain in list_shipped_worlds():
        return _load_shipped_world(name)
    where = f"{place}, world"
    resolve_inside(place.parent, name, where)  # a file may have the whole name, values included
    return World.load(f"{resolve_inside(place.parent, plain, where)}{values}")


_load_shipped_world = cache(World.load)  # the nine paradigms share a world


@cache
def load_published_means() -> pd.DataFrame:
    """Load the mean semantic update of the published networks.

    Returns
    -------
    DataFrame
        A row for each network and a column for each condition.
    """
    table = read_table(DATA / "published_2018.csv")
    return table.pivot(index="network", columns="condition", values=PUBLISHED_MEASURE)


def find_published(paradigm: Paradigm, measure: str) -> dict[str, np.ndarray]:
    """Return the means of the published networks by condition, for conditions that they have."""
    if measure != PUBLISHED_MEASURE:
        return {}
    known = load_published_means()
    return {
        name: known[published].to_numpy(float)
        for name, published in paradigm.published.items()
        if published in known
    }
