"""The curvature H = ΛᵀZᵀWZΛ + I of crossed random effects, in blocks.

Each effect (the intercepts, or the slopes, of participants) is a column of Z for every level.
Columns of Z that belong to one grouping factor meet only within a level. So with the factor that
has most columns first,

    H = [ D  B ]      D: a k × k block for each of its G levels, k its intercept and slopes
        [ Bᵀ E ]      E: dense, for the columns of all other factors

and only S = E − BᵀD⁻¹B is factorised, whose size is that of the *smaller* factor. When the weights
W change from step to step, only the sums over trials are recomputed, by `bincount`. `values` are
those of ZΛ: what a trial has in the column of its level, for each effect.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from scipy import linalg

from equivocal.statistics.fits import RandomPart, count_effects, count_levels, fill_values

Values = Sequence[np.ndarray]  # an array (n,) for each effect


class Layout:
    """The order of the columns of Z in H, and sums over the trials of each level."""

    def __init__(self, parts: Sequence[RandomPart]) -> None:
        self.part_sizes = [count_effects(part) for part in parts]
        self.levels = [part.level for part in parts for _ in range(count_effects(part))]
        self.raw = [column for part in parts for column in fill_values(part).T.copy()]
        self.sizes = [count_levels(part) for part in parts for _ in range(count_effects(part))]
        factors: dict[int, list[int]] = {}
        for number, level in enumerate(self.levels):
            same = (b for b in factors if np.array_equal(self.levels[b], level))
            factors.setdefault(next(same, number), []).append(number)
        self.first = max(factors.values(), key=lambda group: len(group) * self.sizes[group[0]])
        self.rest = [b for b in range(len(self.levels)) if b not in self.first]
        self.factor_of = {b: lead for lead, group in factors.items() for b in group}
        self.groups = self.sizes[self.first[0]]
        self.width = sum(self.sizes[b] for b in self.rest)  # of E
        ends = np.cumsum([self.sizes[b] for b in self.rest]).tolist()
        self.columns = {
            b: slice(e - self.sizes[b], e) for b, e in zip(self.rest, ends, strict=True)
        }

    def scale(self, factors: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the values of ZΛ, given the factor T of each part."""
        scaled, start = [], 0
        for T in factors:
            k = len(T)
            for c in range(k):
                scaled.append(sum(T[j, c] * self.raw[start + j] for j in range(c, k)))
            start += k
        return [np.asarray(column) for column in scaled]

    def sum_by_level(self, b: int, rows: np.ndarray) -> np.ndarray:
        """Return the sum of the rows of each level."""
        return np.bincount(self.levels[b], rows, self.sizes[b])

    def add_effects(self, values: Values, u: Sequence[np.ndarray]) -> np.ndarray:
        """Return ZΛu: the sum of all random effects on each trial."""
        every = zip(values, u, self.levels, strict=True)
        return np.asarray(sum(value * effect[level] for value, effect, level in every))

    def _sum_by_pair(self, a: int, b: int, rows: np.ndarray) -> np.ndarray:
        """Return the sums of the rows of each pair of levels of two factors."""
        cells = self.levels[a] * self.sizes[b] + self.levels[b]
        sums = np.bincount(cells, rows, self.sizes[a] * self.sizes[b])
        return sums.reshape(self.sizes[a], self.sizes[b])

    def build(self, weight: np.ndarray, values: Values) -> "Curvature":
        """Build H from the weights of the trials and the values of ZΛ.

        Of E only the lower blocks are filled, which is all that its Cholesky factor reads.
        """
        k = len(self.first)
        D = np.empty((self.groups, k, k))
        B = np.empty((self.groups, k, self.width))
        for i, a in enumerate(self.first):
            weighted = weight * values[a]
            for j, b in enumerate(self.first[: i + 1]):
                D[:, i, j] = D[:, j, i] = self.sum_by_level(a, weighted * values[b]) + (a == b)
            for b in self.rest:
                B[:, i, self.columns[b]] = self._sum_by_pair(a, b, weighted * values[b])
        E = np.eye(self.width)
        for i, a in enumerate(self.rest):
            weighted = weight * values[a]
            for b in self.rest[: i + 1]:
                E_ab = E[self.columns[a], self.columns[b]]
                if self.factor_of[a] == self.factor_of[b]:
                    sums = self.sum_by_level(a, weighted * values[b])
                    E_ab[np.diag_indices_from(E_ab)] += sums
                else:
                    E_ab += self._sum_by_pair(a, b, weighted * values[b])
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

    def project(self, values: Values) -> list[np.ndarray]:
        """Return H⁻¹ΛᵀZᵀ, of which each trial's column has the entries of its own levels.

        So Σ over effects of these times `values` is the diagonal of ZΛH⁻¹ΛᵀZᵀ, the variance of each
        trial's log odds.
        """
        layout, (within, across, lower) = self.layout, self._inverse
        group = layout.levels[layout.first[0]]
        projected = [np.zeros(len(group)) for _ in values]
        rows = {b: layout.columns[b].start + layout.levels[b] for b in layout.rest}
        for i, a in enumerate(layout.first):
            for j, b in enumerate(layout.first):
                projected[a] += values[b] * within[group, i, j]
            for b in layout.rest:
                shared = across[group, i, rows[b]]
                projected[a] += values[b] * shared
                projected[b] += values[a] * shared
        for a in layout.rest:
            for b in layout.rest:
                projected[a] += values[b] * lower[rows[a], rows[b]]
        return projected
