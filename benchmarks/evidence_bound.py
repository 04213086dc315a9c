"""Compare the evidence bound with the log evidence of reference posteriors, as a Markdown table.

    python -m benchmarks.evidence_bound FOLDER

The folder has `gold_data_NAME.npz` (X, t) and `gold_NAME_sVARIANCE.npz` (prior_mean, prior_var,
log_evidence) for logistic regressions with one output.
"""

import sys
from pathlib import Path

import jax
import numpy as np

from equivocal.sampling import sample_posterior
from equivocal.sampling.engine.problem import Likelihood, Problem
from equivocal.sampling.prior_search import compute_bound


def measure(data: Path, gold: Path) -> tuple[int, int, float, float]:
    """Return the number of rows and weights, the log evidence and the bound."""
    rows, answers = np.load(data), np.load(gold)
    x, t = rows["X"].astype(np.float64), rows["t"].astype(np.float64)
    prior = (answers["prior_mean"], float(answers["prior_var"]))
    fit = sample_posterior(
        x, t, prior_mean=prior[0], prior_variance=prior[1], dtype="float64", diagnose=False
    )
    problem = Problem.build(x, t, None, *prior, Likelihood.BERNOULLI, np.float64)
    with jax.enable_x64(True):
        bound = compute_bound(problem, fit.mean, np.linalg.cholesky(fit.covariance))
    return *x.shape, float(answers["log_evidence"]), float(bound.sum())


def main() -> None:
    """Print the table."""
    folder = Path(sys.argv[1])
    print("| data | rows, weights | prior variance | log evidence | bound L | gap |")
    print("|---|---|---|---|---|---|")
    for data in sorted(folder.glob("gold_data_*.npz")):
        name = data.stem.removeprefix("gold_data_")
        for gold in sorted(folder.glob(f"gold_{name}_s*.npz")):
            N, D, evidence, bound = measure(data, gold)
            v = gold.stem.rsplit("_s", 1)[1]
            gap = f"{evidence - bound:.2g}"
            print(f"| {name} | {N:,}, {D} | {v} | {evidence:.2f} | {bound:.2f} | {gap} |")


if __name__ == "__main__":
    main()
