"""Which column of the trial table is what: by our names for them, or by those that were asked for.

A column that is missing under our name but present under a common other name is not passed over:
without positions, every word of a sentence would be joined to the measure of one.
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from equivocal.errors import UserError, did_you_mean, join_names

PLACES = ("item", "condition", "position", "word")  # what says which word of which sentence
NEEDED = ("participant", "item", "response")
OTHER_NAMES = {
    "participant": ("subject", "subj", "sub", "ppt", "participant_id", "subject_id", "id"),
    "item": ("sentence", "stimulus", "item_id", "sentence_id", "sent_id", "item_number"),
    "condition": ("cond",),
    "position": ("word_position", "word_number", "word_pos", "region", "word_nr", "wordnum"),
    "word": ("token",),
    "response": ("rt", "reading_time", "n400", "amplitude", "response_time"),
}


@dataclass(frozen=True, kw_only=True)
class Columns:
    """What the columns of the trial table are called.

    `response` is `rt` unless given, or `response` where that is all there is.
    """

    participant: str = "participant"
    item: str = "item"
    condition: str = "condition"
    position: str = "position"
    word: str = "word"
    response: str | None = None


def find_columns(path: Path, present: Sequence[str], columns: Columns) -> dict[str, str]:
    """Return the column for each of our names, once none that is needed or asked for is missing."""
    names = asdict(replace(columns, response=columns.response or _choose_response(path, present)))
    for name in names.values():
        roles = [f"--{role}" for role in names if names[role] == name]
        if len(roles) > 1:
            both = " and ".join(roles)
            raise UserError(f"{both} name the same column {name!r}; give each its own.")
    for role, name in names.items():
        if name in present:
            continue
        if role in NEEDED or name != role:
            raise UserError(explain_missing(path, name, role, present))
        likely = [other for other in _guess_columns(role, present) if other not in names.values()]
        if likely:
            raise UserError(
                f"{path} has no column {name!r}; found {likely[0]!r}, so add --{role} "
                f"{shlex.quote(likely[0])}, or rename it if it is something else."
            )
    return names


def _choose_response(path: Path, present: Sequence[str]) -> str:
    """Choose `rt` or `response`; the latter may be a button beside the `RT` of pressing it."""
    if "rt" in present or "response" not in present:
        return "rt"
    likely = _guess_columns("response", present)
    if len(likely) > 1:
        raise UserError(
            f"{path} has {join_names(likely)}, and either may be meant; choose with --response."
        )
    return "response"


def _guess_columns(role: str, present: Sequence[str]) -> list[str]:
    """Return columns that are likely to be meant, whatever their capitals and blanks."""
    known = (role, *OTHER_NAMES[role])
    plain = {name: re.sub(r"[\W_]+", "_", name.casefold()).strip("_") for name in present}
    return [name for other in known for name in present if plain[name] == other]


def guess_place(name: str) -> str | None:
    """Return which of `PLACES` a column is likely to hold.

    >>> guess_place("word_position"), guess_place("Word"), guess_place("suite")
    ('position', 'word', None)
    """
    return next((place for place in PLACES if _guess_columns(place, [name])), None)


def explain_missing(
    path: Path, name: str, role: str, present: Sequence[str], *, option: bool = True
) -> str:
    """Return the sentence for a column that is missing, with the likeliest instead of it."""
    near = did_you_mean(name, present)
    if not near:
        usual = _guess_columns(role, present)
        near = f": did you mean {usual[0]!r}?" if usual else f"; there are {join_names(present)}."
    way_out = f" Name it with --{role}." if option else ""
    return f"{path} has no column {name!r}{near}{way_out}"


def translate_controls(controls: Sequence[str], names: dict[str, str]) -> list[str]:
    """Translate controls, called as in the trial table, to the names that a join knows."""
    ours = {theirs: name for name, theirs in names.items()}
    for control in controls:
        if ours.get(control) in NEEDED:
            raise UserError(
                f"--control {control} is the {ours[control]}, which the models hold already; leave "
                "it out."
            )
        if control in names and control not in ours:
            raise UserError(
                f"--control {control}: by --{control} that is {names[control]!r} here; give that, "
                "or rename the column."
            )
    return [ours.get(control, control) for control in controls]
