"""Turn the outcomes of samplers, in coordinates w, into a `Posterior` over the weights."""

import time
from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import Any

import jax
import numpy as np

from lastlayer.ensembles import draw
from lastlayer.info import make_info
from lastlayer.machine import collect_versions
from lastlayer.outcome import Outcome, RunSettings
from lastlayer.posterior import Draws, Posterior
from lastlayer.prior import Choice
from lastlayer.problem import Problem

RECORDED = ("num_particles", "num_steps", "tolerance", "seed", "refine", "evidence")  # in `info`
# Outputs that share their prior variances: their numbers, their problem, and its solution.
Part = tuple[np.ndarray, Problem, Outcome]


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """The method, settings and devices that a posterior was computed with."""

    method: str
    gaussian: bool
    config: Any
    settings: RunSettings
    devices: tuple[jax.Device, ...]
    choice: Choice | None
    began: float


def assemble(problem: Problem, parts: list[Part], made: Provenance) -> Posterior:
    """Merge the outcomes of all outputs, and turn w back into weights, with a verdict."""
    outcome, covariance = _merge(problem, parts, made.settings)
    if made.choice is not None:
        problem = made.choice.move(outcome)
    draws = _list_draws(problem, outcome, made.settings)
    if made.choice is not None and made.choice.note:
        outcome.notes = [*outcome.notes, made.choice.note]
    info = make_info(
        outcome,
        draws,
        covariance,
        method=made.method,
        settings=_record(problem, made),
        versions=collect_versions(),
        seconds=time.perf_counter() - made.began,
    )
    return Posterior(
        draws=draws,
        mean=_to_weights(problem, outcome.mean),
        covariance=covariance,
        info=info,
        likelihood=problem.likelihood,
        gaussian=made.gaussian,
        chains=outcome.chains,
    )


def _record(problem: Problem, made: Provenance) -> dict[str, Any]:
    """Return the settings of the run as plain values, for `info.settings`."""
    kinds = Counter(device.device_kind for device in made.devices or jax.devices()[:1])
    config = {k: v for k, v in asdict(made.config).items() if not isinstance(v, np.ndarray)}
    scale = problem.prior_scale
    if (scale == scale.flat[0]).all():
        config["prior_variance"] = float(scale.flat[0] ** 2)
    if made.choice is not None:
        config |= made.choice.settings
    return {
        **config,
        **{name: getattr(made.settings, name) for name in RECORDED},
        "likelihood": str(problem.likelihood),
        "dtype": str(problem.dtype),
        "precision": str(made.settings.precision),
        # for example "cpu" or "8 × NVIDIA H200"
        "device": ", ".join(kind if n == 1 else f"{n} × {kind}" for kind, n in kinds.items()),
    }


def _merge(
    problem: Problem, parts: list[Part], settings: RunSettings
) -> tuple[Outcome, np.ndarray]:
    """Return one outcome of all outputs, and the covariances of their weights."""
    outcomes = [outcome for _, _, outcome in parts]
    covariances = [_compute_covariance(part, outcome) for _, part, outcome in parts]
    if len(parts) == 1:
        return outcomes[0], covariances[0]
    if any(outcome.refined.any() for outcome in outcomes):
        for own, _, outcome in parts:
            _draw_unless_refined(outcome, settings, own)

    def place(values: list[np.ndarray]) -> np.ndarray:
        """Put the values of each part in the places of its own outputs."""
        whole = np.empty((problem.num_outputs, *values[0].shape[1:]), values[0].dtype)
        for (own, _, _), value in zip(parts, values, strict=True):
            whole[own] = value[: len(own)]
        return whole

    merged: dict[str, Any] = {
        name: place([getattr(outcome, name) for outcome in outcomes])
        for name, value in vars(outcomes[0]).items()
        if isinstance(value, np.ndarray)
    }
    notes = dict.fromkeys(note for outcome in outcomes for note in outcome.notes)
    reasons = dict.fromkeys(outcome.stop_reason for outcome in outcomes if outcome.stop_reason)
    merged |= {"notes": list(notes), "stop_reason": "; ".join(reasons)}
    return replace(outcomes[0], **merged), place(covariances)


def _draw_unless_refined(outcome: Outcome, settings: RunSettings, outputs: np.ndarray) -> None:
    """Give a Gaussian the particles and covariance that refined outcomes have."""
    if outcome.particles is None and outcome.factor is not None:
        given = outcome.mean, outcome.factor, settings.num_particles, settings.seed
        outcome.particles = draw(*given, np.resize(outputs, len(outcome.mean)))
        outcome.covariance = np.matmul(outcome.factor, outcome.factor.swapaxes(1, 2))


def _list_draws(problem: Problem, outcome: Outcome, settings: RunSettings) -> np.ndarray | Draws:
    """Return the particles of a method that moves them, else a recipe to draw from its Gaussian."""
    if outcome.particles is not None:
        return _to_weights(problem, outcome.particles)
    assert outcome.factor is not None, "a method gives particles or a factor"
    return Draws(
        mean=_to_weights(problem, outcome.mean),
        factor=outcome.factor * problem.prior_scale[..., None],
        num_particles=settings.num_particles,
        seed=settings.seed,
    )


def _to_weights(problem: Problem, w: np.ndarray) -> np.ndarray:
    """Return θ = m₀ + √v w, (K, D) or (K, J, D), where outputs may have their own v."""
    scale, m0 = problem.prior_scale, problem.prior_mean
    if w.ndim == 3:
        scale, m0 = scale if scale.ndim == 1 else scale[:, None], m0[:, None]
    return np.asarray(scale * w + m0)


def _compute_covariance(problem: Problem, outcome: Outcome) -> np.ndarray:
    """Return the covariance of the weights: the run's own, the Gaussian's or the particles'."""
    if outcome.covariance is not None:
        return outcome.covariance * np.outer(problem.prior_scale, problem.prior_scale)
    if outcome.factor is not None:
        scaled = outcome.factor * problem.prior_scale[:, None]
        return np.matmul(scaled, scaled.swapaxes(1, 2))
    particles = outcome.particles
    assert particles is not None, "a method gives particles or a factor"
    deviations = (particles - particles.mean(axis=1, keepdims=True)) * problem.prior_scale
    return np.matmul(deviations.swapaxes(1, 2), deviations) / (particles.shape[1] - 1)
