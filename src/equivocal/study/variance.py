"""How much of the variance of a result each choice explains: first-order shares, with intervals.

    S_c = Var(E[y | c]) / Var(y)

is the share of y's variance that the main effect of choice c accounts for (the first-order index of
a functional ANOVA). Where choices were drawn independently of one another, the means by level
estimate E[y | c]; rows in which several were fixed jointly must be left out. Such means also differ
by chance: the share that is expected after shuffling c is subtracted, (S − S₀) / (1 − S₀). A choice
is shuffled among the largest units that share it: trainings, posteriors, or single rows. Intervals
are percentiles of estimates from halves of the trainings (of the rows, if there are fewer than
`FEWEST` trainings): a half drawn without replacement varies about the whole as the whole does about
the truth. In a bootstrap trainings would occur twice, and no shuffle keeps their copies together.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

__all__ = ["compute_variance_shares"]

FEWEST = 5
TOGETHER = "training, all choices together"


def compute_variance_shares(
    table: pd.DataFrame,
    outcome: str,
    choices: Sequence[str],
    *,
    units: Sequence[str] = (),
    repeats: int = 200,
    seed: int = 0,
) -> pd.DataFrame:
    """Compute the share of an outcome's variance that each choice explains alone.

    Parameters
    ----------
    table : DataFrame
        A row for each specification, its choices independent of one another.
    outcome : str
        The column whose variance is explained.
    choices : sequence of str
        Columns; those with a single value are left out.
    units : sequence of str
        Columns that number what rows share, the largest first: training, posterior.
    repeats : int
        Shuffles, and halves.
    seed : int
        The same seed gives the same numbers.

    Returns
    -------
    DataFrame
        `outcome`, `choice`, `share`, `low` and `high` (95 %), largest first. Shares below zero mean
        less than chance. With units, a further row has the share of the largest as a whole.
    """
    table = table[np.isfinite(table[outcome].astype(float))].reset_index(drop=True)
    nested = [*(pd.factorize(table[name])[0] for name in units), np.arange(len(table))]
    largest = nested[0]
    rng, y = np.random.default_rng(seed), table[outcome].to_numpy(float)
    coded = {
        name: pd.factorize(table[name].map(str))[0]
        for name in choices
        if table[name].map(str).nunique() > 1
    }
    if units and 1 < len(np.unique(largest)) < len(largest):
        coded[TOGETHER] = largest
    blocks = largest if len(np.unique(largest)) >= FEWEST else np.arange(len(table))
    rows = []
    for name, levels in coded.items():
        unit = _find_unit(levels, nested[1:] if name == TOGETHER else nested)
        share = _estimate(y, levels, unit, rng, repeats)
        # within a half a few shuffles do: their mean is what matters
        halves = np.array(
            [
                _estimate(y[drawn], levels[drawn], unit[drawn], rng, 5)
                for drawn in (_draw_half(blocks, rng) for _ in range(repeats))
            ]
        )
        known = halves[np.isfinite(halves)]  # halves in which the outcome or the choice varies
        low, high = np.percentile(known, [2.5, 97.5]) if known.size else (np.nan, np.nan)
        rows.append({"outcome": outcome, "choice": name, "share": share, "low": low, "high": high})
    found = pd.DataFrame(rows, columns=["outcome", "choice", "share", "low", "high"])
    return found.sort_values("share", ascending=False, kind="stable", ignore_index=True)


def _find_unit(levels: np.ndarray, nested: Sequence[np.ndarray]) -> np.ndarray:
    """Return the largest units whose rows all have the same level; single rows are the last."""
    return next(unit for unit in nested if pd.Series(levels).groupby(unit).nunique().max() == 1)


def _estimate(
    y: np.ndarray, levels: np.ndarray, unit: np.ndarray, rng: np.random.Generator, repeats: int
) -> float:
    """Estimate S of one choice, less what chance gives."""
    found = _explain(y, levels)
    _, first, place = np.unique(unit, return_inverse=True, return_index=True)
    own = levels[first]
    chance = float(np.mean([_explain(y, rng.permutation(own)[place]) for _ in range(repeats)]))
    return (found - chance) / (1 - chance) if chance < 1 else float("nan")


def _explain(y: np.ndarray, levels: np.ndarray) -> float:
    """Return the share of the variance that lies between levels."""
    total = ((y - y.mean()) ** 2).sum()
    if not total > 0:
        return float("nan")
    counts = np.bincount(levels)
    sums = np.bincount(levels, y - y.mean())
    return float((sums[counts > 0] ** 2 / counts[counts > 0]).sum() / total)


def _draw_half(blocks: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the rows of half of the blocks, drawn without replacement."""
    names = np.unique(blocks)
    return np.flatnonzero(np.isin(blocks, rng.permutation(names)[: max(1, len(names) // 2)]))
