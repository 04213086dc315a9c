"""The items of a suite: a CSV file with one row for each condition and item.

    condition,item,sentence,critical_word
    congruent,play,the man plays chess,chess
    incongruent,play,the man plays the rose,rose

Any known words in any order are a sentence; it may stop at the critical word. Where the critical
word occurs twice (a prime repeated as target), the last one is meant. Every item is there once in
every condition, so that conditions can be compared item by item.
"""

from dataclasses import dataclass
from pathlib import Path

from equivocal.errors import UserError, did_you_mean, join_names
from equivocal.store import is_plain_name, read_cells
from equivocal.world import Utterance, World

__all__ = ["COLUMNS", "Item", "load_items"]

COLUMNS = ("condition", "item", "sentence", "critical_word")
MAX_BYTES = 16 << 20
MOST_WORDS = 30  # far longer than any sentence of a world


@dataclass(frozen=True)
class Item:
    """One sentence, parsed."""

    utterance: Utterance
    critical: int  # position of the critical word, from 1


Rows = dict[tuple[str, str], Item]


def load_items(
    path: Path, world: World, conditions: tuple[str, ...]
) -> tuple[tuple[str, ...], Rows]:
    """Names of the items, and the sentences by condition and item; complaints name the row."""
    rows: Rows = {}
    for number, cells in read_cells(path, COLUMNS, MAX_BYTES):
        where = f"{path}, row {number}"
        for name in COLUMNS:
            if not (cells.get(name) or "").strip():
                raise UserError(f"{where}: {name} is empty; every column needs a value.")
        condition, item = cells["condition"].strip(), cells["item"].strip()
        if condition not in conditions:
            hint = did_you_mean(condition, conditions) or f"; they are {join_names(conditions)}."
            raise UserError(f"{where}: unknown condition {condition!r:.80}{hint}")
        if not is_plain_name(item):
            raise UserError(f"{where}: item {item!r:.80} is no plain name; rename it.")
        if (condition, item) in rows:
            raise UserError(
                f"{where}: item {item!r} is there twice in condition {condition!r}; give each item "
                "once per condition."
            )
        rows[condition, item] = _parsed(cells, world, where)
    items = tuple(dict.fromkeys(item for _, item in rows))
    for item in items:
        if lacking := [c for c in conditions if (c, item) not in rows]:
            raise UserError(
                f"{path}: item {item!r} has no row in condition {join_names(lacking)}; every item "
                "must be in every condition."
            )
    return items, rows


def _parsed(cells: dict[str, str], world: World, where: str) -> Item:
    try:
        utterance = world.parse(cells["sentence"])
        wanted = world.parse(cells["critical_word"]).constituents[-1].word
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    if len(utterance) > MOST_WORDS:
        raise UserError(f"{where}: at most {MOST_WORDS} words are heard; shorten the sentence.")
    places = [i for i, part in enumerate(utterance, start=1) if part.word == wanted]
    if not places:
        raise UserError(
            f"{where}: critical_word {cells['critical_word'].strip()!r} is not in the sentence; "
            f"give one of its words: {join_names(utterance.words)}."
        )
    return Item(utterance, places[-1])
