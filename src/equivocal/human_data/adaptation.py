"""What a list of sentences teaches the ideal comprehender: more implausible ones, other readings.

The comprehender knows the world, but not how often unusual events happen (log-odds shifted by e)
and how often sentences are misheard (shifted by n). Both have the prior N(0, 1) about the world's
own values. A list of N sentences, a share r of them unlikely and the others their plausible
reversals, is heard once:

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

from equivocal.human_data.ideal_readings import IdealReadings
from equivocal.human_data.plausibility import ANY, AskedItems
from equivocal.world import Reweighting

__all__ = ["LEARNERS", "SENTENCES", "adapt_to_list"]

LEARNERS = ("events", "noise", "both")
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
        Of a world with parameters, some of them of noise and others of events.
    shares : sequence of float
        r, how many of the list are unlikely.
    sentences : int
        N, the length of the list.

    Returns
    -------
    DataFrame
        learns, construction, share, not_literal; empty where the world has no unlikely sentences.
    """
    reweighting = Reweighting(asked.world)
    ideal = IdealReadings(reweighting.world, asked)
    grid = np.linspace(-REACH, REACH, POINTS)
    points = [(e, n) for e in grid for n in grid]
    read, heard = [], []
    for e, n in points:
        weights = reweighting.compute_weights(_shift(reweighting, e, n))
        read.append(1 - ideal.read(weights)[:, 0])
        heard.append(ideal.hear(weights))
    shifts = np.array(points)
    prior = -(shifts**2).sum(axis=1) / 2
    log_heard = np.log(np.array(heard))
    places = {
        kind: np.unique(asked.number[asked.select(ANY, kind)]) for kind in ("plausible", "unlikely")
    }
    pairs = np.unique(asked.number[asked.select(ANY, ANY)])
    unlikely, plausible = places["unlikely"], np.intersect1d(places["plausible"], pairs)
    if not len(unlikely):
        return pd.DataFrame(columns=["learns", "construction", "share", "not_literal"])
    rows = []
    known = {"events": shifts[:, 1] == 0, "noise": shifts[:, 0] == 0, "both": shifts[:, 0] < np.inf}
    for learns in LEARNERS:
        at = known[learns]
        for share in shares:
            fit = share * log_heard[at][:, unlikely].mean(axis=1)
            fit += (1 - share) * log_heard[at][:, plausible].mean(axis=1)
            log_posterior = prior[at] + sentences * fit
            log_joint = log_posterior[:, None] + log_heard[at]  # of the list and the next sentence
            weight = np.exp(log_joint - logsumexp(log_joint, axis=0))
            not_literal = (weight * np.array(read)[at]).sum(axis=0)
            for construction in (*asked.constructions, ANY):
                own = np.unique(asked.number[asked.select(construction, "unlikely")])
                head = {"learns": learns, "construction": construction, "share": share}
                rows.append(head | {"not_literal": float(not_literal[own].mean())})
    return pd.DataFrame(rows)


def _shift(reweighting: Reweighting, events: float, noise: float) -> dict[str, float]:
    """Return the values of all parameters with their log-odds shifted, inside their ranges."""
    specs, values = reweighting.world.file.parameters, reweighting.world.parameters
    shifted = {}
    for name, value in values.items():
        by = noise if name in reweighting.noise_parameters else events
        moved = float(expit(logit(np.clip(value, 1e-12, 1 - 1e-12)) + by))
        shifted[name] = min(max(moved, specs[name].least), specs[name].most)
    return shifted
