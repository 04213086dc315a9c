"""`compile_on_call` on a CPU: no options, the results of `jax.jit`, also inside another program."""

import jax
import jax.numpy as jnp
import numpy as np

from lastlayer.compiling import choose_options, compile_on_call

X = np.linspace(-2, 3, 24, dtype=np.float32).reshape(4, 6)


def whiten(x: jax.Array, power: int) -> jax.Array:
    """A few products and a loop whose length is static."""
    for _ in range(power):
        x = jnp.tanh(x @ x.T) @ x
    return x / jnp.linalg.norm(x)


COMPILED = compile_on_call(static_argnames="power")(whiten)
PLAIN = jax.jit(whiten, static_argnames="power")


def test_a_cpu_gets_no_options_and_the_results_of_jit():
    assert jax.default_backend() == "cpu"
    assert choose_options() is None
    for power in (1, 3):  # another static argument, another program
        np.testing.assert_array_equal(COMPILED(X, power=power), PLAIN(X, power=power))
    assert (COMPILED.__name__, COMPILED.__doc__) == (whiten.__name__, whiten.__doc__)


def test_a_traced_call_becomes_part_of_the_outer_program():
    def outer(call):
        return jax.jit(lambda x: jax.lax.map(lambda row: call(row[None], power=2)[0], x) + 1)

    np.testing.assert_array_equal(outer(COMPILED)(X), outer(PLAIN)(X))
    slope = jax.grad(lambda x: COMPILED(x, power=2)[0, 0])(X)
    np.testing.assert_array_equal(slope, jax.grad(lambda x: PLAIN(x, power=2)[0, 0])(X))
    assert np.abs(slope).max() > 0
