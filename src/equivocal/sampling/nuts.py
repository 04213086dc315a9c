"""NUTS, the reference: the exact posterior by Hamiltonian Monte Carlo, one output after another.

Hoffman and Gelman (2014), J. Mach. Learn. Res. 15:1593, as NumPyro implements it. Slow, and the
yardstick: no Gaussian is assumed. Needs the extra `nuts` (`pip install "equivocal[nuts]"`). J particles are J draws
in all, over 4 chains; R-hat ≤ 1.01 in every weight counts as converged.
"""

from dataclasses import dataclass
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
        import numpyro.infer
    except ImportError:
        fail("method 'nuts' needs NumPyro: pip install 'equivocal[nuts]'.")
    return numpyro


def _potential(data: tuple[jax.Array, ...]) -> Any:
    """−log posterior of w, up to a constant; the prior is N(0, I)."""
    features, counts, targets, offsets = data

    def potential(w: jax.Array) -> jax.Array:
        a = features @ w + offsets
        return (counts * jax.nn.softplus(a) - targets * a).sum() + 0.5 * (w**2).sum()

    return potential


def init(key: jax.Array, data: tuple[jax.Array, ...], config: NutsConfig, num_warmup: int) -> Any:
    """A kernel and its state at the prior mean, ready for `step`."""
    kernel = _numpyro().infer.NUTS(
        potential_fn=_potential(data), target_accept_prob=config.target_accept
    )
    start = jnp.zeros(data[0].shape[1], data[0].dtype)
    return kernel, kernel.init(key, num_warmup, start, (), {})


def step(key: jax.Array, state: Any) -> tuple[Any, dict[str, Any]]:
    """One trajectory; NumPyro's state carries its own key, so this one is not used."""
    del key
    kernel, chain = state
    moved = kernel.sample(chain, (), {})
    return (kernel, moved), {"accept": moved.accept_prob, "diverging": moved.diverging}


def run(problem: Problem, config: NutsConfig, settings: RunSettings) -> Outcome:
    """J draws of every output."""
    require_bernoulli(problem, "nuts")
    numpyro = _numpyro()
    K, D, J = problem.num_outputs, problem.num_features, settings.num_particles
    per_chain = -(-J // config.num_chains)
    num_warmup = settings.num_steps or 1_000
    features = jnp.asarray(problem.features * problem.prior_scale)
    particles = np.empty((K, J, D), problem.dtype)
    rhat, divergences = np.zeros(K), 0
    for k in range(K):
        one = slice(k, k + 1)
        columns = (problem.targets[:, k], offsets_of(problem, one)[:, 0])
        data = (features, jnp.asarray(problem.counts), *map(jnp.asarray, columns))
        kernel = numpyro.infer.NUTS(
            potential_fn=_potential(data), target_accept_prob=config.target_accept
        )
        mcmc = numpyro.infer.MCMC(
            kernel,
            num_warmup=num_warmup,
            num_samples=per_chain,
            num_chains=config.num_chains,
            chain_method="vectorized",
            progress_bar=False,
        )
        key = output_keys(settings.seed, range(k, k + 1))[0]
        start_keys = jax.random.normal(jax.random.fold_in(key, 1), (config.num_chains, D))
        start = start_keys if config.num_chains > 1 else start_keys[0]
        mcmc.run(key, init_params=start, extra_fields=("diverging",))
        chains = np.asarray(mcmc.get_samples(group_by_chain=True))
        particles[k] = chains.reshape(-1, D)[_interleaved(config.num_chains, per_chain)[:J]]
        rhat[k] = (
            np.max(numpyro.diagnostics.split_gelman_rubin(chains)) if per_chain > 3 else np.inf
        )
        divergences += int(np.asarray(mcmc.get_extra_fields()["diverging"]).sum())
    outcome = Outcome(
        mean=particles.mean(axis=1),
        particles=particles,
        converged=rhat <= RHAT,
        steps=np.full(K, num_warmup + per_chain),
        time=np.full(K, np.nan),
        mean_residual=rhat - 1,
        covariance_residual=np.full(K, np.nan),
        stop_reason=f"R-hat is above {RHAT}; draw more (num_particles) or warm up longer (num_steps)",
        chains=config.num_chains,
    )
    if divergences:
        outcome.notes.append(f"{divergences} divergent trajectories")
    return outcome


def _interleaved(num_chains: int, per_chain: int) -> np.ndarray:
    """Draw i of every chain, then draw i + 1: any leading part is balanced over chains."""
    return np.arange(num_chains * per_chain).reshape(num_chains, per_chain).T.ravel()
