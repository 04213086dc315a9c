"""Logistic mixed models with crossed random effects: yes/no answers by participant and item.

    k ~ Binomial(m, μ),     logit μ = η = Xβ + ZΛu,     u ~ N(0, I)                              (1)

with Λ the block matrix of the factors T of `equivocal.statistics.fits`. The likelihood is an
integral over u. Laplace's approximation of it, with û the mode of the integrand,
W = diag(m μ (1 − μ)) there and H = ΛᵀZᵀWZΛ + I, is

    −2 log L ≈ −2 log p(k | û) + ûᵀû + log |H|                                                   (2)

û is found by penalised iteratively reweighted least squares (Newton's method with halved steps),
and (2) is minimised over β and θ together, as lme4's `glmer` does with nAGQ = 1. With r = mμ − k,
P = H⁻¹ΛᵀZᵀ, s = ½ m μ(1−μ)(1−2μ) diag(ZΛP) and t = Ps, half the gradient of (2) is

    β:      Xᵀ(r + s − WZΛt)                                                                     (3)
    T_jc:   Σ_i z_ij (u_c (r + s − WZΛt) + w_i P_c − t_c r)_i                                    (4)

for effects j and c of one part, each at the level of trial i; the second term comes from log|H| and
the third from the dependence of û on T. Standard errors are computed from the curvature of (2) in β
and θ, by differences of its gradient, as in `glmer`; intervals are Wald's.

Bates, Mächler, Bolker & Walker (2015), J. Stat. Softw. 67(1), section 3 and lme4's vignette
"Computational methods for mixed models".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import linalg, optimize
from scipy.special import expit, gammaln, log_expit

from equivocal.statistics.blocks import Curvature, Layout, Values
from equivocal.statistics.fits import (
    MixedFit,
    RandomPart,
    build_factors,
    check_trials,
    count_effects,
    count_levels,
    describe_parts,
    differentiate,
    limit_threads,
    solve_newton,
    start_parameters,
)
from equivocal.statistics.linear import CLOSE, SMALL

FLAT = 1e-3  # a standard deviation of log odds below this counts as zero
ENDLESS = 30.0  # a standard deviation of log odds above this counts as infinite
SUSPICIOUS = 12.0  # log odds, in a regression without random effects, that suggest separation
EXACT = 1e-9  # largest error of (2) from an inexact mode


@dataclass(frozen=True)
class LogisticFit(MixedFit):
    """The estimates of a logistic mixed model, in log odds; there is no residual noise."""

    @property
    def parameters(self) -> int:
        """The number of parameters: β, variances and covariances of random effects."""
        return super().parameters - 1


def fit_logistic(
    y: np.ndarray, X: np.ndarray, parts: Sequence[RandomPart], counts: np.ndarray | None = None
) -> LogisticFit:
    """Fit the logistic mixed model (1) by maximum likelihood, with (2) for the likelihood.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Answers, 0 or 1; with `counts`, the proportion of ones.
    X : ndarray of shape (n, p)
        The fixed effects; of full rank, with an intercept, and best in standard deviations.
    parts : sequence of RandomPart
        The random effects, independent of each other; those within a part are correlated.
    counts : ndarray of shape (n,), optional
        m, the number of answers behind each proportion; 1 unless given.

    Returns
    -------
    LogisticFit
        The estimates in log odds, and whether the fit converged.

    Raises
    ------
    UserError
        Where there are no more trials than coefficients.

    Examples
    --------
    >>> who, what = np.divmod(np.arange(800), 20)  # 40 participants, 20 items
    >>> made = np.random.default_rng(0).normal(size=(3, 800))
    >>> said = made[0][who] + made[1][what] + made[2] > 0
    >>> both = RandomPart("participant", who), RandomPart("item", what)
    >>> fit_logistic(said * 1.0, np.ones((800, 1)), both).converged
    True
    """
    check_trials(len(y), X.shape[1])
    columns = sum(count_levels(part) * count_effects(part) for part in parts)
    with limit_threads(columns < 10 * SMALL):
        problem = LogisticProblem(y, X, parts, np.ones(len(y)) if counts is None else counts)
        return _fit(problem, parts)


def _fit(problem: "LogisticProblem", parts: Sequence[RandomPart]) -> LogisticFit:
    """Minimise (2), polish the minimum by Newton's method, and return the estimates."""
    p = problem.X.shape[1]
    fixed = _fit_fixed_effects(problem.k, problem.X, problem.m)
    start = np.concatenate([fixed, start_parameters(parts)])
    scale = problem.estimate_scale(start)

    def compute(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = problem.compute_criterion(start + scale @ x)
        return value, scale.T @ gradient

    origin: np.ndarray = np.zeros(len(start))
    search = optimize.minimize(compute, origin, jac=True, method="BFGS", options={"gtol": 1e-4})
    at, H, distance = _polish(problem, start + scale @ search.x, scale)
    value = problem.compute_criterion(at)[0]
    sds, correlations, edges = describe_parts(parts, at[p:], FLAT)
    note, spread = "", np.linalg.pinv(H)[:p, :p]
    if endless := [name for name, sd in sds.items() if sd > ENDLESS]:
        named = " and ".join(endless)
        note = (
            f"the variance of {named} has no finite estimate: answers hardly vary within them; add "
            "trials, so that more of them have both answers"
        )
    elif not distance < CLOSE or not np.all(np.diag(spread) > 0):
        note = "the fit did not converge; use fewer predictors, or more trials"
    return LogisticFit(
        coefficients=at[:p],
        covariance=spread,
        df=np.full(p, np.inf),
        sds=sds,
        sd_residual=float("nan"),
        log_likelihood=-value,
        trials=len(problem.k),
        converged=not note,
        note=note or edges,
        correlations=correlations,
    )


def _polish(
    problem: "LogisticProblem", at: np.ndarray, scale: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Take Newton steps; return the final point, its curvature, and how far (2) can still fall."""
    for _ in range(3):
        H = differentiate(lambda x: problem.compute_criterion(x)[1], at, scale)
        value, gradient = problem.compute_criterion(at)
        step, distance = solve_newton(H, gradient)  # for a quadratic, by how much −2 log L can fall
        if (
            distance < EXACT
            or not np.isfinite(distance)
            or problem.compute_criterion(at + step)[0] > value
        ):
            break
        at = at + step
    return at, H, distance


class _Mode(NamedTuple):
    """The mode of the random effects for one β and λ."""

    u: list[np.ndarray]  # û, an array for each part
    eta: np.ndarray
    height: float  # −log p(k | û) + ûᵀû / 2
    curvature: Curvature


class LogisticProblem:
    """Half of (2) and its gradient, for one data set."""

    def __init__(
        self, y: np.ndarray, X: np.ndarray, parts: Sequence[RandomPart], counts: np.ndarray
    ) -> None:
        self.m, self.k, self.X = counts, counts * y, X
        self.layout = Layout(parts)
        ways = gammaln(self.m + 1) - gammaln(self.k + 1) - gammaln(self.m - self.k + 1)
        self.constant = -float(ways.sum())
        self._last = [np.zeros(size) for size in self.layout.sizes]
        self.entries = [  # of θ: the part's first effect, and the row and column in its T
            (start, j, c)
            for start, k in zip(
                np.cumsum([0, *self.layout.part_sizes]), self.layout.part_sizes, strict=False
            )
            for j, c in zip(*np.tril_indices(k), strict=True)
        ]

    def estimate_scale(self, start: np.ndarray) -> np.ndarray:
        """Return a rough root of the covariance of β and θ, so that BFGS begins with unit steps."""
        p, layout = self.X.shape[1], self.layout
        values = self._scale_values(start)
        mode = self.find_mode(start[:p], values)
        WX = self._compute_weight(mode.eta)[:, None] * self.X
        information = self.X.T @ WX
        for j in range(p):
            right = [layout.sum_by_level(c, v * WX[:, j]) for c, v in enumerate(values)]
            information[:, j] -= WX.T @ layout.add_effects(values, mode.curvature.solve(right))
        spread = np.linalg.inv((information + information.T) / 2)
        errors = [1 / np.sqrt((1 + (j == c)) * layout.sizes[at + c]) for at, j, c in self.entries]
        return linalg.block_diag(np.linalg.cholesky(spread), np.diag(errors))

    def _scale_values(self, at: np.ndarray) -> list[np.ndarray]:
        """Return the values of ZΛ."""
        factors = build_factors(at[self.X.shape[1] :], self.layout.part_sizes)
        return self.layout.scale(factors)

    def _compute_weight(self, eta: np.ndarray) -> np.ndarray:
        """Return the diagonal of W."""
        mu = expit(eta)
        return np.asarray(self.m * mu * (1 - mu))

    def _compute_height(self, eta: np.ndarray, u: list[np.ndarray]) -> float:
        """Return −log p(k | u) + uᵀu / 2, without the binomial coefficients."""
        fit = self.k @ log_expit(eta) + (self.m - self.k) @ log_expit(-eta)
        return float(sum(part @ part for part in u) / 2 - fit)

    def find_mode(self, beta: np.ndarray, values: Values) -> _Mode:
        """Find û by Newton's method, starting at the last mode; halve steps that overshoot.

        A step is −H⁻¹(ΛᵀZᵀr + u), so the residuals of the working response are never formed.
        """
        layout, fixed, u = self.layout, self.X @ beta, self._last
        eta = fixed + layout.add_effects(values, u)
        height = self._compute_height(eta, u)
        for _ in range(100):
            curvature = layout.build(self._compute_weight(eta), values)
            r = self.m * expit(eta) - self.k
            g = [layout.sum_by_level(c, v * r) + u[c] for c, v in enumerate(values)]
            step = curvature.solve(g)
            gain = sum(float(a @ b) for a, b in zip(g, step, strict=True))
            if gain < EXACT**1.5:
                break
            for halving in range(30):
                moved = [a - b * 0.5**halving for a, b in zip(u, step, strict=True)]
                eta_moved = fixed + layout.add_effects(values, moved)
                lower = self._compute_height(eta_moved, moved)
                if lower <= height or gain < EXACT:  # below that, round-off decides the comparison
                    break
            u, eta, height = moved, eta_moved, lower
        self._last = u
        return _Mode(u, eta, height, curvature)

    def compute_criterion(self, at: np.ndarray) -> tuple[float, np.ndarray]:
        """Compute half of (2) and its gradient (3, 4) at the values of β and θ."""
        p, layout, values = self.X.shape[1], self.layout, self._scale_values(at)
        mode = self.find_mode(at[:p], values)
        H, mu = mode.curvature, expit(mode.eta)
        weight = self.m * mu * (1 - mu)
        r, projected = self.m * mu - self.k, H.project(values)
        variance = sum(v * P for v, P in zip(values, projected, strict=True))
        s = weight * (1 - 2 * mu) * variance / 2
        t = H.solve([layout.sum_by_level(c, v * s) for c, v in enumerate(values)])
        pulled = r + s - weight * layout.add_effects(values, t)
        slopes = np.empty(len(at))
        slopes[:p] = self.X.T @ pulled
        for number, (start, j, k) in enumerate(self.entries, start=p):
            z, c = layout.raw[start + j], start + k
            level = layout.levels[c]
            change = mode.u[c][level] * pulled + weight * projected[c] - t[c][level] * r
            slopes[number] = z @ change
        return self.constant + mode.height + H.log_determinant / 2, slopes


def _fit_fixed_effects(k: np.ndarray, X: np.ndarray, m: np.ndarray) -> np.ndarray:
    """Estimate β without random effects, by Newton's method."""
    beta = np.zeros(X.shape[1])
    for _ in range(25):
        mu = expit(X @ beta)
        weight = np.maximum(m * mu * (1 - mu), 1e-10)
        step = np.linalg.lstsq(X.T @ (weight[:, None] * X), X.T @ (k - m * mu))[0]
        beta = beta + step
        if np.abs(step).max() < 1e-6 or np.abs(X @ beta).max() > 2 * SUSPICIOUS:
            break
    return beta


def find_separation(
    y: np.ndarray, X: np.ndarray, counts: np.ndarray | None = None
) -> np.ndarray | None:
    """Find a direction of β along which the likelihood increases without bound.

    Such a direction b exists if all trials with Xb > 0 are answered 1 and all with Xb < 0 are
    answered 0 (Albert & Anderson 1984, Biometrika 71, 1–10). It is searched for by linear
    programming (Konis 2007, Oxford thesis) if a regression ends with extreme log odds.

    Parameters
    ----------
    y, X, counts
        As in `fit_logistic`.

    Returns
    -------
    ndarray or None
        b, with coefficients between −1 and 1; None if estimates are finite.
    """
    m = np.ones(len(y)) if counts is None else counts
    if np.abs(X @ _fit_fixed_effects(m * y, X, m)).max() < SUSPICIOUS:
        return None
    signed = np.unique(np.vstack([X[y > 0], -X[y < 1]]), axis=0)
    program = optimize.linprog(-signed.sum(axis=0), -signed, np.zeros(len(signed)), bounds=(-1, 1))
    if program.status != 0 or program.fun is None or not program.fun < -1e-6:
        return None
    return np.asarray(program.x)
