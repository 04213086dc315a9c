"""Gaussian fits along a path of prior variances, for all outputs and parts of the rows at once.

With q = v · mean|ψ|², the variance of a typical row's logit under the prior N(m₀, v I), v grows by
half decades of q. Columns of ψ that are constant are intercepts: under a prior about zero they get
the wide variance `INTERCEPT`, since the frequency of an answer does not tell how large the other
weights are.

At each v the posterior of an output is taken to be N(m, P), with one eigenbasis for all: let ρ² be
the narrowest prior variances of the path, ρΨᵀ diag(c) Ψρ = U S Uᵀ and B = ρU. Then, for the prior
variances x ρ²,

    P = B diag(1/(r S + 1/x)) Bᵀ,    r = Σ c E[y(1−y)] / Σ c,    Ψᵀ(c E[y] − t) + (m − m₀)/v = 0.

That is docs/maths.md (5) with E[y(1−y)] replaced by its mean r over rows, at the v before. Over a
logit of mean a and variance s² = ψᵀPψ, E[y] ≈ σ(κa) with κ = 1/√(1 + πs²/8) (MacKay 1992, Neural
Computation 4:720). For K classes s² is the mean over classes, and r is K/(K−1) times as large: the
contrasts of equally probable classes have that much more curvature than y(1−y).

The evidence, too, may choose, by Laplace's approximation at the most probable weights, κ = 1,

    log p(t_k) ≈ log p(t_k | θ_k) − ½ Σ_d (θ_d − m₀_d)² / v_d − ½ log det(I + P₀H),

but rows that the features were trained on are not evidence for weights on these features: there it
favours priors that are too wide.

Where each output has a variance of its own, scores ℓ_k(g) say in nats how well the g-th value of
the grid explains the data of output k: held-out log likelihoods, or log evidences. The values are
drawn from one population,

    log v_k ~ N(μ, s²) on the grid,        P(g | data of k) ∝ exp(ℓ_k(g)) N(log v_g; μ, s²),     (1)

whose μ and s maximise the likelihood of all outputs (empirical Bayes, by EM). Where labels are
rare, ℓ_k is flat and the output takes the value of the others; where it is steep, its own.
"""

from typing import Any, NamedTuple

import numpy as np

from lastlayer.problem import Likelihood, Problem

SIZES = 10.0 ** np.arange(-3, 9.1, 0.5)  # values of q
# Prior variance of an intercept's logit: base rates from 0.01 % to 99.99 % lie within two sd.
INTERCEPT = 25.0
NEAR = 0.02  # gradient at which the mean is found, in posterior sd
STEPS = 500  # at most, at each v
EM_STEPS = 200  # iterations to fit μ and s of (1)
NARROWEST = 0.25  # s, in steps of the grid: below it all outputs share one value


class Logits(NamedTuple):
    """Independent Gaussian logits of rows and outputs, (M, K)."""

    mean: np.ndarray
    variance: np.ndarray | float = 0.0


def find_intercepts(psi: np.ndarray) -> np.ndarray:
    """Return the prior variance of the column that is the intercept, (D,); 0 for others.

    It is the constant column nearest to one, the last of several. Another feature may be constant
    by chance, and elsewhere have values at which a wide prior would decide.
    """
    first, found = psi[0].astype(np.float64), np.zeros(psi.shape[1])
    constant = (np.ptp(psi, axis=0) == 0) & (first != 0)
    if constant.any():
        far = np.where(constant, np.abs(first - 1), np.inf)
        i = len(far) - 1 - int(far[::-1].argmin())
        found[i] = INTERCEPT / first[i] ** 2
    return found


def list_sizes(problem: Problem) -> np.ndarray:
    """Return the values of v, for weights that are no intercepts."""
    psi = problem.features[:, find_intercepts(problem.features) == 0]
    lengths = np.einsum("nd,nd->n", psi, psi, dtype=np.float64)
    return SIZES / (float(np.average(lengths, weights=problem.row_counts)) or 1.0)


class Path:
    """Fits of some parts of the rows, one prior after another; (F, K, N) is fits, outputs, rows."""

    def __init__(
        self, problem: Problem, kept: np.ndarray, narrowest: np.ndarray, modes: bool = False
    ) -> None:
        """`kept`, (F, N), says which rows each fit has; `narrowest`, (1 or K, D), is ρ².

        With `modes`, m are the most probable weights: κ is 1.
        """
        self.modes = modes
        psi, counts = problem.features, problem.counts.reshape(problem.num_rows, -1)
        self.psi, self.classes = psi, problem.likelihood is Likelihood.SOFTMAX
        K = problem.num_outputs
        self.share = K / (K - 1) if self.classes else 1.0
        self.t, self.c = problem.targets.T * kept[:, None], counts.T * kept[:, None]
        self.squared_scale = narrowest.mean(axis=0)
        rho, average = np.sqrt(self.squared_scale), self.c.mean(axis=(0, 1), dtype=np.float64)
        wide = psi * rho
        S, U = np.linalg.eigh((wide * average[:, None]).T @ wide)
        self.S, self.B = np.maximum(S, 0), (rho[:, None] * U).astype(psi.dtype)
        self.total, self.A = max(average.sum(), 1e-300), psi @ self.B
        self.mean, self.offsets = problem.prior_mean, problem.compute_offsets().T
        self.u = np.zeros((len(kept), problem.num_outputs, len(S)), psi.dtype)  # m = m₀ + B u
        self.r = np.full(self.u.shape[:2], 0.25) * self.c.sum(axis=-1) / self.total

    def fit(self, variance: np.ndarray) -> None:
        """Fit under the prior variances (1 or K, D), from the fits of the prior before."""
        from scipy.optimize import minimize  # JAX requires SciPy, but does not load it

        self._narrow(variance)
        inverse, u, v = self.inverse, self.u, self.variance
        step = np.sqrt(inverse)  # in posterior sd the problem is well conditioned
        spread = inverse @ (self.A**2).T
        spread = 0 * spread if self.modes else spread
        k = _shrink(spread.mean(axis=1, keepdims=True) if self.classes else spread)

        def evaluate(z: np.ndarray) -> tuple[float, np.ndarray]:
            u = z.reshape(step.shape).astype(step.dtype) * step
            y, losses = self._compare(u, k)
            d = u @ self.B.T
            g = (self.c * y - self.t) @ self.A + d / v @ self.B
            loss = losses.sum(dtype=np.float64) + 0.5 * (d * d / v).sum(dtype=np.float64)
            return float(loss), (g * step).ravel().astype(np.float64)

        options: Any = {"gtol": NEAR, "ftol": 0.0, "maxiter": STEPS}
        start = (u / step).ravel().astype(np.float64)
        found = minimize(evaluate, start, jac=True, method="L-BFGS-B", options=options)
        self.u = found.x.reshape(u.shape).astype(u.dtype) * step
        y, _ = self._compare(self.u, k)
        self.r = self.share * (self.c * k * y * (1 - y)).sum(axis=-1) / self.total
        self._narrow(variance)

    def _narrow(self, variance: np.ndarray) -> None:
        """Renew the eigenvalues of P in the basis B, (F, K, D)."""
        self.variance = variance.astype(self.u.dtype)
        self.x = (variance / self.squared_scale).max(axis=1)[:, None]
        self.inverse = (1 / (self.r[..., None] * self.S + 1 / self.x)).astype(self.u.dtype)

    def _compare(self, u: np.ndarray, k: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the probabilities E[y], (F, K, N), and the losses, for classes (F, 1, N)."""
        from scipy.special import expit, logsumexp, softmax

        a = k * (self.offsets + u @ self.A.T)
        if self.classes:
            given = (self.t * a).sum(axis=1, keepdims=True)
            return softmax(a, axis=1), (self.c * logsumexp(a, axis=1, keepdims=True) - given) / k
        softplus = np.maximum(a, 0) + np.log1p(
            np.exp(-np.abs(a))
        )  # `logaddexp` takes ten times as long
        return expit(a), (self.c * softplus - self.t * a) / k

    def predict(self, rows: np.ndarray, fits: np.ndarray) -> Logits:
        """Return the logits of rows (M, D), each by the fit that its number in `fits` names."""
        A = rows @ self.B
        mean, variance = self.u @ A.T, self.inverse @ (A**2).T
        which = fits, slice(None), np.arange(len(rows))
        return Logits(rows @ self.mean.T + mean[which], variance[which])

    def estimate_evidence(self) -> np.ndarray:
        """Return Laplace's log evidence of each yes/no output of the last fit, (K,)."""
        y, losses = self._compare(self.u, np.ones((1, 1, 1)))
        d, psi = self.u[-1] @ self.B.T, self.psi
        v = np.broadcast_to(self.variance, d.shape)
        curved = [
            np.linalg.slogdet(np.eye(len(each)) + (psi * r[:, None]).T @ psi * each)[1]
            for r, each in zip((self.c * y * (1 - y))[-1], v, strict=True)
        ]
        return np.asarray(-losses[-1].sum(axis=-1) - 0.5 * ((d * d / v).sum(axis=-1) + curved))


def _shrink(variance: np.ndarray | float) -> np.ndarray:
    """Return κ, by which a logit is smaller if its probability is averaged over this variance."""
    return np.asarray(1 / np.sqrt(1 + np.pi / 8 * variance))


def arrange_answers(problem: Problem) -> np.ndarray:
    """Return how often each answer was given: (M, K, 2) for yes and no, (M, 1, K) for classes."""
    t = problem.targets
    if problem.likelihood is Likelihood.SOFTMAX:
        return t[:, None]
    return np.stack([t, problem.counts.reshape(len(t), -1) - t], axis=-1)


def predict_logs(problem: Problem, logits: Logits) -> np.ndarray:
    """Return the log probabilities of these answers, averaged over the logits."""
    from scipy.special import log_softmax

    a = logits.mean * _shrink(logits.variance)
    one_of = a[:, None] if problem.likelihood is Likelihood.SOFTMAX else np.stack([a, 0 * a], -1)
    return np.asarray(log_softmax(one_of.astype(np.float64), axis=-1))


def choose_values(scores: np.ndarray) -> np.ndarray:
    """Return the index of each output's value, (K,), from scores (G, K) on a grid of v."""
    from scipy.special import softmax

    x = np.arange(len(scores))
    mu, variance = scores.sum(axis=1).argmax(), max(NARROWEST**2, x.var())
    for _ in range(EM_STEPS):
        belief = softmax(scores - 0.5 * ((x - mu) ** 2 / variance)[:, None], axis=0)
        mu = (belief.T @ x).mean()
        variance = max(NARROWEST**2, (belief * (x[:, None] - mu) ** 2).sum(axis=0).mean())
    return np.asarray(np.rint(belief.T @ x).astype(int))
