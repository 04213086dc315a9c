"""Compilation of the package's programs, and annotations for the shapes of their arrays.

`compile_on_call` is `jax.jit` with compiler options for a GPU. There XLA times many algorithms for
each matrix product, which takes longer than the rest of a first call; cuBLAS chooses well without
that. `GPU_OPTIONS` may be changed before the first call: they affect the time of that call, and
rounding.

`compile_unless_numpy` runs a function as it is where it is given NumPy arrays: one set of equations
serves small problems, for which compiling takes a hundred times as long as computing, and others.

Shapes in signatures are checked at run time where `jaxtyping` is already loaded. This package
requires `jax` and `numpy` only, so `jaxtyping` is used if another package has imported it (the
tests do, with beartype), and is otherwise replaced by annotations that Python ignores.
"""

import sys
from collections.abc import Callable
from functools import cache, wraps
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["GPU_OPTIONS", "Array", "Bool", "Float", "Int", "PRNGKey", "compile_on_call"]

Array = jax.Array
Either = Any  # an array of JAX or of NumPy
PRNGKey = jax.Array

if TYPE_CHECKING or "jaxtyping" in sys.modules:
    from jaxtyping import Bool, Float, Int
else:

    class _Unchecked:
        """Annotation such as `Float[Array, "N D"]` that is not checked."""

        def __class_getitem__(cls, _: Any) -> type:
            return np.ndarray

    Bool = Float = Int = _Unchecked

GPU_OPTIONS: dict[str, bool | int] = {
    "xla_gpu_autotune_level": 0,
    "xla_gpu_enable_triton_gemm": False,
}
Program = Callable[..., Any]  # as of `jax.jit`, which takes NumPy arrays, too


@cache
def choose_options() -> dict[str, bool | int] | None:
    """Return the compiler options of the current device; None if its XLA does not know them."""
    if jax.default_backend() != "gpu" or not GPU_OPTIONS:
        return None
    try:
        jax.jit(lambda x: x + 1, compiler_options=GPU_OPTIONS)(0)
    except jax.errors.JaxRuntimeError:
        return None
    return GPU_OPTIONS


def compile_on_call(**how: Any) -> Callable[[Program], Program]:
    """Return a decorator like `jax.jit`, with the same keyword arguments."""

    def decorate(function: Program) -> Program:
        plain = jax.jit(function, **how)
        tuned: list[Any] = []  # compiled at the first call: importing must not start a device

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            options = choose_options()
            # inside another program, JAX refuses options other than that program's
            if options is None or _is_traced(args, kwargs):
                return plain(*args, **kwargs)
            if not tuned:
                tuned.append(jax.jit(function, compiler_options=options, **how))
            return tuned[0](*args, **kwargs)

        return call

    return decorate


def compile_unless_numpy(**how: Any) -> Callable[[Program], Program]:
    """Return a decorator like `compile_on_call`; a function of NumPy arrays is called as it is."""

    def decorate(function: Program) -> Program:
        compiled = compile_on_call(**how)(function)

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if isinstance(next(iter(jax.tree.leaves(args)), None), np.ndarray):
                with np.errstate(all="ignore"):
                    return function(*args, **kwargs)
            return compiled(*args, **kwargs)

        return call

    return decorate


def choose_namespace(array: Any) -> Any:
    """Return the module that computes with this array: NumPy, or its counterpart in JAX."""
    return np if isinstance(array, np.ndarray) else jnp


def loop_while(condition: Callable[[Any], Any], body: Callable[[Any], Any], state: Any) -> Any:
    """Repeat the body, in NumPy or in a program."""
    if isinstance(jax.tree.leaves(state)[-1], np.ndarray):
        while condition(state):
            state = body(state)
        return state
    return jax.lax.while_loop(condition, body, state)


def _is_traced(*arguments: Any) -> bool:
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(arguments))
