"""The curvature H = ΛZᵀWZΛ + I of crossed random effects, in blocks.

Columns of Z that belong to one grouping factor (the intercepts and slopes of participants) meet
only within a level. So with the factor that has most columns first,

    H = [ D  B ]      D: a k × k block for each of its G levels, k its intercept and slopes
        [ Bᵀ E ]      E: dense, for the columns of all other factors

and only S = E − BᵀD⁻¹B is factorised, whose size is that of the *smaller* factor. When the weights
W change from step to step, only the sums over trials are recomputed, by `bincount`.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from scipy import linalg

from equivocal.statistics.linear import RandomPart, count_levels, fill_values


class Layout:
    """The order of the columns of Z in H, and sums over the trials of each level."""

    def __init__(self, parts: Sequence[RandomPart]) -> None:
        sizes = [count_levels(part) for part in parts]
        factors: dict[int, list[int]] = {}
        for number, part in enumerate(parts):
            same = (b for b in factors if np.array_equal(parts[b].level, part.level))
            factors.setdefault(next(same, number), []).append(number)
        self.first = max(factors.values(), key=lambda group: len(group) * sizes[group[0]])
        self.rest = [b for b in range(len(parts)) if b not in self.first]
        self.factor_of = {b: lead for lead, group in factors.items() for b in group}
        self.levels = [part.level for part in parts]
        self.values = [fill_values(part) for part in parts]
        self.sizes = sizes
        self.groups = sizes[self.first[0]]
        self.width = sum(sizes[b] for b in self.rest)  # of E
        ends = np.cumsum([sizes[b] for b in self.rest]).tolist()
        self.columns = {b: slice(e - sizes[b], e) for b, e in zip(self.rest, ends, strict=True)}

    def sum_by_level(self, b: int, rows: np.ndarray) -> np.ndarray:
        """Return Z_bᵀ rows."""
        return np.bincount(self.levels[b], self.values[b] * rows, self.sizes[b])

    def spread(self, b: int, effects: np.ndarray) -> np.ndarray:
        """Return Z_b effects: the effect on each trial."""
        return np.asarray(self.values[b] * effects[self.levels[b]])

    def _sum_by_pair(self, a: int, b: int, weight: np.ndarray) -> np.ndarray:
        """Return Z_aᵀWZ_b for two parts of different factors."""
        cells = self.levels[a] * self.sizes[b] + self.levels[b]
        products = weight * self.values[a] * self.values[b]
        sums = np.bincount(cells, products, self.sizes[a] * self.sizes[b])
        return sums.reshape(self.sizes[a], self.sizes[b])

    def build(self, weight: np.ndarray, sds: np.ndarray) -> "Curvature":
        """Build H from the weights of the trials and the standard deviation λ of each part.

        Of E only the lower blocks are filled, which is all that its Cholesky factor reads.
        """
        k = len(self.first)
        D = np.empty((self.groups, k, k))
        B = np.empty((self.groups, k, self.width))
        for i, a in enumerate(self.first):
            for j, b in enumerate(self.first[: i + 1]):
                sums = sds[a] * sds[b] * self.sum_by_level(a, weight * self.values[b])
                D[:, i, j] = D[:, j, i] = sums + (a == b)
            for b in self.rest:
                B[:, i, self.columns[b]] = sds[a] * sds[b] * self._sum_by_pair(a, b, weight)
        E = np.eye(self.width)
        for i, a in enumerate(self.rest):
            for b in self.rest[: i + 1]:
                E_ab = E[self.columns[a], self.columns[b]]
                if self.factor_of[a] == self.factor_of[b]:
                    sums = sds[a] * sds[b] * self.sum_by_level(a, weight * self.values[b])
                    E_ab[np.diag_indices_from(E_ab)] += sums
                else:
                    E_ab += sds[a] * sds[b] * self._sum_by_pair(a, b, weight)
        return Curvature(self, D, B, E)


class Curvature:
    """H, factorised block by block."""

    def __init__(self, layout: Layout, D: np.ndarray, B: np.ndarray, E: np.ndarray) -> None:
        self.layout = layout
        self.D_inverse = np.linalg.inv(D)
        self.DB = self.D_inverse @ B
        flat = B.reshape(-1, layout.width)
        S = E - flat.T @ self.DB.reshape(-1, layout.width)
        self.S = linalg.cho_factor(S, lower=True) if layout.width else (S, True)
        logs = np.log(np.diag(self.S[0])).sum() if layout.width else 0.0
        self.log_determinant = float(np.linalg.slogdet(D)[1].sum() + 2 * logs)

    def solve(self, right: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return H⁻¹ times a vector; both vectors are lists with an array for each part."""
        layout = self.layout
        top = np.stack([right[b] for b in layout.first], axis=1)  # (G, k)
        solution: list[np.ndarray] = [np.empty(0)] * len(right)
        inner = np.einsum("gij,gj->gi", self.D_inverse, top)
        if layout.width:
            bottom = np.concatenate([right[b] for b in layout.rest])
            bottom = bottom - np.einsum("gis,gi->s", self.DB, top)
            bottom = linalg.cho_solve(self.S, bottom)
            inner -= self.DB @ bottom
            for b in layout.rest:
                solution[b] = bottom[layout.columns[b]]
        for j, b in enumerate(layout.first):
            solution[b] = inner[:, j]
        return solution

    @cached_property
    def _inverse(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """H⁻¹ in the blocks of D, B and E; of the block of D, only the entries within a level."""
        if not self.layout.width:
            return self.D_inverse, self.DB, np.empty((0, 0))
        lower = linalg.cho_solve(self.S, np.eye(self.layout.width))
        across = -self.DB @ lower
        return self.D_inverse - across @ np.swapaxes(self.DB, 1, 2), across, lower

    def compute_diagonal(self) -> list[np.ndarray]:
        """Return the diagonal of H⁻¹, an array for each part."""
        layout, (within, _, lower) = self.layout, self._inverse
        diagonal: list[np.ndarray] = [np.empty(0)] * len(layout.sizes)
        for j, b in enumerate(layout.first):
            diagonal[b] = within[:, j, j]
        for b in layout.rest:
            diagonal[b] = np.diag(lower)[layout.columns[b]]
        return diagonal

    def compute_variances(self, sds: np.ndarray) -> np.ndarray:
        """Return the diagonal of ZΛH⁻¹ΛZᵀ: the variance of each trial's log odds."""
        layout, (within, across, lower) = self.layout, self._inverse
        group = layout.levels[layout.first[0]]
        z = [layout.values[b] * sds[b] for b in range(len(layout.sizes))]
        total = np.zeros(len(group))
        for i, a in enumerate(layout.first):
            for j, b in enumerate(layout.first[: i + 1]):
                total += (1 + (i != j)) * z[a] * z[b] * within[group, i, j]
            for b in layout.rest:
                columns = layout.columns[b].start + layout.levels[b]
                total += 2 * z[a] * z[b] * across[group, i, columns]
        for i, a in enumerate(layout.rest):
            rows = layout.columns[a].start + layout.levels[a]
            for b in layout.rest[: i + 1]:
                columns = layout.columns[b].start + layout.levels[b]
                total += (1 + (a != b)) * z[a] * z[b] * lower[rows, columns]
        return total
