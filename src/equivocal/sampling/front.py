"""`sample_posterior`: one function in front of all samplers, which `methods` lists."""

import inspect
import time
import warnings
from dataclasses import asdict, replace
from typing import Any

import jax
import numpy as np

from equivocal.machine import use_one_blas_thread
from equivocal.sampling.assembly import Made, assemble
from equivocal.sampling.diagnostics import diagnose_gaussian, is_far
from equivocal.sampling.engine.inputs import (
    check_bool,
    check_choice,
    check_int,
    check_numbers,
    check_positive,
    choose_seed,
    encode_classes,
    fail,
)
from equivocal.sampling.engine.placement import (
    check_same,
    choose_devices,
    refuse_together,
    spread_over,
)
from equivocal.sampling.engine.problem import Likelihood, Problem, collapse
from equivocal.sampling.engine.products import Precision
from equivocal.sampling.engine.settings import Observer, Outcome, Report, RunSettings
from equivocal.sampling.engine.streaming import StreamedProblem, is_streamed
from equivocal.sampling.methods import (
    METHODS,
    Method,
    check_per_output,
    check_refined,
    check_served,
    choose_particle_number,
    choose_rounded_dtype,
    choose_tolerance,
    configure,
)
from equivocal.sampling.posterior import Posterior
from equivocal.sampling.prior_choice import Choice, choose_prior
from equivocal.sampling.samplers import exact_flow, hmc, mean_field

__all__ = ["METHODS", "check_method", "sample_posterior"]

MOST_STEPS = 10**9
AUTO = "auto"


def check_method(method: str, options: dict[str, Any]) -> Any:
    """Return the configuration of a method; refuse unknown methods, and options that it lacks."""
    check_choice(method, "method", list(METHODS))
    shared = list(inspect.signature(sample_posterior).parameters)[:-1]  # without **options
    return configure(METHODS[method].config, method, options, shared)


def sample_posterior(
    features: Any,
    targets: Any,
    *,
    counts: Any = None,
    prior_mean: Any = None,
    prior_variance: Any = 1.0,
    validation: Any = None,
    trained: Any = None,
    evidence: Any = 1.0,
    likelihood: str = "bernoulli",
    method: str = "exact-flow",
    num_particles: int | None = None,
    num_steps: int | None = None,
    tolerance: float | None = None,
    seed: int | np.random.Generator = 0,
    dtype: Any = None,
    memory_budget: int | None = None,
    devices: Any = None,
    precision: str = "full",
    observe: Observer | None = None,
    diagnose: bool = True,
    refine: bool = False,
    report: Report | None = None,
    **options: Any,
) -> Posterior:
    """Sample the posterior over the weights of K logistic outputs that share one feature matrix.

    Parameters
    ----------
    features : (N, D)
        ψ, one row per observation. No intercept is added: a column of ones is the caller's.
    targets : (N,) or (N, K)
        1 for yes and 0 for no, fractions between, or sums over repetitions (then with `counts`).
        For a softmax: class numbers (N,), or (N, K) rows that sum to the count.
    counts : (N,) or (N, K), optional
        How often each row was seen, or each target: whole or fractional; one by default. A target
        with count 0 is missing, and may be NaN.
    prior_mean : number, (D,) or (K, D), optional
        Mean of the prior N(prior_mean, diag(prior_variance)); `trained` by default, or zero.
    prior_variance : "auto", number, (D,), (K, 1) or (K, D)
        Its variances, for all outputs or a row for each. "auto" chooses one number by held-out
        rows, and with `trained` the mean, too; see `equivocal.sampling.prior_choice`.
    validation : (features, targets) or (features, targets, counts), optional
        Rows that neither the posterior nor its features have seen, by which "auto" chooses, and on
        which `info.message` compares the posterior with `trained`. Without them parts of the rows
        are left out in turn.
    trained : (K, D), optional
        Weights of the network that the features come from.
    evidence : number
        b > 0, the weight of the data against the prior: counts and targets times b, so that the
        posterior is proportional to likelihoodᵇ × prior (a power posterior). 1 is Bayes' rule.
    likelihood : "bernoulli" or "softmax"
        K yes/no outputs, or one of K classes.
    method : str
        "exact-flow", "mean-field", "dropout-deterministic", "homotopy", "aldi", "laplace", "hmc",
        "nuts"; each has a module of its own in this package that says what it computes.
    num_particles : int, optional
        J; by default max(200, 2 D), for "hmc" 1,600 and for "nuts" 4,000 draws in all.
    num_steps : int, optional
        The most steps to take; by default the method's own limit.
    tolerance : float, optional
        Residual of the fixed-point equations, in posterior standard deviations, at which a flow has
        converged; 5e-4 in float32 and 1e-7 in float64 by default.
    seed : int or numpy.random.Generator
        The same seed, from 0 to 2³² − 1, gives the same bits. From a generator one seed is drawn;
        `info.settings["seed"]` holds it.
    dtype : "float32" or "float64", optional
        By default that of the features; whole numbers are taken as float64.
    memory_budget : int, optional
        Bytes of working space; a quarter of what the device has by default. Features that lie in a
        file (`numpy.memmap`, zarr, HDF5) and would not fit are read chunk by chunk in every pass.
    devices : "all", int or list, optional
        Cut the rows over these JAX devices; one device by default. In a program of several
        processes (`jax.distributed`) "all" means those of all processes, and each hands in rows of
        its own.
    precision : "full", "tf32" or "bf16"
        How many digits the operands of a flow's large products keep; see
        `equivocal.sampling.engine.products`.
    observe : callable, optional
        Called with a `Snapshot` after every step of a method that moves an ensemble along τ.
    diagnose : bool
        Whether to estimate how far the posterior is from a Gaussian, for the Gaussian methods.
    refine : bool
        For the Gaussian methods: sample those outputs exactly (by "hmc") for which a Gaussian is
        not enough; `info.refined` says which.
    report : callable, optional
        Called now and then with two whole numbers: how much of the work is done, and of how much.
    **options
        What the method alone knows: `taming`, `dropout_rate`, `step_size`, `expectations`, …

    Returns
    -------
    Posterior
        Particles, mean, covariance and predictions; `info.message` says whether to trust them.

    Raises
    ------
    equivocal.errors.UserError
        If an argument is not what it should be; the message names it and a way out.

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
    over = choose_devices(devices)
    with spread_over(over):
        with refuse_together():
            config = check_method(method, options)
            check_choice(likelihood, "likelihood", list(Likelihood))
            check_choice(precision, "precision", list(Precision))
            chosen, kind = METHODS[method], Likelihood(likelihood)
            evidence = check_positive(evidence, "evidence")
            if memory_budget is not None:
                memory_budget = int(check_positive(memory_budget, "memory_budget"))
            if num_steps is not None:
                num_steps = check_int(num_steps, "num_steps", least=1, most=MOST_STEPS)
            if precision != Precision.FULL:
                dtype = choose_rounded_dtype(dtype, precision)
            streamed = is_streamed(features, dtype, memory_budget)
            several, watched = len(over) > 1, observe is not None
            check_served(method, kind, streamed, several, watched, precision)
            check_refined(refine, method, streamed, check_bool(diagnose, "diagnose"))
            automatic = isinstance(prior_variance, str) and prior_variance == AUTO
            if (automatic or validation is not None) and (streamed or several):
                fail(
                    "prior_variance='auto' and validation need rows in memory and one device; "
                    "choose a number on fewer rows, which info.settings then holds."
                )
            if prior_mean is None and trained is not None and not automatic:
                prior_mean = check_numbers(trained, "trained")
            m0, v = 0.0 if prior_mean is None else prior_mean, 1.0 if automatic else prior_variance
            build = StreamedProblem.build if streamed else Problem.build
            weighed = _weigh(build(features, targets, counts, m0, v, kind, dtype), evidence)
            check_per_output(weighed, method)
            problem = weighed if streamed else collapse(weighed)
            settings = RunSettings(
                num_particles=choose_particle_number(num_particles, chosen, problem),
                num_steps=num_steps,
                tolerance=choose_tolerance(tolerance, problem, precision),
                seed=choose_seed(seed),
                memory_budget=memory_budget,
                observe=observe,
                report=report,
                precision=Precision(precision),
                refine=refine,
                evidence=evidence,
            )
            alike = problem.prior_scale.ndim == 1 and not streamed and not several
            compared = automatic or (alike and (trained is not None or validation is not None))
            network = _check_trained(trained, problem)
            beside = _check_validation(validation, problem)
        check_same(_list_asked(problem, method, config, settings))
        problem.check_range()
        # On GPUs float32 products would otherwise lose half their digits to TF32: nothing converges
        with (
            jax.enable_x64(problem.dtype == np.float64),
            jax.default_matmul_precision("highest"),
            use_one_blas_thread(),
        ):
            choice = None
            if compared:
                choice = choose_prior(
                    problem,
                    settings,
                    prior_mean=None if prior_mean is None else problem.prior_mean,
                    prior_variance=None if automatic else problem.prior_scale**2,
                    trained=network,
                    validation=beside,
                )
                problem = _adopt(problem, choice)
            parts = [
                (own, part, _run(part, chosen, config, settings, choice, diagnose))
                for own, part in problem.split()
            ]
    # what follows is small: every process does all of it, on one device
    with (
        jax.enable_x64(problem.dtype == np.float64),
        jax.default_matmul_precision("highest"),
        use_one_blas_thread(),
    ):
        made = Made(
            method=method,
            gaussian=chosen.gaussian,
            config=config,
            settings=settings,
            devices=over,
            choice=choice,
            diagnosed=diagnose,
            began=began,
        )
        return assemble(problem, parts, made)


def _run(
    problem: Problem,
    chosen: Method,
    config: Any,
    settings: RunSettings,
    choice: Choice | None,
    diagnose: bool,
) -> Outcome:
    """Run a method on outputs that share their prior variances, and judge what it found."""
    start = None if choice is None else choice.start
    quadrature = getattr(config, "expectations", "quadrature") == "quadrature"
    flows = chosen.run in (exact_flow.run, mean_field.run) and quadrature
    if start is not None and flows and settings.num_steps is None:
        rule = mean_field.choose_rule(problem)
        outcome = mean_field.run_gaussian(problem, rule, settings, start=start)
    else:
        outcome = chosen.run(problem, config, settings)
    if diagnose:
        outcome.covariance_shift = diagnose_gaussian(problem, outcome, settings)
    if settings.refine and is_far(outcome).any():
        hmc.refine(problem, outcome, is_far(outcome), settings)
    return outcome


def _adopt(problem: Problem, choice: Choice) -> Problem:
    """Return the problem with the prior that was chosen."""
    if choice.warning:
        warnings.warn(choice.warning, UserWarning, stacklevel=3)
    K, D = problem.num_outputs, problem.num_features
    scale = np.broadcast_to(np.sqrt(choice.prior_variance), (D,)).astype(problem.dtype)
    mean = np.broadcast_to(choice.prior_mean, (K, D)).astype(problem.dtype)
    adopted = replace(problem, prior_mean=mean, prior_scale=scale)
    adopted.check_range()
    return adopted


def _check_trained(trained: Any, problem: Problem) -> np.ndarray | None:
    if trained is None:
        return None
    W, wanted = check_numbers(trained, "trained"), (problem.num_outputs, problem.num_features)
    if W.shape != wanted:
        fail(f"trained must have shape {wanted}, a row of weights per output, got {W.shape}.")
    return W.astype(problem.dtype)


def _check_validation(validation: Any, problem: Problem) -> Problem | None:
    """Return held-out rows as a problem of the same outputs and features."""
    if validation is None:
        return None
    if not isinstance(validation, tuple | list) or len(validation) not in (2, 3):
        fail(
            "validation must be (features, targets) or (features, targets, counts), got "
            f"{type(validation).__name__}."
        )
    psi, t, *c = validation
    K, D = problem.num_outputs, problem.num_features
    softmax = problem.likelihood is Likelihood.SOFTMAX
    t = check_numbers(t, "validation targets") if not c else t
    if softmax and np.ndim(t) == 1:
        t = encode_classes(np.asarray(t), np.asarray(c[0]) if c else np.ones(len(t)), K)
    counts = c[0] if c else None
    beside = Problem.build(psi, t, counts, 0.0, 1.0, problem.likelihood, problem.dtype)
    if (beside.num_outputs, beside.num_features) != (K, D):
        fail(
            f"validation must have {D} features and {K} outputs, as the rows have, got "
            f"{beside.num_features} and {beside.num_outputs}."
        )
    return beside


def _weigh(problem: Problem, evidence: float) -> Problem:
    """Return the problem with counts and targets times b."""
    if evidence == 1:
        return problem
    if not problem.in_memory:
        fail("evidence= needs rows in memory; multiply counts and targets in the file instead.")
    b = problem.dtype.type(evidence)
    return replace(problem, targets=problem.targets * b, counts=problem.counts * b)


def _list_asked(
    problem: Problem, method: str, config: Any, settings: RunSettings
) -> dict[str, Any]:
    """List what processes that sample together must agree on."""
    # what is called is the caller's own, and may be anything; processes may have unequal memory
    own = asdict(replace(settings, memory_budget=None, observe=None, report=None)) | asdict(config)
    names = ("num_outputs", "num_features", "dtype", "likelihood", "prior_mean")
    asked = {name: getattr(problem, name) for name in names}
    asked |= {"prior_variance": problem.prior_scale, "method": method}
    return asked | dict(sorted(own.items()))
