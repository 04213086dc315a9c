"""Compare the draws of `hmc` with reference posteriors by long chains, as a Markdown table.

    python -m benchmarks.reference_draws FOLDER

The folder has `gold_data_NAME.npz` (X, t) and `gold_NAME_sVARIANCE.npz` (prior_mean, prior_var,
mean, cov). The table has the error of the worst mean, in posterior standard deviations, and of the
covariance, in relative Frobenius norm, each with the expected Monte Carlo error of one mean or of
the covariance: ∇u of maths.md (23) has the variance `shift` in each direction.
"""

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lastlayer import sample_posterior

HEAD = "data | prior variance | effective size | R-hat | means | expected | covariance | expected"


class Found(NamedTuple):
    """The errors of the moments of `hmc` against the reference's."""

    size: float
    r_hat: float
    mean: float
    mean_expected: float
    covariance: float
    covariance_expected: float


def measure(data: Path, gold: Path) -> Found:
    """Sample one posterior exactly and compare its moments."""
    rows, answers = np.load(data), np.load(gold)
    x, t = rows["X"].astype(np.float64), rows["t"].astype(np.float64)
    prior = {"prior_mean": answers["prior_mean"], "prior_variance": float(answers["prior_var"])}
    number = 12_800 if len(x) < 1_000 else 1_600
    exact = sample_posterior(x, t, method="hmc", num_particles=number, **prior)
    shift = sample_posterior(x, t, **prior).info.covariance_shift[0] / exact.info.ess[0]
    sd, D = np.sqrt(np.diag(answers["cov"])), x.shape[1]
    off = exact.covariance[0] - answers["cov"]
    return Found(
        exact.info.ess[0],
        exact.info.r_hat[0],
        np.abs((exact.mean[0] - answers["mean"]) / sd).max(),
        np.sqrt(shift),
        float(np.linalg.norm(off) / np.linalg.norm(answers["cov"])),
        np.sqrt(D * shift),
    )


def main() -> None:
    """Print the table."""
    folder = Path(sys.argv[1])
    print(f"| {HEAD} |\n|{'---|' * 8}")
    for data in sorted(folder.glob("gold_data_*.npz")):
        name = data.stem.removeprefix("gold_data_")
        for gold in sorted(folder.glob(f"gold_{name}_s*.npz")):
            found = measure(data, gold)
            numbers = [f"{found.size:,.0f}", f"{found.r_hat:.4f}", *(f"{x:.4f}" for x in found[2:])]
            print(
                f"| {name} | {gold.stem.rsplit('_s', 1)[1]} | {' | '.join(numbers)} |", flush=True
            )


if __name__ == "__main__":
    main()
