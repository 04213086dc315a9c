"""The comparisons, each on a small problem."""

import sys
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.sampler import (
    BenchSettings,
    linearity,
    run_bench,
    versus_literal,
    versus_nuts,
    versus_sklearn,
)
from benchmarks.sampler.literal import take_literal_step
from benchmarks.sampler.problems import Data, make_plain_rows
from benchmarks.sampler.running import Workbench
from benchmarks.sampler.timing import record_compilation, sum_spans

from equivocal.errors import UserError

QUICK = BenchSettings.quick()


@pytest.mark.parametrize(
    ("package", "section", "extra"),
    [
        ("sklearn", versus_sklearn, "equivocal[sklearn]"),
        ("numpyro", versus_nuts, "equivocal[nuts]"),
    ],
)
def test_what_is_not_installed_is_skipped_in_one_sentence(
    package: str, section: Any, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # importing it now fails
    if package == "sklearn":
        monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    (line,) = section.measure(Workbench(QUICK)).lines
    assert line.verdict(judged=True) == "skipped"
    assert f"pip install '{extra}'" in line.note


def test_repetitions_of_a_step_move_other_ensembles() -> None:
    psi, targets = make_plain_rows(60, 2, 12, seed=0)
    data = Data(features=psi, targets=targets, held_out=psi)
    start = versus_literal._make_start(data, QUICK, 2, np.float32)
    drawn = [start.particles, start.draw(1).particles, start.draw(2).particles]
    assert len({each.shape for each in drawn}) == 1
    assert len(np.unique(np.stack(drawn)[..., 0].ravel())) == 3 * drawn[0][..., 0].size
    assert start.draw(1).ours().shape == start.particles.shape


@pytest.mark.slow
def test_nuts_agrees_and_its_compilation_is_timed_separately() -> None:
    report = run_bench(replace(QUICK, outputs=3, rows=200, nuts_draws=400), only=["nuts"])
    compiled, cold, difference = report.sections["nuts"].lines
    details = report.sections["nuts"].details
    assert details["seconds_compiling"] < details["seconds_total"]
    assert cold.theirs == compiled.theirs + details["seconds_compiling"]
    assert compiled.theirs == pytest.approx(3 * details["seconds_per_output"])
    # 400 draws: standard error at most 0.025 at p = ½. Another output differs by 0.1 and more.
    assert difference.ours < 0.06
    (output,) = details["outputs"]
    assert 0 < output["nuts_standard_error_at_most"] < 0.06


def test_outputs_for_nuts_range_from_rare_to_balanced() -> None:
    ones = np.array([0, 50, 3, 20, 10, 99])  # of 100 rows; output 0 has one class
    targets = (np.arange(100)[:, None] < ones).astype(np.int8)
    data = Data(features=np.ones((100, 2), np.float32), targets=targets, held_out=np.ones((1, 2)))
    assert versus_nuts.choose_outputs(data, 3) == [5, 4, 1]
    assert versus_nuts.choose_outputs(data, 1) == [4]
    assert sorted(versus_nuts.choose_outputs(data, 99)) == [1, 2, 3, 4, 5]


def test_merged_rows_have_the_same_likelihood() -> None:
    rng = np.random.default_rng(0)
    features = rng.integers(0, 2, (60, 3)).astype(np.float32)
    data = Data(
        features=features, targets=rng.integers(0, 2, (60, 2)).astype(np.int8), held_out=features
    )
    w = rng.standard_normal(3)
    for k in range(2):
        psi, t, c = versus_sklearn.merge_rows(data)(k)
        assert len(psi) <= 16
        single = (np.logaddexp(0, features @ w) - data.targets[:, k] * (features @ w)).sum()
        np.testing.assert_allclose((c * (np.logaddexp(0, psi @ w) - t * (psi @ w))).sum(), single)


def test_literal_step_by_hand() -> None:
    """One weight, one row, two particles ±1: every matrix is a number."""
    theta, psi, t, dt = np.array([[1.0], [-1.0]]), np.array([[0.5]]), np.array([1.0]), 0.1
    P, y = 2.0, 1 / (1 + np.exp(-0.5))  # Σ(θ−m)²/(J−1); μ[y] = ½ by symmetry
    M = 1 / (dt * 0.5 * P * 0.5 + 1 / (y * (1 - y)))
    half = theta - dt / 2 * P * 0.5 * (M * 0.5 * theta + 2 * (0.5 - 1.0))
    m = half.mean()
    P = ((half - m) ** 2).sum()
    wanted = half - dt / 2 * P / (dt * P + 1) * (half + m) + dt / 2 * (half - m)
    np.testing.assert_allclose(take_literal_step(theta, psi, t, dt), wanted, rtol=1e-14)


def make_child_results(
    power: float, settings: BenchSettings
) -> dict[tuple[int, int], dict[str, Any]]:
    """Return times that grow as rows^power × outputs; sizes above 10,000 rows have failed."""
    return {
        (rows, outputs): {"seconds_flow": 1e-6 * rows**power * outputs, "peak_bytes": rows << 20}
        if rows <= 10_000
        else {"failed": "exit code 1, out of memory"}
        for sizes in linearity.list_sizes(settings)
        for rows, outputs in sizes
    }


def test_exponents_and_memory_follow_from_the_results_of_children() -> None:
    settings = BenchSettings()
    found = linearity.list_lines(make_child_results(1.5, settings), settings)
    lines = {line.what: line for line in found}
    by_rows = lines["time grows as rows to the power"]
    assert by_rows.ours == pytest.approx(1.5)  # from the two sizes that did not fail
    assert by_rows.verdict(judged=True) == "missed"
    by_outputs = lines["time grows as outputs to the power"]
    assert by_outputs.ours == pytest.approx(1.0)
    assert by_outputs.verdict(judged=True) == "met"
    small = lines["memory beyond inputs and its budget, N = 1,000, K = 4"]
    assert (small.ours, small.theirs, small.verdict(judged=True)) == (1000.0, 1024.0, "met")
    large = lines["memory beyond inputs and its budget, N = 10,000, K = 4"]
    assert large.verdict(judged=True) == "missed"
    failed = lines["memory beyond inputs and its budget, N = 100,000, K = 4"]
    assert failed.note == "exit code 1, out of memory"


def test_a_child_that_fails_says_why() -> None:
    too_small = replace(QUICK, memory_budget=1_000)
    assert "memory_budget" in linearity.measure_in_child(100, 1, too_small)["failed"]


def test_compilation_is_recorded_once() -> None:
    double = jax.jit(lambda x: 2 * x + 0.123)
    with record_compilation() as first:
        double(jnp.ones(3))
    with record_compilation() as second:
        double(jnp.ones(3))
    assert sum_spans(first) > 0
    assert sum_spans(second) == 0


def test_unknown_comparisons_are_named() -> None:
    with pytest.raises(UserError, match="no comparison named 'sklern': did you mean 'sklearn'"):
        run_bench(QUICK, only=["sklern"])
