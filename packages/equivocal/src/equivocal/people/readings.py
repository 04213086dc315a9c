"""Tables of how comprehenders read sentences, and how well they detect reversals.

Intervals are over networks and items (`agreement`). A comprehender of which there is only one, such
as the ideal comprehender or an ensemble, is not a sample; its intervals are over items.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from equivocal.people.agreement import Estimate, bootstrap, summarise_answers
from equivocal.people.asked_items import ANY, ITEM_READINGS, AskedItems
from equivocal.world import PLAUSIBILITY

DRAWS = 400  # resamples of the bootstrap
Arrays = Mapping[str, np.ndarray]  # by comprehender


def tabulate_readings(
    asked: AskedItems,
    beliefs: Arrays,
    networks: Arrays | None = None,
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> pd.DataFrame:
    """Tabulate readings by construction and plausibility, with w, b and w/b.

    Parameters
    ----------
    asked : AskedItems
        The questions.
    beliefs : mapping of str to ndarray of shape (participants, questions, 3)
        By comprehender: probabilities of `ITEM_READINGS`; NaN if they are undefined.
    networks : mapping of str to ndarray of shape (participants,), optional
        The network of each participant. A comprehender that is missing here is not a sample.
    draws : int
        Number of bootstrap resamples; no intervals with 0.
    seed : int
        The seed of the bootstrap.

    Returns
    -------
    DataFrame
        comprehender, construction, plausibility, measure ("not literal", `ITEM_READINGS`, w, b,
        w/b), value, low, high (95 %; NaN for a single network), participants, items.
    """
    rows = []
    for name, believed in beliefs.items():
        owners = (networks or {}).get(name)
        for construction in (*asked.constructions, ANY):
            for plausibility in (*PLAUSIBILITY, ANY):
                chosen = asked.select(construction, plausibility)
                chosen_beliefs = believed[:, chosen]
                if not len(chosen) or np.isnan(chosen_beliefs).any():
                    continue
                head = {
                    "comprehender": name,
                    "construction": construction,
                    "plausibility": plausibility,
                }
                names = asked.names[chosen]
                sizes = {"participants": len(chosen_beliefs), "items": len(set(names))}
                estimates = summarise_answers(
                    chosen_beliefs,
                    names,
                    ITEM_READINGS,
                    groups=owners,
                    only_items=owners is None,
                    draws=draws,
                    seed=seed,
                )
                literal = estimates["literal"]
                opposite = Estimate(1 - literal.value, 1 - literal.high, 1 - literal.low)
                for measure, each in {"not literal": opposite, **estimates}.items():
                    rows.append(head | {"measure": measure, **each._asdict(), **sizes})
    keys = ["comprehender", "construction", "plausibility", "measure", *Estimate._fields]
    return pd.DataFrame(rows, columns=[*keys, "participants", "items"])


def tabulate_areas(
    asked: AskedItems,
    beliefs: Arrays,
    networks: Arrays | None = None,
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> pd.DataFrame:
    """Tabulate how well beliefs distinguish plausible sentences from their reversals.

    `area` is P(belief in the literal reading of the plausible sentence > that of its reversal),
    over items, questions and pairs of participants, ties counting half.

    Parameters
    ----------
    asked, beliefs, networks, draws, seed
        As for `tabulate_readings`.

    Returns
    -------
    DataFrame
        comprehender, construction, plausibility (of the reversal), area, low, high (95 %), items.
    """
    rows = []
    for construction in asked.constructions:
        for plausibility in PLAUSIBILITY[1:]:
            pairs = _pair_questions(asked, construction, plausibility)
            for name, believed in beliefs.items():
                literal = believed[:, pairs, 0]  # (participants, pairs, 2)
                if not len(pairs) or np.isnan(literal).any():
                    continue
                items = asked.names[pairs[:, 0]]
                area = _compute_area(literal, items, (networks or {}).get(name), draws, seed)
                rows.append((name, construction, plausibility, *area, len(set(items))))
    columns = ["comprehender", "construction", "plausibility", "area", "low", "high", "items"]
    return pd.DataFrame(rows, columns=columns)


def _pair_questions(asked: AskedItems, construction: str, plausibility: str) -> np.ndarray:
    """Return (pairs, 2): questions about plausible sentences and those about their reversals."""
    plausible, reversals = (
        {(asked.names[k], asked.questions[k].probe): k for k in asked.select(construction, kind)}
        for kind in ("plausible", plausibility)
    )
    pairs = [(plausible[key], k) for key, k in reversals.items() if key in plausible]
    return np.array(pairs, int).reshape(-1, 2)


def _compute_area(
    literal: np.ndarray, items: np.ndarray, network: np.ndarray | None, draws: int, seed: int
) -> list[float]:
    """Compute `area` with its interval, from (participants, pairs, 2)."""
    above, below = literal[..., 0], literal[..., 1]
    gap = above[:, None] - below[None]
    wins = (gap > 0) + (gap == 0) / 2  # (participants, participants, pairs)
    owners = np.zeros(len(literal), int) if network is None else network
    group, item = (np.unique(each, return_inverse=True)[1] for each in (owners, items))

    def compute(copies: np.ndarray, each: np.ndarray) -> list[float]:
        p, q = copies[group] / copies[group].sum(), each[item] / each[item].sum()
        return [float(p @ (wins @ q) @ p)]

    sizes = int(group.max()) + 1, int(item.max()) + 1
    return list(bootstrap(compute, sizes, draws, seed, only_items=network is None)[0])
