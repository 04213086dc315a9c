"""`sample_posterior`: one function in front of all samplers."""

import inspect
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from importlib import metadata
from typing import Any

import jax
import numpy as np

from equivocal.errors import did_you_mean
from equivocal.machine import total_memory
from equivocal.sampling import (
    aldi,
    dropout_deterministic,
    exact_flow,
    homotopy,
    laplace,
    mean_field,
    nuts,
)
from equivocal.sampling.diagnostics import importance_diagnostics
from equivocal.sampling.draws import draw
from equivocal.sampling.info import make_info
from equivocal.sampling.inputs import check_choice, checked_int, checked_positive, fail, shown
from equivocal.sampling.plan import make_plan
from equivocal.sampling.posterior import Posterior
from equivocal.sampling.problem import Likelihood, Problem, collapse
from equivocal.sampling.result import Outcome
from equivocal.sampling.settings import Observer, RunSettings

__all__ = ["METHODS", "Method", "sample_posterior"]

FEWEST_PARTICLES = 200
LARGEST_SEED = 2**32 - 1  # what JAX takes in either precision
MOST_STEPS = 10**9


@dataclass(frozen=True)
class Method:
    """A sampler as the front sees it."""

    config: type
    run: Callable[[Problem, Any, RunSettings], Outcome]
    gaussian: bool = False  # its answer is N(mean, covariance), particles are drawn from it
    draws: int | None = None  # particles unless told otherwise; None: enough for D
    observable: bool = False  # its ensemble can be watched along τ


METHODS = {
    "exact-flow": Method(exact_flow.ExactFlowConfig, exact_flow.run, gaussian=True),
    "mean-field": Method(mean_field.MeanFieldConfig, mean_field.run, gaussian=True),
    "dropout-deterministic": Method(
        dropout_deterministic.DropoutConfig, dropout_deterministic.run, observable=True
    ),
    "homotopy": Method(homotopy.HomotopyConfig, homotopy.run, observable=True),
    "aldi": Method(aldi.AldiConfig, aldi.run, observable=True),
    "laplace": Method(laplace.LaplaceConfig, laplace.run, gaussian=True),
    "nuts": Method(nuts.NutsConfig, nuts.run, draws=4_000),
}


def sample_posterior(
    features: Any,
    targets: Any,
    *,
    counts: Any = None,
    prior_mean: Any = 0.0,
    prior_variance: Any = 1.0,
    likelihood: str = "bernoulli",
    method: str = "exact-flow",
    num_particles: int | None = None,
    num_steps: int | None = None,
    tolerance: float | None = None,
    seed: int = 0,
    dtype: Any = None,
    memory_budget: int | None = None,
    observe: Observer | None = None,
    **options: Any,
) -> Posterior:
    """Posterior over the weights of K logistic outputs that share one feature matrix.

    Parameters
    ----------
    features : (N, D)
        ψ, one row per observation. No intercept is added: a column of ones is the caller's.
    targets : (N,) or (N, K)
        1 for yes and 0 for no, fractions between, or sums over repetitions (then with `counts`).
        For a softmax: class numbers (N,), or (N, K) rows that sum to the count.
    counts : (N,), optional
        How often each row was seen, whole or fractional; one by default.
    prior_mean : number, (D,) or (K, D)
        Mean of the prior N(prior_mean, diag(prior_variance)).
    prior_variance : number or (D,)
        Its variances.
    likelihood : "bernoulli" or "softmax"
        K yes/no outputs, or one of K classes.
    method : str
        "exact-flow", "mean-field", "dropout-deterministic", "homotopy", "aldi", "laplace", "nuts";
        each has a module of its own in this package that says what it computes.
    num_particles : int, optional
        J; by default max(200, 2 D), for "nuts" 4,000 draws in all.
    num_steps : int, optional
        The most steps to take; by default the method's own limit.
    tolerance : float, optional
        Residual of the fixed-point equations, in posterior standard deviations, at which a flow has
        converged; 5e-4 in float32 and 1e-7 in float64 by default.
    seed : int
        The same seed gives the same bits; from 0 to 2³² − 1.
    dtype : "float32" or "float64", optional
        By default that of the features; whole numbers are taken as float64.
    memory_budget : int, optional
        Bytes of working space; a quarter of what the device has by default.
    observe : callable, optional
        Called with a `Snapshot` after every step of a method that moves an ensemble along τ.
    **options
        What the method alone knows: `taming`, `dropout_rate`, `step_size`, `expectations`, …

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[1.0, -1.0], [1.0, 0.0], [1.0, 2.0]])  # first column: intercept
    >>> posterior = sample_posterior(x, [0, 0, 1])
    >>> posterior.info.message.split("; ")[1]
    'a Gaussian describes the posterior well.'
    >>> posterior.predict_proba(x).shape
    (3, 1)
    """
    began = time.perf_counter()
    check_choice(method, "method", list(METHODS))
    check_choice(likelihood, "likelihood", list(Likelihood))
    chosen = METHODS[method]
    config = _configured(chosen.config, method, options)
    if observe is not None and not chosen.observable:
        watched = ", ".join(name for name, other in METHODS.items() if other.observable)
        fail(f"method {method!r} cannot be observed along τ; these can: {watched}.")
    kind = Likelihood(likelihood)
    problem = collapse(
        Problem.build(features, targets, counts, prior_mean, prior_variance, kind, dtype)
    )
    settings = RunSettings(
        num_particles=_particle_number(num_particles, chosen, problem),
        num_steps=None
        if num_steps is None
        else checked_int(num_steps, "num_steps", least=1, most=MOST_STEPS),
        tolerance=_tolerance(tolerance, problem),
        seed=checked_int(seed, "seed", least=0, most=LARGEST_SEED),
        memory_budget=None
        if memory_budget is None
        else int(checked_positive(memory_budget, "memory_budget")),
        observe=observe,
    )
    # On GPUs float32 products would otherwise lose half their digits to TF32: nothing converges.
    with jax.enable_x64(problem.dtype == np.float64), jax.default_matmul_precision("highest"):
        outcome = chosen.run(problem, config, settings)
        return _finished(problem, outcome, chosen, method, config, settings, began)


def _configured(kind: type, method: str, options: dict[str, Any]) -> Any:
    known = [field.name for field in fields(kind)]
    for name in options:
        if name not in known:
            takes = f"; it takes {', '.join(known) or 'none'}."
            own = list(inspect.signature(sample_posterior).parameters)
            near = did_you_mean(name, [*known, *own[:-1]])  # without **options
            fail(f"method {method!r} has no option {name!r}{near or takes}")
    return kind(**options)


def _particle_number(given: int | None, method: Method, problem: Problem) -> int:
    if given is None:
        return method.draws or max(FEWEST_PARTICLES, 2 * problem.num_features)
    J = checked_int(given, "num_particles", least=2)
    size = J * problem.num_outputs * problem.num_features * problem.dtype.itemsize
    if size > (memory := total_memory()):
        fail(
            f"num_particles must fit into the {memory / 2**30:.3g} GiB of this machine, got "
            f"{shown(J)} × {problem.num_outputs} outputs × {problem.num_features} features; use "
            f"at most {memory * J // size}."
        )
    return J


def _tolerance(given: float | None, problem: Problem) -> float:
    if given is None:
        return 1e-7 if problem.dtype == np.float64 else 5e-4
    return checked_positive(given, "tolerance")


def _finished(
    problem: Problem,
    outcome: Outcome,
    chosen: Method,
    method: str,
    config: Any,
    settings: RunSettings,
    began: float,
) -> Posterior:
    """From coordinates w back to weights, with diagnostics."""
    K, D = outcome.mean.shape
    J = settings.num_particles
    pareto_k = shift = np.full(K, np.nan)
    if outcome.factor is not None and outcome.factor.shape[-1] == D:
        plan = make_plan(problem, settings.memory_budget, per_output=D * D, per_row=D, pad=False)
        pareto_k, shift = importance_diagnostics(
            problem, outcome.mean, outcome.factor, settings.seed, plan.slots, plan.block_rows
        )
    if outcome.particles is None:
        assert outcome.factor is not None, "a method gives particles or a factor"
        outcome.particles = draw(outcome.mean, outcome.factor, J, settings.seed)
    particles = problem.to_weights(outcome.particles)
    covariance = _covariance(problem, outcome)
    info = make_info(
        outcome,
        particles,
        pareto_k,
        shift,
        method=method,
        confined=J <= D and outcome.in_subspace,
        settings={
            **asdict(config),
            "num_particles": J,
            "num_steps": settings.num_steps,
            "tolerance": settings.tolerance,
            "seed": settings.seed,
            "likelihood": str(problem.likelihood),
            "dtype": str(problem.dtype),
        },
        versions=_versions(),
        seconds=time.perf_counter() - began,
    )
    return Posterior(
        particles=particles,
        mean=problem.to_weights(outcome.mean),
        covariance=covariance,
        info=info,
        likelihood=problem.likelihood,
        gaussian=chosen.gaussian,
        chains=outcome.chains,
    )


def _covariance(problem: Problem, outcome: Outcome) -> np.ndarray:
    """Of the Gaussian, of the whole run, or of the particles, whichever says most."""
    if outcome.factor is not None:
        scaled = outcome.factor * problem.prior_scale[:, None]
        return np.matmul(scaled, scaled.swapaxes(1, 2))
    if outcome.covariance is not None:
        return outcome.covariance * np.outer(problem.prior_scale, problem.prior_scale)
    particles = outcome.particles
    assert particles is not None, "a method gives particles or a factor"
    deviations = (particles - particles.mean(axis=1, keepdims=True)) * problem.prior_scale
    return np.matmul(deviations.swapaxes(1, 2), deviations) / (particles.shape[1] - 1)


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in ("equivocal", "jax", "jaxlib", "numpy"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:  # imported from a source tree
            versions[package] = "unknown"
    return versions
