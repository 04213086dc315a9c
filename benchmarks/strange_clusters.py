"""The corrected measure of `strangers_2.toml`: distance from the nearest of several clusters.

    h(ψ) = min over c of (ψ − c)ᵀ (S + εI)⁻¹ (ψ − c) = |F(ψ − c)|²          r(ψ) = h(ψ) / |ψ|²
    S = Σ_n (ψ_n − c_n)(ψ_n − c_n)ᵀ over the training rows

c: centres of clusters of training rows, c_n the one next to row n. Leverage, one centre at zero
(`lastlayer.unfamiliar`), misses rows between clumps of features, which networks make whose labels
are nearly certain. h and r are standardised on held-out rows; the larger is the score, as there.
"""

from collections.abc import Callable

import numpy as np

from lastlayer.unfamiliar import compute_factor

__all__ = ["fit_clusters"]

CLUSTERS, ROWS_EACH = 64, 20  # the most clusters, and the fewest rows for one more
ROUNDS = 20  # of k-means


def fit_clusters(train: np.ndarray, held_out: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function from features (N, D) to scores (N,)."""
    sd = train.std(axis=0)
    scale = np.where(sd > 0, sd, 1.0)
    number = int(np.clip(len(train) // ROWS_EACH, 1, CLUSTERS))
    centres = find_centres(train / scale, number)
    nearest = square_distances(train / scale, centres).argmin(axis=1)
    centres = centres * scale
    factor = compute_factor(train - centres[nearest])

    def measure(psi: np.ndarray) -> np.ndarray:
        h = square_distances(psi @ factor.T, centres @ factor.T).min(axis=1)
        return np.stack([h, h / np.maximum((psi**2).sum(axis=1), 1e-300)], axis=1)

    ordinary = measure(held_out)
    location, spread = ordinary.mean(axis=0), ordinary.std(axis=0)
    return lambda psi: np.asarray(((measure(psi) - location) / spread).max(axis=1))


def find_centres(psi: np.ndarray, number: int) -> np.ndarray:
    """Return the centres of k-means; it starts from rows far from each other (k-means++)."""
    rng = np.random.default_rng(0)
    chosen = [int(rng.integers(len(psi)))]
    nearest = ((psi - psi[chosen[0]]) ** 2).sum(axis=1)
    while len(chosen) < number and nearest.max() > 0:
        chosen.append(int(rng.choice(len(psi), p=nearest / nearest.sum())))
        nearest = np.minimum(nearest, ((psi - psi[chosen[-1]]) ** 2).sum(axis=1))
    centres = psi[chosen]
    for _ in range(ROUNDS):
        cluster = square_distances(psi, centres).argmin(axis=1)
        member = (cluster == np.arange(len(centres))[:, None]).astype(np.float64)
        sizes = member.sum(axis=1, keepdims=True)
        centres = np.where(sizes > 0, member @ psi / np.maximum(sizes, 1), centres)
    return np.asarray(centres)


def square_distances(x: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Return |x − c|² of each row and centre, (N, M)."""
    square = (x**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1) - 2 * x @ centres.T
    return np.asarray(np.maximum(square, 0))
