"""The same seed gives the same bits under every memory budget that is accepted.

Budgets are those of different plans: products held or formed in every pass, rows laid out at once
or chunk by chunk. 20 outputs are no whole number of groups of 16, nor 1,500 rows of blocks of 512.
"""

import re
import tracemalloc
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from lastlayer import Posterior, sample_posterior
from lastlayer.engine import small
from lastlayer.engine.plan import Plan
from lastlayer.engine.problem import Likelihood, Problem
from lastlayer.engine.settings import RunSettings
from lastlayer.engine.streaming import is_streamed
from lastlayer.errors import UserError
from lastlayer.prior_choice import Question, choose_prior, count_bytes
from lastlayer.samplers import (
    aldi,
    dropout_deterministic,
    exact_flow,
    homotopy,
    mean_field,
)
from problems import Stored

N, D, K, J = 1_500, 40, 20, 60
OTHERS = ("seconds", "settings", "versions", "rank")  # of `info`: the last is `effective_rank`
rng = np.random.default_rng(0)
X = rng.normal(size=(N, D)).astype(np.float32)
X[:, 0] = 1
LOGITS = X @ rng.normal(size=(D, K)) / 4
T = (rng.random((N, K)) < 1 / (1 + np.exp(-LOGITS))).astype(float)
COUNTS = rng.integers(1, 4, size=(N, K)).astype(float)
PRIOR_MEAN = rng.normal(size=(K, D)) / 10

# The functions by which the samplers plan.
PLANS: dict[str, Callable[[Problem, RunSettings], Plan]] = {
    "shared": partial(mean_field._plan_flow, share=True),
    "flow": partial(mean_field._plan_flow, share=False),
    "ensemble": exact_flow.plan_ensemble,
    "dropout": dropout_deterministic.plan_run,
    "homotopy": homotopy.plan_run,
    "aldi": aldi.plan_run,
}
SETTINGS = RunSettings(num_particles=J, num_steps=4, tolerance=5e-4, seed=0, memory_budget=None)
COMPILED: dict[str, Any] = {"compiled": True}
FEW: dict[str, Any] = {"num_steps": 4, "num_particles": J}
SOFTMAX: dict[str, Any] = {"likelihood": "softmax"}
DROPOUT: dict[str, Any] = {"method": "dropout-deterministic"}
# The plans that a case goes through, and its options.
CASES: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "exact-flow": (("shared", "flow"), COMPILED),
    "exact-flow, in NumPy": ((), {}),
    "exact-flow, prior chosen": ((), {"prior_variance": "auto", "num_particles": J}),
    "exact-flow, refined": ((), {"prior_variance": 9.0, "refine": True, "num_particles": J}),
    "mean-field": (("flow",), FEW | {"method": "mean-field"}),
    "mean-field, counts of each output": (
        ("shared", "flow"),
        COMPILED | {"method": "mean-field", "counts": COUNTS, "prior_mean": PRIOR_MEAN},
    ),
    "laplace": (("shared", "flow"), COMPILED | {"method": "laplace"}),
    "ensemble": (("ensemble",), FEW | {"expectations": "ensemble"}),
    "hmc": (("flow",), FEW | {"method": "hmc"}),
    "hmc, counts of each output": (("flow",), FEW | {"method": "hmc", "counts": COUNTS}),
    "softmax": ((), FEW | SOFTMAX),
    "dropout-deterministic": (("dropout",), FEW | DROPOUT),
    "homotopy": (("homotopy",), FEW | {"method": "homotopy"}),
    "aldi": (("aldi",), FEW | {"method": "aldi"}),
}
QUICK = ("exact-flow", "exact-flow, in NumPy", "hmc", "homotopy")


def assert_same_bits(found: Posterior, expected: Posterior) -> None:
    for name in ("mean", "covariance", "particles"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), name)
    for name in ("effective_rank", *(field.name for field in fields(expected.info))):
        if name not in OTHERS:
            values = (getattr(each.info, name) for each in (found, expected))
            np.testing.assert_array_equal(*values, name)


def read_budget(error: UserError) -> int:
    """Return the budget that a refusal names."""
    named = re.search(r"need at least ([\d,]+) bytes", str(error))
    assert named, error
    return int(named[1].replace(",", ""))


def find_smallest(sample: Callable[[int], Posterior]) -> tuple[int, Posterior]:
    """Ask for too little, and then for what the refusal names."""
    with pytest.raises(UserError) as refused:
        sample(1)
    budget = read_budget(refused.value)
    with pytest.raises(UserError):
        sample(budget - 1)
    return budget, sample(budget)


def choose_data(options: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return features and targets that go with the options of a case."""
    if "likelihood" in options:
        return X, LOGITS[:, :5].argmax(axis=1)
    return X, T * options.get("counts", 1)


def list_plans(problem: Problem, names: tuple[str, ...], budget: int | None) -> list[Plan]:
    settings = replace(SETTINGS, memory_budget=budget)
    return [PLANS[name](problem, settings) for name in names]


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in CASES]
)
def test_the_budget_changes_no_bit(name: str) -> None:
    plans, options = CASES[name]
    targets = choose_data(options)[1]

    def sample(budget: int | None) -> Posterior:
        return sample_posterior(X, targets, memory_budget=budget, **options)

    expected = sample(None)
    smallest, found = find_smallest(sample)
    assert_same_bits(found, expected)
    kind = Likelihood(options.get("likelihood", "bernoulli"))
    problem = Problem.build(X, targets, options.get("counts"), 0.0, 1.0, kind, None)
    # what holds rows in blocks, and forms products in every pass where there are any
    middle = smallest + 4 * (2 * D + 1) * 1_536
    made = [list_plans(problem, plans, budget) for budget in (None, middle, smallest)]
    if "shared" in plans:
        assert_same_bits(sample(middle), expected)
        assert [(each.held, flow.streamed) for each, flow in made] == [
            (True, False),
            (False, False),
            (False, True),
        ]
    elif plans:
        assert [flow.streamed for (flow,) in made] == [False, False, True]


def test_laplace_takes_what_its_programs_need() -> None:
    """It is never solved in NumPy, which would take more for many outputs of few rows."""
    problem = Problem.build(X, T, None, 0.0, 1.0, Likelihood.BERNOULLI, None)
    plans = list_plans(problem, ("shared", "flow"), None)
    enough = max(plan.least for plan in plans)
    assert enough < small.count_bytes(problem)
    found = sample_posterior(X, T, method="laplace", memory_budget=enough, diagnose=False)
    assert found.info.converged


def name_budget(x: np.ndarray, t: np.ndarray, **options: Any) -> int:
    with pytest.raises(UserError) as refused:
        sample_posterior(x, t, memory_budget=1, prior_variance="auto", diagnose=False, **options)
    return read_budget(refused.value)


@pytest.mark.parametrize(
    ("name", "N", "M", "K"),
    [
        ("counts of each output", 300, 0, 100),
        ("network", 900, 8_000, 40),
        ("network", 30_000, 0, 20),
        ("classes", 900, 8_000, 40),
    ],
)
def test_the_choice_of_a_prior_takes_what_the_budget_named_has(
    name: str, N: int, M: int, K: int
) -> None:
    """Five fits leave out parts of 300 rows in turn; or there are many rows to compare by."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(N + M, 3)).astype(np.float32)
    logits = x @ rng.normal(size=(3, K)).astype(np.float32)
    options: dict[str, Any] = {}
    kind, t = Likelihood.BERNOULLI, (logits > rng.logistic(size=logits.shape)).astype(float)
    if name == "counts of each output":
        options["counts"] = np.ones((N, K))
    elif name == "classes":
        kind, t = Likelihood.SOFTMAX, np.arange(N + M) % K
        options["likelihood"] = "softmax"
    held_out = None
    if M:
        options["validation"] = x[N:], t[N:]
        held_out = Problem.build(x[N:], t[N:], None, 0.0, 1.0, kind, None)
    trained = np.ones((K, 3), np.float32) if name == "network" else None
    named = name_budget(x[:N], t[:N], trained=trained, **options)
    problem = Problem.build(x[:N], t[:N], options.get("counts"), 0.0, 1.0, kind, None)
    asked = Question(variance=True, mean=trained is not None, trained=trained, validation=held_out)
    tracemalloc.start()
    choose_prior(problem, asked)
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    planned = count_bytes(problem, asked)
    assert used < planned < 2.5 * used
    assert named >= planned


def test_the_budget_named_has_room_for_outputs_that_are_filled_up() -> None:
    """Five of six outputs that are given the same variance are solved as eight."""
    t, options = T[:, :6], {"prior_per_output": True}
    variance = [[1.0]] * 5 + [[2.0]]
    problem = Problem.build(X, t, None, 0.0, variance, Likelihood.BERNOULLI, None)
    (_, part), _ = problem.split()
    assert part.num_outputs == 8
    settings = replace(SETTINGS, num_steps=None)
    assert name_budget(X, t, **options) >= mean_field.count_bytes(part, settings, mean_field.RULE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "dtype"), [("hmc", "float32"), ("hmc", "float64"), ("mean-field", "float32")]
)
def test_rows_in_a_file_have_the_bits_of_rows_in_memory(method: str, dtype: str) -> None:
    """With a number of steps: else flows of rows in memory share products, which files do not."""
    x = np.random.default_rng(0).normal(size=(6_001, 3)).astype(dtype)
    t = x[:, :2] + 0.3 > x[:, 2:]
    options: dict[str, Any] = {"method": method, "num_steps": 3, "num_particles": 8}
    memory = sample_posterior(x, t, **options)

    def sample(budget: int) -> Posterior:
        return sample_posterior(Stored(x), t, memory_budget=budget, **options)

    smallest, found = find_smallest(sample)
    more = smallest + 50_000
    assert is_streamed(Stored(x), None, more)
    for streamed in (found, sample(more)):
        assert_same_bits(streamed, memory)
