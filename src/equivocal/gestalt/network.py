"""The Sentence Gestalt network: an update network that listens, a query network that answers.

    h_t = σ(Σ_{i ∈ x_t} W_i + g_{t−1} V + b₁)        g_t = σ(h_t U + b₂)          (update)
    ψ   = σ(g_t A + p B + b₃)                         y   = σ(ψ C + b₄)            (query)

x_t: the one or two tokens of constituent t.  g_t: the gestalt, zero before the first word.
p: the probe, a pattern over output units.  ψ: hidden2, the features of the last layer.
y: the activation of each output unit.  All layers have biases and logistic units.
St. John & McClelland (1990); sizes and activation as in Rabovsky, Hansen & McClelland (2018).

If the equations or the weights' names change, change `equivocal.asking.network` too, which computes
the same without JAX.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key


class UpdateNetwork(eqx.Module):
    """Takes in one constituent after another and keeps the gestalt of what was said."""

    token_weight: Float[Array, "tokens hidden"]  # W
    recurrent_weight: Float[Array, "gestalt hidden"]  # V
    hidden_bias: Float[Array, " hidden"]  # b₁
    gestalt_weight: Float[Array, "hidden gestalt"]  # U
    gestalt_bias: Float[Array, " gestalt"]  # b₂

    def __call__(
        self, tokens: Int[Array, "*rows 2"], before: Float[Array, "*rows gestalt"]
    ) -> Float[Array, "*rows gestalt"]:
        """Compute the gestalt after one more constituent; -1 in `tokens` stands for no token."""
        # x_t has one or two ones: adding their rows of W is the whole product
        heard = jnp.where(tokens[..., None] >= 0, self.token_weight[tokens], 0.0).sum(axis=-2)
        hidden = jax.nn.sigmoid(heard + before @ self.recurrent_weight + self.hidden_bias)
        return jax.nn.sigmoid(hidden @ self.gestalt_weight + self.gestalt_bias)


class QueryNetwork(eqx.Module):
    """Answers a probe, a role or a filler, from the gestalt."""

    gestalt_weight: Float[Array, "gestalt hidden"]  # A
    probe_weight: Float[Array, "units hidden"]  # B
    hidden_bias: Float[Array, " hidden"]  # b₃
    output_weight: Float[Array, "hidden units"]  # C
    output_bias: Float[Array, " units"]  # b₄

    def features(
        self,
        gestalts: Float[Array, "nodes gestalt"],
        probes: Float[Array, "probes units"],
        node: Int[Array, " rows"],
        probe: Int[Array, " rows"],
    ) -> Float[Array, "rows hidden"]:
        """Compute ψ for the pairs (gestalts[node], probes[probe]).

        Both projections are made once per distinct gestalt and probe, then looked up per pair.
        """
        from_gestalt = (gestalts @ self.gestalt_weight)[node]
        from_probe = (probes @ self.probe_weight + self.hidden_bias)[probe]
        return jax.nn.sigmoid(from_gestalt + from_probe)

    def logits(self, features: Float[Array, "*rows hidden"]) -> Float[Array, "*rows units"]:
        """Apply the last layer before its σ: K logistic regressions on shared features."""
        return features @ self.output_weight + self.output_bias


class SentenceGestalt(eqx.Module):
    """The two networks together."""

    update: UpdateNetwork
    query: QueryNetwork

    def listen(self, tokens: Int[Array, "words 2"]) -> Float[Array, "words gestalt"]:
        """Compute the gestalt after each constituent of one sentence."""
        silence = jnp.zeros(self.update.gestalt_bias.shape)

        def hear(
            before: Float[Array, " gestalt"], constituent: Int[Array, " 2"]
        ) -> tuple[Float[Array, " gestalt"], Float[Array, " gestalt"]]:
            after = self.update(constituent, before)
            return after, after

        return jax.lax.scan(hear, silence, tokens)[1]


def create_network(
    key: Key[Array, ""], *, num_tokens: int, num_units: int, hidden: int, gestalt: int
) -> SentenceGestalt:
    """Create a network with random weights.

    Between hidden layers weights start in ±4√(6/(in+out)), four times the range of Glorot & Bengio
    (2010) to make up for the flatter slope of the logistic. Inputs have a few ones only, so their
    weights may be of order one. Output biases start at −3 because most units are off in most
    answers; a start at one half costs epochs to undo.
    """
    keys = iter(jax.random.split(key, 6))

    def uniform(rows: int, columns: int, bound: float) -> Float[Array, "rows columns"]:
        return jax.random.uniform(next(keys), (rows, columns), minval=-bound, maxval=bound)

    def glorot(rows: int, columns: int) -> Float[Array, "rows columns"]:
        return uniform(rows, columns, 4 * (6 / (rows + columns)) ** 0.5)

    update = UpdateNetwork(
        token_weight=uniform(num_tokens, hidden, 1.0),
        recurrent_weight=glorot(gestalt, hidden),
        hidden_bias=jnp.zeros(hidden),
        gestalt_weight=glorot(hidden, gestalt),
        gestalt_bias=jnp.zeros(gestalt),
    )
    query = QueryNetwork(
        gestalt_weight=glorot(gestalt, hidden),
        probe_weight=uniform(num_units, hidden, 1.0),
        hidden_bias=jnp.zeros(hidden),
        output_weight=uniform(hidden, num_units, 0.3),
        output_bias=jnp.full(num_units, -3.0, dtype=jnp.float32),
    )
    return SentenceGestalt(update, query)
