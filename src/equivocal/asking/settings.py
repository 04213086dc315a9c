"""What stands behind an answer: how the default network is trained and its posteriors sampled.

`AskSettings` enters the key of the cache, so a changed number makes new files and never mixes with
old ones.
"""

from dataclasses import dataclass, field

from equivocal.errors import UserError

__all__ = ["CONVERGED", "DEFAULT", "LEVEL", "AskSettings"]

CONVERGED = "converged"  # in place of a step: where the equations come to rest
LEVEL = 0.9  # of the credible intervals


def _training() -> dict[str, int | float]:
    return {"networks": 1, "sentences": 10_000, "epochs": 60, "hidden": 100, "gestalt": 100}


@dataclass(frozen=True, kw_only=True)
class AskSettings:
    """Sizes of the default network's posteriors, those of the paper where it names them."""

    # as the paper's networks, but one is enough to talk to; the rest as `TrainingSettings` has it
    training: dict[str, int | float] = field(default_factory=_training)
    prior_variances: tuple[float, ...] = (0.01, 1.0, 5.0)  # the paper's, about the trained weights
    prior_variance: float = 1.0  # unless asked otherwise
    # The paper's sampler on its way: prior, …, step 17 where the paper stops, and beyond.
    kept_steps: tuple[int, ...] = (0, 1, 2, 4, 8, 12, 17, 25, 40, 60)
    dropout_rate: float = 0.3
    path_particles: int = 50  # as in the preset `paper`
    # The converged posterior; its particles are exact draws, so more of them only refine quantiles
    particles: int = 64
    tolerance: float = 0.01  # posterior standard deviations
    seed: int = 0

    def __post_init__(self) -> None:
        steps = self.kept_steps
        if not steps or steps[0] != 0 or list(steps) != sorted(set(steps)):
            raise UserError(f"kept_steps must rise from 0, got {steps}.")
        if self.prior_variance not in self.prior_variances:
            raise UserError(
                f"prior_variance must be one of prior_variances {self.prior_variances}, got "
                f"{self.prior_variance}."
            )


DEFAULT = AskSettings()
