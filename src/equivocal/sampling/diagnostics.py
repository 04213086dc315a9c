"""Whether a Gaussian is enough: importance weights from N(m, P) to the true posterior.

    log w(θ) = log p(t | θ) + log N(θ; m₀, P₀) − log N(θ; m, P),     θ ~ N(m, P)

This is docs/maths.md (25).

Two readings of S such weights:

- Pareto-k: shape of a generalised Pareto tail fitted to the largest weights (Vehtari, Simpson,
  Gelman, Yao and Gabry 2024, J. Mach. Learn. Res. 25:72; the fit is that of Zhang and Stephens
  2009, Technometrics 51:316). Above 0.7 the tails of q are too thin to mend by reweighting. It
  describes only the tails: with nearly constant weights it can be large and mean nothing.
- Covariance shift 3 Var(log w) / D, docs/maths.md (26): how far, relatively, the posterior's
  variances are from q's, averaged over directions. At the variational optimum log w has no linear
  and no quadratic part; if u, its cubic part, is small, E[u² (zzᵀ − I)]/2 is the shift in
  coordinates z where q is N(0, I), and its trace is 3 Var(u). Above `TOO_FAR` the verdict says that
  a Gaussian is not enough. Where the truth is known it lies between one and four times the relative
  Frobenius distance of the covariances (tests/sampling/test_references.py).
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from equivocal.sampling.engine.likelihoods import compute_log_likelihood
from equivocal.sampling.engine.placement import find_largest_anywhere
from equivocal.sampling.engine.plan import make_plan
from equivocal.sampling.engine.problem import Likelihood, Problem
from equivocal.sampling.engine.rows import Block, Blocks, Rows, sum_over_blocks
from equivocal.sampling.engine.settings import Outcome, RunSettings, make_keys
from equivocal.sampling.engine.shapes import Array, Float, PRNGKey
from equivocal.sampling.engine.streaming import iterate_outputs

TOO_FAR = 0.08
FEWEST_DRAWS, MOST_DRAWS = 128, 4096
BLURRED = 0.02  # nats of round-off in log w beyond which it says nothing
WORK = 4e8  # rows × outputs × draws to spend: a second or two on two cores


@partial(jax.jit, static_argnames=("num_draws", "softmax"))
def _compute_log_weights(
    keys: PRNGKey,
    rows: Rows | Blocks,
    mean: Float[Array, "K D"],
    factor: Float[Array, "K D r"],
    num_draws: int,
    softmax: bool,
) -> Float[Array, "_ S"]:
    """Return log w up to a constant, one row per output; for a softmax (1, S), of all classes."""
    rank = factor.shape[-1]
    half = jax.vmap(lambda key: jax.random.normal(key, (rank, num_draws // 2)))(keys)
    z = jnp.concatenate([half, -half], axis=-1)  # antithetic: odd parts of log w average out
    theta = mean[..., None] + jnp.matmul(factor, z)

    def sum_block(block: Block) -> Float[Array, "K S"]:
        logits = jnp.matmul(block.features[None], theta) + block.offsets[..., None]
        if softmax:
            log_y = logits - jax.nn.logsumexp(logits, axis=0)
            return (block.targets[..., None] * log_y).sum(axis=1)
        excess = jnp.log1p(jnp.exp(-jnp.abs(logits)))
        return compute_log_likelihood(logits, excess, block).sum(axis=1)

    prior = -0.5 * (theta**2).sum(axis=1)
    log_w = sum_over_blocks(sum_block, rows) + prior + 0.5 * (z**2).sum(axis=1)
    return log_w.sum(axis=0, keepdims=True) if softmax else log_w


def diagnose_gaussian(
    problem: Problem, outcome: Outcome, settings: RunSettings
) -> tuple[np.ndarray, np.ndarray]:
    """Return Pareto-k and covariance shift of each output; NaN but for Gaussians of full rank."""
    K, D = outcome.mean.shape
    shape, shift = np.full(K, np.nan), np.full(K, np.nan)
    mean, factor = outcome.mean, outcome.factor
    if factor is None or factor.shape[-1] < D:
        return shape, shift
    plan = make_plan(problem, settings.memory_budget, per_output=D * D, per_row=D)
    softmax = problem.likelihood is Likelihood.SOFTMAX
    affordable = WORK / (float(find_largest_anywhere(problem.num_rows)) * problem.num_outputs)
    S = 1 << int(np.log2(np.clip(affordable, FEWEST_DRAWS, MOST_DRAWS)))
    # The working space is rows × outputs × draws: keep it as small as the flow's own.
    together = K if softmax else max(1, min(plan.slots, plan.slots * 3 * D // S))
    for some, rows in iterate_outputs(problem, plan, together):
        outputs = slice(some.start, some.stop)
        keys = make_keys(settings.seed + 1, some)  # other draws than the particles
        log_w = np.asarray(
            _compute_log_weights(keys, rows, mean[outputs], factor[outputs], S, softmax), np.float64
        )
        dimension = K * D if softmax else D
        shift[outputs] = 3 * log_w.var(axis=1) / dimension
        # log w is a sum over all rows: past a point its variance is that of its last digits
        blurred = np.abs(log_w).max(axis=1) * np.finfo(problem.dtype).eps > BLURRED
        shift[outputs] = np.where(blurred, np.nan, shift[outputs])
        shape[outputs] = fit_pareto_shape(log_w)
    return shape, shift


def fit_pareto_shape(log_weights: np.ndarray) -> np.ndarray:
    """Fit the shape k of a generalised Pareto distribution to the largest weights of each row.

    >>> rng = np.random.default_rng(0)
    >>> fit_pareto_shape(rng.exponential(0.5, (1, 100_000))).round(1)  # tails like w^(−2)
    array([0.5])
    """
    S = log_weights.shape[1]
    tail = int(min(S / 5, 3 * np.sqrt(S)))
    ordered = np.sort(log_weights - log_weights.max(axis=1, keepdims=True), axis=1)
    excess = np.exp(ordered[:, -tail:]) - np.exp(ordered[:, -tail - 1, None])
    shape = np.full(len(excess), -np.inf)  # constant weights have no tail
    positive = (excess > 0).sum(axis=1)  # fewer than `tail` where weights are tied
    has_tail = (positive >= 5) & (excess[:, -1] >= 1e-12)
    for n in np.unique(positive[has_tail]):
        alike = has_tail & (positive == n)
        shape[alike] = _fit_pareto(excess[alike, -n:])
    return shape


def _fit_pareto(x: np.ndarray) -> np.ndarray:
    """Return Zhang and Stephens' estimate for rows of rising exceedances, drawn to ½ by ten."""
    n = x.shape[1]
    candidates = 30 + int(np.sqrt(n))
    b = 1 - np.sqrt(candidates / (np.arange(1, candidates + 1) - 0.5))
    b = b / (3 * x[:, int(n / 4 + 0.5) - 1, None]) + 1 / x[:, -1:]
    k = np.log1p(-b[..., None] * x[:, None]).mean(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):  # k = 0 where exceedances are all tiny
        log_likelihood = n * (np.log(-b / k) - k - 1)
    usable = np.isfinite(log_likelihood) & (np.abs(b * x[:, -1:]) > 1e-12)  # b = 0: exponential
    log_likelihood = np.where(usable, log_likelihood, -np.inf)
    best = np.where(usable.any(axis=1), log_likelihood.max(axis=1), 0)[:, None]
    weight = np.exp(log_likelihood - best)
    b_mean = (b * weight).sum(axis=1) / np.maximum(weight.sum(axis=1), 1)  # 0 where none is usable
    shape = np.log1p(-b_mean[:, None] * x).mean(axis=1)
    return np.where(usable.any(axis=1), (n * shape + 10 * 0.5) / (n + 10), 0.0)
