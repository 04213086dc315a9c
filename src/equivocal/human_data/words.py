"""Columns about words that tables of measures need not bring: previous words, length, frequency.

What is measured at one word often shows at the next (spillover). `NAME_previous` is NAME of the
word before, `NAME_previous_2` of the one before that; the first words of a sentence have none, and
their trials are left out.

length     letters of the word
frequency  natural logarithm of how often a word is said per sentence of a world
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from equivocal.errors import UserError
from equivocal.human_data.tables import NETWORK, PLACES, RESERVED
from equivocal.world import World
from equivocal.world.grammar import NO_FILLER
from equivocal.world.spelling import fold

MOST_PREVIOUS = 5
SAMPLED = 20_000  # sentences, where a world is too large to enumerate


def name_with_previous(names: Sequence[str], spillover: int) -> list[str]:
    """Return names, each followed by those of previous words.

    >>> name_with_previous(["surprise"], 2)
    ['surprise', 'surprise_previous', 'surprise_previous_2']
    """
    return [f"{name}{_name_lag(lag)}" for name in names for lag in range(spillover + 1)]


def _name_lag(lag: int) -> str:
    return ("", "_previous")[lag] if lag < 2 else f"_previous_{lag}"


def add_previous_words(measures: pd.DataFrame, spillover: int) -> pd.DataFrame:
    """Add every column of numbers as it is at previous words of the same sentence.

    Parameters
    ----------
    measures : DataFrame
        With `item` and `position`, and perhaps `condition` and `network`.
    spillover : int
        How many words to go back; 0 adds nothing.

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
    keys = [name for name in (*PLACES[:2], NETWORK) if name in measures]
    taken = {*PLACES, *RESERVED, NETWORK}
    figures = [name for name in measures.select_dtypes("number") if name not in taken]
    found = measures.assign(position=position.astype(int))
    plain = found[[*keys, "position", *figures]]
    if plain.duplicated([*keys, "position"]).any():
        return measures  # the join says which words are there twice, and what to do
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
    """Add `length` and `frequency` where they are wanted and missing, and words are there.

    Parameters
    ----------
    measures : DataFrame
        With a column `word`.
    controls : sequence of str
        The controls that no other table has.
    world : World, optional
        The world whose sentences give the frequency.

    Raises
    ------
    UserError
        Where the frequency of a word is not known.
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
        letters = words.map(lambda word: sum(map(str.isalnum, word)), na_action="ignore")
        measures = measures.assign(length=letters.astype(float))
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


def _find_frequency(spelling: str, counts: dict[str, float], world: World) -> float:
    """Return the logarithm of how often a word is said, whatever its inflection."""
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
    """Count how often each word is said per sentence, exactly or, in a large world, in a sample.

    Parameters
    ----------
    world : World
        The world whose sentences are counted.

    Returns
    -------
    dict of str to float
        By the word as the world's file has it.
    """
    told = (world.all_derivations if world.is_exact else world.sample(SAMPLED)).derivations
    counts = np.zeros(len(world.lexicon.words))
    for fillers, said in zip(told.fillers.T, told.said.T, strict=True):
        spoken = said & (fillers != NO_FILLER)
        np.add.at(counts, fillers[spoken], told.weight[spoken])
    total = float(told.weight.sum())
    return dict(zip(world.lexicon.words, (counts / total).tolist(), strict=True))
