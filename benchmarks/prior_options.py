"""Compare ways of choosing the prior variance, without mixing in the network's own answers.

    python -m benchmarks.prior_options

The data are Yeast and win95pts (`benchmarks.comparison`), with features learned from the training
rows. The variance is chosen by held-out rows or the evidence, one for all labels or one for each.
Prints a Markdown table of the variances chosen and the test NLL, as means over seeds.
"""

import sys
from typing import Any

import numpy as np

from benchmarks.comparison.data import make_task
from benchmarks.comparison.networks import train_networks
from benchmarks.comparison.problem import Problem
from benchmarks.scores import negative_log_likelihood
from lastlayer import sample_posterior

SEEDS = 3
OPTIONS: dict[str, dict[str, Any]] = {
    "held-out rows": {},
    "held-out rows, each label": {"prior_per_output": True},
    "evidence": {"prior_choice": "evidence"},
    "evidence, each label": {"prior_choice": "evidence", "prior_per_output": True},
}


def measure(problem: Problem, **options: Any) -> tuple[float, float, float]:
    """Return the smallest and the largest variance chosen, and the test NLL."""
    psi, t = problem.features, problem.targets
    posterior = sample_posterior(
        psi["train"],
        t["train"],
        prior_variance="auto",
        validation=(psi["validation"], t["validation"]),
        diagnose=False,
        **options,
    )
    v = np.atleast_1d(posterior.info.settings["prior_variance"])
    loss = negative_log_likelihood(t["test"], posterior.predict_proba(psi["test"]))
    return float(v.min()), float(v.max()), loss


def main() -> None:
    """Print the table."""
    print("| data | chosen by | variances | test NLL |\n|---|---|---|---|")
    for name in sys.argv[1:] or ("yeast", "yeast-overfitted", "win95pts"):
        tasks = [make_task(name, seed) for seed in range(SEEDS)]
        problems = [Problem(task, train_networks(task)[0]) for task in tasks]
        for label, options in OPTIONS.items():
            found = np.array([measure(problem, **options) for problem in problems])
            least, most = found[:, 0].min(), found[:, 1].max()
            print(f"| {name} | {label} | {least:.2g} to {most:.2g} | {found[:, 2].mean():.4f} |")


if __name__ == "__main__":
    main()
