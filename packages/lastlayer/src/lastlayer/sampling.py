"""`sample_posterior`: the one entry point to all samplers, which are listed in `arguments`.

Arguments are checked and become a `Problem`; the method is run for outputs that share their prior;
its outcome is diagnosed, refined where that was asked for, and turned into a `Posterior`.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import jax
import numpy as np

from lastlayer.arguments import (
    DEFAULT,
    EXACT,
    METHODS,
    Request,
    check_method,
)
from lastlayer.covariance import Draws, Root, find_subspace
from lastlayer.ensembles import draw_particles
from lastlayer.exact import refine as sample_exactly
from lastlayer.machine import collect_versions, use_one_blas_thread
from lastlayer.outcome import Outcome, RunSettings, is_far, make_info
from lastlayer.posterior import Posterior
from lastlayer.prior import Choice, choose_prior
from lastlayer.problem import Likelihood, Problem
from lastlayer.seeds import Seed
from lastlayer.verdict import diagnose_gaussian

__all__ = ["METHODS", "check_method", "sample_posterior"]

RECORDED = ("num_particles", "num_steps", "tolerance", "seed", "refine", "evidence")  # in `info`
# Outputs that share their prior variances: their numbers, their problem, and its solution.
Part = tuple[np.ndarray, Problem, Outcome]


def sample_posterior(
    features: Any,
    targets: Any,
    *,
    counts: Any = None,
    prior_mean: Any = None,
    prior_variance: Any = "auto",
    validation: Any = None,
    groups: Any = None,
    trained: Any = None,
    likelihood: str = "bernoulli",
    method: str | None = None,
    num_particles: int | None = None,
    seed: Seed = 0,
    diagnose: bool = True,
    refine: bool = False,
    **options: Any,
) -> Posterior:
    """Sample the posterior over the weights of K logistic outputs that share one feature matrix.

    Parameters
    ----------
    features : (N, D)
        ψ, one row per observation. No intercept is added: include a column of ones for it.
    targets : (N,) or (N, K)
        1 for yes and 0 for no, fractions between, or sums over repetitions (then with `counts`).
        For a softmax: class numbers (N,), or (N, K) rows that sum to the count.
    counts : (N,) or (N, K), optional
        How often each row was seen, or each target: whole or fractional; one by default. A target
        with count 0 is missing, and may be NaN.
    prior_mean : number, (D,) or (K, D), optional
        Mean of the prior N(prior_mean, diag(prior_variance)). By default `trained`, or zero
        where there is none or "auto" chooses.
    prior_variance : "auto", number, (D,), (K, 1) or (K, D)
        Its variances, for all outputs; a row for each is not for a softmax and not for methods that
        can be observed. "auto" chooses one number by rows that are left out of the fit, with a wide
        variance for intercepts (constant columns); see `lastlayer.prior`. With fewer than 30
        distinct rows it is 1.
    validation : (features, targets) or (features, targets, counts), optional
        At least 30 rows that neither the posterior nor its features have seen, by which "auto"
        chooses, and on which `info.message` compares the posterior with `trained`. Without them,
        parts of the rows are left out in turn.
    groups : (N,), optional
        Which rows belong together, such as copies of one row or rows of one participant: they are
        left out together.
    trained : (K, D), optional
        Weights of the network that the features come from. "auto" may move the posterior's mean
        towards them; the covariance stays the posterior's.
    likelihood : "bernoulli" or "softmax"
        K yes/no outputs, or one of K classes.
    method : str, optional
        "exact-flow", "dropout-deterministic", "laplace", "hmc", "nuts"; `variational`,
        `algorithm1`, `laplace`, `exact` and `nuts` in this package say what each computes. By
        default "exact-flow", and for a softmax "hmc", its only method.
    num_particles : int, optional
        J; by default max(200, 2 D), for "hmc" 1,600 and for "nuts" 4,000 draws in all.
    seed : int or numpy.random.Generator
        The same seed, from 0 to 2³² − 1, gives the same bits. From a generator one seed is drawn;
        `info.settings["seed"]` holds it.
    diagnose : bool
        Whether to estimate how far the posterior is from a Gaussian, for the Gaussian methods.
        Without it `info.gaussian_enough` is True, and `info.message` says that it was not checked.
    refine : bool
        For the Gaussian methods: sample those outputs exactly (by "hmc") for which a Gaussian is
        not enough; `info.refined` says which.
    **options
        Options of every run, which `lastlayer.RunOptions` lists (`num_steps`, `tolerance`, `dtype`,
        `evidence`, `rank`, `memory_budget`, `keep_on_device`, `observe`, `report`), and of the
        method: `taming`, `dropout_rate`, `step_size`, `num_chains`, …

    Returns
    -------
    Posterior
        Particles, mean, covariance and predictions; `info.message` says whether to trust them.

    Raises
    ------
    lastlayer.errors.UserError
        If an argument is not what it should be; the message names it and a way out.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[1.0, -1.0], [1.0, 0.0], [1.0, 2.0]])  # first column: intercept
    >>> posterior = sample_posterior(x, [0, 0, 1], prior_variance=1.0)
    >>> posterior.info.message.split("; ")[1]
    'a Gaussian describes the posterior well.'
    >>> posterior.predict_proba(x).shape
    (3, 1)
    """
    if method is None:
        method = EXACT if likelihood == Likelihood.SOFTMAX else DEFAULT
    given = {name: value for name, value in locals().items() if name != "options"}
    began = time.perf_counter()
    config, run = check_method(method, options, tuple(given))
    problem, settings, question = Request(**given, options=run).check()
    problem.check_range()
    with _set_precision(problem):
        choice = None
        if question is not None:
            choice = choose_prior(problem, question)
            problem = choice.problem
            problem.check_range()
        parts = [
            (outputs, part, _run(part, outputs, method, config, settings, diagnose))
            for outputs, part in problem.split()
        ]
        return _assemble(problem, parts, Provenance(method, config, settings, choice, began))


@contextmanager
def _set_precision(problem: Problem) -> Iterator[None]:
    """Compute in the precision of the problem.

    On a GPU, float32 products would otherwise be rounded to TF32, and nothing would converge.
    """
    with (
        jax.enable_x64(problem.dtype == np.float64),
        jax.default_matmul_precision("highest"),
        use_one_blas_thread(),
    ):
        yield


def _run(
    problem: Problem,
    outputs: np.ndarray,
    method: str,
    config: Any,
    settings: RunSettings,
    diagnose: bool,
) -> Outcome:
    """Run a method on outputs that share their prior variances, diagnose and refine its outcome."""
    outputs = np.resize(outputs, problem.num_outputs)  # filled up, as the problem is
    settings, subspace = replace(settings, numbers=outputs), None
    if settings.rank is not None:
        subspace, problem = find_subspace(problem, settings.rank)
    outcome: Outcome = METHODS[method].run(problem, config, settings)
    if diagnose and METHODS[method].gaussian:
        outcome.covariance_shift = diagnose_gaussian(problem, outcome, settings)
    if settings.refine and is_far(outcome).any():
        sample_exactly(problem, outcome, is_far(outcome), settings)
    if subspace is not None:
        subspace.expand(outcome, settings.seed)
    return outcome


@dataclass(frozen=True)
class Provenance:
    """The method and settings that a posterior was computed with."""

    method: str
    config: Any
    settings: RunSettings
    choice: Choice | None
    began: float


def _assemble(problem: Problem, parts: list[Part], made: Provenance) -> Posterior:
    """Merge the outcomes of all outputs, and turn w back into weights, with a verdict."""
    outcome, covariance = _merge(problem, parts, made.settings)
    if made.choice is not None:
        problem = made.choice.move(outcome)
        outcome.notes = [*outcome.notes, *[made.choice.note] * bool(made.choice.note)]
    draws: np.ndarray | Draws
    if outcome.particles is not None:
        draws = _to_weights(problem, outcome.particles)
    else:
        draws = Draws(
            mean=_to_weights(problem, outcome.mean),
            root=_make_root(problem, outcome),
            num_particles=made.settings.num_particles,
            seed=made.settings.seed,
        )
    info = make_info(
        outcome,
        draws.shape,
        method=made.method,
        settings=_record(problem, made),
        versions=collect_versions(),
        seconds=time.perf_counter() - made.began,
    )
    return Posterior(
        draws=draws,
        mean=_to_weights(problem, outcome.mean),
        spread=covariance,
        info=info,
        likelihood=problem.likelihood,
        gaussian=METHODS[made.method].gaussian,
        chains=outcome.chains,
    )


def _record(problem: Problem, made: Provenance) -> dict[str, Any]:
    """Return the settings of the run as plain values, for `info.settings`."""
    config = {k: v for k, v in asdict(made.config).items() if not isinstance(v, np.ndarray)}
    scale = problem.prior_scale
    if (scale == scale.flat[0]).all():
        config["prior_variance"] = float(scale.flat[0] ** 2)
    return {
        **config,
        **(made.choice.settings if made.choice is not None else {}),
        **{name: getattr(made.settings, name) for name in RECORDED},
        "likelihood": str(problem.likelihood),
        "dtype": str(problem.dtype),
        "device": jax.devices()[0].device_kind,
    }


def _merge(
    problem: Problem, parts: list[Part], settings: RunSettings
) -> tuple[Outcome, np.ndarray | None]:
    """Return one outcome of all outputs and, where it has particles, their covariances."""
    outcomes = [outcome for _, _, outcome in parts]
    if len(parts) > 1 and any(outcome.refined.any() for outcome in outcomes):
        for outputs, _, outcome in parts:
            draw_particles(outcome, settings, np.resize(outputs, len(outcome.mean)))
    drawn = outcomes[0].particles is not None
    covariances = [_compute_covariance(part, outcome) for _, part, outcome in parts if drawn]
    if len(parts) == 1:
        return outcomes[0], covariances[0] if drawn else None

    def join(values: list[np.ndarray]) -> np.ndarray:
        """Put the values of each part in the places of its own outputs."""
        whole = np.empty((problem.num_outputs, *values[0].shape[1:]), values[0].dtype)
        for (outputs, _, _), value in zip(parts, values, strict=True):
            whole[outputs] = value[: len(outputs)]
        return whole

    merged: dict[str, Any] = {
        name: join([getattr(outcome, name) for outcome in outcomes])
        for name, value in vars(outcomes[0]).items()
        if isinstance(value, np.ndarray) and name != "factor"
    }
    if not drawn:
        merged["factor"] = join([_make_root(part, outcome).expand() for _, part, outcome in parts])
        merged["subspace"] = None
    notes = dict.fromkeys(note for outcome in outcomes for note in outcome.notes)
    reasons = dict.fromkeys(outcome.stop_reason for outcome in outcomes if outcome.stop_reason)
    merged |= {"notes": list(notes), "stop_reason": "; ".join(reasons)}
    return replace(outcomes[0], **merged), join(covariances) if drawn else None


def _make_root(problem: Problem, outcome: Outcome) -> Root:
    """Return the root of a Gaussian's covariance; it holds scales that differ between outputs."""
    scale = problem.prior_scale
    scale = scale if scale.ndim == 1 else np.ones_like(scale[0])
    return Root(inner=outcome.factor, scale=scale, subspace=outcome.subspace)


def _to_weights(problem: Problem, w: np.ndarray) -> np.ndarray:
    """Return θ = m₀ + √v w, (K, D) or (K, J, D), where outputs may have their own v."""
    scale, m0 = problem.prior_scale, problem.prior_mean
    if w.ndim == 3:
        scale, m0 = scale if scale.ndim == 1 else scale[:, None], m0[:, None]
    return np.asarray(scale * w + m0)


def _compute_covariance(problem: Problem, outcome: Outcome) -> np.ndarray:
    """Return the covariance of the weights: the run's own, or the particles'."""
    if outcome.covariance is not None:
        return outcome.covariance * np.outer(problem.prior_scale, problem.prior_scale)
    particles = outcome.particles
    assert particles is not None, "a method gives particles or a factor"
    deviations = (particles - particles.mean(axis=1, keepdims=True)) * problem.prior_scale
    return np.matmul(deviations.swapaxes(1, 2), deviations) / (particles.shape[1] - 1)
