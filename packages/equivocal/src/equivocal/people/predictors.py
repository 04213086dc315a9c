"""Predictors computed from others: those of previous words, length, interactions.

The effect of a word often appears at the next word (spillover): `NAME_previous` is NAME of the word
before, `NAME_previous_2` of the one before that; the first words of a sentence have none, and their
trials are left out. `length` is the number of letters of a word, as the participant read it.
"""

from collections.abc import Sequence

import pandas as pd

from equivocal.people.trial_tables import NETWORK
from lastlayer.errors import UserError

MOST_LEVELS = 12  # of a column whose interactions are added


def name_with_previous(names: Sequence[str], spillover: int) -> list[str]:
    """Return names, each followed by the names for previous words.

    >>> name_with_previous(["surprise"], 2)
    ['surprise', 'surprise_previous', 'surprise_previous_2']
    """
    return [f"{name}{_name_lag(lag)}" for name in names for lag in range(spillover + 1)]


def _name_lag(lag: int) -> str:
    """Return the suffix of columns that are taken from `lag` words before."""
    return ("", "_previous")[lag] if lag < 2 else f"_previous_{lag}"


def add_previous_words(table: pd.DataFrame, spillover: int, names: Sequence[str]) -> pd.DataFrame:
    """Add the values that columns have at previous words of the same sentence.

    Parameters
    ----------
    table : DataFrame
        Measures or trials, with `item` and `position`, and perhaps `condition`, `network` and
        `participant`.
    spillover : int
        Number of previous words; 0 adds nothing.
    names : sequence of str
        The columns.

    Raises
    ------
    UserError
        Where there are no whole numbers to count back from, or a name is taken.
    """
    if not spillover:
        return table
    position = pd.to_numeric(table.get("position", pd.Series("none")), errors="coerce")
    if not (position % 1 == 0).all():
        raise UserError(
            "--spillover counts back from the position of a word, and not every row has one that "
            "is a whole number; number the words in both tables, or leave out --spillover."
        )
    keys = [name for name in ("participant", "item", "condition", NETWORK) if name in table]
    numbered = table.assign(position=position.astype(int))
    # a word that occurs twice is refused by the join
    plain = numbered[[*keys, "position", *names]].drop_duplicates([*keys, "position"])
    for lag in range(1, spillover + 1):
        lagged = {name: f"{name}{_name_lag(lag)}" for name in names}
        if clash := [name for name in lagged.values() if name in table]:
            raise UserError(f"a table has a column {clash[0]!r} of its own; rename it.")
        moved = plain.assign(position=plain["position"] + lag).rename(columns=lagged)
        numbered = numbered.merge(moved, on=[*keys, "position"], how="left")
    return numbered.assign(position=numbered["position"].astype(str).astype(object))


def add_length(table: pd.DataFrame) -> pd.DataFrame:
    """Add `length`, the letters and digits of each word."""
    if "word" not in table:
        raise UserError(
            "--control length: no table has that column, and the trials have no column word to "
            "count it from; add one of the two."
        )
    counts = table["word"].map(lambda word: sum(map(str.isalnum, word)), na_action="ignore")
    return table.assign(length=counts.astype(float))


def add_interactions(
    trials: pd.DataFrame, measures: Sequence[str], by: str | None
) -> tuple[pd.DataFrame, dict[str, list[str]]]:
    """Add the interactions of measures with a column of few values, such as the condition.

    With L levels, x · (1[level] − 1/L) for each level but the first, so that the coefficient of x
    remains the mean of its slopes in all levels, and that of `x:level` is by how much the slope
    there differs from that of the first level.

    Returns
    -------
    trials : DataFrame
        With columns `x:level`.
    terms : dict
        For each measure, itself and its interactions.
    """
    terms = {name: [name] for name in measures}
    if by is None:
        return trials, terms
    levels = sorted(map(str, trials[by].unique()))
    if not 1 < len(levels) <= MOST_LEVELS:
        raise UserError(
            f"--by {by}: that column has {len(levels)} values in the joined trials; name one with "
            f"2 to {MOST_LEVELS}, such as the condition."
        )
    added = {}
    for name, own in terms.items():
        centred = trials[name] - trials[name].mean()
        for level in levels[1:]:
            own.append(f"{name}:{level}")
            added[own[-1]] = centred * ((trials[by].map(str) == level) - 1 / len(levels))
    return trials.assign(**added), terms
