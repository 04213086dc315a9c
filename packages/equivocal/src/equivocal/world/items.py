"""Sentences as data: a CSV file with one row for each condition and item.

    condition,item,sentence,critical,tracked_units,rival_units
    congruent,dinner,"during dinner, the woman eats the pizza",eats,agent=woman; patient=pizza,
    reversal,dinner,"during dinner, the pizza eats the woman",eats,agent=pizza; patient=woman,

The stimuli of a study, the items of a paradigm and those of a construction are all such files; each
kind of file needs some of the last three columns and may leave out the others.

`sentence` has known words in any order; it may be a prefix of a sentence. `critical` (or
`critical_word`) is one of its words, of which the last occurrence counts, or the number of a
constituent; where none is given, it is the last. `roles`, such as `agent=pizza; patient=woman`, is
the intended reading, where it is not the one that the sentence's construction gives.
`tracked_units` are the units that the sentence's syntax indicates, as `probe=unit; probe=unit`; a
probe is a role ("who is the agent?") or a word ("what part does the telescope play?").
`rival_units` are those of another reading, for the same probes.

In the stimuli of a study the first condition of the file is the baseline, whose readings are the
plausible ones.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from equivocal.store import read_cells
from equivocal.store.files import is_plain_name
from equivocal.world.spelling import Utterance
from equivocal.world.world import World
from lastlayer.errors import UserError, check_known, join_names

__all__ = [
    "MAX_BYTES",
    "Item",
    "Items",
    "find_shipped_items",
    "load_items",
    "load_stimuli",
]

COLUMNS = ("condition", "item", "sentence")
MAX_BYTES = 16 << 20  # the paper's sixteen sentences have 2 KB
MOST_WORDS = 30  # far longer than any sentence of a world


@dataclass(frozen=True)
class Item:
    """One sentence in one condition.

    Attributes
    ----------
    condition, name : str
        An item has the same name in every condition.
    utterance : Utterance
        The parsed sentence.
    critical : int
        The position of the critical word, counted from 1.
    tracked, rivals : dict of str to str
        The unit of each probe under the indicated reading, and under its rival.
    """

    condition: str
    name: str
    utterance: Utterance
    critical: int
    tracked: dict[str, str] = field(default_factory=dict)
    rivals: dict[str, str] = field(default_factory=dict)
    roles: dict[str, str] = field(default_factory=dict)  # word by role, where the file says so


@dataclass(frozen=True)
class Items:
    """The sentences of a file, by condition and item."""

    conditions: tuple[str, ...]  # in a study the first is the baseline
    items: tuple[str, ...]
    rows: dict[tuple[str, str], Item]

    @property
    def longest(self) -> int:
        """The number of words in the longest sentence."""
        return max(len(row.utterance) for row in self.rows.values())

    @property
    def tracked_units(self) -> list[str]:
        """All tracked units, each once, in the order of the file."""
        return list(dict.fromkeys(u for row in self.rows.values() for u in row.tracked.values()))


def load_items(
    path: str | Path,
    world: World,
    *,
    needs: Collection[str] = (),
    balanced: bool = True,
) -> Items:
    """Load and check a file of items.

    Parameters
    ----------
    path : str or Path
        The CSV file.
    world : World
        The world whose words and units the file uses.
    needs : collection of str
        Columns that must be filled, besides condition, item and sentence.
    balanced : bool
        Whether every item must be in every condition, with the same probes. If not, a file without
        the column `condition` has a single one, "all".

    Raises
    ------
    UserError
        For any mistake, with the file, the row and what to change.
    """
    required, rows = (*COLUMNS, *needs), dict[tuple[str, str], Item]()
    for number, texts in read_cells(path, required if balanced else required[1:], MAX_BYTES):
        cells = {"condition": "all"} | {column: text.strip() for column, text in texts.items()}
        with _locate_mistakes(f"{path}, row {number}"):
            if empty := [name for name in required if not cells[name]]:
                raise UserError(f"{empty[0]} is empty; fill in the cell.")
            _check_names(cells)
            item = _parse_item(cells, world)
            if (item.condition, item.name) in rows:
                raise UserError(
                    f"item {item.name!r} appears twice in condition {item.condition!r}; give each "
                    "item once per condition."
                )
        rows[item.condition, item.name] = item
    conditions, names = (tuple(dict.fromkeys(part)) for part in zip(*rows, strict=True))
    items = Items(conditions, names, rows)
    if balanced:
        _check_balance(items, path)
    return items


@contextmanager
def _locate_mistakes(where: str) -> Iterator[None]:
    """Put the place of a mistake in front of its message."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def _check_names(cells: dict[str, str]) -> None:
    """Check the condition and the item, which become part of the file names of figures."""
    for name in ("condition", "item"):
        if not is_plain_name(cells[name]):
            raise UserError(
                f"{name} {cells[name]!r:.80} has a slash, a colon or a control character, or more "
                "than 100 letters; rename it."
            )


def _parse_item(cells: dict[str, str], world: World) -> Item:
    """Parse the sentence of a row, with its critical word and its units."""
    with _locate_mistakes("sentence"):
        utterance = world.parse(cells["sentence"])
    if len(utterance) > MOST_WORDS:
        raise UserError(f"a sentence has at most {MOST_WORDS} words; shorten it.")
    columns = ("tracked_units", "rival_units")
    tracked, rivals = (_parse_units(cells, column, world) for column in columns)
    if rivals and rivals.keys() != tracked.keys():
        raise UserError(
            f"rival_units asks {join_names(rivals)} and tracked_units {join_names(tracked)}; give "
            "both for the same probes."
        )
    column = "critical" if cells.get("critical") else "critical_word"
    critical = _find_critical(cells.get(column, ""), column, utterance, world)
    roles = _parse_roles(cells, world)
    return Item(cells["condition"], cells["item"], utterance, critical, tracked, rivals, roles)


def _find_critical(text: str, column: str, utterance: Utterance, world: World) -> int:
    """Return the last position of the critical word in any inflection; by default the last word."""
    if not text:
        return len(utterance)
    if text.isdecimal():
        if not 1 <= int(text) <= len(utterance):
            raise UserError(
                f"{column} {text:.20} is not the number of a constituent; there are "
                f"{len(utterance)}: {join_names(utterance.words)}."
            )
        return int(text)
    with _locate_mistakes(column):
        wanted = world.parse(text).constituents[-1].word
    places = [place for place, part in enumerate(utterance, start=1) if part.word == wanted]
    if not places:
        raise UserError(
            f"{column} {text!r:.80} is not in the sentence; give one of its words: "
            f"{join_names(utterance.words)}."
        )
    return places[-1]


def _parse_pairs(cells: dict[str, str], column: str, example: str) -> Iterator[list[str]]:
    """Yield the two sides of each pair in a cell such as `agent=pizza; patient=woman`."""
    with _locate_mistakes(column):
        for pair in filter(None, (part.strip() for part in cells.get(column, "").split(";"))):
            if "=" not in pair:
                raise UserError(f"write {example}; {example}, not {pair!r:.80}.")
            yield [part.strip() for part in pair.split("=", 1)]


def _parse_units(cells: dict[str, str], column: str, world: World) -> dict[str, str]:
    """Parse a cell such as `probe=unit; probe=unit`; a missing column has no units."""
    units = dict(_parse_pairs(cells, column, "probe=unit"))
    with _locate_mistakes(column):
        for probe, unit in units.items():
            world.find_probe_units(probe)  # refuses an unknown probe
            check_known(unit, world.units, "unit")
    return units


def _parse_roles(cells: dict[str, str], world: World) -> dict[str, str]:
    """Parse a cell such as `agent=pizza; patient=woman`."""
    roles = dict(_parse_pairs(cells, "roles", "role=word"))
    with _locate_mistakes("roles"):
        for role in roles:
            check_known(role, world.roles, "role")
        return {role: world.parse(word).constituents[-1].word for role, word in roles.items()}


def _check_balance(items: Items, path: str | Path) -> None:
    """Check that conditions can be compared item by item."""
    for item in items.items:
        if lacking := [c for c in items.conditions if (c, item) not in items.rows]:
            raise UserError(
                f"{path}: item {item!r} has no row in condition {join_names(lacking)}; every item "
                "must be in every condition."
            )
        if len({tuple(sorted(items.rows[c, item].tracked)) for c in items.conditions}) > 1:
            raise UserError(
                f"{path}: item {item!r} does not have the same probes in all conditions; track the "
                "same ones in each."
            )


def find_shipped_items(name: str) -> Path:
    """Return the path of an item file of the package; it may not exist.

    "paper" holds the paper's items, "passive", "word_order" and "attachment" the constructions'.
    """
    return Path(str(resources.files("equivocal.world") / "data" / "items" / f"{name}.csv"))


def load_stimuli(path: str | Path, world: World) -> Items:
    """Load and check a stimulus file.

    Parameters
    ----------
    path : str or Path
        The CSV file; see `equivocal.world.items`.
    world : World
        The world whose words and units it uses.

    Returns
    -------
    Items
        The sentences, parsed, with their critical words and tracked units.

    Raises
    ------
    UserError
        For any mistake, with the file and the row.
    """
    return load_items(path, world, needs=("critical_word", "tracked_units"))
