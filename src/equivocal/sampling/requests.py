"""The arguments of `sample_posterior`, and the checks before any work is done."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from equivocal.errors import UserError
from equivocal.sampling.engine.inputs import (
    check_bool,
    check_choice,
    check_int,
    check_numbers,
    check_positive,
    encode_classes,
    fail,
)
from equivocal.sampling.engine.problem import Likelihood, Problem, collapse
from equivocal.sampling.engine.products import Precision
from equivocal.sampling.engine.settings import Observer, Report, RunSettings
from equivocal.sampling.engine.streaming import StreamedProblem, is_streamed
from equivocal.sampling.held_out import set_aside_shared
from equivocal.sampling.methods import (
    METHODS,
    check_per_output,
    check_refined,
    check_served,
    choose_particle_number,
    choose_rounded_dtype,
    choose_tolerance,
)
from equivocal.sampling.prior_choice import Question
from equivocal.seeds import Seed, choose_seed

MOST_STEPS = 10**9
AUTO = "auto"
CHOICES = ("held-out", "evidence")  # by which the prior's variance is chosen


@dataclass(frozen=True, kw_only=True, eq=False)
class Request:
    """The arguments as given, but for `devices` and the options of the method."""

    features: Any
    targets: Any
    counts: Any
    prior_mean: Any
    prior_variance: Any
    prior_choice: str
    prior_per_output: bool
    validation: Any
    trained: Any
    evidence: Any
    likelihood: str
    method: str
    num_particles: int | None
    num_steps: int | None
    tolerance: float | None
    seed: Seed
    dtype: Any
    memory_budget: int | None
    precision: str
    observe: Observer | None
    diagnose: bool
    refine: bool
    compiled: bool
    report: Report | None

    @property
    def automatic(self) -> bool:
        """Whether the prior's variance is to be chosen."""
        return isinstance(self.prior_variance, str) and self.prior_variance == AUTO

    def check(self, several: bool) -> tuple[Problem, RunSettings, Question | None]:
        """Return the problem, the settings, and what is asked about the prior, if anything.

        `several` says whether rows are cut over devices.
        """
        checked, streamed = self._check_how(several)
        checked._check_choice(streamed or several)
        problem = checked._build(streamed)
        check_per_output(problem, self.method)
        settings = checked._settle(problem)
        return problem, settings, None if streamed or several else checked._ask(problem)

    def _check_how(self, several: bool) -> "tuple[Request, bool]":
        """Return plain values for what was given, and whether rows are read from a file."""
        check_choice(self.likelihood, "likelihood", list(Likelihood))
        check_choice(self.precision, "precision", list(Precision))
        evidence, budget = check_positive(self.evidence, "evidence"), self.memory_budget
        if budget is not None:
            budget = int(check_positive(budget, "memory_budget"))
        num_steps, dtype = self.num_steps, self.dtype
        if num_steps is not None:
            num_steps = check_int(num_steps, "num_steps", least=1, most=MOST_STEPS)
        if self.precision != Precision.FULL:
            dtype = choose_rounded_dtype(dtype, self.precision)
        streamed = is_streamed(self.features, dtype, budget)
        kind, watched = Likelihood(self.likelihood), self.observe is not None
        check_served(self.method, kind, streamed, several, watched, self.precision)
        check_refined(self.refine, self.method, streamed, check_bool(self.diagnose, "diagnose"))
        plain: dict[str, Any] = {"memory_budget": budget, "num_steps": num_steps, "dtype": dtype}
        return replace(self, evidence=evidence, **plain), streamed

    def _check_choice(self, elsewhere: bool) -> None:
        """Check what is to be chosen of the prior; `elsewhere` are rows in files, or cut up."""
        check_choice(self.prior_choice, "prior_choice", list(CHOICES))
        check_bool(self.prior_per_output, "prior_per_output")
        asked = self.prior_choice != CHOICES[0] or self.prior_per_output
        if asked and not self.automatic:
            fail("prior_choice and prior_per_output are for prior_variance='auto'; pass that, too.")
        if self.prior_per_output and self.likelihood == Likelihood.SOFTMAX:
            fail("prior_per_output is for likelihood='bernoulli': classes share their prior.")
        if self.prior_per_output and METHODS[self.method].observable:
            fail(f"prior_per_output is not for method {self.method!r}; use 'exact-flow'.")
        if (self.automatic or self.validation is not None) and elsewhere:
            fail(
                "prior_variance='auto' and validation need rows in memory and one device; "
                "choose a number on fewer rows, which info.settings then holds."
            )

    def _build(self, streamed: bool) -> Problem:
        """Return rows and prior as a problem, equal rows merged, counts times the evidence."""
        m0, v = self.prior_mean, 1.0 if self.automatic else self.prior_variance
        if m0 is None and self.trained is not None and not self.automatic:
            m0 = check_numbers(self.trained, "trained")
        build = StreamedProblem.build if streamed else Problem.build
        m0, kind = 0.0 if m0 is None else m0, Likelihood(self.likelihood)
        problem = build(self.features, self.targets, self.counts, m0, v, kind, self.dtype)
        if self.evidence != 1:
            if streamed:
                fail(
                    "evidence= needs rows in memory; multiply counts and targets in the file "
                    "instead."
                )
            b = problem.dtype.type(self.evidence)
            problem = replace(problem, targets=problem.targets * b, counts=problem.counts * b)
        return problem if streamed else collapse(problem)

    def _settle(self, problem: Problem) -> RunSettings:
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
            compiled=check_bool(self.compiled, "compiled"),
        )

    def _ask(self, problem: Problem) -> Question | None:
        """Return what is to be chosen of the prior, or compared with a network."""
        trained = _check_trained(self.trained, problem)
        validation = _check_validation(self.validation, problem)
        if not self.automatic and trained is None and validation is None:
            return None
        warning, repeated = "", problem.num_rows < len(self.features)
        repeated |= self.counts is not None and bool((problem.counts > 1).any())
        if validation is not None and not repeated:  # rows that repeat may be held out, too
            validation, warning = set_aside_shared(validation, problem)
        given = self.prior_mean is not None or (not self.automatic and trained is not None)
        return Question(
            mean=problem.prior_mean if given else None,
            variance=None if self.automatic else problem.prior_scale**2,
            trained=trained,
            validation=validation,
            by_evidence=self.prior_choice == CHOICES[1],
            per_output=self.prior_per_output,
            warning=warning,
        )


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
    right = isinstance(validation, tuple | list) and len(validation) in (2, 3)
    if not right or any(isinstance(part, tuple) for part in validation):
        kind = "a list of tuples; join the batches" if right else type(validation).__name__
        fail(f"validation must be (features, targets) or (features, targets, counts), got {kind}.")
    psi, t, *c = validation
    K, D = problem.num_outputs, problem.num_features
    softmax = problem.likelihood is Likelihood.SOFTMAX
    t = check_numbers(t, "validation targets") if not c else t
    if softmax and np.ndim(t) == 1:
        weights = np.asarray(c[0]) if c else np.ones(len(t))
        known = np.where(weights == 0, 0, t)  # a label that does not count may be missing
        t = encode_classes(known, weights, K, "validation targets")
    counts = c[0] if c else None
    try:
        beside = Problem.build(psi, t, counts, 0.0, 1.0, problem.likelihood, problem.dtype)
    except UserError as error:  # it begins with the name of the argument
        raise UserError(f"validation {error}") from None
    if (beside.num_outputs, beside.num_features) != (K, D):
        fail(
            f"validation must have {D} features and {K} outputs, as the rows have, got "
            f"{beside.num_features} and {beside.num_outputs}."
        )
    if not beside.counts.any():
        fail("validation has no rows that count; give rows with counts above 0.")
    return beside
