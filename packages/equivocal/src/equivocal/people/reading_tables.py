"""Tables of how comprehenders read sentences, detect reversals, and learn from a list.

Intervals are over networks and items (`answers`). A comprehender of which there is only one, such
as the ideal comprehender or an ensemble, is not a sample; its intervals are over items.

Comprehenders are also compared with the exact ideal comprehender, sentence by sentence:

correlation, slope   between beliefs in the literal reading and the exact ones, over questions
divergence           KL(ideal ‖ comprehender) over the three readings, in nats per question

These are means over networks, with t intervals of the mean on a scale that keeps them within the
range of the measure: Fisher's z for correlations, the logarithm for divergences. With f that scale
and s the standard error of a mean m, the ends are f⁻¹(f(m) ± t s f′(m)).

How does a list of sentences change the readings of the ideal comprehender? That depends on how many
sentences of the list are implausible. The comprehender knows the world, except how often unusual
events happen (log-odds shifted by e) and how often sentences are misheard (shifted by n), both with
the prior N(0, 1) about the world's own values. It hears once a list of N sentences, a share r of
them unlikely and the others their plausible reversals:

    p(e, n | list) ∝ p(e) p(n) exp( N [ r mean log P(unlikely | e, n)
                                        + (1 − r) mean log P(plausible | e, n) ] )               (1)

and an unlikely sentence is read with both unknowns marginalised, P(reading, heard | list) / P(heard
| list). Sums are over a grid; each of its points is a world that is enumerated exactly. There are
three learners: of events (n = 0), of noise (e = 0), and of both. Networks do not learn while they
listen, so a list does not change their answers; their counterpart would be training in a world with
other parameters.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from scipy.special import expit, logit, logsumexp, rel_entr

from equivocal.people.drawn_answers import (
    Estimate,
    bootstrap,
    expect_answers,
    summarise_answers,
)
from equivocal.people.questions import ANY, ITEM_READINGS, AskedItems, IdealReadings
from equivocal.statistics.summaries import compare_with_zero
from equivocal.world import PLAUSIBILITY, Reweighting

__all__ = [
    "SENTENCES",
    "adapt_to_list",
    "compare_with_ideal",
    "select_learner",
    "tabulate_areas",
    "tabulate_items",
    "tabulate_readings",
]

DRAWS = 400  # resamples of the bootstrap
Beliefs = Mapping[str, np.ndarray]
Networks = Mapping[str, np.ndarray]  # (participants,): the network of each
ALL = "all"
LEAST = 1e-12  # smaller beliefs are raised to this
Scale = Callable[[float], float]
SCALES: dict[str, tuple[Scale, Scale, Scale]] = {  # f, its inverse and its derivative
    "correlation": (np.arctanh, np.tanh, lambda r: 1 / (1 - r**2)),
    "slope": (float, float, lambda _: 1.0),
    "divergence": (np.log, np.exp, lambda d: 1 / d),
}
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)  # r
SENTENCES = 40  # N
REACH, POINTS = 2.5, 11  # of the grid, in prior standard deviations


def tabulate_readings(
    asked: AskedItems,
    beliefs: Beliefs,
    networks: Networks | None = None,
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
        own_networks = (networks or {}).get(name)
        for construction in (*asked.constructions, ANY):
            for plausibility in (*PLAUSIBILITY, ANY):
                chosen = asked.select(construction, plausibility)
                own = believed[:, chosen]
                if not len(chosen) or np.isnan(own).any():
                    continue
                head = {"comprehender": name, "construction": construction}
                head |= {"plausibility": plausibility}
                names = asked.names[chosen]
                sizes = {"participants": len(own), "items": len(set(names))}
                found = summarise_answers(
                    expect_answers(own),
                    names,
                    ITEM_READINGS,
                    groups=own_networks,
                    only_items=own_networks is None,
                    draws=draws,
                    seed=seed,
                )
                literal = found["literal"]
                opposite = Estimate(1 - literal.value, 1 - literal.high, 1 - literal.low)
                for measure, each in {"not literal": opposite, **found}.items():
                    rows.append(head | {"measure": measure, **each._asdict(), **sizes})
    keys = ["comprehender", "construction", "plausibility", "measure", *Estimate._fields]
    return pd.DataFrame(rows, columns=[*keys, "participants", "items"])


def tabulate_areas(
    asked: AskedItems,
    beliefs: Beliefs,
    networks: Networks | None = None,
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> pd.DataFrame:
    """Tabulate how well beliefs distinguish plausible sentences from their reversals.

    `area` is P(belief in the literal reading of the plausible sentence > that of its reversal),
    over items, questions and pairs of participants, ties counting half. `drawn` is the same
    probability for single answers, literal or not, that are drawn from the beliefs.

    Parameters
    ----------
    asked, beliefs, networks, draws, seed
        As for `tabulate_readings`.

    Returns
    -------
    DataFrame
        comprehender, construction, plausibility (of the reversal), area, low, high (95 %), drawn,
        drawn_low, drawn_high, items.
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
                found = _compute_areas(literal, items, (networks or {}).get(name), draws, seed)
                rows.append((name, construction, plausibility, *found, len(set(items))))
    columns = ["comprehender", "construction", "plausibility", "area", "low", "high"]
    columns += ["drawn", "drawn_low", "drawn_high", "items"]
    return pd.DataFrame(rows, columns=columns)


def _pair_questions(asked: AskedItems, construction: str, plausibility: str) -> np.ndarray:
    """Return (pairs, 2): questions about plausible sentences and those about their reversals."""
    plausible, reversals = (
        {(asked.names[k], asked.questions[k].probe): k for k in asked.select(construction, kind)}
        for kind in ("plausible", plausibility)
    )
    pairs = [(plausible[key], k) for key, k in reversals.items() if key in plausible]
    return np.array(pairs, int).reshape(-1, 2)


def _compute_areas(
    literal: np.ndarray, items: np.ndarray, network: np.ndarray | None, draws: int, seed: int
) -> list[float]:
    """Compute `area` and `drawn`, each with its interval, from (participants, pairs, 2)."""
    above, below = literal[..., 0], literal[..., 1]
    gap = above[:, None] - below[None]
    wins = (gap > 0) + (gap == 0) / 2  # (participants, participants, pairs)
    mean = 0.5 + (above - below) / 2  # (participants, pairs)
    own = np.zeros(len(literal), int) if network is None else network
    group, item = (np.unique(each, return_inverse=True)[1] for each in (own, items))

    def compute(copies: np.ndarray, each: np.ndarray) -> list[float]:
        p, q = copies[group] / copies[group].sum(), each[item] / each[item].sum()
        return [float(p @ (wins @ q) @ p), float(p @ mean @ q)]

    sizes = int(group.max()) + 1, int(item.max()) + 1
    found = bootstrap(compute, sizes, draws, seed, only_items=network is None)
    return found.ravel().tolist()


def tabulate_items(asked: AskedItems, beliefs: Beliefs, ideal: np.ndarray) -> pd.DataFrame:
    """Tabulate the mean belief in the literal reading of every sentence beside the exact one.

    Parameters
    ----------
    asked : AskedItems
        The questions.
    beliefs : mapping of str to ndarray of shape (participants, questions, 3)
        By comprehender.
    ideal : ndarray of shape (1, questions, 3)
        From `believe_ideal`.
    """
    items = pd.DataFrame([asked.items[number]._asdict() for number in asked.number])
    about = items[["item", "construction", "plausibility"]].assign(
        sentence=[str(question.utterance) for question in asked.questions],
        question=[question.probe for question in asked.questions],
    )
    exact = ideal[0, :, 0].astype(float)
    tables = {
        name: about.assign(literal=believed[:, :, 0].mean(axis=0).astype(float), exact=exact)
        for name, believed in beliefs.items()
    }
    return pd.concat(tables, names=["comprehender"]).reset_index(0).reset_index(drop=True)


def compare_with_ideal(
    asked: AskedItems, beliefs: Beliefs, ideal: np.ndarray, networks: Networks | None = None
) -> pd.DataFrame:
    """Compare networks with the ideal comprehender, with 95 % intervals over networks.

    Parameters
    ----------
    asked, beliefs, ideal
        As for `tabulate_items`.
    networks : mapping of str to ndarray of shape (participants,), optional
        The network of each participant; beliefs are averaged within networks. If a comprehender is
        missing here, each of its participants counts as a network.

    Returns
    -------
    DataFrame
        comprehender, plausibility (or "all"), questions, and correlation, slope and divergence with
        their intervals. Correlation and slope are NaN if the exact beliefs do not vary.
    """
    rows = []
    heard = np.isfinite(ideal[0, :, 0])
    for name, believed in beliefs.items():
        network = (networks or {}).get(name, np.arange(len(believed)))
        own = np.stack([believed[network == n].mean(axis=0) for n in np.unique(network)])
        for kind in (*PLAUSIBILITY, ALL):
            chosen = np.arange(len(heard)) if kind == ALL else asked.select(ANY, kind)
            chosen = chosen[heard[chosen]]
            if len(chosen):
                found = [_compare_beliefs(each[chosen], ideal[0, chosen]) for each in own]
                row = {"comprehender": name, "plausibility": kind, "questions": len(chosen)}
                for measure in SCALES:
                    row |= _average_networks(measure, np.array([each[measure] for each in found]))
                rows.append(row)
    return pd.DataFrame(rows)


def _average_networks(measure: str, values: np.ndarray) -> dict[str, float]:
    """Return the mean over networks with its interval, as MEASURE, MEASURE_low, MEASURE_high."""
    test = compare_with_zero(values)
    found = test.name_interval(measure)
    if not np.isnan(test.ci_low):
        forward, backward, derivative = SCALES[measure]
        half = (test.ci_high - test.mean) * derivative(test.mean)
        found[f"{measure}_low"] = float(backward(forward(test.mean) - half))
        found[f"{measure}_high"] = float(backward(forward(test.mean) + half))
    return found


def _compare_beliefs(believed: np.ndarray, ideal: np.ndarray) -> dict[str, float]:
    """Compute correlation, slope and divergence between the beliefs of a network and exact ones."""
    x, y = ideal[:, 0], believed[:, 0]
    spread = x.std() > 1e-9
    divergence = rel_entr(ideal, np.maximum(believed, LEAST)).sum(axis=1).mean()
    return {
        "correlation": float(np.corrcoef(x, y)[0, 1]) if spread and y.std() > 0 else np.nan,
        "slope": float(np.cov(x, y)[0, 1] / x.var(ddof=1)) if spread else np.nan,
        "divergence": float(divergence),
    }


def adapt_to_list(
    asked: AskedItems, *, shares: Sequence[float] = SHARES, sentences: int = SENTENCES
) -> pd.DataFrame:
    """Compute how the ideal comprehender reads unlikely sentences after a list.

    Parameters
    ----------
    asked : AskedItems
        Questions about a world that has parameters of noise and of events.
    shares : sequence of float
        r, the share of unlikely sentences in the list.
    sentences : int
        N, the length of the list.

    Returns
    -------
    DataFrame
        learns, construction, share, not_literal; empty if the world has no unlikely sentences.
    """
    columns = ["learns", "construction", "share", "not_literal"]
    pairs, unlikely = (np.unique(asked.number[asked.select(ANY, k)]) for k in (ANY, "unlikely"))
    if not len(unlikely):
        return pd.DataFrame(columns=columns)
    shifts, read, log_heard = _evaluate_grid(asked)
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
    """Select the learner of both, in all constructions, as the table of a comprehender."""
    own = listed[(listed["learns"] == "both") & (listed["construction"] == ANY)]
    return own.assign(comprehender=comprehender)


def _evaluate_grid(asked: AskedItems) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the grid of (e, n), and non-literal readings and log P(sentence) at its points."""
    reweighting = Reweighting(asked.world)
    ideal = IdealReadings(reweighting.world, asked)
    grid = np.linspace(-REACH, REACH, POINTS)
    shifts = [(e, n) for e in grid for n in grid]
    weights = [reweighting.compute_weights(_shift_values(reweighting, *both)) for both in shifts]
    read = np.array([1 - ideal.read(each)[:, 0] for each in weights])
    heard = np.array([ideal.hear(each) for each in weights])
    return np.array(shifts), read, np.log(np.maximum(heard, np.finfo(float).tiny))


def _shift_values(reweighting: Reweighting, events: float, noise: float) -> dict[str, float]:
    """Return the values of all parameters with shifted log-odds, clipped to their ranges."""
    specs, values = reweighting.world.file.parameters, reweighting.world.parameters
    shifted = {}
    for name, value in values.items():
        by = noise if name in reweighting.noise_parameters else events
        moved = float(expit(logit(np.clip(value, 1e-12, 1 - 1e-12)) + by))
        shifted[name] = min(max(moved, specs[name].least), specs[name].most)
    return shifted
