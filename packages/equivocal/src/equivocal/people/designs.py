"""The response of mixed models, and the columns of their fixed and random effects, X and Z.

A response is a number (gaussian: reading times, amplitudes) or an answer, 0 or 1 (binomial). Data
that no model can take are refused with a way out.

Measures enter in standard deviations over the trials; controls as numbers, or a column for each
level but the first.

Some predictors are computed from others. The effect of a word often appears at the next word
(spillover): `NAME_previous` is NAME of the word before, `NAME_previous_2` of the one before that;
the first words of a sentence have none, and their trials are left out. `length` is the number of
letters of a word, as the participant read it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from equivocal.people.trial_tables import NETWORK
from equivocal.statistics import RandomPart, find_separation
from lastlayer.errors import UserError, join_names

DETERMINED = 1e-3  # a measure of which less is its own, in its sds, is determined by others
FACTORS = ("participant", "item")
FAMILIES = ("gaussian", "binomial")
MOST_LEVELS = 12  # of a column whose interactions are added


class Model(NamedTuple):
    """Which measures are fixed effects, and which also have a slope for each level of a factor."""

    measures: tuple[str, ...] = ()
    participant: tuple[str, ...] = ()
    item: tuple[str, ...] = ()


class Design:
    """The columns of X and Z for any of the models."""

    def __init__(
        self, trials: pd.DataFrame, measures: Sequence[str], controls: Sequence[str]
    ) -> None:
        self.raw = {name: trials[name].to_numpy(float) for name in measures}
        self.spread = {name: float(x.std(ddof=1)) for name, x in self.raw.items()}
        self.scaled = {
            name: (x - x.mean()) / (self.spread[name] or 1.0) for name, x in self.raw.items()
        }
        self.codes = {name: pd.factorize(trials[name], sort=True)[0] for name in FACTORS}
        columns, self.names = [np.ones(len(trials))], list[str]()  # the intercept has no name
        for name in controls:
            coded = _code_control(trials[name])
            columns += coded
            self.names += [name] * len(coded)
        self.base = np.column_stack(columns)
        self.width = self.base.shape[1]

    def is_determined(self, measure: str, others: Sequence[str]) -> bool:
        """Return whether controls and other measures determine a measure.

        Measures that add up to another do so up to round-off, their own and that of a table.
        """
        X, _ = self.build(Model(tuple(others)))
        weights, *_ = np.linalg.lstsq(X, self.scaled[measure])
        return bool(np.std(self.scaled[measure] - X @ weights) < DETERMINED)

    def find_varying(self, measures: Sequence[str], factor: str) -> tuple[str, ...]:
        """Return the measures that vary within levels of a factor, and so may have slopes."""
        each = pd.DataFrame(self.raw).groupby(self.codes[factor])
        return tuple(name for name in measures if (each[name].nunique() > 1).any())

    def build(self, model: Model) -> tuple[np.ndarray, list[RandomPart]]:
        """Build X and the random parts of a model."""
        X = np.column_stack([self.base, *(self.scaled[name] for name in model.measures)])
        parts = [
            build_part(factor, self.codes[factor], {name: self.scaled[name] for name in slopes})
            for factor, slopes in zip(FACTORS, model[1:], strict=True)
        ]
        return X, parts


def build_part(factor: str, level: np.ndarray, slopes: dict[str, np.ndarray]) -> RandomPart:
    """Build the intercepts and slopes of a factor, which are correlated."""
    Z = np.column_stack([np.ones(len(level)), *slopes.values()])
    return RandomPart(factor, level, Z, (factor, *(f"{name} by {factor}" for name in slopes)))


def is_numeric(values: pd.Series) -> bool:
    """Return whether a control is numeric; otherwise its values are levels of a factor."""
    return bool(pd.to_numeric(values, errors="coerce").notna().all())


def _code_control(values: pd.Series) -> list[np.ndarray]:
    """Return a column for a number, or an indicator for each level but the first."""
    if is_numeric(values):
        number = pd.to_numeric(values).to_numpy(float)
        return [(number - number.mean()) / (number.std() or 1.0)]
    levels = sorted(values.unique())
    return [(values == level).to_numpy(float) for level in levels[1:]]


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


# ---- responses


class Response(NamedTuple):
    """The response of a model."""

    values: np.ndarray
    binomial: bool = False


def prepare_response(trials: pd.DataFrame, family: str, log: bool) -> Response:
    """Return responses that models of the family can be fitted to, or raise a `UserError`.

    Parameters
    ----------
    trials : DataFrame
        The trials, with a column `response`.
    family : {"gaussian", "binomial"}
        The family of the models.
    log : bool
        Whether the logarithm of the response is modelled.
    """
    if family not in FAMILIES:
        raise UserError(f"family (--family) must be {' or '.join(FAMILIES)}, got {family!r:.80}.")
    values = trials["response"].to_numpy(float)
    distinct = np.unique(values)
    if len(distinct) < 2:
        raise UserError(
            f"the response is {distinct[0]:g} in every trial, so there is nothing to fit; name "
            "another column with --response, or keep other rows with --where."
        )
    if family == "binomial":
        return _prepare_answers(trials, log)
    if len(distinct) == 2:
        raise UserError(
            f"the response has only two values, {distinct[0]:g} and {distinct[1]:g}, and linear "
            "models are not for these; add --family binomial (and --response COLUMN=VALUE, unless "
            "they are 0 and 1)."
        )
    if log and distinct[0] <= 0:
        raise UserError(
            f"the logarithm needs responses above zero, and one is {distinct[0]:g}; leave out "
            "--log, or remove those trials."
        )
    return Response(np.log(values) if log else values)


def _prepare_answers(trials: pd.DataFrame, log: bool) -> Response:
    """Return answers, which vary within a participant and within an item."""
    if log:
        raise UserError("--log is for numbers, and --family binomial for answers; leave one out.")
    values = trials["response"].to_numpy(float)
    for _, first in trials[~np.isin(values, (0, 1))].iterrows():
        raise UserError(
            f"the response is {first['response']:g} in line {first['row']}, and --family binomial "
            "needs 0 or 1; name the value that counts as 1 with --response COLUMN=VALUE."
        )
    for name in FACTORS:
        groups = pd.Series(values, trials.index).groupby(trials[name])
        if ((groups.max() == 0) | (groups.min() == 1)).all():
            raise UserError(
                f"every {name} has one answer in all its trials, so that the variance of {name}s "
                f"has no finite estimate; is --{name} the right column? If so, average the answers "
                "over it, or model trials in which they vary."
            )
    return Response(values, binomial=True)


def check_groups(trials: pd.DataFrame) -> None:
    """Refuse trials of a single participant or item, or with a single trial for each."""
    for name in FACTORS:
        levels = trials[name].nunique()
        if levels < 2:
            raise UserError(f"all joined trials have the same {name}; two or more are needed.")
        if levels == len(trials):
            raise UserError(
                f"every {name} has one trial only, so {name}s cannot be separated from noise; "
                f"is --{name} the right column?"
            )


def check_separation(response: Response, X: np.ndarray, names: Sequence[str]) -> None:
    """Refuse fixed effects that separate the answers, and so have no finite coefficient.

    Parameters
    ----------
    response : Response
        Responses of any family; only answers can be separated.
    X : ndarray
        The fixed effects, the intercept first.
    names : sequence of str
        The names of the other columns of X.
    """
    if not response.binomial:
        return
    direction = find_separation(response.values, X)
    if direction is None:
        return
    alone = [
        name
        for k, name in enumerate(names, start=1)
        if find_separation(response.values, X[:, [0, k]]) is not None
    ]
    together = [name for name, by in zip(names, direction[1:], strict=True) if abs(by) > 1e-6]
    raise UserError(
        f"{join_names(dict.fromkeys(alone or together), most=4)} separates the answers (1 above "
        "some value and 0 below it, or the same throughout one level), so that its coefficient "
        "has no finite estimate; leave it out, or add trials in which the other answer is given."
    )
