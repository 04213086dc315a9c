"""The network flow: its error against exact posteriors, and the cost and benefit of its parts.

    python -m benchmarks.doubt --run runs/doubt/networks       one network of a run
    python -m benchmarks.doubt --quick                         a check that it works; half a minute

`linear`: a last layer of 20 weights (5 outputs) as a network, J particles, with all weights in one
part and with a part for each output: distance to `sample_posterior(method="exact-flow")` in
posterior standard deviations (means) and relative Frobenius norm (covariances), for the worst
output, as the median of five seeds. `layers`: posteriors of one trained network over one or more
layers, with hidden layers as one part or cut into four, at most ten rounds: seconds, passes, and
scores against the world's exact beliefs. The first posterior of a kind includes compilation. It
takes minutes on a GPU, an hour and more on two busy cores; each result is written at once, so that
an interrupted run keeps it.

Writes `benchmarks/results/doubt.json` (`--quick`: `quick/doubt.json`).
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.machine import RESULTS, describe_machine
from equivocal.doubt.members import sample_comprehenders
from equivocal.doubt.scores import (
    compute_auroc,
    compute_scores,
    enumerate_truth,
    find_reversals,
    sum_uncertainty,
)
from equivocal.network import Run, train
from equivocal.network.runs import split_corpus
from lastlayer import sample_network, sample_posterior
from lastlayer.files import write_text_atomically

N, K, D = 60, 5, 4
LAYERS = [("last", 1), ("query", 1), ("all", 1), ("query", 4)]  # layers, cuts
CASES = [(6, True), (6, False), (12, False), (21, False), (40, False)]  # J, a part per output


def measure_linear_errors(num_particles: int, by_output: bool, seed: int) -> tuple[float, float]:
    """Return the errors of means and of covariances, for the worst output."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, D)).astype(np.float32)
    t = (rng.random((N, K)) < 1 / (1 + np.exp(-x @ rng.normal(size=(D, K))))).astype(float)
    exact = sample_posterior(x, t, tolerance=1e-4)
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


def score_layers(
    run: Run, cases: list[tuple[str, int]], num_steps: int
) -> Iterator[dict[str, Any]]:
    """Yield cost and scores for each choice of layers and cuts, for the first network of a run."""
    network, corpus = run.networks[0], split_corpus(run.world, run.settings)[0]
    truth, pairs = enumerate_truth(run.world), find_reversals(run.world)
    for layers, cuts in cases:
        rounds = None if layers == "last" else num_steps
        how: dict[str, Any] = {"cuts": cuts, "num_steps": rounds, "tolerance": 0.5}
        made = sample_comprehenders(network, corpus, layers, **how)
        found = compute_scores(made.pool(truth.questions), truth)
        row = {
            "layers": layers,
            "cuts": cuts,
            "seconds": made.seconds,
            "passes": made.passes,
            **found,
        }
        seen = compute_auroc(sum_uncertainty(made, pairs)["epistemic"])
        yield row | {"auroc": seen, "says": made.message}


def main(
    run: Annotated[Path | None, typer.Option(help="A folder with trained networks.")] = None,
    quick: Annotated[bool, typer.Option(help="Small sizes, to see that it runs.")] = False,
) -> None:
    """Measure both parts, one after the other."""
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
    trained = (
        train("paper", networks=1, epochs=10, sentences=1_000) if run is None else Run.load(run)
    )
    table: list[dict[str, Any]] = []
    result = {"quick": quick, "linear": linear, "layers": table, "machine": describe_machine()}
    path = RESULTS / ("quick/doubt.json" if quick else "doubt.json")
    for line in score_layers(trained, LAYERS[: 2 if quick else None], 2 if quick else 10):
        print(json.dumps(line), flush=True)
        table.append(line)
        write_text_atomically(path, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
