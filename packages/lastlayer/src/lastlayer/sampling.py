"""`sample_posterior`: the one entry point to all samplers, which are listed in `methods`."""

import inspect
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

import jax
import numpy as np

from lastlayer import exact as hmc
from lastlayer.arguments import DEFAULT, EXACT, METHODS, Request
from lastlayer.assembly import Provenance, assemble
from lastlayer.checks import check_choice, fail
from lastlayer.devices import (
    choose_devices,
    spread_over,
)
from lastlayer.errors import did_you_mean
from lastlayer.machine import use_one_blas_thread
from lastlayer.outcome import Observer, Outcome, Report, RunSettings
from lastlayer.posterior import Posterior
from lastlayer.prior_choice import Choice, choose_prior
from lastlayer.problem import Likelihood, Problem
from lastlayer.seeds import Seed
from lastlayer.verdict import diagnose_gaussian, is_far

__all__ = ["METHODS", "check_method", "sample_posterior"]


def check_method(method: str, options: dict[str, Any]) -> Any:
    """Return the configuration of a method; refuse unknown methods and unknown options."""
    check_choice(method, "method", METHODS)
    config = METHODS[method].config
    known = [field.name for field in fields(config)]
    for name in options:
        if name not in known:
            takes = f"; it takes {', '.join(known) or 'none'}."
            shared = list(inspect.signature(sample_posterior).parameters)[:-1]  # without **options
            near = did_you_mean(name, [*known, *shared])
            fail(f"method {method!r} has no option {name!r}{near or takes}")
    return config(**options)


def sample_posterior(
    features: Any,
    targets: Any,
    *,
    counts: Any = None,
    prior_mean: Any = None,
    prior_variance: Any = 1.0,
    prior_choice: str = "held-out",
    prior_per_output: bool = False,
    validation: Any = None,
    groups: Any = None,
    trained: Any = None,
    evidence: Any = 1.0,
    likelihood: str = "bernoulli",
    method: str | None = None,
    num_particles: int | None = None,
    num_steps: int | None = None,
    tolerance: float | None = None,
    seed: Seed = 0,
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
        ψ, one row per observation. No intercept is added: include a column of ones for it.
    targets : (N,) or (N, K)
        1 for yes and 0 for no, fractions between, or sums over repetitions (then with `counts`).
        For a softmax: class numbers (N,), or (N, K) rows that sum to the count.
    counts : (N,) or (N, K), optional
        How often each row was seen, or each target: whole or fractional; one by default. A target
        with count 0 is missing, and may be NaN.
    prior_mean : number, (D,) or (K, D), optional
        Mean of the prior N(prior_mean, diag(prior_variance)). By default `trained`, or zero where
        there is none or "auto" chooses.
    prior_variance : "auto", number, (D,), (K, 1) or (K, D)
        Its variances, for all outputs; a row for each is not for a softmax and not for methods that
        can be observed. "auto" chooses one number about zero, with a wide variance for intercepts
        (constant columns); see `lastlayer.prior_choice`.
    prior_choice : "held-out" or "evidence"
        What "auto" chooses by: rows held out of the fit, or Laplace's estimate of the evidence,
        which needs none.
        The evidence is misled by rows that the features were trained on.
    prior_per_output : bool
        Whether "auto" gives each yes/no output a number of its own, drawn towards that of the
        others where labels are rare.
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
    evidence : number
        b, from 1e-9 to 1e9, the weight of the data against the prior: counts and targets times b,
        so that the posterior is proportional to likelihoodᵇ × prior (a power posterior). 1 is
        Bayes' rule.
    likelihood : "bernoulli" or "softmax"
        K yes/no outputs, or one of K classes.
    method : str, optional
        "exact-flow", "mean-field", "dropout-deterministic", "homotopy", "aldi", "laplace", "hmc",
        "nuts"; the module of each in this package says what it computes. By default "exact-flow",
        and for a softmax "hmc", its only method.
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
        Bytes of working space; by default a quarter of the device's memory. It decides what is kept
        in memory and what is computed again in every pass, and changes no bit of the result.
        Features in a file (`numpy.memmap`, zarr, HDF5) that do not fit are read chunk by chunk.
    devices : "all", int or list, optional
        Split the rows over these JAX devices; one device by default. In a program of several
        processes (`jax.distributed`) "all" means the devices of all processes, and each process
        passes its own rows.
    precision : "full", "tf32" or "bf16"
        How many digits the operands of the flow's large matrix products keep; see
        `lastlayer.products`.
    observe : callable, optional
        Called with a `Snapshot` after every step of a method that moves an ensemble along τ.
    diagnose : bool
        Whether to estimate how far the posterior is from a Gaussian, for the Gaussian methods.
        Without it `info.gaussian_enough` is True, and `info.message` says that it was not checked.
    refine : bool
        For the Gaussian methods: sample those outputs exactly (by "hmc") for which a Gaussian is
        not enough; `info.refined` says which.
    report : callable, optional
        Called from time to time with two whole numbers: the work done so far, and all of the work.
    **options
        Options of the method: `taming`, `dropout_rate`, `step_size`, `expectations`, …

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
    >>> posterior = sample_posterior(x, [0, 0, 1])
    >>> posterior.info.message.split("; ")[1]
    'a Gaussian describes the posterior well.'
    >>> posterior.predict_proba(x).shape
    (3, 1)
    """
    if method is None:
        method = EXACT if likelihood == Likelihood.SOFTMAX else DEFAULT
    given = {name: value for name, value in locals().items() if name not in ("devices", "options")}
    began = time.perf_counter()
    over = choose_devices(devices)
    with spread_over(over):
        config = check_method(method, options)
        problem, settings, question = Request(**given).check(several=len(over) > 1)
        problem.check_range()
        with _set_precision(problem):
            choice = None
            if question is not None:
                choice = choose_prior(problem, question)
                problem = _apply_choice(choice)
            parts = [
                (own, part, _run(part, own, method, config, settings, diagnose))
                for own, part in problem.split()
            ]
    # the rest is little work: one device does all of it
    with _set_precision(problem):
        made = Provenance(
            method=method,
            gaussian=METHODS[method].gaussian,
            config=config,
            settings=settings,
            devices=over,
            choice=choice,
            began=began,
        )
        return assemble(problem, parts, made)


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
    settings = replace(settings, numbers=outputs)
    outcome: Outcome = METHODS[method].run(problem, config, settings)
    if diagnose:
        outcome.covariance_shift = diagnose_gaussian(problem, outcome, settings)
    if settings.refine and is_far(outcome).any():
        hmc.refine(problem, outcome, is_far(outcome), settings)
    return outcome


def _apply_choice(choice: Choice) -> Problem:
    """Return the problem with the chosen prior; give the warning that came with the choice."""
    if choice.warning:
        warnings.warn(choice.warning, UserWarning, stacklevel=3)
    choice.problem.check_range()
    return choice.problem
