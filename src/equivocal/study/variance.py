"""How much of the variance of a result each choice explains: first-order shares, with intervals.

    S_c = Var(E[y | c]) / Var(y)

is the share of y's variance that the main effect of choice c accounts for (the first-order index of
a functional ANOVA). In a spread design other choices are as good as independent of c, so the means
by level estimate E[y | c]. Such means also differ by chance: the share that is expected after
shuffling c is subtracted, (S − S₀) / (1 − S₀). A choice about training is shuffled among trainings,
since points of one training share it. Intervals are percentiles of a bootstrap over trainings, or
over points where there are fewer than `FEWEST` trainings.
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
    group: str | None = None,
    repeats: int = 200,
    seed: int = 0,
) -> pd.DataFrame:
    """Compute the share of an outcome's variance that each choice explains alone.

    Parameters
    ----------
    table : DataFrame
        A row for each specification.
    outcome : str
        The column whose variance is explained.
    choices : sequence of str
        Columns; those with a single value are left out.
    group : str, optional
        A column that numbers what points share: their training.
    repeats : int
        Shuffles, and bootstrap samples.
    seed : int
        The same seed gives the same numbers.

    Returns
    -------
    DataFrame
        `outcome`, `choice`, `share`, `low` and `high` (95 %), largest first. Shares below zero mean
        less than chance. With groups, a further row has the share of the groups as a whole.
    """
    table = table[np.isfinite(table[outcome].astype(float))].reset_index(drop=True)
    groups = table[group].to_numpy() if group else np.arange(len(table))
    rng, y = np.random.default_rng(seed), table[outcome].to_numpy(float)
    coded = {
        name: pd.factorize(table[name].map(str))[0]
        for name in choices
        if table[name].map(str).nunique() > 1
    }
    if group and 1 < len(np.unique(groups)) < len(groups):
        coded[TOGETHER] = pd.factorize(groups)[0]
    blocks = groups if len(np.unique(groups)) >= FEWEST else np.arange(len(table))
    rows = []
    for name, levels in coded.items():
        shared = name != TOGETHER and all(pd.Series(levels).groupby(groups).nunique() == 1)
        share = _estimate(y, levels, groups if shared else None, rng, repeats)
        # within a bootstrap sample a few shuffles do: their mean is what matters
        boots = np.array(
            [
                _estimate(y[drawn], levels[drawn], groups[drawn] if shared else None, rng, 5)
                for drawn in (_resample(blocks, rng) for _ in range(repeats))
            ]
        )
        known = boots[np.isfinite(boots)]  # samples in which the outcome or the choice varies
        low, high = np.percentile(known, [2.5, 97.5]) if known.size else (np.nan, np.nan)
        rows.append({"outcome": outcome, "choice": name, "share": share, "low": low, "high": high})
    found = pd.DataFrame(rows, columns=["outcome", "choice", "share", "low", "high"])
    return found.sort_values("share", ascending=False, kind="stable", ignore_index=True)


def _estimate(
    y: np.ndarray,
    levels: np.ndarray,
    groups: np.ndarray | None,
    rng: np.random.Generator,
    repeats: int,
) -> float:
    """Estimate S of one choice, less what chance gives."""
    found = _explain(y, levels)
    if groups is None:
        shuffled = [_explain(y, rng.permutation(levels)) for _ in range(repeats)]
    else:
        number, first = np.unique(groups, return_inverse=True, return_index=True)[1:]
        own = levels[number]
        shuffled = [_explain(y, rng.permutation(own)[first]) for _ in range(repeats)]
    chance = float(np.mean(shuffled))
    return (found - chance) / (1 - chance) if chance < 1 else float("nan")


def _explain(y: np.ndarray, levels: np.ndarray) -> float:
    """Return the share of the variance that lies between levels."""
    total = ((y - y.mean()) ** 2).sum()
    if not total > 0:
        return float("nan")
    counts = np.bincount(levels)
    sums = np.bincount(levels, y - y.mean())
    return float((sums[counts > 0] ** 2 / counts[counts > 0]).sum() / total)


def _resample(blocks: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw blocks with replacement, and return the rows of those that were drawn."""
    order = np.argsort(blocks, kind="stable")
    _, start, size = np.unique(blocks[order], return_index=True, return_counts=True)
    drawn = rng.integers(len(start), size=len(start))
    return np.concatenate([order[start[one] : start[one] + size[one]] for one in drawn])
