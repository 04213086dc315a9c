"""From what samplers found, in coordinates w, to a `Posterior` over the caller's weights."""

import time
from collections import Counter
from dataclasses import asdict, dataclass, fields
from typing import Any

import jax
import numpy as np

from equivocal.machine import collect_versions
from equivocal.sampling.engine.problem import Problem
from equivocal.sampling.engine.settings import Outcome, RunSettings
from equivocal.sampling.info import make_info
from equivocal.sampling.posterior import Draws, Posterior
from equivocal.sampling.prior_choice import Choice

RECORDED = ("num_particles", "num_steps", "tolerance", "seed", "refine", "evidence")  # in `info`
Part = tuple[np.ndarray, Problem, Outcome]  # outputs that share their prior variances


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """How a posterior was made."""

    method: str
    gaussian: bool
    config: Any
    settings: RunSettings
    devices: tuple[jax.Device, ...]
    choice: Choice | None
    diagnosed: bool
    began: float


def assemble(problem: Problem, parts: list[Part], made: Provenance) -> Posterior:
    """Put the outputs together, go from w back to weights, and say how it went."""
    if made.choice is not None:
        everything = np.arange(problem.num_outputs)
        parts = [
            (own, made.choice.mix(part, np.resize(own, part.num_outputs)), outcome)
            for own, part, outcome in parts
        ]
        problem = made.choice.mix(problem, everything)
    outcome, covariance = _merge(problem, parts)
    draws = _list_draws(problem, outcome, made.settings)
    if made.choice is not None and made.choice.note:
        outcome.notes = [*outcome.notes, made.choice.note]
    if made.gaussian and not made.diagnosed:
        outcome.notes = ["whether a Gaussian is enough was not checked", *outcome.notes]
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
    """Return the settings that `info` holds: plain values."""
    kinds = Counter(device.device_kind for device in made.devices or jax.devices()[:1])
    config = {k: v for k, v in asdict(made.config).items() if not isinstance(v, np.ndarray)}
    scale = problem.prior_scale
    if made.choice is not None:
        config |= made.choice.record()
    elif (scale == scale.flat[0]).all():
        config["prior_variance"] = float(scale.flat[0] ** 2)
    return {
        **config,
        **{name: getattr(made.settings, name) for name in RECORDED},
        "likelihood": str(problem.likelihood),
        "dtype": str(problem.dtype),
        "precision": str(made.settings.precision),
        # for example "cpu" or "8 × NVIDIA H200"
        "device": ", ".join(kind if n == 1 else f"{n} × {kind}" for kind, n in kinds.items()),
    }


def _merge(problem: Problem, parts: list[Part]) -> tuple[Outcome, np.ndarray]:
    """Return one outcome of all outputs, and the covariances of their weights."""
    if len(parts) == 1:
        return parts[0][2], _compute_covariance(parts[0][1], parts[0][2])
    outcome = parts[0][2]
    merged: dict[str, Any] = {}
    K = problem.num_outputs
    for field in fields(Outcome):
        values = [getattr(part[2], field.name) for part in parts]
        if isinstance(values[0], np.ndarray):
            merged[field.name] = np.empty((K, *values[0].shape[1:]), values[0].dtype)
            for (own, _, _), value in zip(parts, values, strict=True):
                merged[field.name][own] = value[: len(own)]
    whole = Outcome(**{k: v for k, v in merged.items() if k != "refined"}, chains=outcome.chains)
    whole.refined = merged["refined"]
    whole.repaired = sum(part[2].repaired for part in parts)
    whole.remedy, whole.in_subspace = outcome.remedy, outcome.in_subspace
    whole.notes = list(dict.fromkeys(note for part in parts for note in part[2].notes))
    whole.stop_reason = "; ".join({part[2].stop_reason for part in parts} - {""})
    K, D = whole.mean.shape
    covariance = np.empty((K, D, D), whole.mean.dtype)
    for own, part, found in parts:
        covariance[own] = _compute_covariance(part, found)[: len(own)]
    return whole, covariance


def _list_draws(problem: Problem, outcome: Outcome, settings: RunSettings) -> np.ndarray | Draws:
    """Return the particles that a method moved, or how to draw those of its Gaussian."""
    if outcome.particles is not None:
        return _to_weights(problem, outcome.particles)
    assert outcome.factor is not None, "a method gives particles or a factor"
    return Draws(
        mean=outcome.mean,
        factor=outcome.factor,
        prior_mean=problem.prior_mean,
        prior_scale=problem.prior_scale,
        num_particles=settings.num_particles,
        seed=settings.seed,
    )


def _to_weights(problem: Problem, w: np.ndarray) -> np.ndarray:
    """Return θ = m₀ + √v w, where outputs may have their own v."""
    scale, m0 = problem.prior_scale, problem.prior_mean
    if w.ndim == 3:
        scale, m0 = scale if scale.ndim == 1 else scale[:, None], m0[:, None]
    return np.asarray(scale * w + m0)


def _compute_covariance(problem: Problem, outcome: Outcome) -> np.ndarray:
    """Return the covariance of the whole run, the Gaussian or the particles, in this order."""
    if outcome.covariance is not None:
        return outcome.covariance * np.outer(problem.prior_scale, problem.prior_scale)
    if outcome.factor is not None:
        scaled = outcome.factor * problem.prior_scale[:, None]
        return np.matmul(scaled, scaled.swapaxes(1, 2))
    particles = outcome.particles
    assert particles is not None, "a method gives particles or a factor"
    deviations = (particles - particles.mean(axis=1, keepdims=True)) * problem.prior_scale
    return np.matmul(deviations.swapaxes(1, 2), deviations) / (particles.shape[1] - 1)
