"""Rivals of a posterior: networks trained from other seeds, and dropout that stays on.

Deep ensemble (Lakshminarayanan, Pritzel & Blundell 2017, NeurIPS): networks that differ in where
their training began. MC dropout (Gal & Ghahramani 2016, ICML): a network trained with dropout, with
a mask of hidden units for each member. Since hidden2 with a mask is hidden2 with rows of the last
layer at zero,

    (ψ ∘ b / (1−ρ)) C = ψ (diag(b) / (1−ρ) C),

a member is again a network, who keeps its mask for whatever it is asked. To keep a member, its mask
is enough: a bit for each hidden unit.
"""

from collections.abc import Sequence

import jax
import numpy as np

from equivocal.errors import UserError
from equivocal.gestalt import Network
from equivocal.uncertainty.comprehenders import Comprehenders, with_last_layers
from equivocal.uncertainty.posteriors import PARTICLES

__all__ = ["RATE", "deep_ensemble", "mc_dropout"]

RATE = 0.1


def deep_ensemble(networks: Sequence[Network], seconds: float = 0.0) -> Comprehenders:
    """The networks themselves; `seconds` is what it took to train all but one."""
    if len({network.world.fingerprint for network in networks}) != 1:
        raise UserError("a deep ensemble needs networks of one world, at least one; train some.")
    models = [jax.tree.map(np.asarray, network.model) for network in networks]
    return Comprehenders(
        kind="deep ensemble",
        models=jax.tree.map(lambda *leaves: np.stack(leaves), *models),
        world=networks[0].world,
        seconds=seconds,
        passes=0,
        message=f"{len(networks)} networks",
    )


def mc_dropout(
    network: Network,
    rate: float = RATE,
    num_members: int = PARTICLES,
    *,
    seed: int = 0,
    seconds: float = 0.0,
) -> Comprehenders:
    """Members of a network that was trained with `rate`; `seconds` is what that took."""
    if not (isinstance(rate, int | float) and 0 < rate < 1):
        raise UserError(
            f"rate must lie between 0 and 1, got {rate!r}: at 0 members would not differ, at 1 no "
            f"hidden unit would be left; use the rate that the network was trained with, as {RATE}."
        )
    theta = network.last_layer().values  # units × (hidden + 1)
    shape = (num_members, theta.shape[1] - 1)
    kept = jax.random.bernoulli(jax.random.key(seed), 1 - rate, shape)
    scale = np.pad(np.asarray(kept) / (1 - rate), ((0, 0), (0, 1)), constant_values=1.0)
    return Comprehenders(
        kind="MC dropout",
        models=with_last_layers(network.model, theta[:, None] * scale),
        world=network.world,
        seconds=seconds,
        passes=0,
        message=f"{rate:.0%} of hidden units dropped",
        bytes_each=-(-shape[1] // 8),
    )
