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

where the second terms come from log|H| and the third from how û moves. (2) is even in λ, so λ is
free to change sign and needs no bound. Standard errors are from the curvature of (2) in β and λ,
by differences of its gradient, as in `glmer`; intervals are Wald's.

Bates, Mächler, Bolker & Walker (2015), J. Stat. Softw. 67(1), section 3 and lme4's vignette
"Computational methods for mixed models". Arrays in, fit out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import linalg, optimize
from scipy.special import expit, gammaln, log_expit

from equivocal.mixed_models.blocks import Curvature, Layout
from equivocal.mixed_models.linear import (
    CLOSE,
    SMALL,
    MixedFit,
    RandomPart,
    check_trials,
    limit_threads,
)

FLAT = 1e-3  # a standard deviation of log odds below this is none
ENDLESS = 30.0  # a standard deviation or coefficient (per sd) of log odds above this has no end
SUSPICIOUS = 12.0  # log odds of a regression without random effects that ask for a closer look
EXACT = 1e-9  # how much lower (2) could be at the mode that is found
STEP = 1e-4  # of differences, in standard errors


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
        m, how many answers are behind each proportion; 1 unless given.

    Returns
    -------
    LogisticFit
        Estimates in log odds, and whether they can be believed.

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
    with limit_threads(sum(int(part.level.max()) + 1 for part in parts) < 10 * SMALL):
        problem = LogisticProblem(y, X, parts, np.ones(len(y)) if counts is None else counts)
        return _fit(problem, [part.name for part in parts])


def _fit(problem: "LogisticProblem", names: list[str]) -> LogisticFit:
    """Minimise (2), polish by Newton's method, and describe what was found."""
    p = problem.X.shape[1]
    start = np.concatenate([problem.regress()[0], np.ones(len(names))])
    scale = problem.estimate_scale(start)

    def compute(x: np.ndarray) -> tuple[float, np.ndarray]:
        return problem.compute_criterion(start + scale @ x, scale)

    origin: np.ndarray = np.zeros(len(start))
    found = optimize.minimize(compute, origin, jac=True, method="BFGS", options={"gtol": 1e-4})
    at, H, distance = _polish(problem, start + scale @ found.x, scale)
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
    """Take Newton steps; return where they end, the curvature, and how far the minimum may be."""
    for _ in range(3):
        H = _differentiate(lambda x: problem.compute_criterion(x)[1], at, scale)
        value, gradient = problem.compute_criterion(at)
        try:
            step = linalg.cho_solve(linalg.cho_factor(H), gradient)
        except np.linalg.LinAlgError:  # a saddle, not a minimum
            return at, H, float("inf")
        distance = float(gradient @ step)  # twice what a quadratic has left, in −2 log L
        if distance < EXACT or problem.compute_criterion(at - step)[0] > value:
            break
        at = at - step
    return at, H, distance


def _differentiate(
    slopes: Callable[[np.ndarray], np.ndarray], x: np.ndarray, scale: np.ndarray
) -> np.ndarray:
    """Compute the symmetric matrix of second derivatives, by central differences along `scale`."""
    columns = [(slopes(x + STEP * d) - slopes(x - STEP * d)) / (2 * STEP) for d in scale.T]
    H = np.linalg.solve(scale.T, np.column_stack(columns).T)
    return np.asarray((H + H.T) / 2)


class _Mode(NamedTuple):
    """The mode of the random effects for one β and λ."""

    u: list[np.ndarray]  # by parts
    eta: np.ndarray
    height: float  # −log p(k | û) + ûᵀû / 2
    curvature: Curvature


class LogisticProblem:
    """One data set, and half of (2) with its gradient."""

    def __init__(
        self, y: np.ndarray, X: np.ndarray, parts: Sequence[RandomPart], counts: np.ndarray
    ) -> None:
        self.m, self.k, self.X = counts, counts * y, X
        self.layout = Layout(parts)
        ways = gammaln(self.m + 1) - gammaln(self.k + 1) - gammaln(self.m - self.k + 1)
        self.constant = -float(ways.sum())
        self._last = [np.zeros(size) for size in self.layout.sizes]

    def regress(self) -> tuple[np.ndarray, np.ndarray]:
        """Fit β without random effects, by Newton's method; return it and the log odds."""
        beta = np.zeros(self.X.shape[1])
        for _ in range(25):
            mu = expit(self.X @ beta)
            weight = np.maximum(self.m * mu * (1 - mu), 1e-10)
            H = self.X.T @ (weight[:, None] * self.X)
            step = np.linalg.lstsq(H, self.X.T @ (self.k - self.m * mu))[0]
            beta = beta + step
            if np.abs(step).max() < 1e-6 or np.abs(self.X @ beta).max() > 2 * SUSPICIOUS:
                break
        return beta, self.X @ beta

    def estimate_scale(self, start: np.ndarray) -> np.ndarray:
        """Return a root of the covariance of β and λ, roughly: BFGS then begins with unit steps."""
        p, sizes = self.X.shape[1], self.layout.sizes
        mode = self.find_mode(start[:p], start[p:])
        weight = self._compute_weight(mode.eta)
        WX = weight[:, None] * self.X
        information = self.X.T @ WX
        sds = start[p:]
        for j in range(p):
            right = [sds[b] * self.layout.sum_by_level(b, WX[:, j]) for b in range(len(sds))]
            found = mode.curvature.solve(right)
            pulled = sum(self.layout.spread(b, sds[b] * found[b]) for b in range(len(sds)))
            information[:, j] -= WX.T @ pulled
        spread = np.linalg.inv((information + information.T) / 2)
        return linalg.block_diag(
            np.linalg.cholesky(spread), np.diag(1 / np.sqrt(2 * np.array(sizes)))
        )

    def _compute_weight(self, eta: np.ndarray) -> np.ndarray:
        mu = expit(eta)
        return np.asarray(self.m * mu * (1 - mu))

    def _add_effects(self, fixed: np.ndarray, u: list[np.ndarray], sds: np.ndarray) -> np.ndarray:
        return fixed + sum(self.layout.spread(b, sd * u[b]) for b, sd in enumerate(sds))

    def _compute_height(self, eta: np.ndarray, u: list[np.ndarray]) -> float:
        fit = self.k @ log_expit(eta) + (self.m - self.k) @ log_expit(-eta)
        return float(sum(part @ part for part in u) / 2 - fit)

    def find_mode(self, beta: np.ndarray, sds: np.ndarray) -> _Mode:
        """Find û by Newton's method, from where the last search ended; halve steps that overshoot.

        The residuals of the working response are never formed: a step is −H⁻¹(ΛZᵀr + u).
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
                if lower <= height or gain < EXACT:  # round-off decides which is the lower
                    break
            u, eta, height = moved, eta_moved, lower
        self._last = u
        return _Mode(u, eta, height, curvature)

    def compute_criterion(
        self, at: np.ndarray, scale: np.ndarray | None = None
    ) -> tuple[float, np.ndarray]:
        """Compute half of (2), and its gradient (3, 4); with `scale`, along its columns."""
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
        value = self.constant + mode.height + H.log_determinant / 2
        return value, gradient if scale is None else scale.T @ gradient


def find_separation(
    y: np.ndarray, X: np.ndarray, counts: np.ndarray | None = None
) -> np.ndarray | None:
    """Find a direction of β along which the likelihood rises without end.

    There is one where all trials with Xb > 0 are answered 1 and all with Xb < 0 are answered 0
    (Albert & Anderson 1984, Biometrika 71, 1–10). It is looked for by linear programming (Konis
    2007, Oxford thesis) where a regression ends with extreme log odds.

    Parameters
    ----------
    y, X, counts
        As in `fit_logistic`.

    Returns
    -------
    ndarray or None
        b, with coefficients between −1 and 1; None where estimates are finite.
    """
    m = np.ones(len(y)) if counts is None else counts
    no_parts = [RandomPart("", np.zeros(len(y), int))]
    odds = LogisticProblem(y, X, no_parts, m).regress()[1]
    if np.abs(odds).max() < SUSPICIOUS:
        return None
    signed = np.unique(np.vstack([X[y > 0], -X[y < 1]]), axis=0)
    found = optimize.linprog(-signed.sum(axis=0), -signed, np.zeros(len(signed)), bounds=(-1, 1))
    if found.status != 0 or found.fun is None or not found.fun < -1e-6:
        return None
    return np.asarray(found.x)
