"""What a posterior is worth on held-out rows: its NLL, its labels one by one, and one figure.

All numbers are of rows that the posterior has not seen. The network's own NLL, and that of one
temperature which was fitted to these same rows (and so is a little flattered), stand beside it.

Thresholds with a guarantee. For a row with positive labels, the loss of a threshold λ is the share
of them with a probability below λ. Split-conformal risk control takes

    λ̂ = the largest λ with (n R(λ) + 1) / (n + 1) ≤ α,

R the mean loss of n held-out rows; the expected loss of another, exchangeable row is then at most α
(Angelopoulos, Bates, Fisch, Lei & Schuster 2024, Conformal risk control, ICLR, theorem 1).
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from lastlayer.checks import check_positive, fail
from lastlayer.predictions import Prediction
from lastlayer.prior import compare_answers
from lastlayer.problem import Likelihood, Problem

BINS = 10  # of equally many rows, for the calibration error
DRAWS, LEVEL = 100, 0.9  # of the bootstrap, and of the intervals that it gives
SAVED = ("nll", "warnings", "notes", "labels", "seconds")  # fields of a report
RECALL = 0.9  # for which the table of labels gives a threshold


class MissCurve(NamedTuple):
    """The loss R(λ) of held-out rows, as its steps."""

    probabilities: np.ndarray  # of all positive labels, ascending
    missed: np.ndarray  # n R of a threshold just above each of them
    number: np.ndarray  # n, ()

    def choose_threshold(self, missed: float) -> float:
        """Return λ̂ for an expected loss of at most `missed`; 0 where only all labels suffice."""
        before = np.concatenate([[0.0], self.missed])
        allowed = (before + 1) / (self.number + 1) <= missed
        thresholds = np.append(self.probabilities, np.inf)
        return float(thresholds[allowed][-1]) if allowed.any() else 0.0


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Report:
    """What `LastLayer.fit` found out; plain numbers, but for the held-out rows, are saved with it.

    `nll` is per yes/no answer, or per row of class numbers, of "posterior", "network" and
    "temperature"; the last two where trained weights are known. `ok` is False if there are
    `warnings`. `notes` say which layer was found, by which method, on which rows.
    """

    nll: dict[str, float]
    warnings: list[str]
    notes: list[str]
    labels: dict[str, list[Any]]
    seconds: float = 0.0
    held_out: "HeldOut | None" = None

    @property
    def ok(self) -> bool:
        """Whether nothing was found that speaks against using the posterior."""
        return not self.warnings

    @property
    def message(self) -> str:
        """All of it as text."""
        nll = ", ".join(f"{name} {value:.4g}" for name, value in self.nll.items())
        lines = [f"{'ok' if self.ok else 'see the warnings'}; {self.seconds:.3g} s; NLL: {nll}"]
        return "\n".join([*lines, *[f"warning: {w}" for w in self.warnings], *self.notes])

    def __repr__(self) -> str:
        return self.message

    @property
    def tables(self) -> dict[str, Any]:
        """The table "labels" as a pandas data frame.

        Per label: n (rows with a known label), positives, nll; calibration_error with its interval
        (root mean square of ten bins, less what chance adds to it: Kumar, Liang & Ma 2019, Verified
        uncertainty calibration, NeurIPS); the largest threshold that finds 90 % of the positives,
        with its interval; epistemic_share, that of the information in the uncertainty.
        """
        try:
            import pandas as pd
        except ImportError:
            fail("tables need pandas: pip install 'lastlayer[report]'.")
        return {"labels": pd.DataFrame(self.labels)}

    def choose_thresholds(
        self, *, recall: float | None = None, precision: float | None = None
    ) -> np.ndarray:
        """Return a threshold per label with the ends of its 90 % interval, (K, 3).

        The largest that reaches this recall on the held-out rows, or the smallest from which on
        precision is reached; NaN where none does. Intervals are of the bootstrap over rows.
        """
        held = self._require_rows()
        if (recall is None) == (precision is None):
            fail("choose_thresholds takes recall= or precision=, one of the two.")
        wanted = check_positive(recall or precision, "recall or precision", below=1.0)
        return np.array(
            [
                find_threshold(p, t, c, wanted, by_recall=precision is None)
                for p, t, c in held.iterate()
            ]
        )

    def draw(self) -> Any:
        """Return a Matplotlib figure: reliability of each label, and risk against coverage."""
        held = self._require_rows()
        return draw_report(held, compute_losses(held.problem, held.probability))

    def _require_rows(self) -> "HeldOut":
        if self.held_out is None:
            fail("files keep no held-out rows; use the report of the LastLayer that was fitted.")
        return self.held_out


class HeldOut(NamedTuple):
    """Held-out rows with what the posterior says of them, for figures and thresholds."""

    problem: Problem
    probability: np.ndarray  # (N, K)
    names: list[str]

    @property
    def targets(self) -> np.ndarray:
        """The share of yes in each answer, (N, K); 0 where it is missing."""
        return self.problem.targets / np.maximum(self.counts, np.finfo(self.problem.dtype).tiny)

    @property
    def counts(self) -> np.ndarray:
        """How much each answer counts, (N, K)."""
        counts = self.problem.counts.reshape(len(self.probability), -1)
        return np.broadcast_to(counts, self.probability.shape)

    def iterate(self) -> Any:
        """Yield the probabilities, targets and counts of the known answers of each label."""
        targets, counts = self.targets, self.counts
        for k in range(len(self.names)):
            known = counts[:, k] > 0
            yield self.probability[known, k], targets[known, k], counts[known, k]


def measure_labels(held: HeldOut, answers: Prediction) -> dict[str, list[Any]]:
    """Return the columns of the table of labels."""
    losses = compute_losses(held.problem, held.probability)
    total, _, information = (
        np.broadcast_to(part, held.probability.shape) for part in answers.entropies
    )
    rows = []
    for k, (p, t, c) in enumerate(held.iterate()):
        known, own = held.counts[:, k] > 0, held.counts[:, min(k, losses.shape[1] - 1)]
        error = measure_calibration(p, t, c)
        threshold = find_threshold(p, t, c, RECALL, by_recall=True)
        doubt = total[known, k].sum()
        loss = losses[:, min(k, losses.shape[1] - 1)].sum()
        rows.append(
            {
                "label": held.names[k],
                "n": len(p),
                "positives": float((c * t).sum()),
                "nll": float(loss / own.sum()) if own.any() else np.nan,
                **dict(zip(CALIBRATION, error, strict=True)),
                **dict(zip(THRESHOLD, threshold, strict=True)),
                "epistemic_share": float(information[known, k].sum() / doubt) if doubt else np.nan,
            }
        )
    return {name: [row[name] for row in rows] for name in rows[0]}


CALIBRATION = ("calibration_error", "calibration_low", "calibration_high")
THRESHOLD = ("threshold", "threshold_low", "threshold_high")


def compute_losses(problem: Problem, probability: np.ndarray) -> np.ndarray:
    """Return the loss of each answer, (N, K), of class numbers each row's, (N, 1)."""
    tiny = np.finfo(probability.dtype).tiny
    p = np.clip(probability.astype(np.float64), tiny, 1)
    t = problem.targets
    if problem.likelihood is Likelihood.SOFTMAX:
        return -(t * np.log(p)).sum(axis=1, keepdims=True)
    other = np.log(np.clip(1 - probability.astype(np.float64), tiny, 1))
    return -(t * np.log(p) + (problem.counts.reshape(len(p), -1) - t) * other)


def compare_with_network(problem: Problem, trained: np.ndarray | None) -> dict[str, float]:
    """Return the NLL of the network, and of it with the best temperature, per answer."""
    if trained is None:
        return {}
    from scipy.optimize import minimize_scalar  # JAX requires SciPy, but does not load it

    logits = problem.features @ trained.T

    def measure(log_temperature: float) -> float:
        a = logits * np.exp(-log_temperature).astype(logits.dtype)
        return average_losses(problem, compare_answers(problem, a)[1])

    best = minimize_scalar(measure, bounds=(-3, 3), method="bounded")
    own = measure(0.0)
    return {"network": own, "temperature": min(float(best.fun), own)}


def average_losses(problem: Problem, losses: np.ndarray) -> float:
    """Return the mean loss of an answer that counts once."""
    counts = problem.counts.reshape(len(losses), -1)
    return float(losses.sum(dtype=np.float64) / np.broadcast_to(counts, losses.shape).sum())


def measure_misses(held: HeldOut) -> MissCurve:
    """Return the loss of thresholds on held-out rows, for risk control."""
    positive = held.problem.targets > 0
    row, _ = np.nonzero(positive)
    p, share = held.probability[positive], 1 / positive.sum(axis=1)[row]
    order = np.argsort(p)
    number = np.array(float((held.problem.row_counts > 0).sum()))
    return MissCurve(p[order], np.cumsum(share[order]), number)


@lru_cache(maxsize=2)
def _draw_counts(n: int) -> np.ndarray:
    """Return how often each row counts: once, and in resamples, (1 + draws, n)."""
    rng = np.random.default_rng(0)
    drawn = rng.multinomial(n, np.full(n, 1 / n), size=DRAWS) if n else np.empty((DRAWS, 0))
    return np.vstack([np.ones(n), drawn])


def draw_weights(counts: np.ndarray) -> np.ndarray:
    """Return the rows themselves, and resamples of them, as weights, (1 + draws, n)."""
    return _draw_counts(len(counts)) * counts


def measure_calibration(p: np.ndarray, t: np.ndarray, c: np.ndarray) -> tuple[float, float, float]:
    """Return the calibration error of one label, and its interval."""
    if len(p) < BINS:
        return (np.nan,) * 3
    order = np.argsort(p, kind="stable")
    starts, W = np.arange(BINS) * len(p) // BINS, draw_weights(c)[:, order]
    gap = (t - p.astype(np.float64))[order]
    size = np.maximum(np.add.reduceat(W, starts, axis=1), 1e-300)
    mean = np.add.reduceat(W * gap, starts, axis=1) / size
    variance = (np.add.reduceat(W * gap**2, starts, axis=1) / size - mean**2) / size
    variance[1:] *= 2  # resamples vary about what varies itself
    squared = (size * (mean**2 - variance)).sum(axis=1) / size.sum(axis=1)
    errors = np.sqrt(np.maximum(squared, 0))
    low, high = np.quantile(errors[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(errors[0]), float(low), float(high)


def find_threshold(
    p: np.ndarray, t: np.ndarray, c: np.ndarray, wanted: float, *, by_recall: bool
) -> tuple[float, float, float]:
    """Return the threshold of one label, and its interval; NaN where none serves."""
    if not p.size:  # no known answer
        return (np.nan,) * 3
    order = np.argsort(-p, kind="stable")
    W, p = draw_weights(c)[:, order], p[order].astype(np.float64)
    hits = np.cumsum(W * t[order], axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        if by_recall:
            good = hits >= wanted * hits[:, -1:]
            place = good.argmax(axis=1)
        else:
            good = hits >= wanted * np.cumsum(W, axis=1)
            place = good.shape[1] - 1 - good[:, ::-1].argmax(axis=1)
    served = good.any(axis=1) & (hits[:, -1] > 0)
    if not served[0] or not served[1:].any():
        return (np.nan,) * 3
    found = np.where(served, p[place], np.nan)
    low, high = np.nanquantile(found[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(found[0]), float(low), float(high)


def draw_report(held: HeldOut, losses: np.ndarray) -> Any:
    """Return a figure of held-out rows; rows are answered in the order of their confidence."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        fail("the figure needs Matplotlib: pip install 'lastlayer[report]'.")
    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    for name, (p, t, c) in zip(held.names, held.iterate(), strict=True):
        if len(p) >= BINS:
            order = np.argsort(p, kind="stable")
            starts = np.arange(BINS) * len(p) // BINS
            total = np.add.reduceat(c[order], starts)
            mean = [np.add.reduceat((c * part)[order], starts) / total for part in (p, t)]
            left.plot(*mean, marker=".", linewidth=0.8, alpha=0.7, label=name)
    left.set(xlabel="Mean probability", ylabel="Share of positives", title="Reliability by label")
    if len(held.names) <= BINS:
        left.legend(fontsize="small")
    counts = held.counts
    losses, counts = losses.sum(axis=1), counts[:, : losses.shape[1]].sum(axis=1)
    doubt = -np.abs(held.probability - 0.5).mean(axis=1)
    order = np.argsort(doubt, kind="stable")
    answered = np.maximum(np.cumsum(counts[order]), 1e-300)
    right.plot(answered / answered[-1], np.cumsum(losses[order]) / answered, color="C0")
    right.set(xlabel="Coverage", ylabel="NLL of the answers given", title="Risk and coverage")
    return figure
