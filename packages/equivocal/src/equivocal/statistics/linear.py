"""Linear mixed models with crossed random effects: by participant and item, network and item.

    y = Xβ + Σ_b Z_b u_b + e,     u_b ~ N(0, ψ_b σ² I),     e ~ N(0, σ² I)                       (1)

With V = I + Σ_b ψ_b Z_b Z_bᵀ, C = (XᵀV⁻¹X)⁻¹, β = C XᵀV⁻¹y and r² = (y − Xβ)ᵀV⁻¹(y − Xβ), β and σ²
can be eliminated. The criterion to minimise over ψ ≥ 0 is then

    ML      log|V| + n log(2πr²/n) + n                                                           (2)
    REML    log|V| + log|XᵀV⁻¹X| + (n − p) log(2πr²/(n − p)) + n − p                             (3)

which is −2 log-likelihood. Everything is computed from cross products: with λ = √ψ on the diagonal
and LLᵀ = λZᵀZλ + I, aᵀV⁻¹b = aᵀb − (L⁻¹λZᵀa)ᵀ(L⁻¹λZᵀb) and |V| = |L|². So a step costs the cube of
the number of participants and items, however many trials there are.

Bates, Mächler, Bolker & Walker (2015), J. Stat. Softw. 67(1), section 3, with ψ for their
squared θ. Degrees of freedom by Satterthwaite's formula, as in Kuznetsova, Brockhoff & Christensen
(2017), J. Stat. Softw. 82(13).
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy import linalg, optimize, sparse, stats
from threadpoolctl import ThreadpoolController

from lastlayer.errors import UserError

LEVEL = 0.95  # confidence level of intervals
SMALL = 400  # columns of Z up to which threads slow a fit down (on a busy machine with two cores,
# fits with 13 to 32 columns took 13 ms with one thread and 180 ms with two)
FLAT = 1e-7  # a variance ratio below this counts as zero
HIGHEST = 1 - 1e-9  # ψ/(1 + ψ) where no noise is left
ROUNDS = 5  # searches: in 6 of 1,200 fits the first stopped early, at two equal values
CLOSE = 1e-5  # largest distance from the minimum of (2) or (3), by a Newton step, when converged


class RandomPart(NamedTuple):
    """A column of Z for each level, with the `values` of its trials (ones for an intercept)."""

    name: str
    level: np.ndarray  # of each trial, from 0
    values: np.ndarray | None = None


@dataclass(frozen=True)
class MixedFit:
    """The estimates of a mixed model, in the units of the response.

    `note` says what is wrong with the fit, or which variances are zero.
    """

    coefficients: np.ndarray  # β
    covariance: np.ndarray  # of β: σ² C
    df: np.ndarray  # Satterthwaite's, one for each coefficient
    sds: dict[str, float]  # of each random part, √(ψ_b) σ
    sd_residual: float  # σ
    log_likelihood: float  # at its maximum; by REML, the restricted likelihood
    trials: int  # n
    converged: bool
    note: str  # empty if there is nothing to remark

    @property
    def parameters(self) -> int:
        """The number of parameters: β, the variances of random parts, and σ²."""
        return len(self.coefficients) + len(self.sds) + 1

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


def fit_mixed(
    y: np.ndarray, X: np.ndarray, parts: Sequence[RandomPart], *, reml: bool = False
) -> MixedFit:
    """Fit the linear mixed model (1).

    Parameters
    ----------
    y : ndarray of shape (n,)
        The response of each trial.
    X : ndarray of shape (n, p)
        The fixed effects; of full rank, with an intercept.
    parts : sequence of RandomPart
        The random effects, independent of each other.
    reml : bool
        Maximise the restricted likelihood. Intervals are then correct even for few participants or
        items, but likelihoods of models with different X cannot be compared.

    Returns
    -------
    MixedFit
        The estimates, and whether the fit converged.

    Raises
    ------
    UserError
        Where there are no more trials than coefficients.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> person, item = np.divmod(np.arange(200), 10)
    >>> y = rng.normal(size=20)[person] + rng.normal(size=10)[item] + rng.normal(size=200)
    >>> parts = [RandomPart("participant", person), RandomPart("item", item)]
    >>> fit_mixed(y, np.ones((200, 1)), parts, reml=True).converged
    True
    """
    check_trials(len(y), X.shape[1])
    with limit_threads(sum(map(count_levels, parts)) < SMALL):
        return _fit(y, X, parts, reml)


def count_levels(part: RandomPart) -> int:
    """Return the number of levels, each of which has a column of Z."""
    return int(part.level.max()) + 1


def fill_values(part: RandomPart) -> np.ndarray:
    """Return the value of each trial, one for a random intercept."""
    return np.ones(len(part.level)) if part.values is None else part.values


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


def _fit(y: np.ndarray, X: np.ndarray, parts: Sequence[RandomPart], reml: bool) -> MixedFit:
    """Fit the response in standard deviations, and convert the estimates to its own units."""
    centre, spread = float(y.mean()), float(y.std())
    problem = _Problem((y - centre) / spread, X, parts, reml)
    shares, distance = problem.minimise()
    at = problem.solve(_convert_share(shares))
    sigma2 = at.r2 / problem.divisor
    df, note = problem.compute_df(at, sigma2), ""
    if shares.max(initial=0) >= HIGHEST or not sigma2 > 1e-12:
        note = (
            "no noise is left, so that participant, item or predictors determine the response; use "
            "responses of single trials, not averages"
        )
    elif not distance < CLOSE:
        note = "the fit did not converge; use fewer predictors, or more trials"
    elif not np.all(df > 0):
        note = "the likelihood is too flat for degrees of freedom; use more trials"
    flat = [part.name for part, psi in zip(parts, at.psi, strict=True) if psi < FLAT]
    intercept = np.linalg.lstsq(X, np.full(len(y), centre))[0]
    scale = problem.divisor * np.log(2 * np.pi * sigma2 * spread**2) + problem.divisor
    # the term log|XᵀV⁻¹X| of (3) does not depend on the unit of y
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


def _convert_share(share: np.ndarray) -> np.ndarray:
    """Return ψ from the share s = ψ/(1 + ψ), which is bounded and has slope one at zero."""
    return np.asarray(share / (1 - share))


@dataclass(frozen=True)
class _State:
    """All quantities that are functions of ψ; `slopes` are derivatives with respect to ψ."""

    psi: np.ndarray
    beta: np.ndarray
    C: np.ndarray
    r2: float
    log_determinants: float  # log|V|, plus log|XᵀV⁻¹X| by REML
    slopes_log: np.ndarray  # of log_determinants
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
        sizes = [count_levels(part) for part in parts]
        Z = sparse.hstack([_build_indicators(part) for part in parts], "csr")
        self.ZtZ: np.ndarray = (Z.T @ Z).toarray()
        self.ZtW: np.ndarray = np.asarray(Z.T @ W)
        self.WtW: np.ndarray = W.T @ W
        self.identity = np.eye(len(self.ZtZ))
        self.sizes = sizes
        self.starts = np.cumsum([0, *sizes[:-1]])

    def _sum_by_part(self, rows: np.ndarray) -> np.ndarray:
        """Sum the rows of each random part."""
        return np.asarray(np.add.reduceat(rows, self.starts, axis=0))

    def solve(self, psi: np.ndarray) -> _State:
        """Compute all quantities that are functions of ψ."""
        root = np.repeat(np.sqrt(psi), self.sizes)
        L = np.linalg.cholesky(root[:, None] * self.ZtZ * root + self.identity)
        both = linalg.solve_triangular(
            L, root[:, None] * np.hstack([self.ZtZ, self.ZtW]), lower=True, check_finite=False
        )
        T, S = np.split(both, [len(L)], axis=1)
        G = self.WtW - S.T @ S  # WᵀV⁻¹W
        Q = self.ZtW - T.T @ S  # ZᵀV⁻¹W
        C = np.linalg.inv(G[:-1, :-1])
        beta = C @ G[:-1, -1]
        # where X and Z explain y completely, round-off decides the sign of the residual
        r2 = max(float(G[-1, -1] - G[:-1, -1] @ beta), 1e-30)
        QX, Qe = Q[:, :-1], Q[:, -1] - Q[:, :-1] @ beta
        logs = 2 * float(np.log(np.diag(L)).sum())
        slopes_log = self._sum_by_part(np.diag(self.ZtZ) - (T**2).sum(axis=0))
        if self.reml:
            logs -= float(np.linalg.slogdet(C)[1])
            slopes_log = slopes_log - self._sum_by_part(((QX @ C) * QX).sum(axis=1))
        return _State(
            psi=psi,
            beta=beta,
            C=C,
            r2=r2,
            log_determinants=logs,
            slopes_log=slopes_log,
            slopes_r2=-self._sum_by_part(Qe**2),
            slopes_c=self._sum_by_part((QX @ C) ** 2),
        )

    def compute_criterion(self, share: np.ndarray) -> tuple[float, np.ndarray]:
        """Compute (2) or (3) without constants, and the gradient in the shares ψ/(1 + ψ)."""
        at = self.solve(_convert_share(share))
        value = at.log_determinants + self.divisor * float(np.log(at.r2))
        slopes = at.slopes_log + self.divisor * at.slopes_r2 / at.r2
        return value, slopes / (1 - share) ** 2

    def minimise(self) -> tuple[np.ndarray, float]:
        """Return the shares that minimise the criterion, and the distance from the minimum."""
        shares = np.full(len(self.sizes), 0.5)
        for _ in range(ROUNDS):
            search = optimize.minimize(
                self.compute_criterion,
                shares,
                jac=True,
                method="L-BFGS-B",
                bounds=[(0.0, HIGHEST)] * len(shares),
                options={"ftol": 1e-14, "gtol": 1e-7, "maxiter": 200},
            )
            shares = np.asarray(search.x)
            distance = self.estimate_distance(shares)
            if distance < CLOSE:
                break
        return shares, distance

    def estimate_distance(self, share: np.ndarray) -> float:
        """Estimate how much lower the minimum is, by a Newton step in the unconstrained shares."""
        gradient = self.compute_criterion(share)[1]
        free = (share > 0) | (gradient < 0)
        if not free.any():
            return 0.0
        H = _differentiate(
            lambda x: self.compute_criterion(x)[1], share, np.minimum(share, 1 - share)
        )[np.ix_(free, free)]
        try:
            step = linalg.cho_solve(linalg.cho_factor(H), gradient[free])
        except np.linalg.LinAlgError:  # a saddle, not a minimum
            return float("inf")
        return float(gradient[free] @ step) / 2

    def compute_df(self, at: _State, sigma2: float) -> np.ndarray:
        """Compute Satterthwaite's 2v²/Var(v) for the variance v = σ²C_kk of each coefficient.

        Var(v) = gᵀ(2H⁻¹)g, where H is the curvature of −2 log-likelihood in the variances that are
        not zero (here ψ and log σ²) and g the gradient of v.
        """
        free = at.psi > FLAT

        def slopes(psi: np.ndarray) -> np.ndarray:
            at_psi = self.solve(psi)
            return at_psi.slopes_log + at_psi.slopes_r2 / sigma2

        m = int(free.sum())
        H = np.empty((m + 1, m + 1))
        H[:m, :m] = _differentiate(slopes, at.psi, at.psi)[np.ix_(free, free)]
        H[:m, m] = H[m, :m] = -at.slopes_r2[free] / sigma2
        H[m, m] = at.r2 / sigma2
        v = sigma2 * np.diag(at.C)
        g = np.vstack([sigma2 * at.slopes_c[free], v])
        try:
            spread = (g * linalg.cho_solve(linalg.cho_factor(H), g)).sum(axis=0)
        except np.linalg.LinAlgError:
            return np.full(len(v), np.nan)
        return np.asarray(v**2 / spread)


def _build_indicators(part: RandomPart) -> sparse.csr_array:
    """Build the columns of Z for one random part."""
    n = len(part.level)
    places = np.arange(n), part.level
    return sparse.csr_array((fill_values(part), places), shape=(n, count_levels(part)))


def _differentiate(
    slopes: Callable[[np.ndarray], np.ndarray], x: np.ndarray, room: np.ndarray
) -> np.ndarray:
    """Compute the Hessian by central differences; the steps are proportional to `room`."""
    columns = []
    for k, step in enumerate(1e-4 * np.maximum(room, FLAT)):
        up, down = x.copy(), x.copy()
        up[k], down[k] = x[k] + step, max(x[k] - step, 0.0)
        columns.append((slopes(up) - slopes(down)) / (up[k] - down[k]))
    H = np.column_stack(columns)
    return np.asarray((H + H.T) / 2)
