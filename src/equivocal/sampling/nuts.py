"""NUTS, the reference: the exact posterior by Hamiltonian Monte Carlo, one output after another.

Hoffman and Gelman (2014), J. Mach. Learn. Res. 15:1593, as NumPyro implements it. Slow, and the
yardstick: no Gaussian is assumed. Needs the extra `nuts` (`pip install "equivocal[nuts]"`). The J
particles are J draws in all, over 4 chains; R-hat ≤ 1.01 in every weight counts as converged.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equivocal.sampling.ensembles import require_bernoulli
from equivocal.sampling.inputs import checked_int, checked_positive, fail
from equivocal.sampling.problem import Problem
from equivocal.sampling.result import Outcome
from equivocal.sampling.rows import offsets_of
from equivocal.sampling.settings import RunSettings, output_keys

__all__ = ["NutsConfig", "init", "run", "step"]

RHAT = 1.01
NUM_WARMUP = 1_000


@dataclass(frozen=True, kw_only=True)
class NutsConfig:
    """Settings handed to NumPyro. `num_steps` of the run is the length of the warm-up."""

    num_chains: int = 4
    target_accept: float = 0.8

    def __post_init__(self) -> None:
        checked_int(self.num_chains, "num_chains", least=1)
        checked_positive(self.target_accept, "target_accept", below=1.0)


def _numpyro() -> Any:
    try:
        import numpyro
        import numpyro.diagnostics
        import numpyro.distributions
        import numpyro.infer
    except ImportError:
        fail("method 'nuts' needs NumPyro: pip install 'equivocal[nuts]'.")
    return numpyro


def _model(features: jax.Array, counts: jax.Array, targets: jax.Array, offsets: jax.Array) -> None:
    """One output, in coordinates where the prior is N(0, I)."""
    numpyro = _numpyro()
    prior = numpyro.distributions.Normal(jnp.zeros(features.shape[1], features.dtype), 1)
    w = numpyro.sample("w", prior.to_event(1))
    a = features @ w + offsets
    numpyro.factor("log_likelihood", (targets * a - counts * jax.nn.softplus(a)).sum())


def _kernel(config: NutsConfig) -> Any:
    return _numpyro().infer.NUTS(_model, target_accept_prob=config.target_accept)


def init(
    key: jax.Array, data: tuple[jax.Array, ...], config: NutsConfig, num_warmup: int
) -> tuple[Any, Any]:
    """A kernel and its first state, ready for `step`."""
    kernel = _kernel(config)
    return kernel, kernel.init(key, num_warmup, None, data, {})


def step(
    key: jax.Array, state: tuple[Any, Any], data: tuple[jax.Array, ...]
) -> tuple[tuple[Any, Any], dict[str, Any]]:
    """One trajectory; NumPyro's state carries its own key, so this one is not used."""
    del key
    kernel, chain = state
    moved = kernel.sample(chain, data, {})
    return (kernel, moved), {"accept": moved.accept_prob, "diverging": moved.diverging}


def run(problem: Problem, config: NutsConfig, settings: RunSettings) -> Outcome:
    """J draws of every output."""
    require_bernoulli(problem, "nuts")
    K, D, J = problem.num_outputs, problem.num_features, settings.num_particles
    per_chain = -(-J // config.num_chains)
    num_warmup = settings.num_steps or NUM_WARMUP
    particles = np.empty((K, J, D), problem.dtype)
    rhat, divergences = np.full(K, np.inf), 0
    for k in range(K):
        key = output_keys(settings.seed, range(k, k + 1))[0]
        drawn, diverging = _chains(key, _data_of(problem, k), config, num_warmup, per_chain)
        chains = np.asarray(drawn)
        particles[k] = chains.swapaxes(0, 1).reshape(-1, D)[:J]  # any leading part is balanced
        divergences += int(np.asarray(diverging).sum())
        if per_chain > 3:
            rhat[k] = np.max(_numpyro().diagnostics.split_gelman_rubin(chains))
    return Outcome(
        mean=particles.mean(axis=1),
        particles=particles,
        converged=rhat <= RHAT,
        steps=np.full(K, num_warmup + per_chain),
        time=np.full(K, np.nan),
        mean_residual=rhat - 1,
        covariance_residual=np.full(K, np.nan),
        stop_reason=f"R-hat is above {RHAT}: more num_particles or, for warm-up, num_steps",
        notes=[f"{divergences} divergent trajectories"] * bool(divergences),
        chains=config.num_chains,
    )


@partial(jax.jit, static_argnames=("config", "num_warmup", "per_chain"))
def _chains(
    key: jax.Array,
    data: tuple[jax.Array, ...],
    config: NutsConfig,
    num_warmup: int,
    per_chain: int,
) -> tuple[jax.Array, jax.Array]:
    """(chains, draws, D) of one output, and which trajectories diverged.

    Compiled as a whole: left to itself, NumPyro's driver compiles anew for every output.
    """
    mcmc = _numpyro().infer.MCMC(
        _kernel(config),
        num_warmup=num_warmup,
        num_samples=per_chain,
        num_chains=config.num_chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(key, *data, extra_fields=("diverging",))
    draws = mcmc.get_samples(group_by_chain=True)["w"]
    return draws, mcmc.get_extra_fields(group_by_chain=True)["diverging"]


def _data_of(problem: Problem, k: int) -> tuple[jax.Array, ...]:
    """What `_model` takes, for output k."""
    return (
        jnp.asarray(problem.features * problem.prior_scale),
        jnp.asarray(problem.counts),
        jnp.asarray(problem.targets[:, k]),
        jnp.asarray(offsets_of(problem, slice(k, k + 1))[:, 0]),
    )
