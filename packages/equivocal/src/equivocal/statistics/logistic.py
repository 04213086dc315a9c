"""Logistic mixed models with crossed random effects: yes/no answers by participant and item.

    k ~ Binomial(m, μ),     logit μ = η = Xβ + Σ_b λ_b Z_b u_b,     u_b ~ N(0, I)                (1)

The likelihood is an integral over u. Laplace's approximation of it, with û the mode of the
integrand, W = diag(m μ (1 − μ)) there and H = ΛZᵀWZΛ + I, is

    −2 log L ≈ −2 log p(k | û) + ûᵀû + log |H|                                                   (2)

û is found by penalised iteratively reweighted least squares (Newton's method with halved steps),
and (2) is minimised over β and λ together, as lme4's `glmer` does with nAGQ = 1. With r = mμ − k,
s = ½ m μ(1−μ)(1−2μ) diag(ZΛH⁻¹ΛZᵀ) and t = H⁻¹ΛZᵀs, half the gradient of (2) is

    β:    Xᵀ(r + s − WZΛt)                                                                       (3)
    λ_b:  (Z_b u_b)ᵀ(r + s − WZΛt) + tr_b(I − H⁻¹)/λ_b − t_bᵀZ_bᵀr                               (4)

where the second terms come from log|H| and the third from the dependence of û on β and λ. (2) is
even in λ, so λ may change sign and needs no bound. Standard errors are computed from the curvature
of (2) in β and λ, by differences of its gradient, as in `glmer`; intervals are Wald's.

Bates, Mächler, Bolker & Walker (2015), J. Stat. Softw. 67(1), section 3 and lme4's vignette
"Computational methods for mixed models".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import linalg, optimize
from scipy.special import expit, gammaln, log_expit

from equivocal.statistics.blocks import Curvature, Layout
from equivocal.statistics.linear import (
    CLOSE,
    SMALL,
    MixedFit,
    RandomPart,
    check_trials,
    count_levels,
    limit_threads,
)

FLAT = 1e-3  # a standard deviation of log odds below this counts as zero
ENDLESS = 30.0  # a standard deviation of log odds above this counts as infinite
SUSPICIOUS = 12.0  # log odds, in a regression without random effects, that suggest separation
EXACT = 1e-9  # largest error of (2) from an inexact mode
STEP = 1e-4  # step of finite differences, in standard errors


@dataclass(frozen=True)
class LogisticFit(MixedFit):
    """The estimates of a logistic mixed model, in log odds; there is no residual noise."""

    @property
    def parameters(self) -> int:
        """The number of parameters: β and the variances of random parts."""
        return len(self.coefficients) + len(self.sds)


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
        The random effects, independent of each other.
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
    with limit_threads(sum(map(count_levels, parts)) < 10 * SMALL):
        problem = LogisticProblem(y, X, parts, np.ones(len(y)) if counts is None else counts)
        return _fit(problem, [part.name for part in parts])


def _fit(problem: "LogisticProblem", names: list[str]) -> LogisticFit:
    """Minimise (2), polish the minimum by Newton's method, and return the estimates."""
    p = problem.X.shape[1]
    fixed = _fit_fixed_effects(problem.k, problem.X, problem.m)
    start = np.concatenate([fixed, np.ones(len(names))])
    scale = problem.estimate_scale(start)

    def compute(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = problem.compute_criterion(start + scale @ x)
        return value, scale.T @ gradient

    origin: np.ndarray = np.zeros(len(start))
    search = optimize.minimize(compute, origin, jac=True, method="BFGS", options={"gtol": 1e-4})
    at, H, distance = _polish(problem, start + scale @ search.x, scale)
    value = problem.compute_criterion(at)[0]
    sds = dict(zip(names, map(float, np.abs(at[p:])), strict=True))
    flat = [name for name, sd in sds.items() if sd < FLAT]
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
        note=note or (f"no variance left for {' and '.join(flat)}" if flat else ""),
    )


def _polish(
    problem: "LogisticProblem", at: np.ndarray, scale: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Take Newton steps; return the final point, its curvature, and how far (2) can still fall."""
    for _ in range(3):
        H = _differentiate(lambda x: problem.compute_criterion(x)[1], at, scale)
        value, gradient = problem.compute_criterion(at)
        try:
            step = linalg.cho_solve(linalg.cho_factor(H), gradient)
        except np.linalg.LinAlgError:  # a saddle, not a minimum
            return at, H, float("inf")
        distance = float(gradient @ step)  # for a quadratic, by how much −2 log L can still fall
        if distance < EXACT or problem.compute_criterion(at - step)[0] > value:
            break
        at = at - step
    return at, H, distance


def _differentiate(
    slopes: Callable[[np.ndarray], np.ndarray], x: np.ndarray, scale: np.ndarray
) -> np.ndarray:
    """Compute the Hessian by central differences along the columns of `scale`."""
    columns = [(slopes(x + STEP * d) - slopes(x - STEP * d)) / (2 * STEP) for d in scale.T]
    H = np.linalg.solve(scale.T, np.column_stack(columns).T)
    return np.asarray((H + H.T) / 2)


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

    def estimate_scale(self, start: np.ndarray) -> np.ndarray:
        """Return a rough root of the covariance of β and λ, so that BFGS begins with unit steps."""
        p = self.X.shape[1]
        sds = start[p:]
        mode = self.find_mode(start[:p], sds)
        WX = self._compute_weight(mode.eta)[:, None] * self.X
        information = self.X.T @ WX
        for j in range(p):
            right = [sd * self.layout.sum_by_level(b, WX[:, j]) for b, sd in enumerate(sds)]
            effects = mode.curvature.solve(right)
            information[:, j] -= WX.T @ self._add_effects(np.zeros(len(WX)), effects, sds)
        spread = np.linalg.inv((information + information.T) / 2)
        sd_errors = 1 / np.sqrt(2 * np.array(self.layout.sizes))
        return linalg.block_diag(np.linalg.cholesky(spread), np.diag(sd_errors))

    def _compute_weight(self, eta: np.ndarray) -> np.ndarray:
        """Return the diagonal of W."""
        mu = expit(eta)
        return np.asarray(self.m * mu * (1 - mu))

    def _add_effects(self, fixed: np.ndarray, u: list[np.ndarray], sds: np.ndarray) -> np.ndarray:
        """Return `fixed` + ZΛu."""
        return fixed + sum(self.layout.spread(b, sd * u[b]) for b, sd in enumerate(sds))

    def _compute_height(self, eta: np.ndarray, u: list[np.ndarray]) -> float:
        """Return −log p(k | u) + uᵀu / 2, without the binomial coefficients."""
        fit = self.k @ log_expit(eta) + (self.m - self.k) @ log_expit(-eta)
        return float(sum(part @ part for part in u) / 2 - fit)

    def find_mode(self, beta: np.ndarray, sds: np.ndarray) -> _Mode:
        """Find û by Newton's method, starting at the last mode; halve steps that overshoot.

        A step is −H⁻¹(ΛZᵀr + u), so the residuals of the working response are never formed.
        """
        fixed, u = self.X @ beta, self._last
        eta = self._add_effects(fixed, u, sds)
        height = self._compute_height(eta, u)
        for _ in range(100):
            curvature = self.layout.build(self._compute_weight(eta), sds)
            r = self.m * expit(eta) - self.k
            g = [sd * self.layout.sum_by_level(b, r) + u[b] for b, sd in enumerate(sds)]
            step = curvature.solve(g)
            gain = sum(float(a @ b) for a, b in zip(g, step, strict=True))
            if gain < EXACT**1.5:
                break
            for halving in range(30):
                moved = [a - b * 0.5**halving for a, b in zip(u, step, strict=True)]
                eta_moved = self._add_effects(fixed, moved, sds)
                lower = self._compute_height(eta_moved, moved)
                if lower <= height or gain < EXACT:  # below that, round-off decides the comparison
                    break
            u, eta, height = moved, eta_moved, lower
        self._last = u
        return _Mode(u, eta, height, curvature)

    def compute_criterion(self, at: np.ndarray) -> tuple[float, np.ndarray]:
        """Compute half of (2) and its gradient (3, 4) at the values of β and λ."""
        p, layout = self.X.shape[1], self.layout
        beta, sds = at[:p], at[p:]
        mode = self.find_mode(beta, sds)
        H, mu = mode.curvature, expit(mode.eta)
        weight = self.m * mu * (1 - mu)
        r = self.m * mu - self.k
        s = weight * (1 - 2 * mu) * H.compute_variances(sds) / 2
        t = H.solve([sd * layout.sum_by_level(b, s) for b, sd in enumerate(sds)])
        pulled = r + s - weight * self._add_effects(np.zeros(len(r)), t, sds)
        slopes = []
        for b, diagonal in enumerate(H.compute_diagonal()):
            slope = float(layout.spread(b, mode.u[b]) @ pulled)
            slope -= float(t[b] @ layout.sum_by_level(b, r))
            slopes.append(slope + (float((1 - diagonal).sum() / sds[b]) if sds[b] else 0.0))
        gradient = np.concatenate([self.X.T @ pulled, slopes])
        return self.constant + mode.height + H.log_determinant / 2, gradient


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
