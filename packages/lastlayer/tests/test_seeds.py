"""A seed is a whole number, or drawn from a generator."""

import numpy as np
import pytest

from lastlayer.errors import UserError
from lastlayer.seeds import choose_seed


def test_generators_in_the_same_state_give_the_same_seed() -> None:
    first, second = (choose_seed(np.random.default_rng(5)) for _ in range(2))
    assert first == second != choose_seed(np.random.default_rng(6))
    assert choose_seed(np.int64(7)) == 7


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, True, "7", None])
def test_anything_else_is_refused(seed: object) -> None:
    with pytest.raises(UserError, match="seed.*numpy.random.Generator"):
        choose_seed(seed)
