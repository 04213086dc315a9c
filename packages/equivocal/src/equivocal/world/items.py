"""Sentences as data: a CSV file with one row for each condition and item.

    condition,item,sentence,critical_word,tracked_units,rival_units
    congruent,dinner,"during dinner, the woman eats the pizza",eats,agent=woman; patient=pizza,
    reversal,dinner,"during dinner, the pizza eats the woman",eats,agent=pizza; patient=woman,

The stimuli of a study, the items of a paradigm and those of a construction are all such files; each
kind of file needs some of the last three columns and may leave out the others.

`sentence` has known words in any order; it may be a prefix of a sentence. `critical_word` is one of
its words: the last occurrence counts, and where none is given, the last word of the sentence.
`tracked_units` are the units that the sentence's syntax indicates, as `probe=unit; probe=unit`; a
probe is a role ("who is the agent?") or a word ("what part does the telescope play?").
`rival_units` are those of another reading, for the same probes.

In the stimuli of a study the first condition of the file is the baseline, whose readings are the
plausible ones. Other sentences, or another critical word, can be measured with the same posterior:
`find_all_items` finds every item of the world that is built like those of a study, and
`move_critical_word` returns the same items with another critical word.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
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
    "choose_items",
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
    conditions: Collection[str] | None = None,
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
    conditions : collection of str, optional
        The valid conditions; by default those of the file.
    balanced : bool
        Whether every item must be in every condition, with the same probes.

    Raises
    ------
    UserError
        For any mistake, with the file, the row and what to change.
    """
    required, rows = (*COLUMNS, *needs), dict[tuple[str, str], Item]()
    for number, texts in read_cells(path, required, MAX_BYTES):
        cells = {column: text.strip() for column, text in texts.items()}
        with _locate_mistakes(f"{path}, row {number}"):
            if empty := [name for name in required if not cells[name]]:
                raise UserError(f"{empty[0]} is empty; fill in the cell.")
            _check_names(cells, conditions)
            item = _parse_item(cells, world)
            if (item.condition, item.name) in rows:
                raise UserError(
                    f"item {item.name!r} appears twice in condition {item.condition!r}; give each "
                    "item once per condition."
                )
        rows[item.condition, item.name] = item
    found = conditions or dict.fromkeys(condition for condition, _ in rows)
    items = Items(tuple(found), tuple(dict.fromkeys(name for _, name in rows)), rows)
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


def _check_names(cells: dict[str, str], conditions: Collection[str] | None) -> None:
    """Check the condition and the item, which become part of the file names of figures."""
    if conditions:
        check_known(cells["condition"], conditions, "condition")
    for name in ("item",) if conditions else ("condition", "item"):
        if not is_plain_name(cells[name]):
            raise UserError(
                f"{name} {cells[name]!r:.80} has a slash, a colon or a control character, or more "
                "than 100 letters; rename it."
            )


def _parse_item(cells: dict[str, str], world: World) -> Item:
    """Parse the sentence of a row, with its critical word and its units."""
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
    critical = _find_critical(cells.get("critical_word", ""), utterance, world)
    return Item(cells["condition"], cells["item"], utterance, critical, tracked, rivals)


def _find_critical(text: str, utterance: Utterance, world: World) -> int:
    """Return the last position of the critical word in any inflection; by default the last word."""
    if not text:
        return len(utterance)
    with _locate_mistakes("critical_word"):
        wanted = world.parse(text).constituents[-1].word
    places = [place for place, part in enumerate(utterance, start=1) if part.word == wanted]
    if not places:
        raise UserError(
            f"critical_word {text!r:.80} is not in the sentence; give one of its words: "
            f"{join_names(utterance.words)}."
        )
    return places[-1]


def _parse_units(cells: dict[str, str], column: str, world: World) -> dict[str, str]:
    """Parse a cell such as `probe=unit; probe=unit`; a missing column has no units."""
    units = {}
    with _locate_mistakes(column):
        for pair in filter(None, (part.strip() for part in cells.get(column, "").split(";"))):
            probe, sign, unit = (part.strip() for part in pair.partition("="))
            if not sign:
                raise UserError(f"write probe=unit; probe=unit, not {pair!r:.80}.")
            world.find_probe_units(probe)  # refuses an unknown probe
            check_known(unit, world.units, "unit")
            units[probe] = unit
    return units


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


def choose_items(stimuli: Items, world: World, items: str, critical_word: str) -> Items:
    """Return the items of a study or all of its world, with its own or another critical word."""
    chosen = find_all_items(stimuli, world) if items == "all" else stimuli
    if critical_word != "study":
        return move_critical_word(chosen, world, critical_word)
    return chosen


def move_critical_word(stimuli: Items, world: World, to: str) -> Items:
    """Return the same sentences with the "verb", or their "last" word, as critical word.

    The verb is the first constituent without a marker that fills none of the tracked roles.

    Raises
    ------
    UserError
        Where a sentence has no such constituent.
    """
    rows = {
        place: replace(row, critical=len(row.utterance) if to == "last" else _find_verb(row, world))
        for place, row in stimuli.rows.items()
    }
    return replace(stimuli, rows=rows)


def _find_verb(row: Item, world: World) -> int:
    tracked = [world.units.index(unit) for unit in row.tracked.values()]
    for position, part in enumerate(row.utterance, start=1):
        if not part.marker and not world.find_filler_units(part.word)[tracked].any():
            return position
    raise UserError(
        f"critical_word = 'verb' needs a verb in {str(row.utterance)!r}: a constituent without a "
        "marker that fills none of the tracked roles; leave it out."
    )


def find_all_items(stimuli: Items, world: World) -> Items:
    """Find every item of a world that is built like those of a study.

    The first item of the study is the pattern. A sentence of the world is an item if it begins with
    as many constituents, the same markers, and the same agent. In the paper's world these are the
    sentences about what the woman does to something in a situation: sixteen, of which the study
    has eight. The reversal is the same sentence with agent and patient exchanged, even if the
    world has no such sentence.

    Parameters
    ----------
    stimuli : Items
        Items of a study whose last condition exchanges agent and patient of the first.
    world : World
        The world to search.

    Raises
    ------
    UserError
        Where the study's stimuli do not have this form.
    """
    baseline, reversal = stimuli.conditions[0], stimuli.conditions[-1]
    pattern, turned = (stimuli.rows[name, stimuli.items[0]] for name in (baseline, reversal))
    agent, patient = (_find_position(pattern, role, world) for role in ("agent", "patient"))
    if turned.utterance.tokens != _exchange(pattern.utterance, agent, patient).tokens:
        raise UserError(
            "items = 'all' needs a study whose last condition exchanges agent and patient of the "
            f"first, unlike {str(pattern.utterance)!r} and {str(turned.utterance)!r}; leave it out."
        )
    rows: dict[tuple[str, str], Item] = {}
    for utterance in _find_similar(pattern, agent, world):
        who, what = (utterance.constituents[place].word for place in (agent, patient))
        if who == what:
            continue
        if unknown := {who, what} - set(world.units):
            raise UserError(
                f"items = 'all' needs a unit named {min(unknown)!r}, as the word; leave it out."
            )
        name = str(utterance)
        back = _exchange(utterance, agent, patient)
        tracked, exchanged = {"agent": who, "patient": what}, {"agent": what, "patient": who}
        rows[baseline, name] = Item(baseline, name, utterance, pattern.critical, tracked)
        rows[reversal, name] = Item(reversal, name, back, turned.critical, exchanged)
    return Items((baseline, reversal), tuple(dict.fromkeys(item for _, item in rows)), rows)


def _find_similar(pattern: Item, agent: int, world: World) -> list[Utterance]:
    """Find sentence prefixes that fit the pattern, each once, most probable first."""
    wanted = pattern.utterance.constituents
    markers = [part.marker for part in wanted]
    found: dict[tuple[tuple[str, ...], ...], Utterance] = {}
    for sentence in world.sentences:
        heard = world.parse(sentence.text).first(len(wanted))
        same_markers = [part.marker for part in heard] == markers
        if same_markers and heard.constituents[agent].word == wanted[agent].word:
            found.setdefault(heard.tokens, heard)
    return list(found.values())


def _find_position(row: Item, role: str, world: World) -> int:
    """Find the position of a role's filler in a sentence."""
    unit = row.tracked.get(role)
    places = [
        place
        for place, part in enumerate(row.utterance)
        if unit and world.find_filler_units(part.word)[world.units.index(unit)]
    ]
    if len(places) != 1:
        raise UserError(
            f"items = 'all' needs one word for the {role} of {str(row.utterance)!r}, found "
            f"{len(places)}; track it in the stimulus file, or leave items out."
        )
    return places[0]


def _exchange(utterance: Utterance, one: int, other: int) -> Utterance:
    parts = list(utterance.constituents)
    parts[one], parts[other] = parts[other], parts[one]
    return Utterance(tuple(parts))
