"""The network flow on a problem with an exact answer: its error, and what parts are good for.

    python -m benchmarks.doubt                a minute
    python -m benchmarks.doubt --quick        a check that it works

A last layer of 20 weights (5 outputs) as a network, J particles, with all weights in one part and
with a part for each output: distance to `sample_posterior(method="exact-flow")` in posterior
standard deviations (means) and relative Frobenius norm (covariances), for the worst output, as the
median of five seeds. Writes `benchmarks/results/doubt.json` (`--quick`: `quick/doubt.json`).
"""

import json
from typing import Annotated

import numpy as np
import typer

from benchmarks.machine import RESULTS, describe_machine
from equivocal.store.files import write_text_atomically
from lastlayer import sample_network, sample_posterior

N, K, D = 60, 5, 4
CASES = [(6, True), (6, False), (12, False), (21, False), (40, False)]  # J, a part per output


def measure_linear_errors(num_particles: int, by_output: bool, seed: int) -> tuple[float, float]:
    """Return the errors of means and of covariances, for the worst output."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, D)).astype(np.float32)
    t = (rng.random((N, K)) < 1 / (1 + np.exp(-x @ rng.normal(size=(D, K))))).astype(float)
    exact = sample_posterior(x, t, prior_variance=1.0, tolerance=1e-4)
    found = sample_network(
        lambda w, x: x @ w.reshape(K, D).T,
        x,
        t,
        np.zeros(K * D),
        parts=[np.arange(K * D).reshape(K, D)] if by_output else None,
        num_particles=num_particles,
        tolerance=1e-3,
        seed=seed,
    )
    d = (found.particles - found.mean).reshape(-1, K, D)
    covariance = np.einsum("jka,jkb->kab", d, d) / (len(d) - 1)
    sd = np.sqrt(np.diagonal(exact.covariance, axis1=1, axis2=2))
    size = np.linalg.norm(exact.covariance, axis=(1, 2))
    off = np.linalg.norm(covariance - exact.covariance, axis=(1, 2)) / size
    return float(np.abs((found.mean.reshape(K, D) - exact.mean) / sd).max()), float(off.max())


def main(
    quick: Annotated[bool, typer.Option(help="Small sizes, to see that it runs.")] = False,
) -> None:
    """Measure every case and write the errors."""
    linear = []
    for num_particles, by_output in CASES[: 2 if quick else None]:
        found = [
            measure_linear_errors(num_particles, by_output, seed)
            for seed in range(1 if quick else 5)
        ]
        mean, covariance = np.median(found, axis=0)
        row = {"J": num_particles, "by_output": by_output}
        linear.append(row | {"mean_error_sd": mean, "covariance_error": covariance})
        print(json.dumps(linear[-1]), flush=True)
    result = {"quick": quick, "linear": linear, "machine": describe_machine()}
    path = RESULTS / ("quick/doubt.json" if quick else "doubt.json")
    write_text_atomically(path, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
