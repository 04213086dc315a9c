"""The evidence bound L, docs/maths.md (4), of a Gaussian fit, and the prior that it is highest for.

    L_k = E_q log p(t_k | θ_k) − KL(q_k ‖ prior)  ≤  log p(t_k)

For a softmax L_k holds the answers of class k, and only the sum over k is a bound. L is a good
estimate of the log evidence (docs/sampling.md has a table), but rows that the features were trained
on are not evidence for weights on these features: there it favours priors that are too wide.
"""

import numpy as np

from equivocal.sampling.engine.problem import Likelihood, Problem
from equivocal.sampling.held_out import Logits, compute_logits, draw_log_softmax
from equivocal.sampling.predictions import average_logistic
from equivocal.sampling.prior_contest import Contest, Prior
from equivocal.sampling.prior_search import choose_values, list_sizes


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
    if problem.likelihood is Likelihood.SOFTMAX:
        drawn = [(t * log_y).sum(axis=0) for log_y in draw_log_softmax(logits)]
        return np.asarray(np.mean(drawn, axis=0))
    mu, v = logits
    softplus = np.maximum(mu, 0) + average_logistic(mu, v).excess
    c = problem.counts.reshape(len(t), -1)
    return np.asarray((t * mu - c * softplus).sum(axis=0, dtype=np.float64))
