"""The answer: a posterior over last-layer weights that predicts, doubts, and says how it was found.

For a new row ψ the logits are ψ·θ_k. With y = σ(ψ·θ_k) (or a softmax over k):

    predict_proba            E[y]
    predict_interval         quantiles of y over the posterior
    predict_sd               standard deviation of y over the posterior
    entropies    total        H(E[y])            uncertainty of the prediction
                 expected     E[H(y)]            what more rows would not remove (aleatoric)
                 information  H(E[y]) − E[H(y)]  mutual information with the weights (epistemic)

A Gaussian posterior gives these in closed form, however few particles there are: with a ~ N(μ, v),
E[H(y)] = E log(1+e^a) − μ E σ(a) − v E σ'(a) by Stein's identity. Others average over particles.
"""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from equivocal.files import replacing
from equivocal.sampling.expectations import Moments, gaussian_moments
from equivocal.sampling.info import Info
from equivocal.sampling.inputs import checked_features, checked_positive, fail
from equivocal.sampling.plan import power_of_two
from equivocal.sampling.problem import Likelihood
from equivocal.sampling.shapes import Array, Float

__all__ = ["Entropies", "Posterior"]

FORMAT = "equivocal-posterior-1"
CHUNK = 1 << 24  # numbers in flight while predicting


class Entropies(NamedTuple):
    """Predictive uncertainty in nats, (N, K); for a softmax (N, 1)."""

    total: np.ndarray
    expected: np.ndarray
    information: np.ndarray


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Posterior:
    """Weights θ_k of K outputs: draws, moments, predictions; `info` says how far to trust them."""

    particles: np.ndarray  # (K, J, D)
    mean: np.ndarray  # (K, D)
    covariance: np.ndarray  # (K, D, D)
    info: Info
    likelihood: Likelihood = Likelihood.BERNOULLI
    gaussian: bool = True  # mean and covariance say everything; else the particles do
    chains: int = 1

    def __repr__(self) -> str:
        K, J, D = self.particles.shape
        size = f"{K} output{'s' * (K != 1)} × {D} weights, {J} particles"
        return f"<Posterior of {size}, {self.info.method}: {self.info.message}>"

    def predict_proba(self, features: Any) -> np.ndarray:
        """E[y] for each row and output, (N, K)."""
        return self._by_rows(features, self._mean_probability)

    def predict_interval(self, features: Any, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper end of the central `level` of y over the posterior, each (N, K)."""
        checked_positive(level, "level", below=1.0)
        both = self._by_rows(features, partial(self._quantiles, level=level))
        return both[..., 0], both[..., 1]

    def predict_sd(self, features: Any) -> np.ndarray:
        """Standard deviation of y over the posterior, (N, K)."""
        return self._by_rows(features, self._sd)

    def entropies(self, features: Any) -> Entropies:
        """Total, expected and epistemic uncertainty of each row's prediction."""
        stacked = self._by_rows(features, self._entropies)
        return Entropies(*np.moveaxis(stacked, -1, 0))

    def logits(self, features: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of ψ·θ_k, each (N, K)."""
        mean, variance = _logit_moments(self._checked(features), self.mean, self.covariance)
        return mean, np.sqrt(variance)

    def _checked(self, features: Any) -> np.ndarray:
        psi = checked_features(features, self.mean.dtype)
        if psi.shape[1] != self.mean.shape[1]:
            fail(
                f"features must have {self.mean.shape[1]} columns, as the posterior was made with, "
                f"got {psi.shape[1]}; no intercept is added."
            )
        return psi

    def _by_rows(self, features: Any, function: Any) -> np.ndarray:
        psi = self._checked(features)
        K, J, D = self.particles.shape
        width = K * (J if self._by_particles else D)
        rows = max(1, CHUNK // width)
        with jax.enable_x64(self.mean.dtype == np.float64), jax.default_matmul_precision("highest"):
            parts = [np.asarray(function(psi[i : i + rows])) for i in range(0, len(psi), rows)]
        return np.concatenate(parts)

    @property
    def _by_particles(self) -> bool:
        return not self.gaussian or self.likelihood is Likelihood.SOFTMAX

    def _particle_probabilities(self, psi: np.ndarray) -> Array:
        """(K, J, n)."""
        logits = _particle_logits(psi, self.particles)
        if self.likelihood is Likelihood.SOFTMAX:
            return jax.nn.softmax(logits, axis=0)
        return jax.nn.sigmoid(logits)

    def _mean_probability(self, psi: np.ndarray) -> Array:
        if self._by_particles:
            return self._particle_probabilities(psi).mean(axis=1).T
        mu, v = _logit_moments(psi, self.mean, self.covariance)
        tail = jnp.clip(_moments(mu, v).tail, 0, 1)
        return jnp.where(mu > 0, 1 - tail, tail)

    def _sd(self, psi: np.ndarray) -> np.ndarray:
        if self._by_particles:
            return np.asarray(self._particle_probabilities(psi).std(axis=1).T)
        mu, v = _logit_moments(psi, self.mean, self.covariance)
        with jax.enable_x64(True):  # Var y = E y (1 − E y) − E y(1 − y), which cancels
            moments = _moments(mu.astype(np.float64), v.astype(np.float64))
            variance = np.asarray(moments.tail * (1 - moments.tail) - moments.slope)
        return np.sqrt(np.maximum(variance, 0)).astype(psi.dtype)

    def _quantiles(self, psi: np.ndarray, level: float) -> Array:
        ends = jnp.asarray([(1 - level) / 2, (1 + level) / 2], self.mean.dtype)
        if self._by_particles:
            quantiles = jnp.quantile(self._particle_probabilities(psi), ends, axis=1)
            return jnp.moveaxis(quantiles, 0, -1).swapaxes(0, 1)
        mean, variance = _logit_moments(psi, self.mean, self.covariance)
        z = jax.scipy.special.ndtri(ends)
        return jax.nn.sigmoid(mean[..., None] + np.sqrt(variance)[..., None] * z)

    def _entropies(self, psi: np.ndarray) -> Array:
        if self._by_particles:
            total, expected = self._particle_entropies(psi)
        else:
            mu, v = _logit_moments(psi, self.mean, self.covariance)
            moments = _moments(mu, v)
            total = _binary_entropy(moments.tail)
            # E log(1+e^a) − μ E σ − v E σ'; written for −|μ|, whose terms do not cancel
            expected = moments.excess + np.abs(mu) * moments.tail - v * moments.slope
        expected = jnp.clip(expected, 0, total)
        return jnp.stack([total, expected, total - expected], axis=-1)

    def _particle_entropies(self, psi: np.ndarray) -> tuple[Array, Array]:
        y = self._particle_probabilities(psi)
        if self.likelihood is Likelihood.SOFTMAX:
            entropy = jax.scipy.special.entr
            total = entropy(y.mean(axis=1)).sum(axis=0)
            return total[:, None], entropy(y).sum(axis=0).mean(axis=0)[:, None]
        return _binary_entropy(y.mean(axis=1)).T, _binary_entropy(y).mean(axis=1).T

    def to_arviz(self) -> Any:
        """An `xarray.DataTree` for ArviZ with group `posterior`; needs the extra `arviz`."""
        try:
            import arviz_base
        except ImportError:
            fail("to_arviz needs ArviZ: pip install 'equivocal[arviz]'.")
        K, J, D = self.particles.shape
        per_chain = J // self.chains
        draws = self.particles[:, : per_chain * self.chains].reshape(K, per_chain, self.chains, D)
        weights = draws.transpose(2, 1, 0, 3)
        return arviz_base.from_dict(
            {"posterior": {"weights": weights}},
            dims={"weights": ["output", "feature"]},
            attrs={"posterior": {"method": self.info.method, "message": self.info.message}},
        )

    def save(self, path: str | Path) -> None:
        """Write everything to one safetensors file; a killed save leaves nothing half-written."""
        from safetensors.numpy import save_file

        header = {
            "format": FORMAT,
            "likelihood": str(self.likelihood),
            "gaussian": json.dumps(self.gaussian),
            "chains": json.dumps(self.chains),
            "info": json.dumps(self.info.to_dict()),
        }
        arrays = {name: np.ascontiguousarray(getattr(self, name)) for name in ARRAYS}
        with replacing(path) as temporary:
            save_file(arrays, temporary, metadata=header)

    @classmethod
    def load(cls, path: str | Path) -> "Posterior":
        """Read what `save` wrote."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="numpy") as file:
                header = file.metadata() or {}
                present = set(file.keys())
                arrays = {name: file.get_tensor(name) for name in ARRAYS if name in present}
        except (OSError, SafetensorError) as error:
            fail(f"cannot read a posterior from {path}: {error}.")
        if header.get("format") != FORMAT or set(arrays) != set(ARRAYS):
            fail(f"{path} is not a posterior saved by this version of equivocal.")
        return cls(
            **arrays,
            info=Info.from_dict(json.loads(header["info"])),
            likelihood=Likelihood(header["likelihood"]),
            gaussian=json.loads(header["gaussian"]),
            chains=json.loads(header["chains"]),
        )


ARRAYS = ("particles", "mean", "covariance")


def _logit_moments(
    psi: np.ndarray, mean: np.ndarray, covariance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """ψ·m_k and ψᵀP_kψ, each (n, K); in double precision, since ψᵀPψ cancels."""
    wide = psi.astype(np.float64)
    mu = wide @ mean.T.astype(np.float64)
    v = np.stack([((wide @ P.astype(np.float64)) * wide).sum(axis=1) for P in covariance], axis=1)
    return mu.astype(psi.dtype), np.maximum(v, 0).astype(psi.dtype)


def _moments(mu: np.ndarray, v: np.ndarray) -> Moments:
    """Expectations over a ~ N(μ, v), filled up so that nearby sizes share a compiled program."""
    size = max(64, power_of_two(mu.size))
    filled = (np.resize(x, size) for x in (mu, v))
    return jax.tree.map(lambda x: x[: mu.size].reshape(mu.shape), _compiled_moments(*filled))


_compiled_moments = jax.jit(gaussian_moments)


@jax.jit
def _particle_logits(
    psi: Float[Array, "n D"], particles: Float[Array, "K J D"]
) -> Float[Array, "K J n"]:
    return jnp.matmul(particles, psi.T)


def _binary_entropy(p: Float[Array, "*n"]) -> Float[Array, "*n"]:
    p = jnp.clip(p, 0, 1)
    return jax.scipy.special.entr(p) + jax.scipy.special.entr(1 - p)
