"""Compare the default call, with `trained=` and `validation=`, with the network itself.

    python -m benchmarks.prior_default

The data are those of `comparison.prior_data` (two seeds, early-stopped and overfitted networks)
and three problems of `benchmarks.peers` (three seeds). Prints a Markdown table: mean test NLL of
the network and of the posterior, the largest ratio of the two, warnings, and the variances chosen.
"""

import warnings
from itertools import product
from typing import NamedTuple

import numpy as np

from benchmarks.comparison import data, prior_data
from benchmarks.comparison.data import Task
from benchmarks.comparison.networks import train_networks
from benchmarks.scores import negative_log_likelihood
from lastlayer import sample_posterior


class Measured(NamedTuple):
    """The test NLL of a network and of the posterior, the prior variance, and warnings."""

    network: float
    posterior: float
    variance: float
    warned: int


def measure(task: Task) -> Measured:
    """Train a network, and make the call that is recommended."""
    network = train_networks(task)[0]
    W, t = network.weights, task.targets
    psi = {part: network.compute_features(x) for part, x in task.inputs.items()}
    beside = psi["validation"], t["validation"]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        found = sample_posterior(
            psi["train"],
            t["train"],
            prior_variance="auto",
            validation=beside,
            trained=W,
            diagnose=False,
        )
    own = 0.5 + 0.5 * np.tanh(psi["test"] @ W.T / 2)
    return Measured(
        network=negative_log_likelihood(t["test"], own),
        posterior=negative_log_likelihood(t["test"], found.predict_proba(psi["test"])),
        variance=found.info.settings["prior_variance"],
        warned=len(seen),
    )


def main() -> None:
    """Print the table."""
    tasks = {
        f"{name}, {'overfitted' if over else 'early-stopped'}": [
            prior_data.make_task(name, seed, over) for seed in range(2)
        ]
        for name, over in product(prior_data.SOURCES, (False, True))
    }
    for name in ("yeast", "yeast-overfitted", "digits-labels"):
        tasks[name] = [data.make_task(name, seed) for seed in range(3)]
    heads = ["set", "network", "posterior", "largest ratio", "warnings", "variances"]
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    for name, some in tasks.items():
        found = [measure(task) for task in some]
        own, ours = np.mean([each[:2] for each in found], axis=0)
        ratio = max(each.posterior / each.network for each in found)
        warned = sum(each.warned for each in found)
        sizes = ", ".join(f"{each.variance:.2g}" for each in found)
        print(f"| {name} | {own:.4f} | {ours:.4f} | {ratio:.3f} | {warned} | {sizes} |", flush=True)


if __name__ == "__main__":
    main()
