"""Test NLL by how rare a label is, averaged over the posterior and at its mean weights.

    python -m benchmarks.rare_labels                  yeast, andes, wide; three seeds, minutes

It shows where averaging over weights pays. A label that is nearly always on counts as rare, like
one that is nearly always off. Prior and posterior are those of `ours` in `benchmarks.peers`;
docs/guides/sampling.md has the numbers.
"""

from itertools import pairwise
from typing import Annotated

import numpy as np
import typer

from benchmarks.comparison.data import make_task
from benchmarks.comparison.networks import train_networks
from benchmarks.comparison.ours import _sample
from benchmarks.comparison.problem import Problem
from lastlayer.machine import use_one_blas_thread

RATES = (0.0, 0.01, 0.03, 0.1, 0.2, 0.5)


def measure(name: str, seed: int) -> np.ndarray:
    """Return how rare each label is and its NLL averaged over weights and at their mean, (K, 3)."""
    task = make_task(name, seed)
    problem = Problem(task, train_networks(task)[0])
    posterior = _sample(problem, diagnose=False)
    psi, t = problem.features["test"], problem.targets["test"]
    rate = problem.targets["train"].mean(axis=0)
    answers = posterior.predict_proba(psi), problem.apply_link(psi @ posterior.mean.T)
    losses = [_compute_losses(t, np.asarray(p, np.float64)) for p in answers]
    return np.column_stack([np.minimum(rate, 1 - rate), *losses])


def _compute_losses(t: np.ndarray, p: np.ndarray) -> np.ndarray:
    p = np.clip(p, 1e-7, 1 - 1e-7)
    return np.asarray(-(t * np.log(p) + (1 - t) * np.log1p(-p)).mean(axis=0))


def main(
    data: Annotated[list[str] | None, typer.Option(help="Sets with labels.")] = None,
    seeds: Annotated[int, typer.Option(min=1)] = 3,
) -> None:
    """Print the NLL of labels by how rare they are."""
    with use_one_blas_thread():
        for name in data or ["yeast", "andes", "wide"]:
            found = np.concatenate([measure(name, seed) for seed in range(seeds)])
            for low, high in pairwise(RATES):
                some = found[(found[:, 0] >= low) & (found[:, 0] < high)]
                if len(some):
                    _, averaged, plain = some.mean(axis=0)
                    print(
                        f"{name:8} {low:.0%} to {high:.0%} ({len(some)} labels and seeds): "
                        f"averaged {averaged:.4f}, at the mean {plain:.4f}, "
                        f"{averaged / plain - 1:+.2%}"
                    )


if __name__ == "__main__":
    typer.run(main)
