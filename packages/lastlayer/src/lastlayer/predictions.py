"""What a posterior answers about new rows: maths.md (25), from a Gaussian or from particles.

With y = σ(ψ·θ_k), or a softmax over k, for a row ψ:

    average_probability   E[y]
    compute_sd            standard deviation of y over the posterior
    compute_quantiles     quantiles of y over the posterior
    compute_entropies     H(E[y]), E[H(y)] and their difference

A Gaussian posterior gives these in closed form, however few particles there are: with a ~ N(μ, v),
E[H(y)] = E log(1+e^a) − μ E σ(a) − v E σ'(a) by Stein's identity. Others average over particles.
`Prediction` computes μ and v once, and each answer when it is first asked for.

Features may be of any size. Where v > 10⁸ that identity loses its digits; E[H(y)] is then
∫H(σ(a)) da = π²/3 times the density of a at 0, approximated by E σ'(a), with errors of order 1/v.
Beyond a logit of 10¹⁵ the logistic function is a step, and only μ/√v matters.

v comes from the covariance's root (`covariance`), all else is NumPy: nothing is compiled.
"""

from collections.abc import Callable
from functools import cached_property
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from lastlayer.checks import check_positive, fail
from lastlayer.covariance import Root
from lastlayer.logits import compute_moments

CHUNK = 1 << 24  # numbers held in memory at a time
WIDE = 1e8  # variance of a logit above which E[H(y)] is taken from the density at 0
STEEP = 1e15  # logits beyond which the logistic function is a step


class Entropies(NamedTuple):
    """Predictive uncertainty in nats, (N, K); for a softmax (N, 1)."""

    total: np.ndarray
    expected: np.ndarray
    information: np.ndarray


def compute_logits(
    psi: np.ndarray, mean: np.ndarray, root: Root, most: float = STEEP
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and sd of the logits ψ·θ_k, each (n, K).

    Each row is divided by a power of two first, so that no square overflows. Where the logit
    would be larger than `most`, mean and sd are both scaled down to it: the logistic function
    is a step there.
    """
    _, exponent = np.frexp(np.abs(psi).max(axis=1).astype(np.float64))
    scale = np.ldexp(1.0, exponent[:, None] - 1)
    unit = psi.astype(np.float64) / scale
    mu, sd = unit @ mean.T.astype(np.float64), root.measure_sd(unit)
    reach = np.maximum(np.hypot(mu, sd), np.finfo(np.float64).tiny)
    with np.errstate(over="ignore"):
        bound = np.minimum(scale, most / reach)
        return mu * bound, sd * bound


class Gaussian(NamedTuple):
    """Logits a ~ N(μ, sd²) of n rows and K yes/no outputs, in double precision."""

    mu: np.ndarray  # (n, K)
    sd: np.ndarray  # (n, K)
    dtype: np.dtype  # of the answers

    def average_probability(self) -> np.ndarray:
        """Return E[y], (n, K)."""
        mu, sd = self.mu.astype(self.dtype), self.sd.astype(self.dtype)
        tail = np.clip(compute_moments(mu, sd**2).tail, 0, 1)
        return np.where(mu > 0, 1 - tail, tail)

    def compute_sd(self) -> np.ndarray:
        """Return the standard deviation of y, (n, K)."""
        tail, slope, _ = compute_moments(self.mu, self.sd**2)
        # Var y = E y (1 − E y) − E y(1 − y), which cancels
        return np.sqrt(np.maximum(tail * (1 - tail) - slope, 0)).astype(self.dtype)

    def compute_quantiles(self, levels: tuple[float, ...]) -> np.ndarray:
        """Return the quantiles of y, (n, K, levels)."""
        z = np.array([NormalDist().inv_cdf(level) for level in levels])
        ends = self.mu[..., None] + self.sd[..., None] * z
        return np.exp(-np.logaddexp(0, -ends)).astype(self.dtype)

    def compute_entropies(self) -> np.ndarray:
        """Return total, expected and their difference, maths (25), (n, K, 3)."""
        v = self.sd**2
        tail, slope, excess = compute_moments(self.mu, v)
        p = np.clip(tail, np.finfo(np.float64).tiny, 1)
        total = -(p * np.log(p) + (1 - p) * np.log1p(-p))
        # E log(1+e^a) − μ E σ − v E σ'; written for −|μ|, whose terms do not cancel
        by_parts = excess + np.abs(self.mu) * tail - v * slope
        return _stack(total, np.where(v > WIDE, np.pi**2 / 3 * slope, by_parts), self.dtype)


class Particles(NamedTuple):
    """Draws of the weights of K outputs, and the rows ψ that they answer for."""

    values: np.ndarray  # (K, J, D)
    softmax: bool
    psi: np.ndarray  # (n, D)

    def average_probability(self) -> np.ndarray:
        """Return E[y], (n, K)."""
        return self._apply(lambda y: y.mean(axis=1).T)

    def compute_sd(self) -> np.ndarray:
        """Return the standard deviation of y, (n, K)."""
        return self._apply(lambda y: y.std(axis=1).T)

    def compute_quantiles(self, levels: tuple[float, ...]) -> np.ndarray:
        """Return the quantiles of y, (n, K, levels)."""
        ends = np.array(levels, self.psi.dtype)
        return self._apply(lambda y: np.quantile(y, ends, axis=1).transpose(2, 1, 0))

    def compute_entropies(self) -> np.ndarray:
        """Return total, expected and their difference, maths (25); (n, 1, 3) for a softmax."""
        both = self._apply(_average_class_entropies if self.softmax else _average_entropies)
        return _stack(both[..., 0], both[..., 1], self.psi.dtype)

    def _apply(self, summarise: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Summarise the probabilities of all particles, (K, J, n), of some rows at a time."""
        from scipy.special import expit, softmax  # JAX requires SciPy, but does not load it

        K, J, D = self.values.shape
        rows = max(1, CHUNK // (K * J))
        # so that no sum overflows; logits of this size mean certainty in any case
        heaviest = max(float(np.abs(self.values).max()), 1.0)
        most = float(np.finfo(self.psi.dtype).max) / 16 / D / heaviest
        parts = []
        for start in range(0, len(self.psi), rows):
            psi = self.psi[start : start + rows]
            largest = np.abs(psi).max(axis=1, keepdims=True)
            psi = psi * np.minimum(1, most / np.maximum(largest, most))
            logits = np.matmul(self.values, psi.T)
            y = np.asarray(softmax(logits, axis=0) if self.softmax else expit(logits))
            parts.append(summarise(y))
        return np.concatenate(parts)


class Prediction:
    """All that a posterior says of some rows; each answer is computed when first asked for.

    `parts` are the outputs that are answered alike: which of them (K,), and by what.
    """

    def __init__(
        self,
        parts: list[tuple[np.ndarray, Gaussian | Particles]],
        measure_unfamiliar: Callable[[], np.ndarray] | None = None,
        choose_threshold: Callable[[float], float] | None = None,
    ) -> None:
        self.parts = parts
        self._measure_unfamiliar, self._choose_threshold = measure_unfamiliar, choose_threshold

    def __repr__(self) -> str:
        N, K = self.probability.shape
        return f"<Prediction of {N:,} row{'s' * (N != 1)} × {K} output{'s' * (K != 1)}>"

    @cached_property
    def probability(self) -> np.ndarray:
        """The probability E[y] of each row and output, (N, K)."""
        return self._join("average_probability")

    @cached_property
    def sd(self) -> np.ndarray:
        """The standard deviation of y over the posterior, (N, K)."""
        return self._join("compute_sd")

    @cached_property
    def entropies(self) -> Entropies:
        """The total, expected (aleatoric) and epistemic uncertainty in nats."""
        return Entropies(*np.moveaxis(self._join("compute_entropies"), -1, 0))

    @property
    def information(self) -> np.ndarray:
        """The epistemic part of the uncertainty in nats, (N, K); for a softmax (N, 1)."""
        return self.entropies.information

    def interval(self, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of the central `level` of y over the posterior.

        Parameters
        ----------
        level : float
            The probability between the ends.

        Returns
        -------
        two arrays (N, K)
            Low and high.
        """
        check_positive(level, "level", below=1.0)
        ends = self._join("compute_quantiles", ((1 - level) / 2, (1 + level) / 2))
        return ends[..., 0], ends[..., 1]

    @cached_property
    def unfamiliar(self) -> np.ndarray:
        """A p-value of each row, (N,), in (0, 1]: small where it is unlike the training rows."""
        if self._measure_unfamiliar is None:
            fail("unfamiliar needs the training rows: fit with LastLayer.fit or fit_features.")
        return self._measure_unfamiliar()

    def abstain(self, level: float = 0.05) -> np.ndarray:
        """Return which rows are too unfamiliar to answer.

        Parameters
        ----------
        level : float
            Of rows like the held-out ones, at most about this share is flagged.

        Returns
        -------
        array (N,) of bool
            True where `unfamiliar` is at most `level`.
        """
        check_positive(level, "level", below=1.0)
        return self.unfamiliar <= level

    def label_sets(self, missed: float = 0.1) -> np.ndarray:
        """Return sets of labels, by split-conformal risk control (`report.choose_miss_threshold`).

        Parameters
        ----------
        missed : float
            The share of a row's labels that is missed, in expectation over rows like the held-out
            ones.

        Returns
        -------
        array (N, K) of bool
            True for the labels in the set.
        """
        check_positive(missed, "missed", below=1.0)
        if self._choose_threshold is None:
            fail("label_sets needs held-out rows: fit with LastLayer.fit or fit_features.")
        return self.probability >= self._choose_threshold(missed)

    def _join(self, name: str, *options: Any) -> np.ndarray:
        """Ask every part, and put its answers in the places of its outputs."""
        answers = [(which, getattr(part, name)(*options)) for which, part in self.parts]
        if len(answers) == 1:
            return answers[0][1]
        first = answers[0][1]
        joined = np.empty((len(first), len(answers[0][0]), *first.shape[2:]), first.dtype)
        for which, answer in answers:
            joined[:, which] = answer
        return joined


def _stack(total: np.ndarray, expected: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return total, expected and their difference along a last axis."""
    expected = np.clip(expected, 0, total)
    return np.stack([total, expected, total - expected], axis=-1).astype(dtype)


def _average_entropies(y: np.ndarray) -> np.ndarray:
    each = [_compute_entropy(part) + _compute_entropy(1 - part) for part in (y.mean(axis=1), y)]
    return np.stack([each[0].T, each[1].mean(axis=1).T], axis=-1)


def _average_class_entropies(y: np.ndarray) -> np.ndarray:
    total, each = (_compute_entropy(part).sum(axis=0) for part in (y.mean(axis=1), y))
    return np.stack([total, each.mean(axis=0)], axis=-1)[:, None]


def _compute_entropy(p: np.ndarray) -> np.ndarray:
    return -p * np.log(np.maximum(p, np.finfo(p.dtype).tiny))
