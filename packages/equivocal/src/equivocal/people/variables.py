"""The variables of models: responses that a family can take, and predictors computed from words.

A response must fit the family of the models; others are refused with the reason and a way out.

gaussian  numbers: reading times, amplitudes
binomial  answers, 0 or 1, or proportions with the number of answers behind each (--counts)

Some predictors are added to tables of measures. The effect of a word often appears at the next word
(spillover): `NAME_previous` is NAME of the word before, `NAME_previous_2` of the one before that;
the first words of a sentence have none, and their trials are left out.

length     number of letters of the word as it was read; of the measures' word if trials have none
frequency  natural logarithm of how often a word occurs per sentence of a world
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from equivocal.people.tables import NETWORK, PLACES, RESERVED
from equivocal.statistics import find_separation
from equivocal.world import World
from equivocal.world.grammar import NO_FILLER
from equivocal.world.spelling import fold
from lastlayer.errors import UserError, join_names

FAMILIES = ("gaussian", "binomial")
ROUNDED = 0.05  # how far a proportion times its count may be from a whole number
MOST_PREVIOUS = 5
SAMPLED = 20_000  # sentences that are sampled from a world too large to enumerate


class Response(NamedTuple):
    """The response of a model."""

    values: np.ndarray
    counts: np.ndarray | None = None  # number of answers behind each value; None if one
    binomial: bool = False


def prepare_response(trials: pd.DataFrame, family: str, log: bool) -> Response:
    """Return responses that models of the family can be fitted to, or raise a `UserError`.

    Parameters
    ----------
    trials : DataFrame
        The trials, with a column `response` and perhaps `counts`.
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
    if "counts" in trials:
        raise UserError("--counts is for proportions; add --family binomial, or leave it out.")
    if len(distinct) == 2:
        zero_one = distinct.tolist() == [0, 1]
        way_out = "" if zero_one else ", once they are 0 and 1 (--response COLUMN=VALUE)"
        raise UserError(
            f"the response has only two values, {distinct[0]:g} and {distinct[1]:g}, and linear "
            f"models are not for these; add --family binomial{way_out}."
        )
    if not log:
        return Response(values)
    if distinct[0] <= 0:
        raise UserError(
            f"the logarithm needs responses above zero, and one is {distinct[0]:g}; leave out "
            "--log, or remove those trials."
        )
    return Response(np.log(values))


def _prepare_answers(trials: pd.DataFrame, log: bool) -> Response:
    """Return answers, or proportions corrected to whole numbers of answers."""
    if log:
        raise UserError(
            "--log models the logarithm of numbers, and --family binomial answers; leave one out."
        )
    values = trials["response"].to_numpy(float)
    if "counts" not in trials:
        _refuse_first(
            trials[~np.isin(values, (0, 1))],
            "the response is {response:g} in line {row}, and --family binomial needs 0 or 1; name "
            "another column with --response, or the value to be counted as 1 with --response "
            "COLUMN=VALUE, give proportions with --counts, or leave out --family for numbers.",
        )
        _check_variance(trials, values)
        return Response(values, binomial=True)
    counts = trials["counts"].to_numpy(float)
    _refuse_first(
        trials[~((counts >= 1) & (counts % 1 == 0))],
        "the number of answers is {counts:g} in line {row}, and the number of answers must be a "
        "whole number of at least 1; correct it, or remove that trial.",
    )
    ones = np.round(values * counts)
    _refuse_first(
        trials[(values < 0) | (values > 1) | (np.abs(values * counts - ones) > ROUNDED)],
        "the response is {response:g} in line {row}, which is not a proportion of {counts:g} "
        "answers; give the number of ones divided by the number of answers.",
    )
    _check_variance(trials, ones / counts)
    return Response(ones / counts, counts, binomial=True)


def _refuse_first(wrong: pd.DataFrame, message: str) -> None:
    """Raise an error about the first of the wrong trials, if there are any."""
    for _, first in wrong.iterrows():
        raise UserError(message.format(**first))


def _check_variance(trials: pd.DataFrame, values: np.ndarray) -> None:
    """Refuse answers that participants or items determine, whose variance would be infinite."""
    for name in ("participant", "item"):
        alike = _find_constant(trials, values, name)
        if alike.all():
            raise UserError(
                f"every {name} has one answer in all its trials, so that the variance of {name}s "
                f"has no finite estimate; is --{name} the right column? If so, average the answers "
                "over it, or model trials in which they vary."
            )


def _find_constant(trials: pd.DataFrame, values: np.ndarray, name: str) -> pd.Series:
    """Return for each participant, or each item, whether its answers are all 0 or all 1."""
    groups = pd.Series(values, trials.index).groupby(trials[name])
    return (groups.max() == 0) | (groups.min() == 1)


def note_constant(trials: pd.DataFrame, response: Response) -> list[str]:
    """Note how many participants and items have one answer only; a model tolerates some."""
    if not response.binomial:
        return []
    notes = []
    for name in ("participant", "item"):
        alike = _find_constant(trials, response.values, name)
        if alike.any():
            notes.append(f"{int(alike.sum())} of {len(alike)} {name}s have one answer only")
    return notes


def check_groups(trials: pd.DataFrame) -> None:
    """Refuse trials of a single participant or item, or with a single trial for each."""
    for name in ("participant", "item"):
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
    direction = find_separation(response.values, X, response.counts)
    if direction is None:
        return
    alone = [
        name
        for k, name in enumerate(names, start=1)
        if find_separation(response.values, X[:, [0, k]], response.counts) is not None
    ]
    moved = np.abs(direction[1:]) > 1e-6  # those that separate together, if none does alone
    guilty = alone or [name for name, used in zip(names, moved, strict=True) if used]
    raise UserError(
        f"{join_names(dict.fromkeys(guilty), most=4)} separates the answers: they are all 1 above "
        "some value and all 0 below it, or the same throughout one level, so that the coefficient "
        "has no finite estimate; leave it out (--measure, --control), or add trials in which the "
        "other answer is given."
    )


def name_with_previous(names: Sequence[str], spillover: int) -> list[str]:
    """Return names, each followed by the names for previous words.

    >>> name_with_previous(["surprise"], 2)
    ['surprise', 'surprise_previous', 'surprise_previous_2']
    """
    return [f"{name}{_name_lag(lag)}" for name in names for lag in range(spillover + 1)]


def _name_lag(lag: int) -> str:
    """Return the suffix of columns that are taken from `lag` words before."""
    return ("", "_previous")[lag] if lag < 2 else f"_previous_{lag}"


def add_previous_words(measures: pd.DataFrame, spillover: int) -> pd.DataFrame:
    """Add the values that every column of numbers has at previous words of the same sentence.

    Parameters
    ----------
    measures : DataFrame
        The measures, with `item` and `position`, and perhaps `condition` and `network`.
    spillover : int
        Number of previous words; 0 adds nothing.

    Raises
    ------
    UserError
        Where there are no positions to count back from, or a name is taken.
    """
    if not 0 <= spillover <= MOST_PREVIOUS:
        raise UserError(f"--spillover must be from 0 to {MOST_PREVIOUS}, got {spillover}.")
    if not spillover:
        return measures
    if "position" not in measures:
        raise UserError(
            "--spillover counts back from the position of a word, and the measures have no column "
            "position; add it there, or leave out --spillover."
        )
    position = pd.to_numeric(measures["position"], errors="coerce")
    if not position.notna().all() or (position % 1).any():
        odd = measures["position"][position.isna() | (position % 1 != 0)].iloc[0]
        raise UserError(
            f"--spillover counts back from positions, and one is {odd!r:.40}; number the words of "
            "a sentence, or leave out --spillover."
        )
    keys = [name for name in ("participant", *PLACES[:2], NETWORK) if name in measures]
    taken = {*PLACES, *RESERVED, NETWORK}
    figures = [name for name in measures.select_dtypes("number") if name not in taken]
    found = measures.assign(position=position.astype(int))
    plain = found[[*keys, "position", *figures]]
    if plain.duplicated([*keys, "position"]).any():
        return measures  # the join will refuse words that occur twice, with a better message
    for lag in range(1, spillover + 1):
        names = {name: f"{name}{_name_lag(lag)}" for name in figures}
        if clash := [name for name in names.values() if name in measures]:
            raise UserError(f"the measures have a column {clash[0]!r} of their own; rename it.")
        moved = plain.assign(position=plain["position"] + lag).rename(columns=names)
        found = found.merge(moved, on=[*keys, "position"], how="left")
    return found.assign(position=found["position"].astype(str).astype(object))


def add_word_controls(
    measures: pd.DataFrame, controls: Sequence[str], world: World | None = None
) -> pd.DataFrame:
    """Add `length` and `frequency` if they are controls and the measures lack them.

    Parameters
    ----------
    measures : DataFrame
        The measures, with a column `word`.
    controls : sequence of str
        The controls that the trials do not have.
    world : World, optional
        The world from whose sentences the frequency is computed.

    Raises
    ------
    UserError
        Where there is no column `word`, or the frequency of a word is not known.
    """
    wanted = [name for name in ("length", "frequency") if name in controls and name not in measures]
    if not wanted:
        return measures
    if "word" not in measures:
        raise UserError(
            f"--control {wanted[0]}: no table has that column, and the measures have no column "
            "word to take it from; add one of the two."
        )
    words = measures["word"].map(fold, na_action="ignore")
    if "length" in wanted:
        measures = measures.assign(length=_count_letters(measures["word"]))
    if "frequency" not in wanted:
        return measures
    if world is None:
        raise UserError(
            "--control frequency: no table has that column; add it, or name the world whose "
            "sentences are to be counted with --world."
        )
    counts = count_words(world)
    known = {
        spelling: _find_frequency(spelling, counts, world) for spelling in words.dropna().unique()
    }
    return measures.assign(frequency=words.map(known).astype(float))


def _count_letters(words: pd.Series) -> pd.Series:
    """Count letters and digits."""
    counts = words.map(lambda word: sum(map(str.isalnum, word)), na_action="ignore")
    return counts.astype(float)


def measure_read_length(trials: pd.DataFrame, spillover: int) -> pd.DataFrame:
    """Count the letters of the words that participants read.

    Parameters
    ----------
    trials : DataFrame
        Trials with `row` and `word`, and all words of their sentences.
    spillover : int
        Number of previous words whose length is added, if trials have positions.

    Returns
    -------
    DataFrame
        `row`, `length`, and `length_previous`, ….
    """
    found = trials.assign(length=_count_letters(trials["word"]))
    keys = [name for name in ("participant", *PLACES[:3]) if name in trials]
    if not spillover or "position" not in keys:
        return found[["row", "length"]]
    words = found[[*keys, "length"]].dropna(subset=keys).drop_duplicates(keys)
    lagged = add_previous_words(words, spillover).drop(columns="length")
    every = found[["row", *keys, "length"]].merge(lagged, on=keys, how="left")
    return every.drop(columns=keys)


def _find_frequency(spelling: str, counts: dict[str, float], world: World) -> float:
    """Return the log frequency of a word, whatever its inflection."""
    try:
        word = world.parse(spelling).constituents[-1].word
    except (UserError, IndexError):
        word = ""
    if not counts.get(word):
        raise UserError(
            f"--control frequency: world {world.name!r} never says {spelling!r:.60}; give a column "
            "frequency, or the world of these sentences."
        )
    return float(np.log(counts[word]))


def count_words(world: World) -> dict[str, float]:
    """Count how often each word occurs per sentence, exactly or, in a large world, in a sample.

    Parameters
    ----------
    world : World
        The world whose sentences are counted.

    Returns
    -------
    dict of str to float
        By the word as it is written in the world's file.
    """
    told = (world.all_derivations if world.is_exact else world.sample(SAMPLED)).derivations
    counts = np.zeros(len(world.lexicon.words))
    for fillers, said in zip(told.fillers.T, told.said.T, strict=True):
        spoken = said & (fillers != NO_FILLER)
        np.add.at(counts, fillers[spoken], told.weight[spoken])
    total = float(told.weight.sum())
    return dict(zip(world.lexicon.words, (counts / total).tolist(), strict=True))
