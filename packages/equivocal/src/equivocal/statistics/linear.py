"""Linear mixed models with crossed random effects: by participant and item, network and item.

    y = Xβ + Σ_b Z_b u_b + e,     u_b ~ N(0, σ² T_b T_bᵀ) for each level,     e ~ N(0, σ² I)     (1)

With Λ the block matrix of all T_b, V = I + ZΛΛᵀZᵀ, C = (XᵀV⁻¹X)⁻¹, β = C XᵀV⁻¹y and
r² = (y − Xβ)ᵀV⁻¹(y − Xβ), β and σ² can be eliminated. The criterion to minimise over θ, the entries
of T_b, is then

    ML      log|V| + n log(2πr²/n) + n                                                           (2)
    REML    log|V| + log|XᵀV⁻¹X| + (n − p) log(2πr²/(n − p)) + n − p                             (3)

which is −2 log-likelihood. Everything is computed from cross products: with LLᵀ = ΛᵀZᵀZΛ + I,
aᵀV⁻¹b = aᵀb − (L⁻¹ΛᵀZᵀa)ᵀ(L⁻¹ΛᵀZᵀb) and |V| = |L|². So a step costs the cube of the number of
random effects, however many trials there are. A function of V whose differential is tr(M_b dΣ_b),
Σ_b = T_b T_bᵀ, has the derivative 2 M_b T_b by T_b.

Bates, Mächler, Bolker & Walker (2015), J. Stat. Softw. 67(1), section 3. Degrees of freedom by
Satterthwaite's formula, as in Kuznetsova, Brockhoff & Christensen (2017), J. Stat. Softw. 82(13).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import linalg, optimize, sparse

from equivocal.statistics.fits import (
    MixedFit,
    RandomPart,
    build_factors,
    check_trials,
    count_effects,
    count_levels,
    describe_parts,
    differentiate,
    fill_values,
    limit_threads,
    solve_newton,
    start_parameters,
)

SMALL = 400  # columns of Z up to which threads slow a fit down (on a busy machine with two cores,
# fits with 13 to 32 columns took 13 ms with one thread and 180 ms with two)
FLAT = 3e-4  # a standard deviation, in those of the noise, below this counts as zero
HIGHEST = 3e4  # where no noise is left
ROUNDS = 5  # searches: in 6 of 1,200 fits the first stopped early, at two equal values
CLOSE = 1e-5  # largest distance from the minimum of (2) or (3), by a Newton step, when converged


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
        The random effects, independent of each other; those within a part are correlated.
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
    with limit_threads(sum(count_levels(part) * count_effects(part) for part in parts) < SMALL):
        return _fit(y, X, parts, reml)


def _fit(y: np.ndarray, X: np.ndarray, parts: Sequence[RandomPart], reml: bool) -> MixedFit:
    """Fit the response in standard deviations, and convert the estimates to its own units."""
    centre, spread = float(y.mean()), float(y.std())
    problem = _Problem((y - centre) / spread, X, parts, reml)
    theta, distance = problem.minimise(start_parameters(parts))
    at = problem.solve(theta)
    sigma2 = at.r2 / problem.divisor
    df, note = problem.compute_df(at, sigma2), ""
    if np.abs(theta).max(initial=0) >= HIGHEST or not sigma2 > 1e-12:
        note = (
            "no noise is left, so that participant, item or predictors determine the response; use "
            "responses of single trials, not averages"
        )
    elif not distance < CLOSE:
        note = "the fit did not converge; use fewer predictors, or more trials"
    elif not np.all(df > 0):
        note = "the likelihood is too flat for degrees of freedom; use more trials"
    sds, correlations, edges = describe_parts(parts, theta, FLAT)
    sigma = float(np.sqrt(sigma2)) * spread
    intercept = np.linalg.lstsq(X, np.full(len(y), centre))[0]
    scale = problem.divisor * np.log(2 * np.pi * sigma**2) + problem.divisor
    # the term log|XᵀV⁻¹X| of (3) does not depend on the unit of y
    return MixedFit(
        coefficients=at.beta * spread + intercept,
        covariance=at.C * sigma**2,
        df=df,
        sds={name: sd * sigma for name, sd in sds.items()},
        sd_residual=sigma,
        log_likelihood=-(at.log_determinants + scale) / 2,
        trials=len(y),
        converged=not note,
        note=note or edges,
        correlations=correlations,
    )


@dataclass(frozen=True)
class _State:
    """All quantities that are functions of θ; `slopes` are derivatives with respect to θ."""

    theta: np.ndarray
    beta: np.ndarray
    C: np.ndarray
    r2: float
    log_determinants: float  # log|V|, plus log|XᵀV⁻¹X| by REML
    slopes_log: np.ndarray  # of log_determinants
    slopes_r2: np.ndarray
    slopes_c: np.ndarray  # (θ, coefficient): of the diagonal of C


class _Problem:
    """Cross products of one data set, and (2) or (3) with its derivatives."""

    def __init__(
        self, y: np.ndarray, X: np.ndarray, parts: Sequence[RandomPart], reml: bool
    ) -> None:
        self.reml = reml
        self.divisor = len(y) - X.shape[1] if reml else len(y)
        W = np.column_stack([X, y])
        Z = sparse.hstack([_build_indicators(part) for part in parts], "csr")
        self.ZtZ: np.ndarray = (Z.T @ Z).toarray()
        self.ZtW: np.ndarray = np.asarray(Z.T @ W)
        self.WtW: np.ndarray = W.T @ W
        self.identity = np.eye(len(self.ZtZ))
        self.sizes = [count_effects(part) for part in parts]  # k of each part
        widths = [count_levels(part) * k for part, k in zip(parts, self.sizes, strict=True)]
        ends = np.cumsum([0, *widths]).tolist()
        self.rows = [slice(a, b) for a, b in pairwise(ends)]
        self.within = [
            sum_products(self.ZtZ[at, at], self.identity[at, at], k) for at, k in self._each_part()
        ]

    def _each_part(self) -> list[tuple[slice, int]]:
        """Return the columns of Z of each part, and its k."""
        return list(zip(self.rows, self.sizes, strict=True))

    def _scale(self, factors: Sequence[np.ndarray], rows: np.ndarray) -> np.ndarray:
        """Return Λᵀ times a matrix with a row for each column of Z."""
        scaled = np.empty_like(rows)
        for (at, k), T in zip(self._each_part(), factors, strict=True):
            block = rows[at].reshape(-1, k, rows.shape[1])
            scaled[at] = (block * T[0, 0] if k == 1 else T.T @ block).reshape(-1, rows.shape[1])
        return scaled

    def _differentiate(
        self, factors: Sequence[np.ndarray], forms: Sequence[np.ndarray]
    ) -> np.ndarray:
        """Return derivatives by θ of a function whose differential is Σ_b tr(M_b dΣ_b)."""
        both = zip(factors, forms, strict=True)
        return np.concatenate([2 * (M @ T)[np.tril_indices(len(T))] for T, M in both])

    def solve(self, theta: np.ndarray) -> _State:
        """Compute all quantities that are functions of θ."""
        factors, q = build_factors(theta, self.sizes), len(self.ZtZ)
        right = self._scale(factors, np.hstack([self.ZtZ, self.ZtW]))
        L = np.linalg.cholesky(self._scale(factors, right[:, :q].T) + self.identity)
        both = linalg.solve_triangular(L, right, lower=True, check_finite=False)
        T, S = both[:, :q], both[:, q:]
        G = self.WtW - S.T @ S  # WᵀV⁻¹W
        Q = self.ZtW - T.T @ S  # ZᵀV⁻¹W
        C = np.linalg.inv(G[:-1, :-1])
        beta = C @ G[:-1, -1]
        # where X and Z explain y completely, round-off decides the sign of the residual
        r2 = max(float(G[-1, -1] - G[:-1, -1] @ beta), 1e-30)
        QX, Qe = Q[:, :-1], Q[:, -1:] - Q[:, :-1] @ beta[:, None]
        QC, logs = QX @ C, 2 * float(np.log(np.diag(L)).sum())
        forms = [  # Σ over levels of the diagonal blocks of ZᵀV⁻¹Z
            own - sum_products(T[:, at].T, T[:, at].T, k)
            for own, (at, k) in zip(self.within, self._each_part(), strict=True)
        ]
        if self.reml:
            logs -= float(np.linalg.slogdet(C)[1])
            each = zip(forms, self._each_part(), strict=True)
            forms = [form - sum_products(QC[at], QX[at], k) for form, (at, k) in each]
        forms_r2 = [-sum_products(Qe[at], Qe[at], k) for at, k in self._each_part()]
        slopes_c = [
            self._differentiate(
                factors, [sum_products(c[at], c[at], k) for at, k in self._each_part()]
            )
            for c in QC.T[:, :, None]
        ]
        return _State(
            theta=theta,
            beta=beta,
            C=C,
            r2=r2,
            log_determinants=logs,
            slopes_log=self._differentiate(factors, forms),
            slopes_r2=self._differentiate(factors, forms_r2),
            slopes_c=np.column_stack(slopes_c),
        )

    def compute_criterion(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Compute (2) or (3) without constants, and the gradient by θ."""
        at = self.solve(theta)
        value = at.log_determinants + self.divisor * float(np.log(at.r2))
        return value, at.slopes_log + self.divisor * at.slopes_r2 / at.r2

    def minimise(self, theta: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the θ that minimises the criterion, and the distance from the minimum."""
        for _ in range(ROUNDS):
            search = optimize.minimize(
                self.compute_criterion,
                theta,
                jac=True,
                method="L-BFGS-B",
                bounds=[(-HIGHEST, HIGHEST)] * len(theta),
                options={"ftol": 1e-14, "gtol": 1e-7, "maxiter": 200},
            )
            theta = np.asarray(search.x)
            H = differentiate(lambda x: self.compute_criterion(x)[1], theta, _scale_steps(theta))
            step, fall = solve_newton(H, self.compute_criterion(theta)[1])
            if fall / 2 < CLOSE:
                break
            theta = theta + (step if np.isfinite(fall) else 1e-3)  # leave a saddle
        return theta, fall / 2

    def compute_df(self, at: _State, sigma2: float) -> np.ndarray:
        """Compute Satterthwaite's 2v²/Var(v) for the variance v = σ²C_kk of each coefficient.

        Var(v) = gᵀ(2H⁻¹)g, where H is the curvature of −2 log-likelihood in θ and log σ², and g the
        gradient of v. In directions without curvature, where variances are zero, g is zero as well.
        """

        def slopes(theta: np.ndarray) -> np.ndarray:
            there = self.solve(theta)
            return there.slopes_log + there.slopes_r2 / sigma2

        m = len(at.theta)
        H = np.empty((m + 1, m + 1))
        H[:m, :m] = differentiate(slopes, at.theta, _scale_steps(at.theta))
        H[:m, m] = H[m, :m] = -at.slopes_r2 / sigma2
        H[m, m] = at.r2 / sigma2
        v = sigma2 * np.diag(at.C)
        g = np.vstack([sigma2 * at.slopes_c, v])
        spread = np.array([solve_newton(H, column)[1] for column in g.T])
        return np.asarray(np.where(np.isfinite(spread), v**2 / spread, np.nan))


def sum_products(a: np.ndarray, b: np.ndarray, k: int) -> np.ndarray:
    """Return Σ over levels of A_l B_lᵀ, (k, k), where k rows of each matrix belong to a level."""
    if k == 1:
        return np.array([[np.vdot(a, b)]])
    left, right = (x.reshape(-1, k, x.shape[1]).transpose(1, 0, 2).reshape(k, -1) for x in (a, b))
    return np.asarray(left @ right.T)


def _build_indicators(part: RandomPart) -> sparse.csr_array:
    """Build the columns of Z for one random part: k neighbouring ones for each level."""
    values = fill_values(part)
    n, k = values.shape
    columns = (part.level[:, None] * k + np.arange(k)).ravel()
    places = np.repeat(np.arange(n), k), columns
    return sparse.csr_array((values.ravel(), places), shape=(n, count_levels(part) * k))


def _scale_steps(theta: np.ndarray) -> np.ndarray:
    """Return the scale of each parameter, as a diagonal matrix."""
    return np.diag(np.maximum(np.abs(theta), 0.1))
