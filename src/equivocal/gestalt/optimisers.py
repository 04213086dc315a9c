"""The optimiser of a recipe: Adam or gradient descent, with weight decay in one of two places.

    g ← ∇L(w) + λw                 coupled: decay is part of the gradient, as in `torch.optim.Adam`
    u = m̂ / (√v̂ + ε)  or  u = m    Adam, or momentum
    w ← w − η (u + λw)             decoupled: decay is apart, as in AdamW (Loshchilov & Hutter 2019)

λ is the weight decay, of weights and biases alike; η the learning rate.
"""

import optax
from jaxtyping import Array, Float

from equivocal.gestalt.settings import TrainingSettings

__all__ = ["build_optimiser"]


def build_optimiser(
    settings: TrainingSettings, num_steps: int, weight_decay: float | Float[Array, ""]
) -> optax.GradientTransformation:
    """Build the optimiser for `num_steps` steps in all.

    The strength of the decay may be traced, so that networks of several strengths train together.
    """
    decay = optax.add_decayed_weights(weight_decay)
    if settings.optimiser == "adam":
        scale = optax.scale_by_adam(b1=settings.momentum, b2=settings.second_moment)
    else:
        scale = optax.trace(settings.momentum)
    order = [decay, scale] if settings.decay == "coupled" else [scale, decay]
    rate = optax.scale_by_learning_rate(_schedule_rate(settings, num_steps))
    return optax.chain(*order, rate)


def _schedule_rate(settings: TrainingSettings, num_steps: int) -> optax.Schedule:
    """Keep the learning rate constant at first; from `decay_from` on it falls to zero."""
    constant = round(settings.decay_from * num_steps)
    flat = optax.constant_schedule(settings.learning_rate)
    falling = optax.cosine_decay_schedule(settings.learning_rate, max(1, num_steps - constant))
    return optax.join_schedules([flat, falling], [constant])
