"""NUTS, the reference: the exact posterior by Hamiltonian Monte Carlo, one output after another.

Hoffman and Gelman (2014), J. Mach. Learn. Res. 15:1593, as NumPyro implements it. It is slow, but
assumes no Gaussian, so other methods are compared with it. It needs the extra `nuts`
(`pip install "lastlayer[nuts]"`). The J particles are J draws in all, over 4 chains; an R̂ of at
most 1.01 in every weight counts as converged.

It draws z instead of the weights, w = m + G z with the Gaussian N(m, GGᵀ) of `variational`: the
same posterior, in coordinates where it is nearly N(0, I). Where data and prior differ by powers of
ten in precision, trajectories are then tens of times shorter.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lastlayer.checks import check_int, check_positive, fail
from lastlayer.convergence import FEWEST, R_HAT, compute_convergence
from lastlayer.outcome import Outcome, RunSettings, make_keys
from lastlayer.problem import Problem
from lastlayer.variational import fit_gaussian, get_fit

NUM_WARMUP = 1_000


@dataclass(frozen=True, kw_only=True)
class NutsConfig:
    """Settings of NumPyro. `num_steps` of the run is the length of the warm-up."""

    num_chains: int = 4
    target_accept: float = 0.8

    def __post_init__(self) -> None:
        check_int(self.num_chains, "num_chains", least=1)
        check_positive(self.target_accept, "target_accept", below=1.0)


def _import_numpyro() -> Any:
    try:
        import numpyro
        import numpyro.distributions
        import numpyro.infer
    except ImportError:
        fail("method 'nuts' needs NumPyro: pip install 'lastlayer[nuts]'.")
    return numpyro


def _define_model(
    features: jax.Array,
    counts: jax.Array,
    targets: jax.Array,
    offsets: jax.Array,
    mean: jax.Array,
    factor: jax.Array,
) -> None:
    """Define the model of one output: w = m + G z has the prior N(0, I), and z is sampled."""
    numpyro = _import_numpyro()
    standard = numpyro.distributions.Normal(jnp.zeros(features.shape[1], features.dtype), 1)
    z = numpyro.sample("z", standard.to_event(1))
    w = mean + factor @ z
    a = features @ w + offsets
    log_likelihood = (targets * a - counts * jax.nn.softplus(a)).sum()
    numpyro.factor("log_posterior", log_likelihood - 0.5 * (w @ w) + 0.5 * (z @ z))


def _make_kernel(config: NutsConfig) -> Any:
    return _import_numpyro().infer.NUTS(_define_model, target_accept_prob=config.target_accept)


def run(problem: Problem, config: NutsConfig, settings: RunSettings) -> Outcome:
    """Draw J particles from every output's posterior."""
    K, D, J = problem.num_outputs, problem.num_features, settings.num_particles
    per_chain = -(-J // config.num_chains)
    num_warmup = settings.num_steps or NUM_WARMUP
    particles = np.empty((K, J, D), problem.dtype)
    r_hat, ess, divergences = np.full(K, np.inf), np.zeros(K), 0
    features = problem.features * problem.prior_scale
    unlimited = replace(settings, num_steps=None, report=None)
    mean, factor = get_fit(fit_gaussian(problem, unlimited))
    for k in range(K):
        key = make_keys(settings.seed, range(k, k + 1))[0]
        offsets = problem.compute_offsets(slice(k, k + 1))[:, 0]
        own = (problem.targets[:, k], offsets, mean[k], factor[k])
        data = tuple(map(jnp.asarray, (features, problem.counts, *own)))
        drawn, diverging = _run_chains(key, data, config, num_warmup, per_chain)
        chains = np.asarray(drawn)
        particles[k] = chains.swapaxes(0, 1).reshape(-1, D)[:J]  # any leading part is balanced
        divergences += int(np.asarray(diverging).sum())
        if per_chain >= FEWEST:
            r_hat[k], ess[k] = compute_convergence(chains.transpose(2, 0, 1))
        settings.tell(k + 1, K)
    return Outcome(
        mean=particles.mean(axis=1),
        particles=particles,
        converged=r_hat <= R_HAT,
        steps=np.full(K, num_warmup + per_chain),
        stop_reason=f"R-hat is above {R_HAT}: more num_particles or, for warm-up, num_steps",
        notes=[f"{divergences} divergent trajectories"] * bool(divergences),
        chains=config.num_chains,
        r_hat=r_hat,
        ess=ess,
    )


@partial(jax.jit, static_argnames=("config", "num_warmup", "per_chain"))
def _run_chains(
    key: jax.Array,
    data: tuple[jax.Array, ...],
    config: NutsConfig,
    num_warmup: int,
    per_chain: int,
) -> tuple[jax.Array, jax.Array]:
    """Return draws (chains, draws, D) of one output, and which trajectories diverged.

    It is compiled as a whole, since NumPyro's own driver compiles again for every output.
    """
    mcmc = _import_numpyro().infer.MCMC(
        _make_kernel(config),
        num_warmup=num_warmup,
        num_samples=per_chain,
        num_chains=config.num_chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(key, *data, extra_fields=("diverging",))
    *_, mean, factor = data
    draws = mean + mcmc.get_samples(group_by_chain=True)["z"] @ factor.T
    return draws, mcmc.get_extra_fields(group_by_chain=True)["diverging"]
