"""Paradigms: sentences in conditions, and what is expected of them, as two text files.

The items are a CSV file in the format of `equivocal.world.items`, with a critical word in each row
(the last word, if none is named). What is expected is a TOML file of the same name:

    title = "Semantic incongruity"
    world = "sg2018"
    sources = ["Kutas & Hillyard (1980), Science 207, 203–205"]

    [conditions]                    # name = its name in the published data, or ""
    congruent = "high_cloze"
    incongruent = "violation"

    [[findings]]
    says = "an incongruent word moves the gestalt more than the expected one"
    larger = "incongruent"
    smaller = "congruent"

A finding that compares more than two conditions gives a `contrast` instead: weights that sum to
zero, whose weighted sum of means is predicted to be positive. A finding that does not come from the
paradigm's first source names its own `source`; `signal` is the event-related potential that it is
about, N400 or P600.

A construction is a paradigm whose sentences have two readings, named under `readings`:

    condition,item,sentence,tracked_units,rival_units
    implausible passive,eat egg,the man was eaten by the egg,agent=egg,agent=man

Under one reading a probe is answered by its unit in `tracked_units`, under the other by that in
`rival_units`; see `equivocal.measuring.readings`. Items alone, without a TOML file, can be
measured in any world that has their words.

A paradigm that comes with the package is two files in `data/`, the items often made by
`scripts.make_paradigm_items` or `scripts.make_construction_items`, and a name in `PARADIGMS`,
`CONSTRUCTIONS` or `EXPLORATORY`.
`published_2018.csv` holds the mean semantic update of each published network in each condition
(Rabovsky, Hansen & McClelland 2018, standard model).
"""

from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, model_validator

from equivocal.errors import validate
from equivocal.store import read_table, read_toml
from equivocal.store.files import is_plain_name, resolve_inside
from equivocal.store.text import find_named_file
from equivocal.world import World, list_shipped_worlds, split_world_name
from equivocal.world.items import Item, find_shipped_items, load_items
from lastlayer.errors import UserError, check_known

__all__ = ["CONSTRUCTIONS", "EXPLORATORY", "PARADIGMS", "Finding", "Paradigm"]

DATA = resources.files("equivocal.measuring") / "data"
PUBLISHED = "published_2018.csv"
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


class Finding(BaseModel):
    """A result about people: a contrast of conditions that should be positive in a measure."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    says: str
    larger: str = ""
    smaller: str = ""
    contrast: dict[str, float] = {}
    source: str = ""
    signal: Literal["N400", "P600"] = "N400"

    @model_validator(mode="after")
    def _check_contrast(self) -> "Finding":
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
    """The TOML file of a paradigm."""

    model_config = ConfigDict(extra="forbid")

    title: str
    world: str
    sources: tuple[str, ...] = ()
    note: str = ""
    conditions: dict[str, str] = Field(min_length=2)
    findings: tuple[Finding, ...] = ()
    readings: dict[Literal["answer", "rival"], str] = {}
    people: dict[str, float] = {}


@dataclass(frozen=True, eq=False)
class Paradigm:
    """Items in conditions, and what is expected of them."""

    name: str
    title: str
    world: World
    conditions: dict[str, str]  # name: what the published data call it, or an example, or ""
    rows: dict[tuple[str, str], Item]  # by condition and item
    findings: tuple[Finding, ...] = ()
    sources: tuple[str, ...] = ()
    note: str = ""  # how it differs from the study that it follows
    readings: dict[str, str] = field(default_factory=dict)  # how figures call answer and rival
    people: dict[str, float] = field(default_factory=dict)  # published shares of the rival reading

    @property
    def items(self) -> tuple[str, ...]:
        """The names of the items."""
        return tuple(dict.fromkeys(name for _, name in self.rows))

    def cite(self, finding: Finding | None = None) -> str:
        """Return authors and year of a finding's source, which is by default the first."""
        source = (finding and finding.source) or next(iter(self.sources), "")
        authors, sign, _ = source.partition("),")
        return f"{authors})" if sign else source


def load_paradigm(name_or_path: str | Path) -> Paradigm:
    """Load a paradigm.

    Parameters
    ----------
    name_or_path : str or Path
        The name of one that comes with the package, or the path of a TOML file of your own with its
        CSV file beside it.

    Returns
    -------
    Paradigm
        The world, the items and what is expected of them.

    Raises
    ------
    UserError
        For any mistake in either file; the message names the file, the place and what to change.
    """
    path = find_named_file(name_or_path, DATA, "paradigm")
    file = validate(_Expectations, read_toml(path), "key", f"{path}: ")
    _check_conditions(file, path)
    world = _load_world(path, file.world)
    table = path.with_suffix(".csv")
    items = load_items(
        find_shipped_items(path.stem) if path.stem in CONSTRUCTIONS else table,
        world,
        needs=("tracked_units", "rival_units") if file.readings else ("critical_word",),
        conditions=file.conditions,
        balanced=not file.readings,  # what is impossible in one condition may not be in another
    )
    about = dict(file) | {"world": world, "note": " ".join(file.note.split())}
    return Paradigm(name=_check_name(path), rows=items.rows, **about)


def load_table(path: str | Path, world: World) -> Paradigm:
    """Load a table of items of which nothing is expected.

    Parameters
    ----------
    path : str or Path
        The CSV file; items need not be in every condition.
    world : World
        The world whose words they use.

    Raises
    ------
    UserError
        For any mistake, with the row and what to change.
    """
    items = load_items(path, world, balanced=False)
    name = _check_name(Path(path))
    return Paradigm(name, name, world, dict.fromkeys(items.conditions, ""), items.rows)


def _check_name(path: Path) -> str:
    if not is_plain_name(path.stem):
        raise UserError(f"{path}: figures are named after it; give it a shorter, plain name.")
    return path.stem


def _check_conditions(file: _Expectations, path: Path) -> None:
    """Check the conditions that findings name, and the names they have in the published data."""
    for finding in file.findings:
        for name in finding.weights:
            check_known(name, file.conditions, "condition", f"{path}, {finding.says!r:.80}: ")
    known = [str(name) for name in load_published_means()]
    for name, published in file.conditions.items():
        if published and not file.readings:  # conditions of constructions are described instead
            check_known(published, known, "published condition", f"{path}, {name!r:.80}: ")


def _load_world(path: Path, name: str) -> World:
    """Load the world of a paradigm: one of the package, or a file beside the paradigm's."""
    plain, values = split_world_name(name)
    if plain in list_shipped_worlds():
        return _load_shipped_world(name)
    where = f"{path}, world"
    resolve_inside(path.parent, name, where)  # a file may have the whole name, values included
    return World.load(f"{resolve_inside(path.parent, plain, where)}{values}")


_load_shipped_world = cache(World.load)  # the nine paradigms share a world


@cache
def load_published_means() -> pd.DataFrame:
    """Load the mean semantic update of the published networks.

    Returns
    -------
    DataFrame
        A row for each network and a column for each condition.
    """
    table = read_table(str(DATA / PUBLISHED))
    return table.pivot(index="network", columns="condition", values=PUBLISHED_MEASURE)


def find_published(paradigm: Paradigm, measure: str) -> dict[str, np.ndarray]:
    """Return the means of the published networks by condition, for conditions that they have."""
    if measure != PUBLISHED_MEASURE:
        return {}
    known = load_published_means()
    return {
        name: known[published].to_numpy(float)
        for name, published in paradigm.conditions.items()
        if published in known
    }
