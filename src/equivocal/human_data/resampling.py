"""Networks and items drawn anew: the pigeonhole bootstrap.

Participants and items are both samples. Both are drawn with replacement, at once (Owen 2007, Annals
of Applied Statistics 1, 386–411); this is somewhat conservative. What belongs together is drawn
together: all questions of an item, and all particles of a network, which share its features.

Percentiles of few networks or items are too narrow. With n the smaller of the two numbers, they are
taken at Φ(± t √(n/(n − 1))), t the quantile of Student's distribution with n − 1 degrees of
freedom, which makes the interval of a mean about as wide as the t interval (Hesterberg 2015, The
American Statistician 69, 371–386, "expanded percentiles"). With fewer than five the draws
themselves end before that: the interval is then their whole range, and too narrow.
"""

from collections.abc import Iterator

import numpy as np
from scipy import stats

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


def compute_intervals(drawn: np.ndarray, size: int) -> np.ndarray:
    """Compute (2, columns): the 95 % interval of each column, apart from NaN.

    Parameters
    ----------
    drawn : ndarray of shape (draws, columns)
        What was computed of each draw.
    size : int
        How many networks or items were drawn, whichever is less.
    """
    ends = np.full((2, drawn.shape[1]), np.nan)
    if not len(drawn):
        return ends
    known = ~np.isnan(drawn).all(axis=0)
    far = stats.t.ppf((1 + LEVEL) / 2, size - 1) * np.sqrt(size / (size - 1))
    ends[:, known] = np.nanquantile(drawn[:, known], stats.norm.cdf([-far, far]), axis=0)
    return ends
