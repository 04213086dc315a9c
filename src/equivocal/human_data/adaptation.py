"""How a list of sentences changes the readings of the ideal comprehender.

Its readings depend on how many sentences of the list are implausible. It knows the world, but not
how often unusual events happen (log-odds shifted by e) or how often sentences are misheard (shifted
by n), both with the prior N(0, 1) about the world's own values. A list of N sentences, a share r of
them unlikely and the others their plausible reversals, is heard once:

    p(e, n | list) ∝ p(e) p(n) exp( N [ r mean log P(unlikely | e, n)
                                        + (1 − r) mean log P(plausible | e, n) ] )               (1)

and an unlikely sentence is read with both unknowns summed out, P(reading, heard | list) / P(heard |
list). Sums are over a grid; each of its points is a world that is enumerated exactly. Three
learners: of events (n = 0), of noise (e = 0), and of both.

Networks do not learn while they listen, so a list changes nothing in what they answer: their
counterpart is training in a world with other parameters.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.special import expit, logit, logsumexp

from equivocal.human_data.questions import ANY, AskedItems, IdealReadings
from equivocal.world import Reweighting

__all__ = ["SENTENCES", "adapt_to_list", "select_learner"]

SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)  # r
SENTENCES = 40  # N
REACH, POINTS = 2.5, 11  # of the grid, in prior standard deviations


def adapt_to_list(
    asked: AskedItems, *, shares: Sequence[float] = SHARES, sentences: int = SENTENCES
) -> pd.DataFrame:
    """Compute how the ideal comprehender reads unlikely sentences after a list.

    Parameters
    ----------
    asked : AskedItems
        Questions about a world with parameters, some of them of noise and others of events.
    shares : sequence of float
        r, how many of the list are unlikely.
    sentences : int
        N, the length of the list.

    Returns
    -------
    DataFrame
        learns, construction, share, not_literal; empty where the world has no unlikely sentences.
    """
    columns = ["learns", "construction", "share", "not_literal"]
    pairs, unlikely = (np.unique(asked.number[asked.select(ANY, k)]) for k in (ANY, "unlikely"))
    if not len(unlikely):
        return pd.DataFrame(columns=columns)
    shifts, read, log_heard = _vary(asked)
    plausible = np.setdiff1d(pairs, unlikely)
    known = {"events": shifts[:, 1] == 0, "noise": shifts[:, 0] == 0, "both": shifts[:, 0] < np.inf}
    rows = []
    for learns, at in known.items():
        prior, heard = -(shifts[at] ** 2).sum(axis=1) / 2, log_heard[at]
        for share in shares:
            fits = share * heard[:, unlikely].mean(axis=1)
            fits += (1 - share) * heard[:, plausible].mean(axis=1)
            # of the list and the next sentence: log p(e, n | list) + log P(sentence | e, n)
            joint = (prior + sentences * fits)[:, None] + heard[:, unlikely]
            weight = np.exp(joint - logsumexp(joint, axis=0))
            not_literal = (weight * read[at][:, unlikely]).sum(axis=0)
            for construction in (*asked.constructions, ANY):
                own = np.unique(asked.number[asked.select(construction, "unlikely")])
                mean = float(not_literal[np.isin(unlikely, own)].mean())
                rows.append((learns, construction, share, mean))
    return pd.DataFrame(rows, columns=columns)


def select_learner(listed: pd.DataFrame, comprehender: str) -> pd.DataFrame:
    """Select the learner of both, in all constructions, as what a comprehender learns."""
    own = listed[(listed["learns"] == "both") & (listed["construction"] == ANY)]
    return own.assign(comprehender=comprehender)


def _vary(asked: AskedItems) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the grid of (e, n) and, there, non-literal readings and log P(sentence)."""
    reweighting = Reweighting(asked.world)
    ideal = IdealReadings(reweighting.world, asked)
    grid = np.linspace(-REACH, REACH, POINTS)
    shifts = [(e, n) for e in grid for n in grid]
    weights = [reweighting.compute_weights(_shift(reweighting, *both)) for both in shifts]
    read = np.array([1 - ideal.read(each)[:, 0] for each in weights])
    heard = np.array([ideal.hear(each) for each in weights])
    return np.array(shifts), read, np.log(np.maximum(heard, np.finfo(float).tiny))


def _shift(reweighting: Reweighting, events: float, noise: float) -> dict[str, float]:
    """Return the values of all parameters with their log-odds shifted, inside their ranges."""
    specs, values = reweighting.world.file.parameters, reweighting.world.parameters
    shifted = {}
    for name, value in values.items():
        by = noise if name in reweighting.noise_parameters else events
        moved = float(expit(logit(np.clip(value, 1e-12, 1 - 1e-12)) + by))
        shifted[name] = min(max(moved, specs[name].least), specs[name].most)
    return shifted
