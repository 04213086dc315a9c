"""A world from a table of events: a row per event, a column per role, and how often it happens.

What the table does not say gets a default, and a comment in the TOML that says so: constructions,
function words, how often a role is left unsaid. The probabilities of the events are kept exactly,
role by role: each role's fillers are conditional on as few of the roles before it as suffice.

Ratings of norming studies become weights by `RATING_BASE ** rating` within a verb: one point more
doubles the frequency. Real-valued features become yes/no features by terciles (low, high), and more
than `MOST_COLUMNS` of them by the signs of their first principal components. Further function words
and defaults go into `MARKERS`; everything else is changed in the file that is written.
"""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from equivocal.store import read_table
from equivocal.world.loading import format_world
from equivocal.world.spelling import fold, inflect_verb, is_readable
from lastlayer.errors import UserError, join_names

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["write_world_from_tables"]

WEIGHTS = ("frequency", "probability", "rating")
MARKERS = {
    "location": "in", "place": "in", "instrument": "with", "recipient": "to", "goal": "to",
    "source": "from", "situation": "during", "time": "at", "beneficiary": "for",
}  # fmt: skip
ROLES = ("agent", "patient", *MARKERS)  # whose names may have capitals in a table
ABSENT = "absent"
RATING_BASE = 2.0
MOST_COLUMNS = 10  # of real-valued features that become terciles
COMPONENTS = 8
UNSAID = 0.5
PASSIVE = 0.2
HEAD = """# Made from tables by `equivocal world from-table`; change anything, then run
# `equivocal world check` on this file. docs/guides/worlds.md explains it.

"""
ASSUMED = """# The table has no wordings, so these are assumed: one plain order of words, \
and function words by the names of roles.
"""
NO_NOISE = """# There is no noise: every sentence is heard as it was meant. A table such as
# [noise.slip] with exchange = ["agent", "patient"] and a probability adds some.
"""


def write_world_from_tables(
    events: str | Path,
    words: str | Path | None = None,
    *,
    name: str,
    passive: bool = False,
    order: str = "SVO",
) -> str:
    """Return the text of a world file made from a table of events, and a table of words if any.

    Parameters
    ----------
    events : str or Path
        A row per event: the column `action`, a column for each other role, and optionally
        `frequency`, `probability` or `rating`. `ROLE_class` and `ROLE_features` describe the words.
    words : str or Path, optional
        `word`, then its features: a column `features` with a list, 0/1 columns, or real numbers.
    name : str
        The name of the world.
    passive : bool
        Whether a fifth of the sentences are passives with "was" and "by".
    order : str
        The order of subject, verb and object: "SVO", "SOV", "VSO", …

    Returns
    -------
    str
        TOML with comments.

    Raises
    ------
    UserError
        For a mistake in a table, with its row and column.
    """
    if sorted(order.upper()) != ["O", "S", "V"]:
        raise UserError(f"the order has the letters S, V and O, once each, got {order!r}; try SOV.")
    table, roles = _read_events(Path(events))
    classes, features = _describe_words(table, roles)
    rule = ""
    if words is not None:
        described, rule = _read_words(Path(words), table, roles, Path(events))
        features |= described
    if "action" in roles and len(roles) == 1:
        raise UserError(f"{events} has no role but `action`; add a column such as `agent`.")
    raw: dict[str, Any] = {"name": name, "description": f"Events of {Path(events).name}."}
    raw["roles"] = roles
    raw["words"] = {
        group: {word: [*features[word], word] for word in members}
        for group, members in classes.items()
    }
    subject, object_ = _find_subject(roles)
    others = [role for role in roles if role not in {subject, object_, "action"}]
    markers = {role: MARKERS[role] for role in others if role in MARKERS}
    uses = [*markers.values(), *(["was", "by"] if passive and object_ else [])]
    if uses:
        raw["markers"] = {marker: [marker] for marker in dict.fromkeys(uses)}
    raw["actions"] = {
        str(action): _build_action(part, [role for role in roles if role != "action"])
        for action, part in table.groupby("action", sort=False)
    }
    raw["constructions"] = list(
        _build_constructions(order.upper(), subject, object_, others, markers, passive=passive)
    )
    return _comment(format_world(raw), table, rule, has_others=bool(others))


# ---- reading


def _read_texts(path: Path, needed: str, meaning: str) -> "pd.DataFrame":
    """Return a table of text whose index is the number of each row; empty rows are left out."""
    table = read_table(path, dtype=str, keep_default_na=False, header=None, skip_blank_lines=False)
    names = [str(name).strip() for name in table.iloc[0]]
    for number, name in enumerate(names, start=1):
        if not name or names.index(name) + 1 < number:
            why = f"is named {name!r} like another" if name else "has no name"
            raise UserError(f"{path} row 1: column {number} {why}; rename it or take it out.")
    known = {needed, "features", *WEIGHTS}
    table.columns = [low if (low := name.lower()) in known else name for name in names]
    if needed not in table:
        raise UserError(
            f"{path} has no column `{needed}`, {meaning}; its columns are {join_names(names)}."
        )
    table = table.fillna("").map(str.strip).iloc[1:].set_axis(range(2, len(table) + 1))
    table = table[(table != "").any(axis=1)]
    if table.empty:
        raise UserError(f"{path} has no rows below its header; add one.")
    for row in table.index[table[needed] == ""]:
        raise UserError(f"{path} row {row}, column {needed}: the cell is empty; fill it in.")
    return table


def _parse_number(cell: str, decimal: str) -> float:
    """Parse a finite number; NaN for anything else, such as one with a mark for thousands."""
    try:
        value = float(cell.replace(decimal, "."))
    except ValueError:
        return float("nan")
    plain = np.isfinite(value) and not {",", "."} - {decimal} & {*cell}
    return value if plain else float("nan")


def _read_events(path: Path) -> tuple["pd.DataFrame", list[str]]:
    """Return the table with a column `weight`, and the roles in the order of the columns."""
    table = _read_texts(path, "action", "which names the verb")
    described = tuple(f"_{kind}" for kind in ("class", "features"))
    known = {f"{role}{kind}" for role in ROLES for kind in ("", *described)}
    table.columns = [low if (low := str(name).lower()) in known else name for name in table]
    roles = [c for c in table.columns if c not in WEIGHTS and not c.endswith(described)]
    _check_fillers(path, table, roles)
    _warn_of_inflected(table["action"].unique())
    table["weight"] = _read_weights(path, table, roles)
    return table, roles


def _check_fillers(path: Path, table: "pd.DataFrame", roles: Sequence[str]) -> None:
    """Refuse columns that are no roles, what is no word, and two spellings of one word."""
    seen: dict[str, tuple[str, int, str]] = {}
    for role in roles:
        filled = table[role][table[role] != ""]
        if filled.empty or all(cell.replace(".", "").isdecimal() for cell in filled):
            what = "holds numbers only" if len(filled) else "is empty"
            raise UserError(
                f"{path} row 1: column {role} {what}, so it is no role; take it out, or call it "
                "frequency, probability or rating if it says how often an event happens."
            )
        for row, word in zip(filled.index, filled, strict=True):
            if not is_readable(word):
                raise UserError(
                    f"{path} row {row}, column {role}: {word!r:.80} is no word of a sentence; use "
                    "letters, digits, apostrophes, hyphens and blanks, or take out the column, if "
                    "it is no role."
                )
            known, at, where = seen.setdefault(fold(word), (word, row, role))
            if known != word:
                raise UserError(
                    f"{path} row {row}, column {role}: {word!r} is spelt {known!r} in row {at}, "
                    f"column {where}; spell a word in one way."
                )


def _warn_of_inflected(actions: Iterable[str]) -> None:
    """Warn of verbs in the third person, which sentences would inflect again."""
    for action in actions:
        first, _, rest = action.partition(" ")
        for base in (first[:-1], first[:-2]):
            if base and inflect_verb(base, "third") == first:
                plain = f"{base} {rest}".strip()
                warnings.warn(
                    f"the verb {action!r} looks inflected; if so, write {plain!r}, since sentences "
                    "inflect it.",
                    stacklevel=2,
                )


def _read_weights(path: Path, table: "pd.DataFrame", roles: Sequence[str]) -> list[float]:
    """Read how often each event happens; equally often without a column that says so."""
    present = [name for name in WEIGHTS if name in table.columns]
    if len(present) > 1:
        raise UserError(f"{path} has the columns {join_names(present)}; keep one of them.")
    if not present:
        return [1.0] * len(table)
    (column,) = present
    for row in table.index[table.duplicated(roles)] if column != "frequency" else ():
        same = table.index[(table[roles] == table.loc[row, roles]).all(axis=1)]
        raise UserError(
            f"{path} row {row}: the event of row {same[0]} is there again, with a {column} of its "
            "own; keep one of the rows."
        )
    weights = []
    for row, cell in table[column].items():
        value = _parse_number(cell, table.attrs["decimal"])
        if not (column == "rating" or value > 0) or np.isnan(value):
            rule = "a number" if column == "rating" else "a number above 0"
            way_out = ", without marks for thousands" if "," in cell or "." in cell else ""
            way_out += "" if column == "rating" else "; leave out what never happens"
            raise UserError(
                f"{path} row {row}, column {column}: this should be {rule}, got {cell!r}{way_out}."
            )
        weights.append(RATING_BASE**value if column == "rating" else value)
    return weights


def _describe_words(
    table: "pd.DataFrame", roles: Sequence[str]
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return the words of each class, and the features of each word, as the events give them."""
    classes: dict[str, list[str]] = {}
    features: dict[str, list[str]] = {}
    for role in ("action", *(role for role in roles if role != "action")):
        group = table.get(f"{role}_class", table[role].map(lambda _, role=role: f"{role}s"))
        listed = table.get(f"{role}_features", table[role].map(lambda _: ""))
        for word, given, more in zip(table[role], group, listed, strict=True):
            if word and word not in features:
                own = given or f"{role}s"
                classes.setdefault(own, []).append(word)
                features[word] = [*dict.fromkeys([own, *_split_list(more)])]
    return classes, features


def _split_list(text: str) -> list[str]:
    for mark in ",;|":
        text = text.replace(mark, "\n")
    return [part.strip() for part in text.split("\n") if part.strip()]


def _read_words(
    path: Path, table: "pd.DataFrame", roles: Sequence[str], events: Path
) -> tuple[dict[str, list[str]], str]:
    """Read the features of words, and the rule by which they were made of numbers, if any."""
    words = _read_texts(path, "word", "which names it")
    for row in words.index[words["word"].duplicated()]:
        raise UserError(
            f"{path} row {row}, column word: {words['word'][row]!r} is there twice; keep one of "
            "the rows."
        )
    features, rule = _read_features(path, words)
    described = dict(zip(words["word"], features, strict=True))
    for row, (word, names) in zip(words.index, described.items(), strict=True):
        if others := [name for name in names if name in described and name != word]:
            raise UserError(
                f"{path} row {row}: the feature {others[0]!r} of {word!r} is also a word; rename "
                "the feature."
            )
    spelt = {fold(word): word for word in described}
    for role in roles:
        for row, word in table[role].items():
            if word and word not in described:
                other = spelt.get(fold(word))
                why = f"is spelt {other!r} in {path}; use one" if other else f"is not in {path}"
                way_out = "spelling" if other else "add a row"
                raise UserError(
                    f"{events} row {row}, column {role}: {word!r} {why}"
                    f"{' ' if other else '; '}{way_out}."
                )
    return described, rule


def _read_features(path: Path, words: "pd.DataFrame") -> tuple[list[list[str]], str]:
    """Return the features of each row: from a list, 0/1 columns or real numbers; and the rule.

    An empty cell is no feature.
    """
    columns = [column for column in words.columns if column not in {"word", "features"}]
    found = [_split_list(cell) for cell in words.get("features", [""] * len(words))]
    numbers = np.full((len(words), len(columns)), np.nan)
    for place, column in enumerate(columns):
        for at, (row, cell) in enumerate(words[column].items()):
            numbers[at, place] = _parse_number(cell, words.attrs["decimal"])
            if cell and np.isnan(numbers[at, place]):
                raise UserError(
                    f"{path} row {row}, column {column}: a feature is a number, got {cell!r:.80}; "
                    "put lists of features into a column `features`."
                )
    binary = (np.isin(numbers, (0, 1)) | np.isnan(numbers)).all(axis=0).reshape(-1)
    for place in np.flatnonzero(binary).tolist():
        for at in np.flatnonzero(numbers[:, place] == 1).tolist():
            found[at].append(columns[place])
    real = numbers[:, ~binary]
    columns = [columns[place] for place in np.flatnonzero(~binary).tolist()]
    if len(columns) > MOST_COLUMNS and np.isnan(real).any():
        at, place = np.argwhere(np.isnan(real))[0]
        raise UserError(
            f"{path} row {words.index[at]}, column {columns[place]}: the cell is empty, and a "
            "vector needs all of its numbers; fill it in."
        )
    for at, names in enumerate(_discretise(real, columns)):
        found[at] += names
    if len(columns) > MOST_COLUMNS:
        return found, f"signs of the first {COMPONENTS} principal components of the words' vectors"
    return found, f"{join_names(columns)}: high and low are the outer thirds" if columns else ""


def _discretise(numbers: np.ndarray, columns: list[str]) -> Iterator[list[str]]:
    """Yield yes/no features of real-valued ones, by terciles or signs of principal components."""
    if len(columns) > MOST_COLUMNS:
        centred = numbers - numbers.mean(axis=0)
        left, size, _ = np.linalg.svd(centred, full_matrices=False)
        scores = (left * size)[:, :COMPONENTS]
        for row in scores:
            yield [f"component {place + 1}" for place in np.flatnonzero(row > 0).tolist()]
        return
    low, high = np.nanquantile(numbers, [1 / 3, 2 / 3], axis=0) if columns else ([], [])
    for row in numbers:
        below = [f"{c} low" for c, x, end in zip(columns, row, low, strict=True) if x < end]
        yield below + [f"{c} high" for c, x, end in zip(columns, row, high, strict=True) if x > end]


# ---- events and constructions


def _build_action(part: "pd.DataFrame", roles: Sequence[str]) -> dict[str, Any]:
    """Return the table of one verb: its weight, and each role given as few roles as suffice."""
    action: dict[str, Any] = {"weight": _shorten(part["weight"].sum())}
    part = part.replace({role: {"": ABSENT} for role in roles})
    before: list[str] = []
    for role in roles:
        if (part[role] == ABSENT).all():
            continue
        action[role] = _build_rules(part, role, _find_givens(part, role, before))
        before.append(role)
    return action


def _shorten(number: float) -> float | int:
    """Return a number without digits that are round-off."""
    short = float(f"{number:.12g}")
    return int(short) if short.is_integer() else short


def _find_givens(part: "pd.DataFrame", role: str, before: Sequence[str]) -> tuple[str, ...]:
    """Find the fewest earlier roles that tell as much about a role as all of them."""

    def describe(names: Sequence[str]) -> np.ndarray:
        """Return, for each row, the share of its word given these roles, and how many there are."""
        keys = [np.zeros(len(part)), *(part[name] for name in names)]
        alike, same = part.groupby(keys), part.groupby([*keys, part[role]])
        share = same["weight"].transform("sum") / alike["weight"].transform("sum")
        return np.column_stack([share, alike[role].transform("nunique")])

    choices = chain.from_iterable(combinations(before, size) for size in range(len(before)))
    whole = describe(before)
    enough = (names for names in choices if np.allclose(describe(names), whole, rtol=0, atol=1e-9))
    return next(enough, tuple(before))


def _build_rules(part: "pd.DataFrame", role: str, given: Sequence[str]) -> Any:
    """Return fillers, or a list of rules where they depend on other roles."""
    if not given:
        return _list_fillers(part, role)
    rules = []
    for names, rows in part.groupby(list(given), sort=False):
        when = {r: w for r, w in zip(given, names, strict=True) if w != ABSENT}
        rules.append({"when": when, "then": _list_fillers(rows, role)})
    # a role that is absent cannot be asked about, so rules with fewer conditions come last
    return sorted(rules, key=lambda rule: -len(rule["when"]))


def _list_fillers(part: "pd.DataFrame", role: str) -> Any:
    """Return the only filler of a role, or each with its frequency as a fraction."""
    if part[role].nunique() == 1:
        return str(part[role].iloc[0])
    sums = part.groupby(role, sort=False)["weight"].sum()
    total = _shorten(sums.sum())
    return {str(word): f"{_shorten(weight)} / {total}" for word, weight in sums.items()}


def _find_subject(roles: Sequence[str]) -> tuple[str, str | None]:
    """Return the roles that a plain sentence has before and after its verb."""
    nouns = [role for role in roles if role != "action"]
    subject, *left = sorted(nouns, key=lambda role: role != "agent")
    return subject, "patient" if "patient" in left else next(iter(left), None)


def _build_constructions(
    order: str,
    subject: str,
    object_: str | None,
    others: list[str],
    markers: dict[str, str],
    *,
    passive: bool,
) -> Iterator[dict[str, Any]]:
    """Yield the active, and the passive if wanted; other roles stand before a final verb."""
    places = {"S": [subject], "V": ["action"], "O": [object_] if object_ else []}
    said = [role for letter in order for role in places[letter]]
    said[len(said) - (order[-1] == "V") :] = [*others, *said[len(said) - (order[-1] == "V") :]]
    rest = {"mentioned": dict.fromkeys(others, UNSAID)} if others else {}
    more = rest | ({"markers": markers} if markers else {})
    yield {"name": "active", "order": said, **more}
    if passive and object_:
        turned = {"action": "was", subject: "by", **markers}
        yield {
            "name": "passive",
            "probability": PASSIVE,
            "order": [object_, "action", subject, *others],
            "form": "participle",
            **rest,
            "markers": turned,
        }


def _comment(text: str, table: "pd.DataFrame", rule: str, *, has_others: bool) -> str:
    """Say in the file what the tables did not say."""
    how = "The table has no frequencies, so each of its rows counts once."
    for column in table.columns.intersection([*WEIGHTS]):
        how = f"Frequencies are those of the column {column}."
    if "rating" in table:
        how = f"Frequencies are {RATING_BASE:g} to the power of the ratings: a point doubles."
    others = f"# `mentioned`: other roles are said with probability {UNSAID:g}.\n" * has_others
    notes = {
        "[words.": f"# Features made of numbers: {rule}.\n" if rule else "",
        "[actions.": f"# {how}\n",
        "[[constructions]]": f"{ASSUMED}{others}{NO_NOISE}",
    }
    for table_name, note in notes.items():
        text = text.replace(table_name, note + table_name, 1)
    return HEAD + text
