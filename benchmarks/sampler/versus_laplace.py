"""Our posterior against a plain Laplace approximation: Newton's method, a dozen lines of NumPy.

Both get N distinct rows in float32 and the prior N(0, I), and return a mean and a covariance for
each output. Theirs treats one output after another, takes full Newton steps until none is longer
than 1e-4, and inverts the Hessian at the end. Ours is timed twice: the flow alone, which returns
the same quantities, and a whole call, which adds particles and diagnostics. Each is timed in turn,
and the fastest round counts.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from scipy.special import expit

from benchmarks.sampler.lines import Findings, Goal, Line
from benchmarks.sampler.problems import make_plain_rows
from benchmarks.sampler.running import Workbench
from benchmarks.sampler.settings import BenchSettings
from benchmarks.sampler.timing import measure_time
from lastlayer import METHODS, sample_posterior
from lastlayer.machine import use_one_blas_thread
from lastlayer.outcome import Outcome, RunSettings
from lastlayer.problem import Likelihood, Problem

__all__ = ["fit_laplace", "measure"]

WARM, COLD = Goal(most=1.5), Goal(most=3.0)
SHORT = 1e-4  # a Newton step that ends the iteration


def measure(bench: Workbench) -> Findings:
    """Compare our first and later calls with theirs, for each (features, outputs)."""
    lines, details = [], {}
    for D, K in bench.settings.laplace_sizes:
        bench.say(f"plain Laplace, {D} features, {K} outputs")
        found = _measure_size(D, K, bench.settings)
        details[f"{D} features, {K} outputs"] = found
        theirs = found["laplace"]
        for name, goal in (("flow", None), ("call", WARM), ("first call", COLD)):
            lines.append(
                Line(
                    what=f"plain Laplace, D = {D}, K = {K}; our {name}",
                    ours=found[name],
                    theirs=theirs,
                    ratio=found[name] / theirs,
                    goal=goal,
                )
            )
    return Findings(lines=lines, details=details)


def fit_laplace(psi: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return modes (K, D) and covariances (K, D, D)."""
    D, K = psi.shape[1], targets.shape[1]
    modes, covariances = np.zeros((K, D), psi.dtype), np.zeros((K, D, D), psi.dtype)
    for k in range(K):
        w, step, A = modes[k], np.ones(D), np.eye(D)
        while np.abs(step).max() > SHORT:
            y = expit(psi @ w)
            A = psi.T @ ((y * (1 - y))[:, None] * psi) + np.eye(D, dtype=psi.dtype)
            step = np.linalg.solve(A, psi.T @ (y - targets[:, k]) + w)
            w -= step
        covariances[k] = np.linalg.inv(A)
    return modes, covariances


def _measure_size(D: int, K: int, settings: BenchSettings) -> dict[str, Any]:
    method = METHODS["exact-flow"]
    asked = RunSettings(
        num_particles=settings.num_particles,
        num_steps=None,
        tolerance=5e-4,
        seed=settings.seed,
        memory_budget=None,
    )

    def list_work(seed: int) -> dict[str, Callable[[], Any]]:
        """Return what is measured on rows of this seed."""
        psi, labels = make_plain_rows(settings.rows, K, D, seed)
        targets = labels.astype(np.float32)
        problem = Problem.build(psi, targets, None, 0.0, 1.0, Likelihood.BERNOULLI, None)

        def flow() -> Outcome:
            with jax.default_matmul_precision("highest"), use_one_blas_thread():
                return method.run(problem, method.config(), asked)

        def call() -> Any:
            number = settings.num_particles
            return sample_posterior(
                psi, targets, prior_variance=1.0, num_particles=number, seed=seed
            )

        return {"laplace": lambda: fit_laplace(psi, targets), "flow": flow, "call": call}

    jax.clear_caches()  # type: ignore[no-untyped-call, unused-ignore]
    found = {"first call": measure_time(list_work(settings.seed)["call"])[0]}
    rounds = [
        {name: measure_time(each)[0] for name, each in list_work(settings.seed + turn).items()}
        for turn in (1, 2)
    ]
    return found | {name: min(each[name] for each in rounds) for name in rounds[0]}
