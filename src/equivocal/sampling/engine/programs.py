"""How the programs of the engine are compiled, and how the shapes of their arrays are named.

`compile_on_call` is `jax.jit`, with options of its own on a GPU. There XLA times many ways to do
each matrix product, which takes longer than everything else of a first call; cuBLAS chooses well
without it. `GPU_OPTIONS` may be changed, before the first call: they affect how long it takes, and
rounding.

Shapes in signatures are checked at run time where `jaxtyping` is already loaded. This package
imports with `jax` and `numpy` alone, so `jaxtyping` is used when somebody else brought it in (the
tests do, with beartype) and is otherwise replaced by annotations that say the same to the reader
and nothing to Python.
"""

import sys
from collections.abc import Callable
from functools import cache, wraps
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

__all__ = ["GPU_OPTIONS", "Array", "Bool", "Float", "Int", "PRNGKey", "compile_on_call"]

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

GPU_OPTIONS: dict[str, bool | int] = {
    "xla_gpu_autotune_level": 0,
    "xla_gpu_enable_triton_gemm": False,
}
Program = Callable[..., Any]  # as `jax.jit` has it: NumPy arrays may be handed over


@cache
def choose_options() -> dict[str, bool | int] | None:
    """Return the options for the device at hand; none where its XLA does not know them."""
    if jax.default_backend() != "gpu" or not GPU_OPTIONS:
        return None
    try:
        jax.jit(lambda x: x + 1, compiler_options=GPU_OPTIONS)(0)
    except jax.errors.JaxRuntimeError:
        return None
    return GPU_OPTIONS


def compile_on_call(**how: Any) -> Callable[[Program], Program]:
    """Return a decorator like `jax.jit`, whose arguments it takes."""

    def decorate(function: Program) -> Program:
        plain = jax.jit(function, **how)
        tuned: list[Any] = []  # made when a device has been chosen: importing must start none

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            options = choose_options()
            # inside another program its options hold, and others are refused
            if options is None or _is_traced(args, kwargs):
                return plain(*args, **kwargs)
            if not tuned:
                tuned.append(jax.jit(function, compiler_options=options, **how))
            return tuned[0](*args, **kwargs)

        return call

    return decorate


def _is_traced(*arguments: Any) -> bool:
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(arguments))
