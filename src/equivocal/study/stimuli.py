"""Sentences to hear, as data: a CSV file with one row for each condition and item.

    condition,item,sentence,critical_word,tracked_units
    congruent,dinner,"during dinner, the woman eats the pizza",eats,agent=woman; patient=pizza
    reversal,dinner,"during dinner, the pizza eats the woman",eats,agent=pizza; patient=woman

`tracked_units` says what the sentence's syntax indicates: role=unit, separated by semicolons. The
first condition of the file is the baseline, whose readings are the plausible ones. Every item must
appear once in every condition and track the same roles there.
"""

from dataclasses import dataclass
from pathlib import Path

from equivocal.errors import UserError, did_you_mean, join_names
from equivocal.store import is_plain_name, read_cells
from equivocal.world import Utterance, World

__all__ = ["COLUMNS", "Stimuli", "Stimulus", "load_stimuli"]

MAX_BYTES = 16 << 20  # the paper's sixteen sentences have 2 KB
COLUMNS = ("condition", "item", "sentence", "critical_word", "tracked_units")


@dataclass(frozen=True)
class Stimulus:
    """One sentence, parsed."""

    condition: str
    item: str
    utterance: Utterance
    critical: int  # position of the critical word, from 1
    tracked: dict[str, str]  # role: unit


@dataclass(frozen=True)
class Stimuli:
    """All sentences of a study, each item once in each condition."""

    conditions: tuple[str, ...]  # the first is the baseline
    items: tuple[str, ...]
    rows: dict[tuple[str, str], Stimulus]  # by condition and item

    @property
    def longest(self) -> int:
        """Words in the longest sentence."""
        return max(len(row.utterance) for row in self.rows.values())

    @property
    def tracked_units(self) -> list[str]:
        """Units of any row, each once, in the order of the file."""
        return list(dict.fromkeys(u for row in self.rows.values() for u in row.tracked.values()))


def load_stimuli(path: str | Path, world: World) -> Stimuli:
    """Read and check a file; every complaint names the row."""
    rows: dict[tuple[str, str], Stimulus] = {}
    for number, cells in read_cells(path, COLUMNS, MAX_BYTES):
        row = _parsed(cells, world, f"{path}, row {number}")
        if (row.condition, row.item) in rows:
            raise UserError(
                f"{path}, row {number}: item {row.item!r} is there twice in condition "
                f"{row.condition!r}; give each item once per condition."
            )
        rows[row.condition, row.item] = row
    conditions = tuple(dict.fromkeys(condition for condition, _ in rows))
    items = tuple(dict.fromkeys(item for _, item in rows))
    stimuli = Stimuli(conditions, items, rows)
    _check_balance(stimuli, path)
    return stimuli


def _parsed(cells: dict[str, str], world: World, where: str) -> Stimulus:
    for name in COLUMNS:
        if not (cells.get(name) or "").strip():
            raise UserError(f"{where}: {name} is empty; every column needs a value.")
    for name in ("condition", "item"):  # they become part of the names of figures
        if not is_plain_name(cells[name].strip()):
            raise UserError(
                f"{where}: {name} {cells[name]!r:.80} has a slash, a colon or a control character, "
                "or more than 100 letters; rename it."
            )
    try:
        utterance = world.parse(cells["sentence"])
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    return Stimulus(
        condition=cells["condition"].strip(),
        item=cells["item"].strip(),
        utterance=utterance,
        critical=_position(cells["critical_word"], utterance, world, where),
        tracked=_tracked(cells["tracked_units"], world, where),
    )


def _position(word: str, utterance: Utterance, world: World, where: str) -> int:
    """Of the critical word, by the token it stands for."""
    try:
        wanted = world.parse(word).tokens[-1][-1]
    except UserError as error:
        raise UserError(f"{where}: critical_word: {error}") from None
    found = [i for i, tokens in enumerate(utterance.tokens, start=1) if wanted in tokens]
    if len(found) != 1:
        how = "not in the sentence" if not found else "in the sentence more than once"
        raise UserError(
            f"{where}: critical_word {word.strip()!r} is {how}; give one of its words: "
            f"{join_names(utterance.words)}."
        )
    return found[0]


def _tracked(text: str, world: World, where: str) -> dict[str, str]:
    tracked = {}
    for pair in filter(None, (part.strip() for part in text.split(";"))):
        role, sign, unit = (part.strip() for part in pair.partition("="))
        if not sign:
            raise UserError(f"{where}: tracked_units are role=unit; role=unit, got {pair!r}.")
        for name, known, what in ((role, world.roles, "role"), (unit, world.units, "unit")):
            if name not in known:
                hint = did_you_mean(name, known) or f"; {what}s are {join_names(known)}."
                raise UserError(f"{where}: unknown {what} {name!r}{hint}")
        tracked[role] = unit
    return tracked


def _check_balance(stimuli: Stimuli, path: str | Path) -> None:
    for item in stimuli.items:
        if lacking := [c for c in stimuli.conditions if (c, item) not in stimuli.rows]:
            raise UserError(
                f"{path}: item {item!r} has no row in condition {join_names(lacking)}; every item "
                "must be in every condition."
            )
        roles = {tuple(sorted(stimuli.rows[c, item].tracked)) for c in stimuli.conditions}
        if len(roles) > 1:
            raise UserError(
                f"{path}: item {item!r} tracks other roles in one condition than in another; "
                "track the same roles in all."
            )
