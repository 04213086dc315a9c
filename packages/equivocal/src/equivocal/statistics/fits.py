"""What linear and logistic mixed models share: random parts, their covariance, and fits.

A random part has k effects for each level u_l of its factor: an intercept, slopes. Their covariance
Σ is written by its Cholesky factor, as in lme4,

    u_l ~ N(0, Σ),     Σ = T Tᵀ,     T: k × k, lower triangular                                  (1)

and θ, the parameters, are the entries of all T row by row. Likelihoods are even in every column of
T, so θ needs no bounds, and a variance of zero is a minimum like any other. Effects of different
parts are independent, so slopes without correlations are parts of their own.

Fits with the measures of several networks are pooled, to carry their own uncertainty. Networks
with other random starts give other measures of the same words. The model is fitted with the
measures Z_m of each network m in turn. A single network's measure is a noisy copy of the average W
over networks, which makes its coefficient too small, and the units of networks differ. So
coefficients b_m, with covariance C_m, are converted to the units of the average by its regression
on the network's measures, beside the same controls:

    W = controls + Z_m A_m,     q_m = A_m⁻¹ b_m,     U_m = A_m⁻¹ C_m A_m⁻ᵀ                       (2)

which is exact where networks are rescaled copies, and regression calibration (Carroll, Ruppert,
Stefanski & Crainiceanu 2006, chapter 4) where they scatter. The q_m are pooled by Rubin's rules:

    estimate = mean of q_m,     variance T = mean of U_m + (1 + 1/M) B,     B = variance of q_m  (3)

with the degrees of freedom of Barnard & Rubin (1999, Biometrika 86, 948–955). λ = (1 + 1/M) B / T
is the share of the variance that is due to networks.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy import stats
from threadpoolctl import ThreadpoolController

from lastlayer.errors import UserError, join_names

LEVEL = 0.95  # confidence level of intervals
ALIKE = 1 - 1e-5  # a correlation beyond this counts as ±1
STEP = 1e-4  # of finite differences, in the scale of the parameters
ROUND_OFF = 1e-8  # share of the largest curvature below which a direction counts as flat


class RandomPart(NamedTuple):
    """Effects of each level of a factor: an intercept, or the `values` of its trials as slopes."""

    name: str
    level: np.ndarray  # of each trial, from 0
    values: np.ndarray | None = None  # (n,), or (n, k) for k correlated effects; ones if None
    effects: tuple[str, ...] = ()  # the names of k effects; by default that of the part


@dataclass(frozen=True)
class MixedFit:
    """The estimates of a mixed model, in the units of the response.

    `note` says what is wrong with the fit, or which variances are zero.
    """

    coefficients: np.ndarray  # β
    covariance: np.ndarray  # of β
    df: np.ndarray  # Satterthwaite's, one for each coefficient; infinite for logistic models
    sds: dict[str, float]  # of each random effect
    sd_residual: float  # σ
    log_likelihood: float  # at its maximum; by REML, the restricted likelihood
    trials: int  # n
    converged: bool
    note: str  # empty if there is nothing to remark
    correlations: dict[tuple[str, str], float] = field(default_factory=dict)

    @property
    def parameters(self) -> int:
        """The number of parameters: β, variances and covariances of random effects, and σ²."""
        return len(self.coefficients) + len(self.sds) + len(self.correlations) + 1

    @property
    def aic(self) -> float:
        """Akaike's information criterion; comparable between fits by ML only."""
        return 2 * self.parameters - 2 * self.log_likelihood

    @property
    def bic(self) -> float:
        """Schwarz's Bayesian information criterion; n is the number of trials, as in lme4."""
        return float(np.log(self.trials)) * self.parameters - 2 * self.log_likelihood

    @property
    def errors(self) -> np.ndarray:
        """The standard error of each coefficient."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def intervals(self) -> np.ndarray:
        """The 95 % interval of each coefficient by Student's t, as rows of (low, high)."""
        half = stats.t.ppf(0.5 + LEVEL / 2, self.df) * self.errors
        return np.column_stack([self.coefficients - half, self.coefficients + half])

    @property
    def p_values(self) -> np.ndarray:
        """The two-sided p-value of each coefficient, tested against zero."""
        return np.asarray(2 * stats.t.sf(np.abs(self.coefficients) / self.errors, self.df))


def check_trials(trials: int, coefficients: int) -> None:
    """Check that there are more trials than coefficients, so that the noise can be estimated.

    Parameters
    ----------
    trials : int
        Number of rows that the model is fitted to.
    coefficients : int
        Number of fixed effects, including the intercept.

    Raises
    ------
    UserError
        Where no degrees of freedom would be left.
    """
    if trials <= coefficients:
        raise UserError(
            f"{trials} trials are too few for {coefficients} coefficients (intercept, controls and "
            "measures): no degrees of freedom would be left for the noise; leave out controls or "
            "measures."
        )


def count_levels(part: RandomPart) -> int:
    """Return the number of levels of the factor."""
    return int(part.level.max()) + 1


def fill_values(part: RandomPart) -> np.ndarray:
    """Return the values of the trials, (n, k); one for a random intercept."""
    values = np.ones(len(part.level)) if part.values is None else part.values
    return np.asarray(values.reshape(len(values), -1))


def count_effects(part: RandomPart) -> int:
    """Return k, the number of effects of each level."""
    return 1 if part.values is None or part.values.ndim == 1 else part.values.shape[1]


def name_effects(part: RandomPart) -> tuple[str, ...]:
    """Return the names of the k effects."""
    named = tuple(f"{part.name} {j}" for j in range(1, count_effects(part) + 1))
    return part.effects or (named if len(named) > 1 else (part.name,))


def start_parameters(parts: Sequence[RandomPart]) -> np.ndarray:
    """Return the θ of independent effects with a standard deviation of one."""
    factors = [np.eye(count_effects(part)) for part in parts]
    return np.concatenate([T[np.tril_indices(len(T))] for T in factors])


def build_factors(theta: np.ndarray, sizes: Sequence[int]) -> list[np.ndarray]:
    """Return the factor T of each part, of which `sizes` are the k."""
    factors, start = [], 0
    for k in sizes:
        T = np.zeros((k, k))
        rows = np.tril_indices(k)
        T[rows] = theta[start : start + len(rows[0])]
        factors.append(T)
        start += len(rows[0])
    return factors


def describe_parts(
    parts: Sequence[RandomPart], theta: np.ndarray, flat: float
) -> tuple[dict[str, float], dict[tuple[str, str], float], str]:
    """Return standard deviations, correlations, and a note of those at their bounds.

    A standard deviation below `flat` counts as zero.
    """
    sds: dict[str, float] = {}
    correlations: dict[tuple[str, str], float] = {}
    factors = build_factors(theta, [count_effects(part) for part in parts])
    for part, T in zip(parts, factors, strict=True):
        names, sigma = name_effects(part), T @ T.T
        sd = np.sqrt(np.diag(sigma))
        sds |= dict(zip(names, sd.tolist(), strict=True))
        for i, j in combinations(range(len(names)), 2):
            known = min(sd[i], sd[j]) > flat
            correlations[names[i], names[j]] = (
                float(sigma[i, j] / (sd[i] * sd[j])) if known else float("nan")
            )
    zero = [name for name, sd in sds.items() if sd < flat]
    perfect = [" and ".join(pair) for pair, r in correlations.items() if abs(r) > ALIKE]
    notes = [f"no variance left for {' and '.join(zero)}"] if zero else []
    if perfect:
        notes.append(f"correlations of ±1: {join_names(perfect, most=2)}")
    return sds, correlations, "; ".join(notes)


def solve_newton(H: np.ndarray, gradient: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the Newton step −H⁻¹g and gᵀH⁻¹g, infinite at a saddle; flat directions are ignored.

    Directions are flat where a variance is zero, since its correlations then change nothing.
    """
    curvature, directions = np.linalg.eigh(H)
    edge = ROUND_OFF * np.abs(curvature).max(initial=0)
    slopes = directions.T @ gradient
    curved = curvature > edge
    if (curvature < -1e3 * edge).any():
        return np.zeros_like(gradient), float("inf")
    steps = np.where(curved, slopes / np.where(curved, curvature, 1), 0)
    return -directions @ steps, float(slopes @ steps)


def differentiate(
    slopes: Callable[[np.ndarray], np.ndarray], x: np.ndarray, scale: np.ndarray
) -> np.ndarray:
    """Compute the Hessian by central differences of the gradient along the columns of `scale`."""
    columns = [(slopes(x + STEP * d) - slopes(x - STEP * d)) / (2 * STEP) for d in scale.T]
    H = np.linalg.solve(scale.T, np.column_stack(columns).T)
    return np.asarray((H + H.T) / 2)


def limit_threads(small: bool) -> AbstractContextManager[object]:
    """Return a context in which BLAS uses a single thread if matrices are small."""
    limit: AbstractContextManager[object] = _find_threads().limit(
        limits=1 if small else None, user_api="blas"
    )
    return limit


@cache
def _find_threads() -> ThreadpoolController:
    """Return the controller of BLAS threads; it is slow to create, since it searches libraries."""
    return ThreadpoolController()


@dataclass(frozen=True)
class Pooled:
    """Estimates of a model's measures, pooled over networks; arrays have an entry for each."""

    fits: tuple[MixedFit, ...]
    estimates: np.ndarray
    errors: np.ndarray
    df: np.ndarray
    shares: np.ndarray  # λ

    def describe(self, number: int) -> tuple[float, ...]:
        """Return estimate, standard error, interval, degrees of freedom, p and λ of a measure."""
        q, se, df = (float(x[number]) for x in (self.estimates, self.errors, self.df))
        half = float(stats.t.ppf(0.5 + LEVEL / 2, df)) * se
        p = float(2 * stats.t.sf(abs(q) / se, df))
        return q, se, q - half, q + half, df, p, float(self.shares[number])


def pool_networks(fits: Sequence[tuple[np.ndarray, MixedFit]], average: np.ndarray) -> Pooled:
    """Pool the fits of one model with the measures of each network.

    Parameters
    ----------
    fits : sequence of (ndarray, MixedFit)
        X and the fit of each network; the measures are the last columns of X.
    average : ndarray of shape (n, k)
        W, the k measures averaged over networks.
    """
    k = average.shape[1]
    q, U, df = (np.empty((len(fits), k)) for _ in range(3))
    for m, (X, fit) in enumerate(fits):
        A = np.linalg.lstsq(X, average)[0][-k:]
        inverse = np.linalg.pinv(A)  # a network whose measure is constant says nothing
        q[m] = inverse @ fit.coefficients[-k:]
        U[m] = np.diag(inverse @ fit.covariance[-k:, -k:] @ inverse.T)
        df[m] = fit.df[-k:]
    return Pooled(tuple(fit for _, fit in fits), *apply_rubin(q, U, df.mean(axis=0)))


def apply_rubin(
    q: np.ndarray, U: np.ndarray, df: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Pool estimates q and their variances U, (M, k), by (3).

    Parameters
    ----------
    q, U : ndarray of shape (M, k)
        The estimates, and their variances.
    df : ndarray of shape (k,)
        Degrees of freedom of a single fit; may be infinite.

    Returns
    -------
    tuple of ndarray of shape (k,)
        Estimates, standard errors, degrees of freedom, and λ.

    Examples
    --------
    >>> made = apply_rubin(np.array([[1.0], [3.0]]), np.ones((2, 1)), np.array([np.inf]))
    >>> [round(float(each[0]), 3) for each in made]
    [2.0, 2.0, 1.778, 0.75]
    """
    M = len(q)
    between = (1 + 1 / M) * q.var(axis=0, ddof=1)
    total = U.mean(axis=0) + between
    share = between / total
    with np.errstate(divide="ignore", invalid="ignore"):
        rarer = np.where(share > 0, share**2 / (M - 1), 0)  # 1 / df of networks
        observed = np.where(np.isinf(df), np.inf, (df + 1) / (df + 3) * df * (1 - share))
        pooled_df = 1 / (rarer + 1 / observed)
    return q.mean(axis=0), np.sqrt(total), pooled_df, share
