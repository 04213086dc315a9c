"""Choose the variance of a prior by rows that are held out of the fit: `prior_variance="auto"`.

With q = v · mean|ψ|², the variance of a typical row's logit under the prior N(m₀, v I), v grows by
half decades of q. At each v all outputs are fitted at once, from the fit at the v before; the v
with the least loss on held-out rows is taken. These rows are those given as `validation`, or parts
of the rows themselves, left out in turn. A column of ψ that is constant is an intercept: under a
prior about zero it gets the wide variance `INTERCEPT`, since the frequency of an answer does not
tell how large the other weights are.

Fits are penalised, as maximum a posteriori fits are, but for averages over the posterior: an output
has the posterior N(m, P), with one eigenbasis for all. Let ρ² be the narrowest prior variances,
ρΨᵀ diag(c) Ψρ = U S Uᵀ and B = ρU. Then, for the prior variances x ρ²,

    P = B diag(1/(r S + 1/x)) Bᵀ,    r = Σ c E[y(1−y)] / Σ c,    Ψᵀ(c E[y] − t) + (m − m₀)/v = 0.

That is maths.md (5) with E[y(1−y)] replaced by its mean r over rows, at the v before. Over a
logit of mean a and variance s² = ψᵀPψ, E[y] ≈ σ(κa) with κ = 1/√(1 + πs²/8) (MacKay 1992, Neural
Computation 4:720). For K classes s² is the mean over classes, and r is K/(K−1) times as large: the
contrasts of equally probable classes have that much more curvature than y(1−y).

Where there is a network with weights W, the mean m of the posterior may be moved towards it,

    (1 − s) m + s W,        0 ≤ s ≤ 1,                                                         (1)

which mixes the logits of the two. The covariance is the posterior's whatever s is, so that
intervals have the width that the data leave. s has the least loss on the held-out rows, among
shares whose loss is below the network's own by `ERRORS` standard errors of the difference, paired
by rows; if there is none, s has the lowest upper confidence limit of that difference, which is at
or near the network, s = 1.

Rows given as `validation` are trusted. Without them, rows on which a network has less loss than its
own probabilities let one expect may be those that it was trained on, and cannot choose: the
variance is then the mean square of its weights, the mean is held to it, and the caller is warned.
"""

import warnings
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lastlayer.outcome import Outcome
from lastlayer.problem import Likelihood, Problem, take_rows

SIZES = 10.0 ** np.arange(-2, 9.1, 0.5)  # values of q
# So many of these are usual. Wider ones are tried as long as the loss falls, unless it is below
# this share of the narrowest prior's: where rows are separable it falls for ever.
USUAL, SEPARABLE = 13, 0.05
RISEN, TIE = 1.01, 0.9995  # the path ends at a loss so many times the least; of unusual values
# Prior variance of an intercept's logit: base rates from 0.01 % to 99.99 % lie within two sd.
INTERCEPT = 25.0
FEWEST_ROWS = 30  # fewer choose no prior
ROWS, OUTPUTS = 8_000, 512  # the most rows, and outputs, by which a prior is chosen
FOLDS = 5  # parts of the rows; they are left out one after another until enough rows have been
ENOUGH = 300  # rows, or groups of rows
NEAR, STEPS = 0.05, 500  # gradient at which a fit has ended, in posterior sd; the most steps
SHARES = np.arange(9) / 8  # of the network, s in (1)
ERRORS = 3.0  # standard errors
KNOWN = 0.97  # of the loss that a network expects: below it, it may have been trained on the rows
FAR = 0.5  # posterior sd: intervals about a mean moved further miss the truth more often


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """By which rows the variance is to be chosen."""

    trained: np.ndarray | None  # W, (K, D), towards which the mean may be moved
    validation: Problem | None
    groups: np.ndarray | None = None  # (N,)

    def select(self, outputs: np.ndarray) -> "Question":
        """Return the question for some outputs."""
        held = None if self.validation is None else self.validation.select(outputs)
        return replace(self, validation=held)


@dataclass(frozen=True, kw_only=True, eq=False)
class Choice:
    """A problem with its prior, and how its posterior compares on rows that were held out."""

    problem: Problem
    note: str  # part of the verdict, `info.message`
    settings: dict[str, Any] = field(default_factory=dict)  # for `info.settings`
    share: float = 0.0  # s of (1)
    network: np.ndarray | None = None  # W, (K, D)

    def move(self, outcome: Outcome) -> Problem:
        """Return the problem in coordinates in which the outcome's mean is that of (1)."""
        problem = self.problem
        if not self.share or self.network is None:
            return problem
        shift = self.share * (self.network - problem.to_weights(outcome.mean))
        return replace(problem, prior_mean=problem.prior_mean + shift.astype(problem.dtype))


def choose_prior(problem: Problem, asked: Question) -> Choice:
    """Choose the prior's variance, and how far the mean is moved to the network."""
    W, alone = asked.trained, asked.validation is None
    number = problem.num_rows if asked.groups is None else len(np.unique(asked.groups))
    if alone and number < FEWEST_ROWS:
        reason = f"{number:,} distinct rows or groups, where {FEWEST_ROWS} are needed to choose"
        return _choose_without_rows(problem, W, reason)
    if alone and W is not None and _seems_trained_on(problem, W):
        reason = "the network seems underconfident on these rows, or trained on them"
        way_out = "its weights are kept: pass rows that it has not seen as validation="
        warnings.warn(f"{reason}; {way_out}.", UserWarning, stacklevel=3)
        return _choose_without_rows(problem, W, reason)
    few = _draw_outputs(problem)
    path, own = Path(problem.select(few), asked.select(few)), None if W is None else W[few]
    choice = _set_variance(problem, size := path.follow())
    much = " (wider than usual: standardise the features)" if size > path.sizes[USUAL - 1] else ""
    choice = replace(choice, note=f"{choice.note}{much}, by {path.words}; ", network=W)
    return _move_mean(choice, path, own)


def _draw_outputs(problem: Problem) -> np.ndarray:
    """Return at most `OUTPUTS` outputs, drawn at random; all classes of a softmax."""
    K = problem.num_outputs
    if K <= OUTPUTS or problem.likelihood is Likelihood.SOFTMAX:
        return np.arange(K)
    return np.sort(np.random.default_rng(0).permutation(K)[:OUTPUTS])


def _choose_without_rows(problem: Problem, W: np.ndarray | None, reason: str) -> Choice:
    """Return a prior as wide as the network's weights and the mean held to it, or variance one."""
    if W is None:
        choice = _set_variance(problem, 1.0)
        return replace(choice, note=f"{choice.note}; {reason}")
    choice = _set_variance(problem, float(np.square(W, dtype=np.float64).mean()) or 1.0)
    note = f"{choice.note}, as wide as the trained weights; mean held to the network; {reason}"
    settings = choice.settings | {"network_share": 1.0}
    return replace(choice, note=note, settings=settings, share=1.0, network=W)


def _move_mean(choice: Choice, path: "Path", W: np.ndarray | None) -> Choice:
    """Return the choice with its loss and, where there is a network, the share s of (1)."""
    mean, variance = path.predict()
    if W is None:
        loss = float(path.measure_losses(mean, variance).sum())
        settings = choice.settings | {"held_out_nll": loss}
        return replace(choice, note=f"{choice.note}held-out NLL {loss:.3g}", settings=settings)
    away = path.held_out.features @ W.T - mean
    own = path.measure_losses(mean + away, 0 * variance)
    differences = np.array([path.measure_losses(mean + s * away, variance) - own for s in SHARES])
    difference, error = differences.sum(axis=1), len(own) ** 0.5 * differences.std(axis=1)
    limit = difference + ERRORS * error
    i = np.where(limit < 0, difference, np.inf).argmin() if limit.min() < 0 else limit.argmin()
    share, theirs, loss = float(SHARES[i]), float(own.sum()), float(own.sum() + difference[i])
    settings = {"held_out_nll": loss, "network_nll": theirs, "network_share": share}
    moved = ""
    if share:
        shift = share * np.sqrt((away**2 / variance).mean())
        what = "held to the network" if share == 1 else f"{share:.0%} of the way to the network"
        moved = f"mean {what}, {shift:.2g} posterior sd from the posterior's own"
        moved += "; " if shift < FAR else ", so that intervals hold the truth less often; "
    note = f"{choice.note}{moved}held-out NLL {loss:.3g}, the network's own {theirs:.3g}"
    return replace(choice, share=share, note=note, settings=choice.settings | settings)


def find_intercepts(psi: np.ndarray) -> np.ndarray:
    """Return the prior variance of the column that is the intercept, (D,); 0 for others.

    It is the constant column nearest to one, the last of several. Another feature may be constant
    by chance, and elsewhere have values at which a wide prior would decide.
    """
    first, variances = psi[0].astype(np.float64), np.zeros(psi.shape[1])
    constant = np.flatnonzero((np.ptp(psi, axis=0) == 0) & (first != 0))[::-1]
    if len(constant):
        i = constant[np.abs(first[constant] - 1).argmin()]
        variances[i] = INTERCEPT / first[i] ** 2
    return variances


def list_sizes(problem: Problem) -> np.ndarray:
    """Return the values of v, for weights that are no intercepts."""
    psi = problem.features[:, find_intercepts(problem.features) == 0]
    lengths = np.einsum("nd,nd->n", psi, psi, dtype=np.float64)
    return SIZES / (float(np.average(lengths, weights=problem.row_counts)) or 1.0)


def list_variances(problem: Problem, size: float) -> np.ndarray:
    """Return the prior variances (D,) of weights whose variance is v."""
    intercepts = find_intercepts(problem.features)
    return np.where((intercepts > 0) & (not problem.prior_mean.any()), intercepts, size)


def _set_variance(problem: Problem, size: float) -> Choice:
    """Return the problem with prior variance v, in words and in numbers."""
    variance = list_variances(problem, size)
    settings = {"prior_variance": size}
    if variance.max() > size:
        settings["intercept_variance"] = float(variance.max())
    centre = "its given mean" if problem.prior_mean.any() else "zero"
    problem = replace(problem, prior_scale=np.sqrt(variance).astype(problem.dtype))
    note = f"prior variance {size:.3g} about {centre}"
    return Choice(problem=problem, note=note, settings=settings)


def draw_rows(problem: Problem) -> Problem:
    """Return the problem of at most `ROWS` rows, drawn at random."""
    return take_rows(problem, np.random.default_rng(0).permutation(problem.num_rows)[:ROWS])


def compare_answers(problem: Problem, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the probabilities of logits (N, K), and the losses (N, K), for classes (N, 1)."""
    from scipy.special import expit, logsumexp, softmax  # JAX requires SciPy, but does not load it

    t, c = problem.targets, problem.counts.reshape(len(a), -1)
    if problem.likelihood is Likelihood.SOFTMAX:
        given = (t * a).sum(axis=1, keepdims=True)
        return softmax(a, axis=1), c * logsumexp(a, axis=1, keepdims=True) - given
    softplus = np.maximum(a, 0) + np.log1p(np.exp(-np.abs(a)))  # ten times faster than `logaddexp`
    return expit(a), c * softplus - t * a


def shrink_logits(problem: Problem, variance: np.ndarray) -> np.ndarray:
    """Return κ, by which logits (N, K) are smaller if probabilities are averaged over them."""
    if problem.likelihood is Likelihood.SOFTMAX:
        variance = variance.mean(axis=1, keepdims=True)
    return np.asarray(1 / np.sqrt(1 + np.pi / 8 * variance))


def _seems_trained_on(problem: Problem, W: np.ndarray) -> bool:
    """Return whether a network has less loss on rows than its probabilities let one expect."""
    some = draw_rows(problem)
    a = some.features @ W.T
    y, losses = compare_answers(some, a)
    targets = y * some.counts.reshape(len(a), -1)
    expected = compare_answers(replace(some, targets=targets), a)[1]
    difference = (losses - expected).sum(axis=1, dtype=np.float64)
    surprising = difference.sum() < -ERRORS * len(a) ** 0.5 * difference.std()
    return bool(surprising and losses.sum() < KNOWN * expected.sum())


class Path:
    """Fits of parts of the rows, for one prior after another, and the rows held out of them."""

    def __init__(self, problem: Problem, asked: Question) -> None:
        """Divide the rows: into folds where there are no rows for validation.

        A group's rows are left out together.
        """
        self.sizes = list_sizes(problem)
        rows = np.random.default_rng(0).permutation(problem.num_rows)[:ROWS]
        if asked.validation is not None:
            self.held_out, kept = draw_rows(asked.validation), [rows]
            self.parts = [self.held_out.features]
            self.words = f"{self.held_out.num_rows:,} held-out rows"
        else:
            names = rows if asked.groups is None else asked.groups[rows]
            units, unit = np.unique(names, return_inverse=True)
            part = (np.random.default_rng(0).permutation(len(units)) % FOLDS)[unit]
            folds = range(min(FOLDS, -(-ENOUGH * FOLDS // len(units))))
            kept, left = [rows[part != p] for p in folds], [rows[part == p] for p in folds]
            self.held_out = take_rows(problem, np.concatenate(left))
            self.parts = [problem.features[some] for some in left]
            self.words = f"{self.held_out.num_rows:,} of {len(rows):,} rows, left out in turn"
        narrowest = list_variances(problem, self.sizes[0])
        self.fits = [Fit(take_rows(problem, each), narrowest) for each in kept]

    def follow(self) -> float:
        """Fit one prior after another until the loss has risen; return the best."""
        losses: list[float] = []
        for number, size in enumerate(self.sizes):
            for fit in self.fits:
                fit.move_to(list_variances(fit.problem, size))
            losses.append(float(self.measure_losses(*self.predict()).sum()))
            least, wide = min(losses[:-1], default=np.inf), number >= USUAL
            if losses[-1] < least:
                best, fits = float(size), [copy(fit) for fit in self.fits]
            separable = losses[-1] < SEPARABLE * losses[0]
            if losses[-1] > (TIE if wide else RISEN) * least or (wide and separable):
                break
        self.fits = fits
        return best

    def predict(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the means and variances of the logits of the held-out rows, (M, K)."""
        parts = [fit.predict(psi) for fit, psi in zip(self.fits, self.parts, strict=True)]
        mean, variance = (np.concatenate(part) for part in zip(*parts, strict=True))
        return mean, variance

    def measure_losses(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Return the losses of the held-out rows, (M,), which sum to the loss for each answer."""
        a = mean * shrink_logits(self.held_out, variance)
        losses = compare_answers(self.held_out, a)[1].astype(np.float64)
        counts = self.held_out.counts.reshape(len(a), -1)
        return losses.sum(axis=1) / np.broadcast_to(counts, losses.shape).sum()


class Fit:
    """The posterior N(m, P) of all outputs, for one prior after another.

    Unless it shall `average` over the posterior, m is the mode.
    """

    def __init__(self, problem: Problem, narrowest: np.ndarray, *, average: bool = True) -> None:
        self.average = average
        self.problem, psi, K = problem, problem.features, problem.num_outputs
        self.c = problem.counts.reshape(len(psi), -1)
        weights = self.c.mean(axis=1)
        self.squared_scale, rho = narrowest, np.sqrt(narrowest).astype(psi.dtype)
        S, U = np.linalg.eigh((psi * rho * weights[:, None]).T @ (psi * rho))
        self.S, self.B = np.maximum(S, 0), rho[:, None] * U
        self.A, self.total = psi @ self.B, max(float(weights.sum()), 1e-300)
        self.offsets = problem.compute_offsets()
        self.u = np.zeros((K, len(S)), psi.dtype)  # m = m₀ + B u
        self.r = np.full(K, 0.25) * self.c.sum(axis=0) / self.total

    def move_to(self, variance: np.ndarray, near: float = NEAR) -> None:
        """Fit under the prior variances (D,), from the fit of the prior before."""
        from scipy.optimize import minimize

        self._narrow(variance)
        v, step = variance.astype(self.u.dtype), np.sqrt(self.inverse)
        one = np.ones((1, 1), self.u.dtype)
        k = shrink_logits(self.problem, (self.A**2) @ self.inverse.T) if self.average else one

        def evaluate(z: np.ndarray) -> tuple[float, np.ndarray]:
            u = z.reshape(step.shape).astype(step.dtype) * step
            y, losses = compare_answers(self.problem, k * (self.offsets + self.A @ u.T))
            d = u @ self.B.T
            g = (self.c * y - self.problem.targets).T @ self.A + d / v @ self.B
            loss = (losses / k).sum(dtype=np.float64) + 0.5 * (d * d / v).sum(dtype=np.float64)
            return float(loss), (g * step).ravel().astype(np.float64)

        start = (self.u / step).ravel().astype(np.float64)  # in posterior sd: well conditioned
        options: Any = {"gtol": near, "ftol": 0.0, "maxiter": STEPS}
        best = minimize(evaluate, start, jac=True, method="L-BFGS-B", options=options)
        self.u = best.x.reshape(step.shape).astype(step.dtype) * step
        y, _ = compare_answers(self.problem, k * (self.offsets + self.A @ self.u.T))
        K = len(self.u) if self.problem.likelihood is Likelihood.SOFTMAX else np.inf
        self.r = (self.c * k * y * (1 - y)).sum(axis=0) / self.total / (1 - 1 / K)
        self._narrow(variance)

    def _narrow(self, variance: np.ndarray) -> None:
        """Renew the eigenvalues of P in the basis B, (K, D)."""
        x = (variance / self.squared_scale).max()
        self.inverse = (1 / (self.r[:, None] * self.S + 1 / x)).astype(self.u.dtype)

    def predict(self, psi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the means and variances of the logits of rows, (M, K)."""
        A = psi @ self.B
        return psi @ self.problem.prior_mean.T + A @ self.u.T, (A**2) @ self.inverse.T
