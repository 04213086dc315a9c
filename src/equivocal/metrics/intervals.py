"""Intervals of measures, by drawing rows again with replacement.

`bootstrap_interval` takes the quantiles of a measure over the draws. A calibration error wants more
care: that of finitely many rows is above zero even for perfect probabilities, and that of a draw of
them is larger still. `calibration_interval` therefore begins at 0 unless the error is larger than
perfect probabilities would show in these rows (outcomes drawn from the probabilities themselves;
Bröcker & Smith 2007, doi:10.1175/WAF993.1), and otherwise at 2m − q(high), which takes the bias
off, where m is the error of all rows and q are quantiles over the draws. It ends at q(high), which
leaves the bias in: the interval is rather too wide than too narrow.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from equivocal.errors import UserError
from equivocal.metrics.forms import read_predictions
from equivocal.metrics.scores import BINS, calibration_error
from equivocal.seeds import Seed, choose_seed

__all__ = ["bootstrap_interval", "calibration_interval"]

DRAWS = 500


def bootstrap_interval(
    measure: Callable[[Any, Any], float],
    targets: Any,
    probabilities: Any,
    *,
    level: float = 0.95,
    draws: int = DRAWS,
    seed: Seed = 0,
) -> tuple[float, float]:
    """Return the central `level` of a measure over rows drawn again with replacement.

    Parameters
    ----------
    measure : callable
        Takes targets and probabilities and returns a number, such as `negative_log_likelihood`;
        `functools.partial` sets its options. For `calibration_error` use `calibration_interval`.
    targets, probabilities
        As the measure takes them; rows are drawn whole, with all their labels.
    level : float
        In (0, 1).
    draws : int
        How often rows are drawn.
    seed : int or numpy.random.Generator
        The same seed gives the same interval.

    Returns
    -------
    low, high : float
        The ends.

    Examples
    --------
    >>> from equivocal.metrics import brier_score
    >>> low, high = bootstrap_interval(brier_score, [1, 0, 1, 0], [0.9, 0.2, 0.7, 0.4])
    >>> low < brier_score([1, 0, 1, 0], [0.9, 0.2, 0.7, 0.4]) < high
    True
    """
    ends = _find_ends(level, draws)
    t, p = np.asarray(targets), np.asarray(probabilities)
    rng, N = np.random.default_rng(choose_seed(seed)), len(t)
    rows = (rng.integers(0, N, N) for _ in range(draws))
    low, high = np.quantile([measure(t[some], p[some]) for some in rows], ends)
    return float(low), float(high)


def calibration_interval(
    targets: Any,
    probabilities: Any,
    *,
    bins: int = BINS,
    average: Any = "pooled",
    level: float = 0.95,
    draws: int = DRAWS,
    seed: Seed = 0,
) -> tuple[float, float]:
    """Return a bootstrap interval of the calibration error, corrected for its bias.

    Parameters
    ----------
    targets, probabilities, bins, average
        As for `calibration_error`.
    level, draws, seed
        As for `bootstrap_interval`.

    Returns
    -------
    low, high : float
        `low` is 0 where perfect probabilities could show as large an error in these rows.

    Examples
    --------
    >>> low, high = calibration_interval([0, 1, 1, 1], [0.6, 0.6, 0.6, 0.6])
    >>> low
    0.0
    """
    seed, measure = choose_seed(seed), partial(calibration_error, bins=bins, average=average)
    _, high = bootstrap_interval(
        measure, targets, probabilities, level=level, draws=draws, seed=seed
    )
    t, p = read_predictions(targets, probabilities).list_events()
    rng = np.random.default_rng([seed, 1])
    perfect = [measure(rng.random(t.shape) < p, p) for _ in range(draws)]
    found = measure(t, p)
    if found <= np.quantile(perfect, _find_ends(level, draws)[1]):
        return 0.0, high
    return max(2 * found - high, 0.0), high


def _find_ends(level: float, draws: int) -> list[float]:
    if not 0 < level < 1:
        hint = f"; for {level:g} % pass {level / 100:g}" if 10 < level < 100 else ""
        raise UserError(f"level must lie between 0 and 1, got {level!r:.60}{hint}.")
    if not isinstance(draws, (int, np.integer)) or draws < 2:
        raise UserError(f"draws must be a whole number ≥ 2, got {draws!r:.60}.")
    return [(1 - level) / 2, (1 + level) / 2]
