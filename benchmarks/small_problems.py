"""Processor time of the first and of later fits with defaults, on a problem of Yeast's size.

    python -m benchmarks.small_problems                       14 labels, float64
    python -m benchmarks.small_problems --dtype float32 --classes
    python -m benchmarks.small_problems --yeast --json FILE   Yeast itself, raw and by a network

1,500 rows, 103 features and an intercept; each fit draws new data of the same shape. The first fit
imports JAX.
--yeast takes the 1,450 training rows of each seed of `benchmarks.peers` (its data come with
`river`): all 103 features with the estimator, and the 65 of a trained network's last layer with
its validation rows. The recorded numbers are in `benchmarks/results/small_problems.json`.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Annotated

import numpy as np
import typer

from lastlayer.machine import use_one_blas_thread

ROWS, FEATURES, OUTPUTS = 1_500, 103, 14
FITS = 4


def draw(seed: int, dtype: str, classes: bool) -> tuple[np.ndarray, np.ndarray]:
    """Draw correlated features, and labels or classes that depend on them."""
    rng = np.random.default_rng(seed)
    causes = rng.normal(size=(ROWS, 20)) @ rng.normal(size=(20, FEATURES)) / 4
    x = causes + 0.7 * rng.normal(size=(ROWS, FEATURES))
    logits = x @ rng.normal(scale=0.08, size=(FEATURES, OUTPUTS)) + rng.normal(-0.8, 1, OUTPUTS)
    if classes:
        return x.astype(dtype), (4 * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return x.astype(dtype), (logits + rng.logistic(size=logits.shape) > 0).astype(int)


def fit(x: np.ndarray, y: np.ndarray, classes: bool) -> float:
    """Fit as the estimators of `lastlayer.sklearn` do, and return the prior variance chosen."""
    from lastlayer import sample_posterior

    posterior = sample_posterior(
        np.hstack([x, np.ones((len(x), 1), x.dtype)]),
        y,
        prior_variance="auto",
        likelihood="softmax" if classes else "bernoulli",
        diagnose=False,
    )
    return float(posterior.info.settings["prior_variance"])


def fit_yeast(dtype: str) -> Iterator[tuple[str, float]]:
    """Yield the kind of features and the processor seconds of each fit."""
    from benchmarks.comparison.data import make_task
    from benchmarks.comparison.networks import train_networks
    from benchmarks.comparison.ours import fit_default
    from benchmarks.comparison.problem import Problem
    from lastlayer.sklearn import BayesianMultilabel

    tasks = [make_task("yeast", seed) for seed in range(FITS)]
    for task in tasks:
        x, y = task.inputs["train"].astype(dtype), task.targets["train"]
        began = process_time()
        BayesianMultilabel().fit(x, y)
        yield "103 features", process_time() - began
    for task in tasks:
        problem = Problem(task, train_networks(task)[0])
        assert len(problem.features)  # computed before the timer starts
        began = process_time()
        fit_default(problem)
        yield "last layer of a network", process_time() - began


def main(
    dtype: Annotated[str, typer.Option(help="float32 or float64.")] = "float64",
    classes: Annotated[bool, typer.Option("--classes", help="One of 14 classes.")] = False,
    yeast: Annotated[bool, typer.Option("--yeast", help="Fit Yeast itself.")] = False,
    record: Annotated[Path | None, typer.Option("--json", help="Write --yeast there.")] = None,
) -> None:
    """Fit several times and print the time of each fit."""
    if yeast:
        with use_one_blas_thread():
            fits = [(name, round(took, 3)) for name, took in fit_yeast(dtype)]
        for name, took in fits:
            print(f"{name}: {took:.2f} s")
        if record is not None:
            rows = [{"fitted": name, "dtype": dtype, "processor_s": took} for name, took in fits]
            record.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        return
    for number in range(FITS):
        x, y = draw(number, dtype, classes)
        began = process_time()
        variance = fit(x, y, classes)
        took = process_time() - began
        print(f"fit {number}: {took:.2f} s, prior variance {variance:.3g}")


if __name__ == "__main__":
    typer.run(main)
