"""Networks and items drawn anew: the pigeonhole bootstrap.

Participants and items are both samples. Both are drawn with replacement, at once (Owen 2007, Annals
of Applied Statistics 1, 386–411); this is somewhat conservative. What belongs together is drawn
together: all questions of an item, and all particles of a network, which share its features.
"""

from collections.abc import Iterator

import numpy as np

__all__ = ["compute_intervals", "draw_copies"]

LEVEL = 0.95


def draw_copies(
    groups: int, items: int, draws: int, seed: int, *, only_items: bool = False
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Draw how many copies of each group of participants, and of each item, there are.

    Parameters
    ----------
    groups, items : int
        How many there are. Nothing is drawn where there is one of either.
    draws : int
        How often.
    seed : int
        The same seed gives the same copies.
    only_items : bool
        Draw items alone, for comprehenders that are no sample, such as the ideal one.
    """
    rng = np.random.default_rng(seed)
    enough = items > 1 and (only_items or groups > 1)
    for _ in range(draws if enough else 0):
        people, each = (rng.multinomial(n, np.full(n, 1 / n)) for n in (groups, items))
        yield (np.ones(groups, int) if only_items else people), each


def compute_intervals(drawn: np.ndarray) -> np.ndarray:
    """Compute (2, columns): the 95 % interval of each column, apart from NaN.

    Parameters
    ----------
    drawn : ndarray of shape (draws, columns)
        What was computed of each draw.
    """
    ends = np.full((2, drawn.shape[1]), np.nan)
    known = ~np.isnan(drawn).all(axis=0) if len(drawn) else np.zeros(drawn.shape[1], bool)
    tails = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
    ends[:, known] = np.nanquantile(drawn[:, known], tails, axis=0)
    return ends
