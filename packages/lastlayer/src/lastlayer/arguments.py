"""The table of methods, and the checks of the arguments of `sample_posterior` before it computes.

A new method is a file beside this one and a line in `METHODS`. A `Request` holds the arguments of
`sample_posterior`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from lastlayer import algorithm1, algorithm1_run, exact, laplace, nuts, variational
from lastlayer.checks import (
    check_bool,
    check_callable,
    check_choice,
    check_counts,
    check_int,
    check_numbers,
    check_positive,
    choose_dtype,
    encode_classes,
    fail,
    name_argument,
)
from lastlayer.compiling import Precision
from lastlayer.machine import measure_memory
from lastlayer.outcome import Outcome, RunSettings
from lastlayer.prior_choice import FEWEST_ROWS, Question
from lastlayer.problem import Likelihood, Problem, collapse
from lastlayer.seeds import choose_seed
from lastlayer.streaming import StreamedProblem, is_streamed

FEWEST_PARTICLES = 200
MOST_STEPS = 10**9
MOST_EVIDENCE = 1e9
SHARED = 0.25  # a smaller share of common rows may be chance, with few discrete features
CHOICES = ("held-out", "evidence")  # ways to choose the prior's variance


@dataclass(frozen=True)
class Method:
    """A sampler as `sample_posterior` sees it."""

    config: type
    run: Callable[[Problem, Any, RunSettings], Outcome]
    gaussian: bool = False  # its posterior is N(mean, covariance), and particles are drawn from it
    everywhere: bool = False  # also takes rows in files and rounded products
    draws: int | None = None  # default number of particles; None: it depends on D
    observable: bool = False  # moves an ensemble along τ, which can be observed


METHODS = {
    "exact-flow": Method(
        variational.FlowConfig,
        variational.run,
        gaussian=True,
        everywhere=True,
    ),
    "dropout-deterministic": Method(
        algorithm1.DropoutConfig,
        algorithm1_run.run,
        observable=True,
    ),
    "laplace": Method(
        variational.FlowConfig,
        laplace.run,
        gaussian=True,
        everywhere=True,
    ),
    "hmc": Method(exact.HmcConfig, exact.run, everywhere=True, draws=1_600),
    "nuts": Method(nuts.NutsConfig, nuts.run, draws=4_000),
}
DEFAULT, EXACT = "exact-flow", "hmc"  # for yes/no outputs, and for a softmax
EVERYWHERE = ", ".join(name for name, method in METHODS.items() if method.everywhere)
OBSERVABLE = ", ".join(name for name, method in METHODS.items() if method.observable)


def check_per_output(problem: Problem, method: str) -> None:
    """Check that the method takes counts of single targets."""
    if problem.in_memory and problem.counts.ndim == 2 and not METHODS[method].everywhere:
        fail(f"counts of shape (N, K) are for {EVERYWHERE}; method {method!r} takes one per row.")


def choose_rounded_dtype(dtype: Any, precision: str) -> str:
    """Return float32, the only precision of a run with rounded products."""
    if dtype is not None and choose_dtype(None, dtype) == np.float64:
        fail(f"precision={precision!r} goes with float32; leave out dtype, or use 'full'.")
    return "float32"


def choose_particle_number(given: int | None, method: Method, problem: Problem) -> int:
    """Return J: as given, provided that it fits into memory, or by default enough for D."""
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
    """Return the residual below which a flow counts as converged."""
    if given is None:
        full = 1e-7 if problem.dtype == np.float64 else 5e-4
        # S then equals I up to about half a rounding in each direction: no residual is smaller
        return float(max(full, Precision(precision).unit * np.sqrt(problem.num_features)))
    return check_positive(given, "tolerance")


class Request(SimpleNamespace):
    """The arguments of `sample_posterior` by name, except `devices` and options of the method."""

    @property
    def automatic(self) -> bool:
        """Whether the prior's variance is to be chosen."""
        return isinstance(self.prior_variance, str) and self.prior_variance == "auto"

    def check(self, several: bool) -> tuple[Problem, RunSettings, Question | None]:
        """Return the problem, the settings and, if a prior is to be chosen or judged, a question.

        `several` says whether rows are split over devices.
        """
        checked, streamed = self._check_settings(several)
        checked._check_choice(streamed or several)
        problem = checked._build(streamed)
        check_per_output(problem, self.method)
        exact.check_size(problem)
        settings = checked._choose_settings(problem)
        return problem, settings, None if streamed or several else checked._ask(problem)

    def _check_settings(self, several: bool) -> "tuple[Request, bool]":
        """Return the request with settings as plain values, and whether rows stay in a file."""
        check_choice(self.likelihood, "likelihood", list(Likelihood))
        check_choice(self.precision, "precision", list(Precision))
        evidence, budget = _check_evidence(self.evidence), self.memory_budget
        if budget is not None:
            budget = int(check_positive(budget, "memory_budget"))
        num_steps, dtype = self.num_steps, self.dtype
        if num_steps is not None:
            num_steps = check_int(num_steps, "num_steps", least=1, most=MOST_STEPS)
        if self.precision != Precision.FULL:
            dtype = choose_rounded_dtype(dtype, self.precision)
        streamed = is_streamed(self.features, dtype, budget)
        self._check_served(streamed, several)
        if self.refine:
            self._check_refined(streamed)
        plain = {"memory_budget": budget, "num_steps": num_steps, "dtype": dtype}
        return Request(**vars(self) | plain | {"evidence": evidence}), streamed

    def _check_served(self, streamed: bool, several: bool) -> None:
        """Check that the method works where the rows are, and with the settings given."""
        method, everywhere = self.method, METHODS[self.method].everywhere
        check_bool(self.diagnose, "diagnose")
        check_bool(self.refine, "refine")
        check_callable(self.observe, "observe")
        check_callable(self.report, "report")
        if streamed and not everywhere:
            fail(
                f"method {method!r} needs its rows in memory, and they are larger than "
                f"memory_budget; these read them from the file: {EVERYWHERE}."
            )
        if self.likelihood == Likelihood.SOFTMAX and method != EXACT:
            fail(
                f"method {method!r} is for likelihood='bernoulli': a softmax has exact draws; "
                f"leave method out, or pass method={EXACT!r}."
            )
        if several and method == "nuts":
            fail("method 'nuts' runs on one device; leave out devices, or use 'exact-flow'.")
        if streamed and several:
            fail(
                "rows are read from a file by one device; leave out devices, or load the rows "
                "first."
            )
        if self.precision != Precision.FULL and not everywhere:
            fail(f"precision={self.precision!r} is for {EVERYWHERE}; method {method!r} has 'full'.")
        if self.observe is not None and not METHODS[method].observable:
            fail(f"method {method!r} cannot be observed along τ; these can: {OBSERVABLE}.")

    def _check_refined(self, streamed: bool) -> None:
        """Check that there is a Gaussian to refine, with rows in memory."""
        if not self.diagnose:
            fail("refine=True needs the diagnostic, which says what to refine; leave out diagnose.")
        if not METHODS[self.method].gaussian:
            fail(
                f"refine=True is for Gaussian methods; {self.method!r} draws its particles itself."
            )
        if streamed:
            fail("refine=True needs the rows in memory; method='hmc' reads them from the file.")

    def _check_choice(self, elsewhere: bool) -> None:
        """Check how the prior is chosen; `elsewhere`: rows are in a file, or on several devices."""
        check_choice(self.prior_choice, "prior_choice", list(CHOICES))
        check_bool(self.prior_per_output, "prior_per_output")
        asked = self.prior_choice != CHOICES[0] or self.prior_per_output
        if asked and not self.automatic:
            fail("prior_choice and prior_per_output are for prior_variance='auto'; pass that, too.")
        if self.prior_per_output and self.likelihood == Likelihood.SOFTMAX:
            fail("prior_per_output is for likelihood='bernoulli': classes share their prior.")
        if self.prior_choice == CHOICES[1] and self.likelihood == Likelihood.SOFTMAX:
            fail("prior_choice='evidence' is for likelihood='bernoulli'; leave it out.")
        if self.prior_per_output and METHODS[self.method].observable:
            fail(f"prior_per_output is not for method {self.method!r}; use 'exact-flow'.")
        if (self.automatic or self.validation is not None) and elsewhere:
            fail(
                "prior_variance='auto' and validation need rows in memory and one device; "
                "choose a number on fewer rows, which info.settings then holds."
            )

    def _build(self, streamed: bool) -> Problem:
        """Return rows and prior as a problem, with equal rows merged and counts times b."""
        m0, v = self.prior_mean, 1.0 if self.automatic else self.prior_variance
        build = StreamedProblem.build if streamed else Problem.build
        m0, kind = 0.0 if m0 is None else m0, Likelihood(self.likelihood)
        given = (self.features, self.targets, self.counts, m0, v, kind, self.dtype)
        problem = build(*given, alike=METHODS[self.method].observable)
        trained = _check_trained(self.trained, problem)
        if trained is not None and self.prior_mean is None and not self.automatic:
            problem = replace(problem, prior_mean=trained)
        if self.evidence != 1:
            if streamed:
                fail(
                    "evidence= needs rows in memory; multiply counts and targets in the file "
                    "instead."
                )
            b = problem.dtype.type(self.evidence)
            problem = replace(problem, targets=problem.targets * b, counts=problem.counts * b)
        # equal rows of different groups stay apart
        return problem if streamed or self.groups is not None else collapse(problem)

    def _choose_settings(self, problem: Problem) -> RunSettings:
        """Return the settings of the run, with defaults filled in."""
        return RunSettings(
            num_particles=choose_particle_number(self.num_particles, METHODS[self.method], problem),
            num_steps=self.num_steps,
            tolerance=choose_tolerance(self.tolerance, problem, self.precision),
            seed=choose_seed(self.seed),
            memory_budget=self.memory_budget,
            observe=self.observe,
            report=self.report,
            precision=Precision(self.precision),
            refine=self.refine,
            evidence=self.evidence,
        )

    def _ask(self, problem: Problem) -> Question | None:
        """Return which prior to choose, or to compare with a network; None if neither is wanted."""
        trained = _check_trained(self.trained, problem)
        validation = _check_validation(self.validation, problem, self.automatic)
        groups = _check_groups(self.groups, self, problem)
        if not self.automatic and trained is None and validation is None:
            return None
        warning = "" if validation is None else _check_shared(validation, problem)
        return Question(
            variance=self.automatic,
            mean=self.automatic and self.prior_mean is None and trained is not None,
            trained=trained,
            validation=validation,
            groups=groups,
            by_evidence=self.prior_choice == CHOICES[1],
            per_output=self.prior_per_output,
            warning=warning,
        )


def _check_evidence(evidence: Any) -> float:
    """Return b within the range in which counts and prior can still be told apart."""
    b = check_positive(evidence, "evidence")
    if not 1 / MOST_EVIDENCE <= b <= MOST_EVIDENCE:
        fail(
            f"evidence must lie between {1 / MOST_EVIDENCE:g} and {MOST_EVIDENCE:g}, got {b:g}; "
            "1 is Bayes' rule, and 0.1 lets ten rows count as one."
        )
    return b


def _check_shared(validation: Problem, problem: Problem) -> str:
    """Return a warning if many rows of validation are rows of the fit, each of which is there once.

    Where rows repeat within the fit, others may equal them by chance.
    """
    known = {row.tobytes() for row in problem.features}
    shared = sum(row.tobytes() in known for row in validation.features)
    once = len(known) == problem.num_rows and (problem.row_counts <= 1).all()
    if not once or shared < SHARED * validation.num_rows:
        return ""
    return (
        f"{shared:,} of {validation.num_rows:,} rows of validation are rows of the fit, which the "
        "network answers better than others: pass rows that are not."
    )


def _check_groups(groups: Any, request: "Request", problem: Problem) -> np.ndarray | None:
    """Return the group of each row as numbers, (N,), if groups are given."""
    if groups is None:
        return None
    if not request.automatic or request.validation is not None:
        fail(
            "groups say which rows to leave out together where prior_variance='auto' has no "
            "validation rows; leave them out here."
        )
    names = np.asarray(groups)
    if names.shape != (problem.num_rows,):
        fail(f"groups must have shape ({problem.num_rows},), one per row, got {names.shape}.")
    found, numbers = np.unique(names, return_inverse=True)
    if len(found) < 2:
        fail("groups must hold at least two groups, got one; leave them out, or pass validation.")
    return np.asarray(numbers)


def _check_trained(trained: Any, problem: Problem) -> np.ndarray | None:
    """Return the network's weights, (K, D), if they are given."""
    if trained is None:
        return None
    W, wanted = check_numbers(trained, "trained"), (problem.num_outputs, problem.num_features)
    if W.shape != wanted:
        fail(f"trained must have shape {wanted}, a row of weights per output, got {W.shape}.")
    return W.astype(problem.dtype)


def _check_validation(validation: Any, problem: Problem, choose: bool) -> Problem | None:
    """Return held-out rows as a problem of the same outputs and features."""
    if validation is None:
        return None
    right = isinstance(validation, tuple | list) and len(validation) in (2, 3)
    if not right or any(isinstance(part, tuple) for part in validation):
        kind = "a list of tuples; join the batches" if right else type(validation).__name__
        fail(f"validation must be (features, targets) or (features, targets, counts), got {kind}.")
    psi, t, *c = validation
    K, D = problem.num_outputs, problem.num_features
    counts = c[0] if c else None
    with name_argument("validation"):
        t = check_numbers(t, "targets", finite=counts is None)
        if problem.likelihood is Likelihood.SOFTMAX and t.ndim == 1:
            weights = check_counts(counts, len(t), np.dtype("float64"))
            known = np.where(weights == 0, 0, t)  # a label that does not count may be missing
            t = encode_classes(known, weights, K)
        beside = Problem.build(psi, t, counts, 0.0, 1.0, problem.likelihood, problem.dtype)
    if (beside.num_outputs, beside.num_features) != (K, D):
        fail(
            f"validation must have {D} features and {K} outputs, as the rows have, got "
            f"{beside.num_features} and {beside.num_outputs}."
        )
    number = int(max((beside.row_counts > 0).sum(), beside.row_counts.sum(dtype=np.float64)))
    if number < (FEWEST_ROWS if choose else 1):
        fail(
            f"validation must have at least {FEWEST_ROWS} rows to choose a prior by, and got "
            f"{number}; pass more, or leave it out: rows of the fit are then left out in turn."
        )
    return beside
