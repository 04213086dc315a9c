"""Request for a prior choice, and its result."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from equivocal.sampling.engine.problem import Problem
from equivocal.sampling.prior_contest import Fit, Prior


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """The parts of the prior that are given, and how the rest is chosen."""

    mean: np.ndarray | None  # (K, D) or (1, D)
    variance: np.ndarray | None  # (D,) or (K, D); None: to be chosen
    trained: np.ndarray | None  # (K, D)
    validation: Problem | None
    by_evidence: bool = False
    per_output: bool = False
    warning: str = ""  # about the validation rows


@dataclass(frozen=True, kw_only=True, eq=False)
class Choice:
    """A prior, and how its posterior compares on rows that were held out."""

    prior: Prior
    share: float = 0.0  # of the network, in `prior_contest` (1)
    network_weights: np.ndarray | None = None  # its weights, (K, D)
    note: str = ""  # for the verdict
    warning: str = ""
    loss: float = float("nan")  # NLL of held-out rows
    network_loss: float = float("nan")
    bound: float = float("nan")  # on the log evidence
    start: Fit | None = None  # a fit nearby

    def mix(self, problem: Problem, outputs: np.ndarray) -> Problem:
        """Return the problem of some outputs with coordinates that lead to mixed weights.

        With θ = m₀ + √v w, (1 − s) θ + s W has the mean (1 − s) m₀ + s W and the scale (1 − s) √v.
        """
        if not self.share or self.network_weights is None:
            return problem
        s = problem.dtype.type(self.share)
        mean = (1 - s) * problem.prior_mean + s * self.network_weights[outputs]
        return replace(problem, prior_mean=mean, prior_scale=(1 - s) * problem.prior_scale)

    def record(self) -> dict[str, Any]:
        """Return plain values for `info.settings`."""
        numbers = {
            "held_out_nll": self.loss,
            "network_nll": self.network_loss,
            "evidence_bound": self.bound,
        }
        found: dict[str, Any] = {k: v for k, v in numbers.items() if np.isfinite(v)}
        sizes, widest = self.prior.size.tolist(), float(self.prior.variance.max())
        if np.isfinite(sizes).all():
            found["prior_variance"] = sizes[0] if len(sizes) == 1 else sizes
            if widest > max(sizes):
                found["intercept_variance"] = widest
        return found | ({"network_share": self.share} if self.share else {})
