"""What `sample_posterior` may be given, checked before anything is computed: the table of methods.

A new method is a module with a config class and `run(problem, config, settings)`, which returns an
`Outcome`, and a line in `METHODS`.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from lastlayer import algorithm1_run, exact, laplace, nuts, variational
from lastlayer.algorithm1 import DropoutConfig
from lastlayer.checks import (
    check_bool,
    check_choice,
    check_counts,
    check_int,
    check_numbers,
    encode_classes,
    fail,
    name_argument,
)
from lastlayer.errors import did_you_mean
from lastlayer.exact import HmcConfig
from lastlayer.nuts import NutsConfig
from lastlayer.outcome import Outcome, RunOptions, RunSettings
from lastlayer.prior import FEWEST_ROWS, Question
from lastlayer.problem import Likelihood, Problem, collapse
from lastlayer.seeds import choose_seed
from lastlayer.variational import FlowConfig

FEWEST_PARTICLES, MOST_PARTICLES = 200, 10**7


@dataclass(frozen=True)
class Method:
    """A sampler as `sample_posterior` sees it."""

    config: type
    run: Callable[[Problem, Any, RunSettings], Outcome]
    gaussian: bool = False  # its posterior is N(mean, covariance), and particles are drawn from it
    own_counts: bool = False  # also takes counts of each target
    draws: int | None = None  # default number of particles; None: it depends on D
    observable: bool = False  # moves an ensemble along τ, which can be observed


METHODS = {
    "exact-flow": Method(FlowConfig, variational.run, gaussian=True, own_counts=True),
    "dropout-deterministic": Method(DropoutConfig, algorithm1_run.run, observable=True),
    "laplace": Method(FlowConfig, laplace.run, gaussian=True, own_counts=True),
    "hmc": Method(HmcConfig, exact.run, own_counts=True, draws=1_600),
    "nuts": Method(NutsConfig, nuts.run, draws=4_000),
}
DEFAULT, EXACT = "exact-flow", "hmc"  # for yes/no outputs, and for a softmax


def check_method(
    method: str, options: dict[str, Any], others: tuple[str, ...] = ()
) -> tuple[Any, RunOptions]:
    """Return the configuration of a method, and the options of the run.

    Refuses unknown methods and options; `others` are arguments that may have been misspelt.
    """
    check_choice(method, "method", METHODS)
    own = [field.name for field in fields(METHODS[method].config)]
    shared = [field.name for field in fields(RunOptions)]
    for name in options:
        if name not in [*own, *shared]:
            takes = f"; it takes {', '.join(own) or 'none'}."
            near = did_you_mean(name, [*own, *shared, *others])
            fail(f"method {method!r} has no option {name!r}{near or takes}")
    config = METHODS[method].config(**{k: v for k, v in options.items() if k in own})
    return config, RunOptions(**{k: v for k, v in options.items() if k in shared})


@dataclass(frozen=True, kw_only=True)
class Request:
    """The arguments of `sample_posterior`."""

    features: Any
    targets: Any
    counts: Any
    prior_mean: Any
    prior_variance: Any
    validation: Any
    groups: Any
    trained: Any
    likelihood: str
    method: str
    num_particles: int | None
    seed: Any
    diagnose: bool
    refine: bool
    options: RunOptions

    @property
    def automatic(self) -> bool:
        """Whether the prior's variance is to be chosen."""
        return isinstance(self.prior_variance, str) and self.prior_variance == "auto"

    def check(self) -> tuple[Problem, RunSettings, Question | None]:
        """Return the problem, the settings and, if a prior is to be chosen, by which rows."""
        check_choice(self.likelihood, "likelihood", list(Likelihood))
        options, method = self.options, METHODS[self.method]
        self._check_served()
        problem = self._build()
        if problem.counts.ndim == 2 and not method.own_counts:
            able = ", ".join(name for name, known in METHODS.items() if known.own_counts)
            fail(f"counts of shape (N, K) are for {able}; {self.method!r} takes one per row.")
        if problem.likelihood is Likelihood.SOFTMAX:
            exact.check_size(problem)
        # the residual, in posterior sd, below which a flow has converged
        tolerance = options.tolerance or (1e-7 if problem.dtype == np.float64 else 5e-4)
        J = self.num_particles
        if J is None:
            J = method.draws or max(FEWEST_PARTICLES, 2 * problem.num_features)
        settings = RunSettings(
            **vars(options) | {"tolerance": tolerance},
            num_particles=check_int(J, "num_particles", least=2, most=MOST_PARTICLES),
            seed=choose_seed(self.seed),
            refine=self.refine,
        )
        return problem, settings, self._ask(problem)

    def _check_served(self) -> None:
        """Check that the method works with the settings given."""
        method = self.method
        if self.likelihood == Likelihood.SOFTMAX and method != EXACT:
            fail(
                f"method {method!r} is for likelihood='bernoulli': a softmax has exact draws; "
                f"leave method out, or pass method={EXACT!r}."
            )
        if self.options.observe is not None and not METHODS[method].observable:
            observable = ", ".join(name for name, known in METHODS.items() if known.observable)
            fail(f"method {method!r} cannot be observed along τ; these can: {observable}.")
        limited = METHODS[method].observable or self.likelihood == Likelihood.SOFTMAX
        centred = self.prior_mean is None and (self.trained is None or self.automatic)
        if self.options.rank is not None and (limited or not centred):
            fail(
                "rank is for yes/no outputs, a prior about zero, and methods other than "
                "'dropout-deterministic'; leave it out."
            )
        diagnosed = check_bool(self.diagnose, "diagnose") and METHODS[method].gaussian
        if check_bool(self.refine, "refine") and not diagnosed:
            fail("refine=True is for Gaussian methods, whose diagnostic says what to refine.")
        if not self.automatic and (self.validation is not None or self.groups is not None):
            fail("validation and groups are for prior_variance='auto'; leave them out here.")

    def _build(self) -> Problem:
        """Return rows and prior as a problem, with equal rows merged and counts times b."""
        m0, v = self.prior_mean, 1.0 if self.automatic else self.prior_variance
        m0, kind = 0.0 if m0 is None else m0, Likelihood(self.likelihood)
        given = (self.features, self.targets, self.counts, m0, v, kind, self.options.dtype)
        problem = Problem.build(*given, alike=METHODS[self.method].observable)
        trained = _check_trained(self.trained, problem)
        if trained is not None and self.prior_mean is None and not self.automatic:
            problem = replace(problem, prior_mean=trained)
        if self.options.evidence != 1:
            b = problem.dtype.type(self.options.evidence)
            problem = replace(problem, targets=problem.targets * b, counts=problem.counts * b)
        # equal rows of different groups stay apart
        return problem if self.groups is not None else collapse(problem)

    def _ask(self, problem: Problem) -> Question | None:
        """Return which prior to choose, or to compare with a network; None if neither is wanted."""
        if not self.automatic:
            return None
        trained = _check_trained(self.trained, problem) if self.prior_mean is None else None
        validation = _check_validation(self.validation, problem)
        groups = _check_groups(self.groups, validation, problem)
        return Question(trained=trained, validation=validation, groups=groups)


def _check_groups(groups: Any, validation: Problem | None, problem: Problem) -> np.ndarray | None:
    """Return the group of each row as numbers, (N,), if groups are given."""
    if groups is None:
        return None
    if validation is not None:
        fail("groups say which rows to leave out together; with validation leave them out.")
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


def _check_validation(validation: Any, problem: Problem) -> Problem | None:
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
    if number < FEWEST_ROWS:
        fail(
            f"validation must have at least {FEWEST_ROWS} rows to choose a prior by, and got "
            f"{number}; pass more, or leave it out: rows of the fit are then left out in turn."
        )
    return beside
