"""Search for the best of many priors: by rows that were held out, or by a bound on the evidence.

`prior_contest` fits priors and scores them. With q = v · mean|ψ|², the variance of a typical row's
logit under the prior, the search tries v by decades of q: upwards from `FIRST` until the loss has
risen, then downwards from there if no wider prior was better. Where features have unlike scales it
goes on beyond `DECADES` as long as the loss falls; elsewhere only separable answers would lead
there, whose loss hardly depends on v any more. The half decades beside the best are tried last.
Each fit begins where the one before it ended.

The prior with the least loss is best. Where there is a network, fits are mixed with it, and only
mixtures qualify whose loss is below the network's own by `ERRORS` standard errors of the
difference, paired by rows. Mixtures near the network have less noise, so they qualify where the fit
itself does not. Where rows are left out in turn, fits share rows, losses depend on each other, and
their standard error is too small (Bengio & Grandvalet 2004, JMLR 5:1089): `MORE_ERRORS` are
required.

Where each output has a variance of its own, scores ℓ_k(g) say in nats how well the g-th value of a
grid explains the data of output k: held-out log likelihoods, or bounds on the log evidence. The
values are drawn from one population,

    log v_k ~ N(μ, s²) on the grid,        P(g | data of k) ∝ exp(ℓ_k(g)) N(log v_g; μ, s²),     (1)

whose μ and s maximise the likelihood of all outputs (empirical Bayes, by EM). Where labels are
rare, ℓ_k is flat and the output takes the value of the others; where it is steep, its own.

The evidence bound L, docs/maths.md (4), of a Gaussian fit is

    L_k = E_q log p(t_k | θ_k) − KL(q_k ‖ prior)  ≤  log p(t_k).

L is a good
estimate of the log evidence (docs/sampling.md has a table), but rows that the features were trained
on are not evidence for weights on these features: there it favours priors that are too wide.

The grid and the limits may be changed here; `benchmarks/prior_rules.py` compares others.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from equivocal.sampling.engine.problem import Problem
from equivocal.sampling.held_out import Logits, compute_logits
from equivocal.sampling.predictions import average_logistic
from equivocal.sampling.prior_contest import Candidate, Contest, Prior

DECADES = [10.0**e for e in range(-3, 5)]  # values of q
FIRST = 2  # index of the decade to begin with: narrower priors are seldom best
MORE_DECADES = [10.0**e for e in range(5, 10)]  # tried where features have unlike scales:
UNLIKE = 10.0  # the largest standard deviation is that many times the median
HALF = 10.0**0.5
SHARES = (0.0, 0.25, 0.5, 0.75)  # of the network in a mixture; refined by half of their distance
ERRORS, MORE_ERRORS = 2.0, 3.0  # standard errors; more where rows are left out in turn
RISEN = 1.02  # a search ends at a loss that is so many times the least one
TIE = 0.005  # relative difference of losses that counts as none: narrower priors converge sooner
COST = 0.002  # largest relative loss accepted for a wider prior about the network
EM_STEPS = 200  # iterations to fit μ and s of (1)
NARROWEST = 0.25  # s, in steps of the grid: below it all outputs share one value


def search(contest: Contest, mean: np.ndarray) -> Candidate:
    """Return the best prior about a mean, with one variance for all outputs."""
    decades = DECADES + (MORE_DECADES if has_unlike_scales(contest.problem) else [])
    priors = [contest.make_prior(mean, q / contest.unit) for q in decades]
    first = next(contest.follow(priors[FIRST : FIRST + 1]))
    tried, least = _mix(contest, first), first.loss
    for found in _climb(contest, priors[FIRST + 1 :], first):
        tried, least = _drop_worse(contest, tried + _mix(contest, found)), min(least, found.loss)
    if first.loss <= least:
        for found in _climb(contest, priors[FIRST - 1 :: -1], first):
            tried = _drop_worse(contest, tried + _mix(contest, found))
    best = _find_best(contest, tried)
    for step in (1 / HALF, HALF):
        prior = contest.make_prior(mean, best.prior.size * step)
        tried = _drop_worse(contest, tried + _mix(contest, next(contest.follow([prior], best))))
    return _refine(contest, _find_best(contest, tried))


def search_each(contest: Contest, mean: np.ndarray) -> Candidate:
    """Return the best prior about a mean, with a variance for each output."""
    sizes = list_sizes(contest)
    tried = contest.follow(contest.make_prior(mean, v) for v in sizes)
    which = choose_values(np.stack([-found.by_output for found in tried]), sizes)
    found = next(contest.follow([contest.make_prior(mean, sizes[which])]))
    return _refine(contest, _find_best(contest, _mix(contest, found)))


def has_unlike_scales(problem: Problem) -> bool:
    """Return whether a few features dominate |ψ|², so that the others need a far wider prior."""
    sd = np.asarray(problem.features, float).std(axis=0)
    return bool(sd.any()) and bool(sd.max() > UNLIKE * np.median(sd[sd > 0]))


def list_sizes(contest: Contest) -> np.ndarray:
    """Return the grid of variances, in steps of half a decade."""
    return np.array([q * step / contest.unit for q in DECADES for step in (1, HALF)])


def search_about_network(contest: Contest, weights: np.ndarray) -> Candidate | None:
    """Return the widest prior about the network whose loss may exceed its own by at most `COST`."""
    widest = None
    for found in _climb(contest, (contest.make_prior(weights, q / contest.unit) for q in DECADES)):
        if measure_limit(contest, found) > COST:
            break
        widest = found
    return widest


def measure_limit(contest: Contest, candidate: Candidate) -> float:
    """Return the upper confidence limit of a loss minus the network's, relative to the latter."""
    difference, error = contest.compare(candidate)
    return difference + (ERRORS if contest.given else MORE_ERRORS) * error


def _climb(
    contest: Contest, priors: Iterable[Prior], start: Candidate | None = None
) -> Iterator[Candidate]:
    """Fit and score priors of increasing or decreasing width, until the loss has risen.

    Beyond `DECADES`, each prior must be better than all before it.
    """
    best, widest = np.inf if start is None else start.loss, DECADES[-1] / contest.unit
    for found in contest.follow(priors, start):
        yield found
        far = found.prior.size.max() > 0.99 * widest  # round-off
        if found.loss > (1 - TIE if far else RISEN) * best:
            return
        best = min(best, found.loss)


def _mix(contest: Contest, found: Candidate, shares: tuple[float, ...] = SHARES) -> list[Candidate]:
    """Return a candidate with several shares of the network, if there is one."""
    if contest.network_losses is None:
        return [found]
    rest = [s for s in shares if s > 0]
    return [found] * (0 in shares) + contest.score(found.prior, found.fits, rest)


def _refine(contest: Contest, best: Candidate) -> Candidate:
    """Try shares of the network between those of the grid."""
    if contest.network_losses is None:
        return best
    half = (SHARES[1] - SHARES[0]) / 2
    near = tuple(s for s in (best.share - half, best.share + half) if s > 0)
    return _find_best(contest, [best, *_mix(contest, best, near)])


def _drop_worse(contest: Contest, tried: list[Candidate]) -> list[Candidate]:
    """Return the candidates that may still be best: there is no memory for the fits of all."""
    if contest.network_losses is not None:
        return [_find_best(contest, tried)]
    least = min(found.loss for found in tried)
    return [found for found in tried if found.loss <= (1 + TIE) * least]


def _find_best(contest: Contest, tried: list[Candidate]) -> Candidate:
    """Return the candidate with the least loss, of those that are surely better than the network.

    If none is, return the one with the lowest confidence limit. Without a network, return the
    narrowest prior within `TIE` of the least loss.
    """
    if contest.network_losses is not None:
        limits = [measure_limit(contest, found) for found in tried]
        if min(limits) >= 0:
            return tried[int(np.argmin(limits))]
        tried = [found for found, limit in zip(tried, limits, strict=True) if limit < 0]
        return min(tried, key=lambda found: found.loss)
    best = min(tried, key=lambda found: found.loss)
    alike = [found for found in tried if found.loss <= (1 + TIE) * best.loss]
    return min(alike, key=lambda found: float(found.prior.size.mean()))


def choose_values(scores: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the index of each output's value, (K,), from scores (G, K) and values (G,)."""
    x = np.log(values)
    least = (NARROWEST * np.diff(x).min()) ** 2 if len(x) > 1 else 1.0
    mu, variance = x[scores.sum(axis=1).argmax()], max(least, float(np.var(x)))
    for _ in range(EM_STEPS):
        belief = _weigh(scores, x, mu, variance)
        mu = float((belief.T @ x).mean())
        variance = max(least, float((belief * (x[:, None] - mu) ** 2).sum(axis=0).mean()))
    mean = _weigh(scores, x, mu, variance).T @ x
    return np.asarray(np.abs(x[:, None] - mean).argmin(axis=0))


def _weigh(scores: np.ndarray, x: np.ndarray, mu: float, variance: float) -> np.ndarray:
    """Return P(g | data of k), (G, K), as in (1)."""
    log = scores - 0.5 * ((x - mu) ** 2 / variance)[:, None]
    belief = np.exp(log - log.max(axis=0))
    return np.asarray(belief / belief.sum(axis=0))


def search_evidence(contest: Contest, mean: np.ndarray, per_output: bool) -> tuple[Prior, float]:
    """Return the prior about a mean with the highest bound, and that bound.

    The folds of the contest have no rows held out.
    """
    (fold,) = contest.folds
    sizes = list_sizes(contest)
    tried = contest.follow(contest.make_prior(mean, v) for v in sizes)
    bounds = np.stack(
        [
            compute_bound(found.prior.select(contest.outputs).apply(fold.fitted), *found.fits[0])
            for found in tried
        ]
    )
    if per_output:
        which = choose_values(bounds, sizes)
        total = bounds[which, np.arange(len(which))].sum()
        return contest.make_prior(mean, sizes[which]), float(total)
    best = int(bounds.sum(axis=1).argmax())
    return contest.make_prior(mean, sizes[best]), float(bounds[best].sum())


def compute_bound(problem: Problem, mean: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Return L of each output, (K,), for weights N(mean, factor factorᵀ), factors triangular."""
    likely = _average_log_likelihood(problem, compute_logits(problem, mean, factor))
    scale = np.broadcast_to(problem.prior_scale, mean.shape).astype(np.float64)
    spread = ((factor / scale[:, :, None]) ** 2).sum(axis=(1, 2))
    shift = (((mean - problem.prior_mean) / scale) ** 2).sum(axis=1)
    diagonal = np.abs(np.diagonal(factor, axis1=1, axis2=2)).astype(np.float64)
    log_ratio = (np.log(scale) - np.log(diagonal)).sum(axis=1)
    return np.asarray(likely - 0.5 * (spread + shift - mean.shape[1]) - log_ratio)


def _average_log_likelihood(problem: Problem, logits: Logits) -> np.ndarray:
    """Return E log p(t | θ) of each output, summed over rows."""
    t = problem.targets.astype(np.float64)
    mu, v = logits
    softplus = np.maximum(mu, 0) + average_logistic(mu, v).excess
    c = problem.counts.reshape(len(t), -1)
    return np.asarray((t * mu - c * softplus).sum(axis=0, dtype=np.float64))
