"""Seeds of random numbers: whole numbers, or generators that draw one (see SPEC 7)."""

from typing import Any

import numpy as np

from lastlayer.errors import UserError

__all__ = ["Seed", "choose_seed"]

Seed = int | np.random.Generator
LARGEST_SEED = 2**32 - 1  # the largest that JAX takes in both precisions


def choose_seed(seed: Any) -> int:
    """Return the seed of a run.

    Parameters
    ----------
    seed : int or numpy.random.Generator
        A whole number from 0 to 2³² − 1 is the seed itself; from a generator one is drawn.

    Raises
    ------
    UserError
        For anything else.

    Examples
    --------
    >>> choose_seed(7)
    7
    >>> import numpy as np
    >>> choose_seed(np.random.default_rng(0)) == choose_seed(np.random.default_rng(0))
    True
    """
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(LARGEST_SEED + 1))
    whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
    if whole and 0 <= (number := int(seed)) <= LARGEST_SEED:
        return number
    given = "one with far more digits" if whole and abs(seed) > LARGEST_SEED**2 else f"{seed!r:.60}"
    raise UserError(
        f"seed must be a whole number between 0 and {LARGEST_SEED}, or a numpy.random.Generator, "
        f"got {given}."
    )
