"""The regression problem of all samplers, checked and brought to a standard form.

    t_nk ~ Bernoulli(σ(ψ_n · θ_k))  or  t_n ~ Softmax((ψ_n · θ_k)_k),    θ_k ~ N(m₀ₖ, diag(v))

maths.md (1). With w_k = (θ_k − m₀ₖ)/√v, maths.md (3), this has the prior N(0, I),
features ψ_n √v and logits ψ_n·m₀ₖ + (ψ_n √v)·w_k. Samplers work on w, so that they need not care
about the scale of a prior or of a feature; `Problem.to_weights` turns w back into weights.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np

from lastlayer.checks import (
    check_counts,
    check_features,
    check_prior_mean,
    check_prior_variance,
    check_targets,
    fail,
)

WIDEST_LOGIT = 3.0  # sd of a logit at the start of a flow, at most


class Likelihood(StrEnum):
    """The likelihood: how logits become probabilities of targets."""

    BERNOULLI = "bernoulli"  # K independent yes/no outputs
    SOFTMAX = "softmax"  # one of K classes per row


@dataclass(frozen=True, eq=False)
class Problem:
    """Data and prior after all checks, as NumPy arrays in the precision of the run."""

    features: np.ndarray  # (N, D), as given
    targets: np.ndarray  # (N, K), summed over repetitions of the row
    counts: np.ndarray  # (N,), or (N, K) where outputs have their own
    prior_mean: np.ndarray  # (K, D), or (1, D) where all outputs share it
    prior_scale: np.ndarray  # √v, (D,); (K, D) where outputs have their own, until `split`
    likelihood: Likelihood

    @classmethod
    def build(
        cls,
        features: object,
        targets: object,
        counts: object,
        prior_mean: object,
        prior_variance: object,
        likelihood: Likelihood,
        dtype: Any,
        *,
        alike: bool = False,
    ) -> "Problem":
        """Check the arguments of a caller, and convert them to one precision.

        `alike` says that all outputs must have the same prior variances, as those of a softmax
        must. `check_range` checks how large the numbers are.
        """
        psi = check_features(features, dtype)
        c, kind = check_counts(counts, len(psi), psi.dtype, targets), psi.dtype
        t = check_targets(targets, c, softmax=likelihood is Likelihood.SOFTMAX)
        D, K = psi.shape[1], t.shape[1]
        rows = 0 if alike or likelihood is Likelihood.SOFTMAX else K
        scale = np.sqrt(check_prior_variance(prior_variance, D, kind, rows)).astype(kind)
        return cls(psi, t, c, check_prior_mean(prior_mean, K, D, kind), scale, likelihood)

    @property
    def num_rows(self) -> int:
        """The number of rows N."""
        return int(self.features.shape[0])

    @property
    def num_outputs(self) -> int:
        """The number of outputs K."""
        return int(self.targets.shape[1])

    @property
    def num_features(self) -> int:
        """The number of features D."""
        return int(self.features.shape[1])

    @property
    def dtype(self) -> np.dtype:
        """float32 or float64."""
        return self.prior_scale.dtype

    @cached_property
    def radius(self) -> float:
        """Ten times the radius of a ball in w that holds the posterior of yes/no outputs.

        The mode has ½|w|² ≤ −log p(t | w = 0) ≤ Σ c (log 2 + |ψ·m₀|); √D + 5 is how far the prior
        reaches about it.
        """
        worst = np.log(2) + np.abs(self.compute_offsets()).max(axis=1)
        loss = float((self.row_counts * worst).sum())
        return 10 * float(np.sqrt(2 * loss) + np.sqrt(self.num_features) + 5)

    @cached_property
    def largest(self) -> np.ndarray:
        """The largest absolute value of each feature, (D,)."""
        highest, lowest = self.features.max(axis=0), self.features.min(axis=0)
        return np.maximum(abs(highest), abs(lowest)).astype(self.dtype)

    @property
    def row_counts(self) -> np.ndarray:
        """The counts of the rows, (N,): the largest of all outputs, where they have their own."""
        return self.counts if self.counts.ndim == 1 else self.counts.max(axis=1)

    @property
    def total_count(self) -> float:
        """Σ c over all rows."""
        return float(self.row_counts.sum(dtype=np.float64))

    def compute_offsets(self, outputs: slice | np.ndarray = slice(None)) -> np.ndarray:
        """Return the logits of the prior mean for some outputs, (N, K) or (N, 1)."""
        return self.features @ self.select_mean(outputs).T  # maths (1), at the prior mean

    def select_mean(self, outputs: slice | np.ndarray) -> np.ndarray:
        """Return the prior means of some outputs, (K, D), or (1, D) where all share it."""
        return self.prior_mean if len(self.prior_mean) == 1 else self.prior_mean[outputs]

    def to_weights(self, w: np.ndarray, outputs: slice = slice(None)) -> np.ndarray:
        """Return θ = m₀ + √v w, maths (3), for w of shape (k, ..., D)."""
        m0 = self.select_mean(outputs)
        theta = self.prior_scale * w
        theta += m0.reshape(len(m0), *[1] * (w.ndim - 2), -1)
        return theta

    def select(self, outputs: np.ndarray) -> "Problem":
        """Return the problem of some outputs."""
        m0 = self.select_mean(outputs)
        c = self.counts if self.counts.ndim == 1 else self.counts[:, outputs]
        scale = self.prior_scale if self.prior_scale.ndim == 1 else self.prior_scale[outputs]
        return replace(
            self, targets=self.targets[:, outputs], counts=c, prior_mean=m0, prior_scale=scale
        )

    def split(self) -> "list[tuple[np.ndarray, Problem]]":
        """Group the outputs by their prior variances: return their numbers, and their problem.

        The problem of a group is filled up to a power of two with outputs that it has already, so
        that groups share compiled programs.
        """
        if self.prior_scale.ndim == 1:
            return [(np.arange(self.num_outputs), self)]
        rows, group = np.unique(self.prior_scale, axis=0, return_inverse=True)
        group = group.ravel()
        parts = []
        for g, row in enumerate(rows):
            own = np.flatnonzero(group == g)
            size = len(own) if len(rows) == 1 else 1 << (len(own) - 1).bit_length()
            parts.append((own, replace(self.select(np.resize(own, size)), prior_scale=row)))
        return parts

    def check_range(self) -> None:
        """Check that squared logits under the prior, summed over rows, fit the precision."""
        greatest = float(np.finfo(self.dtype).max)
        rows = self.largest.astype(np.float64)
        scale, m0 = (
            np.abs(part).max(axis=0).astype(np.float64)
            for part in (np.atleast_2d(self.prior_scale), self.prior_mean)
        )
        with np.errstate(over="ignore"):
            total = self.total_count * self.num_features
            size, shift = float((rows * scale).max()), float((rows * m0).sum())
        wider = ' or pass dtype="float64"' if self.dtype == np.float32 else ""
        if not total < np.sqrt(greatest):
            fail(
                f"counts must sum to less than {np.sqrt(greatest) / self.num_features:.0e} in "
                f"{self.dtype}, got {total / self.num_features:.0e}; use smaller ones{wider}."
            )
        limit = np.sqrt(greatest / max(total, 1.0)) / 1e3
        for name, value, other in (("√prior_variance", size, scale), ("prior_mean", shift, m0)):
            if not value < limit:
                blamed = "features" if rows.max() >= other.max() else name.removeprefix("√")
                fail(
                    f"features × {name} must stay below {limit:.0e} in {self.dtype}, got "
                    f"{value:.0e}: squared logits would overflow. Use smaller {blamed}{wider}."
                )


def collapse(problem: Problem) -> Problem:
    """Merge equal rows by summing targets and counts, and leave out those that count zero times.

    Rows are compared by one random projection, then in full, so that this costs a sort of N
    numbers. Where this would remove less than a tenth of the rows, the problem is returned
    unchanged.
    """
    if not (seen := problem.row_counts > 0).all() and seen.any():
        problem = take_rows(problem, seen)
    psi = problem.features
    rng = np.random.default_rng(0)
    direction = np.asarray(rng.standard_normal(psi.shape[1]), psi.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        key = psi @ direction
    _, first, group, sizes = np.unique(
        key, return_index=True, return_inverse=True, return_counts=True
    )
    if len(first) > 0.9 * len(psi) or not np.array_equal(psi[first][group], psi):
        return problem
    order = np.argsort(group, kind="stable")
    starts = np.cumsum(sizes) - sizes
    t, c = (np.add.reduceat(part[order], starts) for part in (problem.targets, problem.counts))
    return replace(problem, features=psi[first], targets=t, counts=c)


def take_rows(problem: Problem, rows: np.ndarray) -> Problem:
    """Return the problem of these rows."""
    parts = {name: getattr(problem, name)[rows] for name in ("features", "targets", "counts")}
    return replace(problem, **parts)


def sample_rows(problem: Problem, share: int) -> Problem:
    """Return about every `share`-th row, in evenly spaced runs, with `share` times its count."""
    some = np.arange(problem.num_rows) // 64 % share == 0
    t, c = problem.targets[some] * share, problem.counts[some] * share
    return replace(problem, features=problem.features[some], targets=t, counts=c)


def narrow_prior(problem: Problem) -> np.ndarray:
    """Return the prior's sd, 1, narrowed where logits would have an sd above `WIDEST_LOGIT`, (D,).

    The fixed point does not depend on the start, but from logits of ±1e12 steps do not reach it.
    """
    with np.errstate(divide="ignore"):
        largest = problem.largest * problem.prior_scale * np.sqrt(problem.num_features)
        return np.asarray(np.minimum(1, WIDEST_LOGIT / largest), problem.dtype)
