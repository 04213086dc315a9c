"""One step of the article's sampler: ours without an N×N matrix against the literal N×N version.

Both move an ensemble from the prior by the same Δτ, without dropout, in float32, and another
ensemble in every repetition; ours moves several outputs at once and its time is divided by their
number. Ours also measures the change of
P̂ for the stopping rule, the literal version does not. Both must end with the same particles, which
is checked in float64, relative to the longest distance that a particle moved.
"""

from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

import jax
import numpy as np

from benchmarks.sampler.lines import Findings, Goal, Line
from benchmarks.sampler.problems import Data
from benchmarks.sampler.running import Workbench
from benchmarks.sampler.settings import BenchSettings
from benchmarks.sampler.timing import measure_time
from lastlayer import algorithm1
from lastlayer.problem import Likelihood, Problem
from lastlayer.rows import Rows, lay_out, pad

__all__ = ["measure"]

BLOCK_ROWS = 512  # as in a memory plan for a CPU
LITERAL_OUTPUTS = 2  # the number of outputs timed, all of which take the same time
FASTER = Goal(least=100)
SAME = Goal(most=1e-8, of="ours", at_any_size=True)  # round-off of an N×N inverse is below 1e-10


@dataclass(frozen=True, kw_only=True, eq=False)
class Start:
    """Rows and an ensemble drawn from the prior, laid out for ours and as plain arrays."""

    features: np.ndarray  # (N, D)
    targets: np.ndarray  # (N, K)
    rows: Rows
    state: algorithm1.DropoutState
    keys: jax.Array
    config: algorithm1.DropoutConfig

    def draw(self, seed: int) -> "Start":
        """Return the same rows with another ensemble, which is computed before this returns."""
        (K, J, wide), D = self.state.particles.shape, self.features.shape[1]
        keys = jax.random.split(jax.random.key(seed), K)
        state = algorithm1.fill_up(algorithm1.init(keys, J, D), wide)
        state.particles.block_until_ready()
        return replace(self, keys=keys, state=state)

    @property
    def particles(self) -> np.ndarray:
        """The particles of all outputs before the step, (K, J, D)."""
        return np.asarray(self.state.particles)[..., : self.features.shape[1]]

    def ours(self) -> np.ndarray:
        """Return the particles of all outputs after a step of ours."""
        moved, _ = algorithm1.step(self.keys, self.state, self.rows, self.config)
        return np.asarray(moved.particles)[..., : self.features.shape[1]]

    def literal(self, k: int) -> np.ndarray:
        """Return the particles of output k after a literal step."""
        assert self.config.step_size is not None
        return algorithm1.take_literal_step(
            self.particles[k], self.features, self.targets[:, k], self.config.step_size
        )


def measure(bench: Workbench) -> Findings:
    """Measure seconds per step and output of both, and the difference of their particles."""
    settings, repeats = bench.settings, bench.settings.literal_repeats
    start = _make_start(bench.data, settings, settings.literal_outputs, np.float32)
    (N, D), J, K = start.features.shape, settings.num_particles, settings.literal_outputs
    bench.say(f"one step, {N:,} rows")
    first, moved = measure_time(start.ours)
    others = (start.draw(settings.seed + i) for i in range(1, 3 * repeats + 1))
    ours = [measure_time(other.ours)[0] / K for other in others]
    bench.say(f"one literal step, {N:,} × {N:,}")
    others = (start.draw(settings.seed + i) for i in range(1, repeats + 1))
    some = [partial(other.literal, k) for other in others for k in range(min(K, LITERAL_OUTPUTS))]
    theirs = [measure_time(each)[0] for each in some]
    rough = _measure_difference(start, moved[:1])
    with jax.enable_x64(True):
        precise = _make_start(bench.data, settings, 1, np.float64)
        difference = _measure_difference(precise, precise.ours())
    ratio = median(theirs) / median(ours)
    return Findings(
        lines=[
            Line(
                what=f"literal N×N step per output, N = {N:,}, J = {J}, D = {D}",
                ours=median(ours),
                theirs=median(theirs),
                ratio=ratio,
                goal=FASTER,
            ),
            Line(what="  largest difference of particles", ours=difference, unit="", goal=SAME),
        ],
        details={
            "sizes": {"rows": N, "features": D, "num_particles": J, "outputs_at_once": K},
            "step_size": start.config.step_size,
            "seconds_per_output": ours,
            "seconds_first_step": first,
            "literal_seconds": theirs,
            "difference_float64": difference,
            "difference_float32": rough,
        },
    )


def _make_start(data: Data, settings: BenchSettings, K: int, dtype: Any) -> Start:
    """Return the first rows, not merged, and an ensemble; Δτ keeps the explicit step stable."""
    N = min(settings.literal_rows, len(data.features))
    psi = data.features[:N].astype(dtype)
    targets = data.targets[:N, np.resize(data.two_classes, K)].astype(dtype)
    problem = Problem.build(psi, targets, None, 0.0, 1.0, Likelihood.BERNOULLI, dtype)
    keys = jax.random.split(jax.random.key(settings.seed), K)
    state = algorithm1.init(keys, settings.num_particles, psi.shape[1])
    wide = pad(psi.shape[1])  # as in the sampler's own plan
    stiff = np.linalg.norm(data.features[:N], 2) ** 2 / 4  # ≥ |Ψ diag(R) Ψᵀ|, since R ≤ ¼
    return Start(
        features=psi,
        targets=targets,
        rows=lay_out(problem, slice(0, K), min(BLOCK_ROWS, N), num_features=wide),
        state=algorithm1.fill_up(state, wide),
        keys=keys,
        config=algorithm1.DropoutConfig(dropout_rate=0.0, step_size=float(0.5 / (stiff + 1))),
    )


def _measure_difference(start: Start, ours: np.ndarray) -> float:
    """Return the largest difference of the first output's particles, over the longest move."""
    literal = start.literal(0)
    way = np.abs(literal - start.particles[0]).max()
    return float(np.abs(ours[0] - literal).max() / way)
