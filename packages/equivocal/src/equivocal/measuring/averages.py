"""Measures averaged over networks, with intervals: the wide table, a row for each word of an item.

For a measure m there are the columns m (the mean over networks), m_low and m_high (its 95 % t
interval over networks) and m_network_0, …; exact measures are the same for every network and have
one column.
"""

import numpy as np
import pandas as pd
from scipy import stats

from equivocal.measuring.measures import KEYS, MEASURES
from equivocal.statistics.summaries import LEVEL

__all__ = ["average_networks"]


def average_networks(words: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each item, condition and word, with means and intervals over networks.

    Parameters
    ----------
    words : DataFrame
        As returned by `measure_words`.
    """
    keys = [name for name in KEYS if name in words and name != "network"]
    measures = [str(name) for name in words if name not in KEYS]
    count = words["network"].nunique()
    groups = words.groupby(keys, sort=False, dropna=False)
    place, columns = (groups.ngroup(), words["network"]), dict[str, np.ndarray]()
    for name in measures:
        rows = np.full((groups.ngroups, count), np.nan)
        rows[place] = words[name]
        columns[name] = rows.mean(axis=1)
        if (name in MEASURES and MEASURES[name].exact) or name.startswith(("exact_", "warranted_")):
            continue
        if count > 1 and name != "between_networks":
            error = rows.std(axis=1, ddof=1) / np.sqrt(count)
            half = error * stats.t.ppf(0.5 + LEVEL / 2, count - 1)
            columns |= {f"{name}_low": columns[name] - half, f"{name}_high": columns[name] + half}
            columns |= {f"{name}_network_{n}": rows[:, n] for n in range(count)}
    heads = groups.size().index.to_frame(index=False)
    return pd.concat([heads, pd.DataFrame(columns)], axis=1)
