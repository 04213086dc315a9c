"""Names for array shapes in signatures, checked at run time where `jaxtyping` is already loaded.

This package imports with `jax` and `numpy` alone, so `jaxtyping` is used when somebody else brought
it in (the tests do, with beartype) and is otherwise replaced by annotations that say the same to
the reader and nothing to Python.
"""

import sys
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

__all__ = ["Array", "Bool", "Float", "Int", "PRNGKey"]

Array = jax.Array
PRNGKey = jax.Array

if TYPE_CHECKING or "jaxtyping" in sys.modules:
    from jaxtyping import Bool, Float, Int
else:

    class _Unchecked:
        """`Float[Array, "N D"]` as a note to the reader."""

        def __class_getitem__(cls, _: Any) -> type:
            return np.ndarray

    Bool = Float = Int = _Unchecked
