"""Suites as data: a TOML file with conditions and findings, and a CSV file with items.

A paradigm has items with a critical word, and findings that its measure should show:

    title = "Semantic incongruity"
    world = "sg2018"
    measure = "semantic_update"
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
suite's first source names its own `source`. The items are in `NAME.csv` beside `NAME.toml`, in the
format of `equivocal.world.items`, with a critical word in each row.

`published_2018.csv` holds the mean semantic update of each published network in each condition
(Rabovsky, Hansen & McClelland 2018, standard model).

A construction has sentences with two readings, in conditions:

    condition,item,sentence,tracked_units,rival_units
    implausible passive,eat egg,the man was eaten by the egg,agent=egg,agent=man

Under one reading a probe is answered by its unit in `tracked_units`, under the other by that in
`rival_units`. The CSV files are made from the worlds by `scripts.make_construction_items`.
"""

from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from equivocal.errors import validate
from equivocal.measuring.word_measures import check_measures
from equivocal.store import read_table, read_toml
from equivocal.store.text import find_named_file
from equivocal.world import World, list_shipped_worlds, split_world_name
from equivocal.world.items import Item, find_shipped_items, load_items
from lastlayer.errors import UserError, check_known
from lastlayer.files import is_plain_name, resolve_inside

__all__ = ["CONSTRUCTIONS", "check_construction"]

DATA = resources.files("equivocal.measuring") / "data"
CONSTRUCTION_DATA = resources.files("equivocal.measuring") / "constructions"
CONSTRUCTIONS = ("passive", "word_order", "attachment")
PUBLISHED = DATA / "published_2018.csv"
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


@dataclass(frozen=True)
class Finding:
    """A result about people: a contrast of conditions that should be positive in the measure."""

    says: str
    contrast: dict[str, float]  # weight by condition; they sum to zero
    source: str  # authors and year
    signal: str = "N400"  # the event-related potential; of networks only the N400 is measured


@dataclass(frozen=True)
class Suite:
    """One paradigm: items in conditions, and the findings that are expected."""

    name: str
    title: str
    world: World
    measure: str
    sources: tuple[str, ...]
    note: str  # how it differs from the study that it follows
    conditions: dict[str, str]  # name: its name in the published data, or ""
    findings: tuple[Finding, ...]
    items: tuple[str, ...]
    rows: dict[tuple[str, str], Item]  # by condition and item

    @property
    def after(self) -> str:
        """Authors and year of the first source."""
        return _shorten(self.sources[0]) if self.sources else ""


class _FindingFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    says: str
    larger: str | None = None
    smaller: str | None = None
    contrast: dict[str, float] = {}
    source: str = ""
    signal: Literal["N400", "P600"] = "N400"


class _SuiteFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    title: str
    world: str
    measure: str = "semantic_update"
    sources: tuple[str, ...] = ()
    note: str = ""
    conditions: dict[str, str] = Field(min_length=2)
    findings: list[_FindingFile] = Field(min_length=1)


def load_suite(name_or_path: str | Path) -> Suite:
    """Load a paradigm.

    Parameters
    ----------
    name_or_path : str or Path
        One of `PARADIGMS`, or the path of a TOML file of your own with its CSV file beside it.

    Returns
    -------
    Suite
        The world, the items and the findings to test.

    Raises
    ------
    UserError
        For any mistake in either file; the message names the file, the place and what to change.
    """
    path = find_named_file(name_or_path, DATA, "suite")
    file = _read_file(path)
    world = _load_world(path, file.world)
    items = load_items(
        path.with_suffix(".csv"), world, needs=("critical_word",), conditions=file.conditions
    )
    findings = tuple(_parse_finding(finding, file, path) for finding in file.findings)
    parsed = {"name": path.stem, "world": world, "note": " ".join(file.note.split())}
    parsed |= {"findings": findings, "items": items.items, "rows": items.rows}
    return Suite(**dict(file) | parsed)


def _read_file(path: Path) -> _SuiteFile:
    """Read the TOML file of a paradigm, and check its name, measure and published conditions."""
    file = validate(_SuiteFile, read_toml(path), "key", f"{path}: ")
    if not is_plain_name(path.stem):
        raise UserError(f"{path}: figures are named after it; give it a shorter, plain name.")
    check_measures([file.measure], f"{path}: ")
    known = [str(name) for name in load_published_means()]
    for name, published in file.conditions.items():
        if published:
            where = f"{path}, condition {name!r:.80}: "
            check_known(published, known, "published condition", where)
    return file


def _load_world(path: Path, name: str) -> World:
    """Load the world of a suite: one of the package, or a file beside the suite's."""
    plain, values = split_world_name(name)
    if plain in list_shipped_worlds():
        return _load_shipped_world(name)
    where = f"{path}, world"
    resolve_inside(path.parent, name, where)  # a file may have the whole name, values included
    return World.load(f"{resolve_inside(path.parent, plain, where)}{values}")


_load_shipped_world = cache(World.load)  # the nine paradigms share a world


def _parse_finding(finding: _FindingFile, file: _SuiteFile, path: Path) -> Finding:
    """Check a finding, and express a pair of conditions as a contrast."""
    where = f"{path}, finding {finding.says!r:.80}"
    pair, weights = (finding.larger, finding.smaller), finding.contrast
    if (pair == (None, None)) == (not weights) or (None in pair and any(pair)):
        raise UserError(f"{where}: give larger and smaller, or a contrast, one of the two.")
    if finding.larger is not None and finding.smaller is not None:
        if finding.larger == finding.smaller:
            raise UserError(f"{where}: larger and smaller are the same; name two conditions.")
        weights = {finding.larger: 1.0, finding.smaller: -1.0}
    for name in weights:
        check_known(name, file.conditions, "condition", f"{where}: ")
    if not abs(sum(weights.values())) < 1e-9 or not any(weights.values()):  # NaN is refused too
        raise UserError(
            f"{where}: the weights of a contrast must sum to zero and must not all be zero."
        )
    source = _shorten(finding.source or next(iter(file.sources), ""))
    contrast = {name: w for name, w in weights.items() if w}
    return Finding(finding.says, contrast, source, finding.signal)


def _shorten(source: str) -> str:
    """Return authors and year of a source, or all of it where it is written in another way."""
    authors, sign, _ = source.partition("),")
    return f"{authors})" if sign else source


@dataclass(frozen=True, eq=False)
class Construction:
    """Sentences of one kind, in conditions."""

    name: str
    title: str
    world: World
    sources: tuple[str, ...]
    readings: dict[str, str]  # labels in figures of `answer` (the tracked units) and `rival`
    conditions: dict[str, str]  # name: an example and, after a colon, what distinguishes it
    items: tuple[Item, ...]
    curves: tuple[str, ...] = ()  # conditions followed over prior variances and sentences heard
    # condition: share of people who took the rival reading, as published
    people: dict[str, float] = field(default_factory=dict)

    @cached_property
    def units(self) -> tuple[str, ...]:
        """All tracked and rival units, in the order of the world."""
        asked = {u for i in self.items for u in (*i.tracked.values(), *i.rivals.values())}
        return tuple(unit for unit in self.world.units if unit in asked)


def check_construction(name: str) -> str:
    """Return the name of a construction, or raise a `UserError` that proposes the nearest."""
    check_known(name, CONSTRUCTIONS, "construction")
    return name


def load_construction(name: str) -> Construction:
    """Load a construction that comes with the package.

    Parameters
    ----------
    name : str
        One of `CONSTRUCTIONS`.

    Returns
    -------
    Construction
        The world and the items, with the units of both readings.

    Raises
    ------
    UserError
        Where there is no construction of this name.
    """
    path = Path(str(CONSTRUCTION_DATA / f"{check_construction(name)}.toml"))
    about = read_toml(path)
    world = World.load(about["world"])
    items = load_items(
        find_shipped_items(name),
        world,
        needs=("tracked_units", "rival_units"),
        conditions=about["conditions"],
        balanced=False,  # an item that is impossible in one condition may be possible in another
    )
    return Construction(
        **about | {"name": name, "world": world, "items": tuple(items.rows.values())}
    )


@cache
def load_published_means() -> pd.DataFrame:
    """Load the mean semantic update of the published networks.

    Returns
    -------
    DataFrame
        A row for each network and a column for each condition.
    """
    table = read_table(str(PUBLISHED))
    return table.pivot(index="network", columns="condition", values="semantic_update")


def find_published(suite: Suite, measure: str) -> dict[str, np.ndarray]:
    """Return the means of the published networks by condition, for conditions that they have."""
    if measure != PUBLISHED_MEASURE:
        return {}
    known = load_published_means()
    return {
        name: known[published].to_numpy(float)
        for name, published in suite.conditions.items()
        if published in known
    }
