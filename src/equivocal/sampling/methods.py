"""The table of methods, what each serves, and the defaults of what is asked of them.

A new sampler is a file in `samplers/` and a line in `METHODS`.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from equivocal.errors import did_you_mean
from equivocal.machine import measure_memory
from equivocal.sampling.engine.inputs import check_int, check_positive, choose_dtype, fail
from equivocal.sampling.engine.problem import Likelihood, Problem
from equivocal.sampling.engine.products import Precision
from equivocal.sampling.engine.settings import Outcome, RunSettings
from equivocal.sampling.samplers import (
    aldi,
    dropout_deterministic,
    exact_flow,
    hmc,
    homotopy,
    laplace,
    mean_field,
    nuts,
)

FEWEST_PARTICLES = 200


@dataclass(frozen=True)
class Method:
    """A sampler as `sample_posterior` sees it."""

    config: type
    run: Callable[[Problem, Any, RunSettings], Outcome]
    gaussian: bool = False  # its answer is N(mean, covariance), particles are drawn from it
    everywhere: bool = False  # serves a softmax, rows in files and rounded products, too
    draws: int | None = None  # default number of particles; None: enough for D
    observable: bool = False  # its ensemble can be watched along τ


METHODS = {
    "exact-flow": Method(
        exact_flow.ExactFlowConfig, exact_flow.run, gaussian=True, everywhere=True
    ),
    "mean-field": Method(
        mean_field.MeanFieldConfig, mean_field.run, gaussian=True, everywhere=True
    ),
    "dropout-deterministic": Method(
        dropout_deterministic.DropoutConfig, dropout_deterministic.run, observable=True
    ),
    "homotopy": Method(homotopy.HomotopyConfig, homotopy.run, observable=True),
    "aldi": Method(aldi.AldiConfig, aldi.run, observable=True),
    "laplace": Method(laplace.LaplaceConfig, laplace.run, gaussian=True, everywhere=True),
    "hmc": Method(hmc.HmcConfig, hmc.run, everywhere=True, draws=1_600),
    "nuts": Method(nuts.NutsConfig, nuts.run, draws=4_000),
}


def check_per_output(problem: Problem, method: str) -> None:
    """Check that the method serves counts of single targets and priors of single outputs."""
    flows = ", ".join(name for name, other in METHODS.items() if other.everywhere)
    if problem.in_memory and problem.counts.ndim == 2 and not METHODS[method].everywhere:
        fail(f"counts of shape (N, K) are for {flows}; method {method!r} takes one per row.")
    if problem.prior_scale.ndim == 2:
        if problem.likelihood is Likelihood.SOFTMAX:
            fail(
                "prior_variance of shape (K, D) is for likelihood='bernoulli'; a softmax has (D,)."
            )
        if METHODS[method].observable:
            fail(f"prior_variance of shape (K, D) is for {flows}; method {method!r} takes (D,).")


def choose_rounded_dtype(dtype: Any, precision: str) -> str:
    """Return float32, which is all that goes with rounded products."""
    if dtype is not None and choose_dtype(None, dtype) == np.float64:
        fail(f"precision={precision!r} goes with float32; leave out dtype, or use 'full'.")
    return "float32"


def check_served(
    method: str, kind: Likelihood, streamed: bool, several: bool, watched: bool, precision: str
) -> None:
    """Check that the method works where the rows are, and as was asked."""
    flows = ", ".join(name for name, other in METHODS.items() if other.everywhere)
    if streamed and not METHODS[method].everywhere:
        fail(
            f"method {method!r} needs its rows in memory, and they are larger than memory_budget; "
            f"these read them from the file: {flows}."
        )
    if kind is Likelihood.SOFTMAX and not METHODS[method].everywhere:
        fail(f"method {method!r} is for likelihood='bernoulli'; for a softmax use {flows}.")
    if several and method == "nuts":
        fail("method 'nuts' runs on one device; leave out devices, or use 'exact-flow'.")
    if streamed and several:
        fail("rows are read from a file by one device; leave out devices, or load the rows first.")
    if precision != Precision.FULL and not METHODS[method].everywhere:
        fail(f"precision={precision!r} is for {flows}; method {method!r} has 'full'.")
    if watched and not METHODS[method].observable:
        others = ", ".join(name for name, other in METHODS.items() if other.observable)
        fail(f"method {method!r} cannot be observed along τ; these can: {others}.")


def check_refined(refine: bool, method: str, streamed: bool, diagnosed: bool) -> None:
    """Check that there is a Gaussian to refine, with rows in memory."""
    if refine and not diagnosed:
        fail("refine=True needs the diagnostic, which says what to refine; leave out diagnose.")
    if refine and not METHODS[method].gaussian:
        fail(f"refine=True is for Gaussian methods; {method!r} draws its particles itself.")
    if refine and streamed:
        fail("refine=True needs the rows in memory; method='hmc' reads them from the file.")


def configure(kind: type, method: str, options: dict[str, Any], others: list[str]) -> Any:
    """Return the config of a method; `others` are the arguments that all methods share."""
    known = [field.name for field in fields(kind)]
    for name in options:
        if name not in known:
            takes = f"; it takes {', '.join(known) or 'none'}."
            near = did_you_mean(name, [*known, *others])
            fail(f"method {method!r} has no option {name!r}{near or takes}")
    return kind(**options)


def choose_particle_number(given: int | None, method: Method, problem: Problem) -> int:
    """Return J: as asked for if it fits into memory, or enough for D."""
    if given is None:
        return method.draws or max(FEWEST_PARTICLES, 2 * problem.num_features)
    J = check_int(given, "num_particles", least=2)
    size = J * problem.num_outputs * problem.num_features * problem.dtype.itemsize
    if size > (memory := measure_memory()):
        fail(
            f"num_particles must fit into the {memory / 2**30:.3g} GiB of this machine, got "
            f"{J:,} × {problem.num_outputs} outputs × {problem.num_features} features; "
            f"use at most {memory * J // size}."
        )
    return J


def choose_tolerance(given: float | None, problem: Problem, precision: str) -> float:
    """Return the residual at which a flow has converged."""
    if given is None:
        full = 1e-7 if problem.dtype == np.float64 else 5e-4
        # A is then I to about half a rounding in each direction: no residual falls below that
        return float(max(full, Precision(precision).unit * np.sqrt(problem.num_features)))
    return check_positive(given, "tolerance")
