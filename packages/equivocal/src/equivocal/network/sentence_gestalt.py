"""The Sentence Gestalt network: an update network that listens, a query network that answers.

    h_t = σ(Σ_{i ∈ x_t} W_i + g_{t−1} V + b₁)        g_t = σ(h_t U + b₂)          (update)
    ψ   = σ(g_t A + p B + b₃)                         y   = σ(ψ C + b₄)            (query)

x_t: the one or two tokens of constituent t.  g_t: the gestalt, zero before the first word.
p: the probe, a pattern over output units.  ψ: hidden2, the features of the last layer.
y: the activation of each output unit.  All layers have biases and logistic units.
St. John & McClelland (1990); sizes and activation as in Rabovsky, Hansen & McClelland (2018).

If the equations or the weights' names change, change `equivocal.asking.ensembles` too, which
computes the same without JAX.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

__all__ = ["QueryNetwork", "UpdateNetwork"]


class UpdateNetwork(eqx.Module):
    """Updates the gestalt, the representation of the words so far, by one more constituent."""

    token_weight: Float[Array, "tokens hidden"]  # W
    recurrent_weight: Float[Array, "gestalt hidden"]  # V
    hidden_bias: Float[Array, " hidden"]  # b₁
    gestalt_weight: Float[Array, "hidden gestalt"]  # U
    gestalt_bias: Float[Array, " gestalt"]  # b₂

    def __call__(
        self, tokens: Int[Array, "*rows 2"], before: Float[Array, "*rows gestalt"]
    ) -> Float[Array, "*rows gestalt"]:
        """Compute the gestalt after one more constituent; -1 in `tokens` stands for no token."""
        # x_t has one or two ones, so the product with W is the sum of their rows
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

        Parameters
        ----------
        gestalts : (nodes, gestalt)
            The distinct gestalts.
        probes : (probes, units)
            The distinct probes, as the units that each switches on.
        node, probe : (rows,)
            Which gestalt and which probe each row combines.

        Returns
        -------
        array (rows, hidden)
            The activation of the hidden layer, between 0 and 1.
        """
        from_gestalt = (gestalts @ self.gestalt_weight)[node]
        from_probe = (probes @ self.probe_weight + self.hidden_bias)[probe]
        return jax.nn.sigmoid(from_gestalt + from_probe)

    def logits(self, features: Float[Array, "*rows hidden"]) -> Float[Array, "*rows units"]:
        """Apply the last layer before its σ: K logistic regressions on shared features.

        Parameters
        ----------
        features : (..., hidden)
            ψ, as `features` returns it.

        Returns
        -------
        array (..., units)
            One logit for each output unit.
        """
        return features @ self.output_weight + self.output_bias


class SentenceGestalt(eqx.Module):
    """The two networks together."""

    update: UpdateNetwork
    query: QueryNetwork

    def listen(
        self, tokens: Int[Array, "*rows words 2"], *, through_time: bool = True
    ) -> Float[Array, "*rows words gestalt"]:
        """Compute the gestalt after each constituent of each sentence.

        Parameters
        ----------
        tokens : (..., words, 2)
            Word and marker of each constituent, as `World.encode` returns them; -1 for no marker.
        through_time : bool
            Whether gradients flow back through earlier constituents; if not, the previous gestalt
            is treated as a constant input.

        Returns
        -------
        array (..., words, gestalt)
            The gestalt after each constituent.
        """
        silence = jnp.zeros((*tokens.shape[:-2], *self.update.gestalt_bias.shape))

        def hear(
            before: Float[Array, "*rows gestalt"], constituent: Int[Array, "*rows 2"]
        ) -> tuple[Float[Array, "*rows gestalt"], Float[Array, "*rows gestalt"]]:
            known = before if through_time else jax.lax.stop_gradient(before)
            after = self.update(constituent, known)
            return after, after

        gestalts = jax.lax.scan(hear, silence, jnp.moveaxis(tokens, -2, 0))[1]
        return jnp.moveaxis(gestalts, 0, -2)


def create_network(
    key: Key[Array, ""],
    *,
    num_tokens: int,
    num_units: int,
    hidden: int,
    gestalt: int,
    initial_weights: str = "glorot",
    initial_range: float = 0.1,
) -> SentenceGestalt:
    """Create a network with random weights.

    `initial_weights` is the distribution of the weights:

    - "glorot": between hidden layers ±4√(6/(in+out)), four times the range of Glorot & Bengio
      (2010) to make up for the flatter slope of the logistic. Inputs have a few ones only, so
      their weights may be of order one. Output biases start at −3 because most units are off in
      most answers; a start at probability one half would cost epochs.
    - "framework": as PyTorch's `nn.Linear`, weights and biases of n inputs in ±1/√n. Tokens and the
      previous gestalt are inputs of two layers, gestalt and probe too; the first of each has the
      bias.
    - "uniform": all weights and biases in a range of width `initial_range` about zero.
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
    network = SentenceGestalt(update, query)
    if initial_weights == "glorot":
        return network
    if initial_weights == "uniform":
        return _redraw_weights(key, network, [initial_range / 2] * 10)
    inputs = [num_tokens, gestalt, num_tokens, hidden, hidden]  # n of update's arrays, in order
    inputs += [gestalt, num_units, gestalt, hidden, hidden]  # n of query's arrays
    return _redraw_weights(key, network, [n**-0.5 for n in inputs])


def _redraw_weights(
    key: Key[Array, ""], network: SentenceGestalt, bounds: list[float]
) -> SentenceGestalt:
    """Draw the arrays of a network again, each uniform between −bound and bound."""
    leaves, structure = jax.tree.flatten(network)
    drawn = [
        jax.random.uniform(own, leaf.shape, minval=-bound, maxval=bound)
        for own, leaf, bound in zip(jax.random.split(key, 10), leaves, bounds, strict=True)
    ]
    redrawn: SentenceGestalt = jax.tree.unflatten(structure, drawn)
    return redrawn
