"""Baselines beside a posterior: networks trained from other seeds, and dropout that stays on.

Deep ensemble (Lakshminarayanan, Pritzel & Blundell 2017, NeurIPS): networks that differ in where
their training began. MC dropout (Gal & Ghahramani 2016, ICML): a network trained with dropout, with
a mask of hidden units for each member. Since hidden2 with a mask is hidden2 with rows of the last
layer at zero,

    (ψ ∘ b / (1−ρ)) C = ψ (diag(b) / (1−ρ) C),

a member is again a network, which keeps its mask for whatever it is asked. To store a member, its
mask is enough: a bit for each hidden unit.
"""

from collections.abc import Sequence

import jax
import numpy as np

from equivocal.errors import UserError
from equivocal.gestalt import Network
from equivocal.uncertainty.comprehenders import Comprehenders, replace_last_layers
from equivocal.uncertainty.posteriors import PARTICLES

__all__ = ["RATE", "make_deep_ensemble", "make_mc_dropout"]

RATE = 0.1  # of dropout


def make_deep_ensemble(networks: Sequence[Network], seconds: float = 0.0) -> Comprehenders:
    """Make a deep ensemble of trained networks.

    Parameters
    ----------
    networks : sequence of Network
        The members, all of one world.
    seconds : float
        How long it took to train all but one of them.

    Raises
    ------
    UserError
        Where there is no network, or networks of several worlds.
    """
    if len({network.world.fingerprint for network in networks}) != 1:
        raise UserError("a deep ensemble needs at least one network, all of one world; train some.")
    models = [jax.tree.map(np.asarray, network.model) for network in networks]
    return Comprehenders(
        kind="deep ensemble",
        models=jax.tree.map(lambda *leaves: np.stack(leaves), *models),
        world=networks[0].world,
        seconds=seconds,
        passes=0,
        message=f"{len(networks)} networks",
    )


def make_mc_dropout(
    network: Network,
    rate: float = RATE,
    num_members: int = PARTICLES,
    *,
    seed: int = 0,
    seconds: float = 0.0,
) -> Comprehenders:
    """Draw dropout masks for a network, each of which makes a member.

    Parameters
    ----------
    network : Network
        Should have been trained with dropout at the same rate.
    rate : float
        Probability that a hidden unit is dropped, between 0 and 1.
    num_members : int
        How many masks to draw.
    seed : int
        The same seed gives the same masks.
    seconds : float
        How long the network took to train.

    Raises
    ------
    UserError
        Where the rate would drop no unit or all of them.
    """
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
        models=replace_last_layers(network.model, theta[:, None] * scale),
        world=network.world,
        seconds=seconds,
        passes=0,
        message=f"{rate:.0%} of hidden units dropped",
        bytes_each=-(-shape[1] // 8),
    )
