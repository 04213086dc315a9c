"""Linear mixed models whose random parts may be crossed: by participant and by item.

    y = Xβ + Σ_b Z_b u_b + e,     u_b ~ N(0, ψ_b σ² I),     e ~ N(0, σ² I)                       (1)

With V = I + Σ_b ψ_b Z_b Z_bᵀ, C = (XᵀV⁻¹X)⁻¹, β = C XᵀV⁻¹y and r² = (y − Xβ)ᵀV⁻¹(y − Xβ), β and σ²
can be eliminated, and what is left to minimise over ψ ≥ 0 is

    ML      log|V| + n log(2πr²/n) + n                                                           (2)
    REML    log|V| + log|XᵀV⁻¹X| + (n − p) log(2πr²/(n − p)) + n − p                             (3)

which is −2 log-likelihood. All of it comes from cross products: with λ = √ψ on the diagonal and
LLᵀ = λZᵀZλ + I, aᵀV⁻¹b = aᵀb − (L⁻¹λZᵀa)ᵀ(L⁻¹λZᵀb) and |V| = |L|². So a step costs the cube of the
number of participants and items, however many trials there are.

Bates, Mächler, Bolker & Walker (2015), J. Stat. Softw. 67(1), section 3, with ψ for their
squared θ. Degrees of freedom by Satterthwaite's formula, as in Kuznetsova, Brockhoff & Christensen
(2017), J. Stat. Softw. 82(13).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
from scipy import linalg, optimize, sparse, stats
from threadpoolctl import ThreadpoolController

from equivocal.errors import UserError

__all__ = ["LEVEL", "MixedFit", "RandomPart", "check_trials", "fit_mixed"]

LEVEL = 0.95  # of intervals
SMALL = 400  # columns of Z; threads do more harm than good to matrices of this size (on a busy
# machine of two cores fits with 13 to 32 columns took 13 ms with one thread and 180 ms with two)
FLAT = 1e-7  # a variance ratio below this is none
HIGHEST = 1 - 1e-9  # ψ/(1 + ψ) where no noise is left
ROUNDS = 5  # in 6 of 1,200 fits the search took two equal values for the end; then it starts anew
CLOSE = 1e-5  # how far from the minimum of (2) or (3), by a Newton step, we call converged


class RandomPart(NamedTuple):
    """A column of Z for each level: its trials' `values`, or ones for a random intercept."""

    name: str
    level: np.ndarray  # of each trial, from 0
    values: np.ndarray | None = None


@dataclass(frozen=True)
class MixedFit:
    """Estimates, in the units of y."""

    coefficients: np.ndarray  # β
    covariance: np.ndarray  # of β: σ² C
    df: np.ndarray  # Satterthwaite's, one for each coefficient
    sds: dict[str, float]  # of each random part, √(ψ_b) σ
    sd_residual: float  # σ
    log_likelihood: float  # maximised; the restricted one by REML
    trials: int  # n
    converged: bool
    note: str  # empty where all went well

    @property
    def parameters(self) -> int:
        """How many were estimated: β, the variances of random parts, and σ²."""
        return len(self.coefficients) + len(self.sds) + 1

    @property
    def aic(self) -> float:
        """Akaike's criterion; compare fits by ML only."""
        return 2 * self.parameters - 2 * self.log_likelihood

    @property
    def bic(self) -> float:
        """Schwarz's criterion, with n the number of trials as lme4 has it."""
        return float(np.log(self.trials)) * self.parameters - 2 * self.log_likelihood

    def interval(self, k: int) -> tuple[float, float]:
        """The 95 % interval of coefficient k, by Student's t."""
        half = float(stats.t.ppf(0.5 + LEVEL / 2, self.df[k])) * self.error(k)
        return float(self.coefficients[k]) - half, float(self.coefficients[k]) + half

    def error(self, k: int) -> float:
        """The standard error of coefficient k."""
        return float(np.sqrt(self.covariance[k, k]))

    def p_value(self, k: int) -> float:
        """Two-sided, against zero."""
        return float(2 * stats.t.sf(abs(self.coefficients[k]) / self.error(k), self.df[k]))


def check_trials(trials: int, coefficients: int) -> None:
    """So many trials must leave noise beside so many coefficients."""
    if trials <= coefficients:
        raise UserError(
            f"{trials} trials are too few for {coefficients} coefficients (intercept, controls and "
            "measures): no noise could be told from them; leave out controls or measures."
        )


def fit_mixed(
    y: np.ndarray, X: np.ndarray, parts: Sequence[RandomPart], *, reml: bool = False
) -> MixedFit:
    """Fit (1); by REML the intervals are right also for few participants or items.

    X has full rank and holds an intercept. Likelihoods of different X are comparable by ML only.
    """
    check_trials(len(y), X.shape[1])
    columns = sum(int(part.level.max()) + 1 for part in parts)
    with _threads().limit(limits=1 if columns < SMALL else None, user_api="blas"):
        return _fitted(y, X, parts, reml)


@cache
def _threads() -> ThreadpoolController:
    return ThreadpoolController()


def _fitted(y: np.ndarray, X: np.ndarray, parts: Sequence[RandomPart], reml: bool) -> MixedFit:
    centre, spread = float(y.mean()), float(y.std())
    problem = _Problem((y - centre) / spread, X, parts, reml)
    shares, distance = problem.minimum(np.full(len(parts), 0.5))
    at = problem.at(_ratio(shares))
    sigma2 = at.r2 / problem.divisor
    df, note = problem.degrees_of_freedom(at, sigma2), ""
    if shares.max(initial=0) >= HIGHEST or not sigma2 > 1e-12:
        note = "no noise is left; the response is determined by its predictors"
    elif not distance < CLOSE:
        note = "the fit did not converge"
    elif not np.all(df > 0):
        note = "the likelihood is too flat for degrees of freedom"
    flat = [part.name for part, psi in zip(parts, at.psi, strict=True) if psi < FLAT]
    intercept = np.linalg.lstsq(X, np.full(len(y), centre))[0]
    scale = problem.divisor * np.log(2 * np.pi * sigma2 * spread**2) + problem.divisor
    # (3) holds log|XᵀV⁻¹X|, which has no unit of y in it
    return MixedFit(
        coefficients=at.beta * spread + intercept,
        covariance=at.C * sigma2 * spread**2,
        df=df,
        sds={
            part.name: float(np.sqrt(psi * sigma2)) * spread
            for part, psi in zip(parts, at.psi, strict=True)
        },
        sd_residual=float(np.sqrt(sigma2)) * spread,
        log_likelihood=-(at.log_determinants + scale) / 2,
        trials=len(y),
        converged=not note,
        note=note or (f"no variance left for {' and '.join(flat)}" if flat else ""),
    )


def _ratio(share: np.ndarray) -> np.ndarray:
    """ψ of s = ψ/(1 + ψ), which is bounded; at s = 0 its slope is one, so none gets stuck there."""
    return np.asarray(share / (1 - share))


@dataclass(frozen=True)
class _State:
    """All that follows from one ψ; `slopes` are derivatives with respect to it."""

    psi: np.ndarray
    beta: np.ndarray
    C: np.ndarray
    r2: float
    log_determinants: float  # log|V|, by REML with log|XᵀV⁻¹X|
    slopes_log: np.ndarray  # of the above
    slopes_r2: np.ndarray
    slopes_c: np.ndarray  # (part, coefficient): of the diagonal of C


class _Problem:
    """Cross products of one data set, and (2) or (3) with its derivatives."""

    def __init__(
        self, y: np.ndarray, X: np.ndarray, parts: Sequence[RandomPart], reml: bool
    ) -> None:
        self.reml = reml
        self.divisor = len(y) - X.shape[1] if reml else len(y)
        W = np.column_stack([X, y])
        sizes = [int(part.level.max()) + 1 for part in parts]
        Z = sparse.hstack([_indicators(p, q) for p, q in zip(parts, sizes, strict=True)], "csr")
        self.ZtZ: np.ndarray = (Z.T @ Z).toarray()
        self.ZtW: np.ndarray = np.asarray(Z.T @ W)
        self.WtW: np.ndarray = W.T @ W
        self.sizes = sizes
        self.starts = np.cumsum([0, *sizes[:-1]])

    @cached_property
    def _identity(self) -> np.ndarray:
        return np.eye(len(self.ZtZ))

    def _by_part(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(np.add.reduceat(rows, self.starts, axis=0))

    def at(self, psi: np.ndarray) -> _State:
        """Everything at one ψ."""
        root = np.repeat(np.sqrt(psi), self.sizes)
        L = np.linalg.cholesky(root[:, None] * self.ZtZ * root + self._identity)
        both = linalg.solve_triangular(
            L, root[:, None] * np.hstack([self.ZtZ, self.ZtW]), lower=True, check_finite=False
        )
        T, S = np.split(both, [len(L)], axis=1)
        G = self.WtW - S.T @ S  # WᵀV⁻¹W
        Q = self.ZtW - T.T @ S  # ZᵀV⁻¹W
        C = np.linalg.inv(G[:-1, :-1])
        beta = C @ G[:-1, -1]
        # where X and Z explain all of y, round-off decides the sign of what is left
        r2 = max(float(G[-1, -1] - G[:-1, -1] @ beta), 1e-30)
        QX, Qe = Q[:, :-1], Q[:, -1] - Q[:, :-1] @ beta
        logs = 2 * float(np.log(np.diag(L)).sum())
        slopes_log = self._by_part(np.diag(self.ZtZ) - (T**2).sum(axis=0))
        if self.reml:
            logs -= float(np.linalg.slogdet(C)[1])
            slopes_log = slopes_log - self._by_part(((QX @ C) * QX).sum(axis=1))
        return _State(
            psi=psi,
            beta=beta,
            C=C,
            r2=r2,
            log_determinants=logs,
            slopes_log=slopes_log,
            slopes_r2=-self._by_part(Qe**2),
            slopes_c=self._by_part((QX @ C) ** 2),
        )

    def criterion(self, share: np.ndarray) -> tuple[float, np.ndarray]:
        """(2) or (3) less its constants, and its gradient, in the shares ψ/(1 + ψ)."""
        at = self.at(_ratio(share))
        value = at.log_determinants + self.divisor * float(np.log(at.r2))
        slopes = at.slopes_log + self.divisor * at.slopes_r2 / at.r2
        return value, slopes / (1 - share) ** 2

    def minimum(self, shares: np.ndarray) -> tuple[np.ndarray, float]:
        """Where the criterion is lowest, and how far from it we may be (`distance`)."""
        distance = np.inf
        for _ in range(ROUNDS):
            found = optimize.minimize(
                self.criterion,
                shares,
                jac=True,
                method="L-BFGS-B",
                bounds=[(0.0, HIGHEST)] * len(shares),
                options={"ftol": 1e-14, "gtol": 1e-7, "maxiter": 200},
            )
            shares = np.asarray(found.x)
            distance = self.distance(shares)
            if distance < CLOSE:
                break
        return shares, distance

    def distance(self, share: np.ndarray) -> float:
        """How much lower the minimum lies, by a Newton step in the shares that are free to move."""
        gradient = self.criterion(share)[1]
        free = (share > 0) | (gradient < 0)
        if not free.any():
            return 0.0

        def slopes(moved: np.ndarray) -> np.ndarray:
            return self.criterion(moved)[1]

        H = _derivatives(slopes, share, np.minimum(share, 1 - share))[np.ix_(free, free)]
        try:
            step = linalg.cho_solve(linalg.cho_factor(H), gradient[free])
        except np.linalg.LinAlgError:  # a saddle, not a minimum
            return float("inf")
        return float(gradient[free] @ step) / 2

    def degrees_of_freedom(self, at: _State, sigma2: float) -> np.ndarray:
        """Satterthwaite: 2v²/Var(v) for the variance v = σ²C_kk of each coefficient.

        Var(v) = gᵀ(2H⁻¹)g, where H is the curvature of −2 log-likelihood in the variances that are
        not zero (here ψ and log σ²) and g the gradient of v.
        """
        free = at.psi > FLAT

        def slopes(psi: np.ndarray) -> np.ndarray:
            there = self.at(psi)
            return there.slopes_log + there.slopes_r2 / sigma2

        m = int(free.sum())
        H = np.empty((m + 1, m + 1))
        H[:m, :m] = _derivatives(slopes, at.psi, at.psi)[np.ix_(free, free)]
        H[:m, m] = H[m, :m] = -at.slopes_r2[free] / sigma2
        H[m, m] = at.r2 / sigma2
        v = sigma2 * np.diag(at.C)
        g = np.vstack([sigma2 * at.slopes_c[free], v])
        try:
            spread = (g * linalg.cho_solve(linalg.cho_factor(H), g)).sum(axis=0)
        except np.linalg.LinAlgError:
            return np.full(len(v), np.nan)
        return np.asarray(v**2 / spread)


def _indicators(part: RandomPart, levels: int) -> sparse.csr_array:
    n = len(part.level)
    values = np.ones(n) if part.values is None else part.values
    return sparse.csr_array((values, (np.arange(n), part.level)), shape=(n, levels))


def _derivatives(
    slopes: Callable[[np.ndarray], np.ndarray], x: np.ndarray, room: np.ndarray
) -> np.ndarray:
    """The symmetric matrix of second derivatives, by central differences within `room`."""
    columns = []
    for k, step in enumerate(1e-4 * np.maximum(room, FLAT)):
        up, down = x.copy(), x.copy()
        up[k], down[k] = x[k] + step, max(x[k] - step, 0.0)
        columns.append((slopes(up) - slopes(down)) / (up[k] - down[k]))
    H = np.column_stack(columns)
    return np.asarray((H + H.T) / 2)
