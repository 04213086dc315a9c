"""Where a flow starts: at the prior. The fixed point does not depend on it."""

from collections.abc import Callable

import numpy as np

from equivocal.sampling.engine.problem import Problem

Start = Callable[[int], tuple[np.ndarray, np.ndarray]]  # mean and factor of an output

WIDEST_LOGIT = 3.0


def start_near_prior(problem: Problem, wide: int) -> Start:
    """Start at the prior, narrowed where logits would have an sd above `WIDEST_LOGIT`.

    The fixed point does not depend on the start, but from logits of ±1e12 no step finds the way.
    """
    D = problem.num_features
    with np.errstate(divide="ignore"):
        largest = problem.largest * problem.prior_scale * np.sqrt(D)
        narrow = np.minimum(1, WIDEST_LOGIT / largest)
    factor = np.eye(wide, dtype=problem.dtype)
    factor[np.arange(D), np.arange(D)] = narrow
    mean = np.zeros(wide, problem.dtype)
    return lambda _: (mean, factor)
