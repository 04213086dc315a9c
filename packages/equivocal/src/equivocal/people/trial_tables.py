"""Tables of trials and of measures with the columns that the user names, and results about them.

Trials have a row for each response, measures a row for each item and word. In both, `condition`
is optional, and a word's `position` may be replaced by the `word` itself. A column that is not
named is looked for under its `USUAL` names: ours, and those of the codebook of PsychLing-101
(participant_id, trial_id, stimulus, response, rt, accuracy, condition), whose `stimulus` is our
item. The response is `rt` unless another column is named. Nothing else is guessed.

Names of items and conditions are compared as text; 1 and 1.0 are the same.

Results (`TrialsResult`) are written to a folder:

    compare.toml: compare.csv, alignment.csv, unmatched.csv, trials.csv, lme4.R, figures/
    truth.toml:   data.csv, measures.csv
    power.toml:   power.csv, figures/power

The TOML file is written first: it marks the other files as belonging to this run, even if the run
is interrupted. A user's own file of one of these names is never overwritten.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import tomli_w

from equivocal.result import Figures, Result
from equivocal.store import read_table, split_pair
from equivocal.store.files import compute_checksum, write_text_atomically
from equivocal.store.folders import announce_overwrite, refuse_foreign_files
from equivocal.store.locks import hold_folder
from lastlayer.errors import UserError, check_known, join_names
from lastlayer.machine import collect_versions

PLACES = ("item", "condition", "position", "word")  # columns that identify a word in a sentence
WORDS = ("position", "word")  # either identifies a word within its sentence
NEEDED = ("participant", "item", "response")
USUAL: dict[str, tuple[str, ...]] = {
    "participant": ("participant", "participant_id"),
    "item": ("item", "stimulus"),
    "response": ("rt",),
}
SIGNALS = ("semantic_update", "p600")  # those of the N400 and the P600
OURS = (*SIGNALS, "bayesian_surprise", "uncertainty", "epistemic", "surprisal", "cloze")
NETWORK = "network"  # measures are averaged over it
WHOLE = 2**53  # up to which floating point represents all whole numbers
RESERVED = ("row", "participant", "response", "found")  # our columns of the joined table
# settings that do not make a run a different one; of inputs the checksums are compared instead
UNCOMPARED = ("data", "measures", "versions", "seconds")
Condition = tuple[str, str]  # a column, and the value that it must have


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The names of the columns of the trials, where they are not `USUAL`.

    A response given as COLUMN=VALUE is 1 where the column has that value, and 0 elsewhere.
    """

    participant: str | None = None
    item: str | None = None
    condition: str | None = None
    position: str | None = None
    word: str | None = None
    response: str | None = None


def find_columns(path: Path, present: Sequence[str], columns: Columns) -> dict[str, str]:
    """Return the user's column for each of our names, or refuse a table that lacks one."""
    names: dict[str, str] = {}
    for role, given in asdict(columns).items():
        wanted = USUAL.get(role, (role,)) if given is None else (given,)
        name = next((name for name in wanted if name in present), None)
        if name is not None:
            names[role] = name
        elif given is not None or role in NEEDED:
            raise UserError(
                f"{path} has no column {' or '.join(map(repr, wanted))}; name the column of the "
                f"{role} with --{role}: there are {join_names(present, most=30)}."
            )
    for name in names.values():
        roles = [f"--{role}" for role in names if names[role] == name]
        if len(roles) > 1:
            both = " and ".join(roles)
            raise UserError(f"{both} name the same column {name!r}; give each its own.")
    return names


def read_trials(path: Path, columns: Columns) -> tuple[pd.DataFrame, dict[str, str]]:
    """Read trials from a CSV file.

    Parameters
    ----------
    path : Path
        A row for each response.
    columns : Columns
        The names of its columns.

    Returns
    -------
    trials : DataFrame
        With our names for the columns; `row` is the line of the file.
    names : dict
        The name in the file of each of our columns.
    """
    table = _mark_answers(_open_table(path), columns.response)
    names = find_columns(path, list(table.columns), columns)
    chosen = {theirs: ours for ours, theirs in names.items()}
    # a column that has one of our names, but is not the one that was asked for, is dropped
    clash = [name for name in ("row", *names) if name in table and name not in chosen]
    table = table.drop(columns=clash).rename(columns=chosen)
    table.insert(0, "row", table.index.to_numpy() + 2)  # the header is line 1
    return _convert_keys(table, ("participant", *PLACES)), names


def _open_table(path: Path) -> pd.DataFrame:
    """Read a CSV table, which must have a row below its header."""
    table = read_table(path)
    if table.empty:
        raise UserError(f"{path} has no rows below its header.")
    return table.rename(columns=str)


def _mark_answers(table: pd.DataFrame, response: str | None) -> pd.DataFrame:
    """Add a column of zeros and ones, if the response is given as COLUMN=VALUE."""
    if response is None or "=" not in response or response in table:
        return table
    ((name, value),) = parse_where([response], "--response")
    check_known(name, list(table.columns), "column", f"--response {response}: ")
    present = _convert_to_keys(table[name])
    if not (present == value).any():
        values = map(str, present.dropna().unique())
        raise UserError(
            f"--response {response}: no row has it; values of {name} are {join_names(values)}."
        )
    return table.assign(**{response: (present == value).astype(float).mask(present.isna())})


def read_measures(path: Path, names: dict[str, str] | None = None) -> pd.DataFrame:
    """Read measures from a CSV file, with a column for each.

    Parameters
    ----------
    path : Path
        A row for each item and word, and for each network if there is a column `network`.
    names : dict, optional
        From `read_trials`: items, conditions, positions and words may have their names there.
    """
    table = _open_table(path)
    theirs = {name: role for role, name in (names or {}).items() if role in PLACES}
    table = table.rename(columns={n: role for n, role in theirs.items() if role not in table})
    table = _convert_keys(table, PLACES)
    if "item" not in table:
        raise UserError(
            f"{path} has no column 'item', by which measures are joined to trials: there are "
            f"{join_names(table.columns, most=30)}."
        )
    return table


def parse_where(where: Iterable[str], option: str = "--where") -> list[Condition]:
    """Split conditions COLUMN=VALUE into columns and values.

    >>> parse_where(["position = 3", "suite=cloze_probability"])
    [('position', '3'), ('suite', 'cloze_probability')]
    """
    return [split_pair(condition, option, "position=3", empty=True) for condition in where]


def filter_rows(table: pd.DataFrame, where: Iterable[Condition]) -> pd.DataFrame:
    """Keep rows in which columns have these values; columns that the table lacks are ignored."""
    for name, value in where:
        if name not in table:
            continue
        present = _convert_to_keys(table[name])
        number = pd.to_numeric(pd.Series([value]), errors="coerce")
        known = [key for key in (value, _convert_to_keys(number)[0]) if (present == key).any()]
        if not known:
            values = join_names(map(str, present.dropna().unique()))
            raise UserError(
                f"--where {name}={value}: no row has it; values of {name} are {values}."
            )
        table = table[present == known[0]]
    return table


def choose_measures(
    table: pd.DataFrame, wanted: Sequence[str], controls: Sequence[str] = ()
) -> list[str]:
    """Return the wanted columns, or else ours, or else every column of numbers.

    Tables of `equivocal measure` have many columns, of which some restate others.
    """
    taken = {*PLACES, *RESERVED, NETWORK, *controls}
    numeric = [n for n in table.select_dtypes("number").columns if n not in taken]
    # a measure may have no value in a world
    numeric = [name for name in numeric if name in wanted or table[name].notna().any()]
    if not numeric:
        raise UserError("the measures have no column of numbers besides item and position.")
    for name in wanted:
        check_known(name, numeric, "column of numbers of the measures")
    ours = [name for name in numeric if name.split("_previous")[0] in OURS]
    return list(dict.fromkeys(wanted)) or (ours if SIGNALS[0] in numeric else numeric)


def _convert_keys(table: pd.DataFrame, names: Iterable[str]) -> pd.DataFrame:
    """Convert those of these columns that a table has, so that tables can be joined by them."""
    return table.assign(**{n: _convert_to_keys(table[n]) for n in names if n in table})


def _convert_to_keys(values: pd.Series) -> pd.Series:
    """Convert names to text without surrounding blanks, and whole numbers without a point.

    Empty cells become missing values.
    """
    missing = values.isna()
    if pd.api.types.is_float_dtype(values):
        known = values.dropna()
        if ((known % 1 == 0) & (known.abs() < WHOLE)).all():
            values = values.astype("Int64")
    text = values.astype(str).str.strip().astype(object)
    return text.mask(missing | (text == ""), None)


def convert_to_numbers(values: pd.Series) -> pd.Series:
    """Convert to floating point; values that are not finite numbers become missing."""
    numbers = pd.to_numeric(values, errors="coerce").astype(float)
    return numbers.where(np.isfinite(numbers))


# ---- results


@dataclass(frozen=True, kw_only=True, eq=False)
class TrialsResult(Result):
    """Tables of trials, or of their analysis; `scripts` are other texts to write, by file name.

    `compare_trials` returns the tables "compare" (a row for each measure alone and together with
    the others), "unmatched" (trials that were left out), "trials" and, where
    they were aligned, "alignment" (what became of every word read); `simulate_trials` returns
    "data" and "measures"; `simulate_power` returns "power", by participants and items.
    """

    scripts: dict[str, str] = field(default_factory=dict)

    def draw(self) -> Figures:
        """Draw coefficients and differences in AIC, or power against participants."""
        from equivocal.people.figures import draw_comparison, draw_power

        known = {"compare": draw_comparison, "power": draw_power}
        return {name: known[name](table) for name, table in self.tables.items() if name in known}

    def write(self, folder: str | Path) -> None:
        """Write NAME.toml, then a CSV file for each table with all digits, scripts and figures."""
        folder = Path(folder)
        texts = {f"{name}.csv": table.to_csv(index=False) for name, table in self.tables.items()}
        texts |= self.scripts
        with hold_folder(folder):
            check_folder(folder, self.name, list(texts), self.settings)
            mark = folder / f"{self.name}.toml"
            announce_overwrite(mark, self.settings, [*{*self.settings} - {*UNCOMPARED}])
            write_text_atomically(mark, tomli_w.dumps(self.settings))
            for name, text in texts.items():
                write_text_atomically(folder / name, text)
            self.save_figures(folder)


def record_inputs(**paths: Path | None) -> dict[str, Any]:
    """Return the settings that describe input tables: their paths, checksums, and versions."""
    given = {name: path for name, path in paths.items() if path is not None}
    sums = {name: compute_checksum(path) or "" for name, path in given.items()}
    where = {name: str(path) for name, path in given.items()}
    return {**where, "inputs": sums, "versions": collect_versions()}


def check_folder(folder: Path, name: str, files: list[str], settings: dict[str, Any]) -> None:
    """Refuse to overwrite a user's own files, or the tables that are read."""
    refuse_foreign_files(folder / f"{name}.toml", files)
    written = [path for file in files if (path := folder / file).exists()]
    for table in (Path(settings[each]) for each in settings["inputs"]):
        if any(path.samefile(table) for path in written):
            raise UserError(
                f"{table} is read here and would be overwritten; choose another --out, or copy it "
                "to another folder and give that."
            )
