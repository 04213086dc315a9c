"""A posterior over last-layer weights: predictions, their uncertainty, and how it was found.

For a new row ψ the logits are ψ·θ_k. With y = σ(ψ·θ_k) (or a softmax over k):

    predict_proba            E[y]
    predict_interval         quantiles of y over the posterior
    predict_sd               standard deviation of y over the posterior
    entropies    total        H(E[y])            uncertainty of the prediction
                 expected     E[H(y)]            what more rows would not remove (aleatoric)
                 information  H(E[y]) − E[H(y)]  mutual information with the weights (epistemic)

This is docs/maths.md (28).

A Gaussian posterior gives these in closed form, however few particles there are: with a ~ N(μ, v),
E[H(y)] = E log(1+e^a) − μ E σ(a) − v E σ'(a) by Stein's identity. Others average over particles.

Rows of any size are served. Where v > 10⁸ that identity loses its digits, and E[H(y)] is
∫H(σ(a)) da = π²/3 times the density of a at 0, for which E σ'(a) stands: both to 1/v. Beyond a
logit of 10¹⁵ the logistic function is a step, and only μ/√v matters.
"""

import json
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from equivocal.sampling.engine.expectations import Moments, compute_moments
from equivocal.sampling.engine.inputs import (
    check_bool,
    check_features,
    check_int,
    check_positive,
    fail,
)
from equivocal.sampling.engine.plan import round_to_power_of_two
from equivocal.sampling.engine.problem import Likelihood
from equivocal.sampling.engine.shapes import Array, Float
from equivocal.sampling.info import PER_OUTPUT, Info
from equivocal.store import Shapes, UnreadableError, add_tensor_checksum, parse_json, read_tensors
from equivocal.store.files import explain_write_errors, write_atomically

FORMAT = "equivocal-posterior-1"
CHUNK = 1 << 24  # numbers in flight while predicting
WIDE = 1e8  # variance of a logit above which E[H(y)] is taken from the density at 0
STEEP = 1e15  # logits beyond which the logistic function is a step


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
        """Return the probability E[y] of each row and output.

        Parameters
        ----------
        features : (N, D)
            Rows as the posterior was made with; no intercept is added.

        Returns
        -------
        numpy.ndarray
            (N, K).
        """
        return self._apply_by_rows(features, Posterior._average_probability)

    def predict_interval(self, features: Any, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of the central `level` of y over the posterior.

        Parameters
        ----------
        features : (N, D)
            Rows as the posterior was made with; no intercept is added.
        level : float
            Share of the posterior between the two ends, in (0, 1).

        Returns
        -------
        low, high : numpy.ndarray
            Each (N, K).
        """
        check_positive(level, "level", below=1.0)
        both = self._apply_by_rows(features, partial(Posterior._compute_quantiles, level=level))
        return both[..., 0], both[..., 1]

    def predict_sd(self, features: Any) -> np.ndarray:
        """Return the standard deviation of y over the posterior.

        Parameters
        ----------
        features : (N, D)
            Rows as the posterior was made with; no intercept is added.

        Returns
        -------
        numpy.ndarray
            (N, K).
        """
        return self._apply_by_rows(features, Posterior._compute_sd)

    def entropies(self, features: Any) -> Entropies:
        """Return the total, aleatoric and epistemic uncertainty of each prediction, in nats.

        Parameters
        ----------
        features : (N, D)
            Rows as the posterior was made with; no intercept is added.

        Returns
        -------
        Entropies
            `total`, `expected` (aleatoric) and `information` (epistemic), each (N, K), or (N, 1)
            for a softmax.
        """
        stacked = self._apply_by_rows(features, Posterior._compute_entropies)
        return Entropies(*np.moveaxis(stacked, -1, 0))

    def logits(self, features: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and standard deviation of the logits ψ·θ_k.

        Parameters
        ----------
        features : (N, D)
            Rows as the posterior was made with; no intercept is added.

        Returns
        -------
        mean, sd : numpy.ndarray
            Each (N, K).
        """
        psi = self._check_features(features)
        with np.errstate(over="ignore"):
            mean, sd = (part.astype(psi.dtype) for part in self._compute_logits(psi, np.inf))
        if not (np.isfinite(mean).all() and np.isfinite(sd).all()):
            fail(
                f"features must give logits below {np.finfo(psi.dtype).max:.0e} in {psi.dtype}, "
                f"got entries up to {np.abs(psi).max():.0e}; rescale them."
            )
        return mean, sd

    def _check_features(self, features: Any) -> np.ndarray:
        psi = check_features(features, self.mean.dtype)
        if psi.shape[1] != self.mean.shape[1]:
            fail(
                f"features must have {self.mean.shape[1]} columns, as the posterior was made with, "
                f"got {psi.shape[1]}; no intercept is added."
            )
        return psi

    def _apply_by_rows(self, features: Any, function: Any) -> np.ndarray:
        """Apply a method to some rows at a time; outputs are the second axis of what it gives."""
        psi = self._check_features(features)
        refined = self.info.refined
        if self._by_particles or not refined.any():
            return self._apply(psi, function)
        by_draws = self._select(refined, gaussian=False)._apply(psi, function)
        found = np.empty((len(psi), len(refined), *by_draws.shape[2:]), by_draws.dtype)
        found[:, refined] = by_draws
        if not refined.all():
            found[:, ~refined] = self._select(~refined, gaussian=True)._apply(psi, function)
        return found

    def _select(self, outputs: np.ndarray, *, gaussian: bool) -> "Posterior":
        """Return the same posterior for predictions of some outputs."""
        arrays = {name: getattr(self, name)[outputs] for name in ARRAYS}
        return replace(self, **arrays, gaussian=gaussian)

    def _apply(self, psi: np.ndarray, function: Any) -> np.ndarray:
        K, J, D = self.particles.shape
        width = K * (J if self._by_particles else D)
        rows = max(1, CHUNK // width)
        with jax.enable_x64(self.mean.dtype == np.float64), jax.default_matmul_precision("highest"):
            parts = [
                np.asarray(function(self, psi[i : i + rows])) for i in range(0, len(psi), rows)
            ]
        return np.concatenate(parts)

    @property
    def _by_particles(self) -> bool:
        return not self.gaussian or self.likelihood is Likelihood.SOFTMAX

    def _predict_by_particle(self, psi: np.ndarray) -> Array:
        """Return what each particle says, (K, J, n)."""
        # so that no sum overflows; logits of this size are certain whatever they are
        heaviest = max(float(np.abs(self.particles).max()), 1.0)
        most = float(np.finfo(psi.dtype).max) / 16 / psi.shape[1] / heaviest
        largest = np.abs(psi).max(axis=1, keepdims=True)
        if largest.max() > most:
            psi = psi * (most / np.maximum(largest, most))
        logits = _compute_particle_logits(psi, self.particles)
        if self.likelihood is Likelihood.SOFTMAX:
            return jax.nn.softmax(logits, axis=0)
        return jax.nn.sigmoid(logits)

    def _average_probability(self, psi: np.ndarray) -> Array:
        if self._by_particles:
            return self._predict_by_particle(psi).mean(axis=1).T
        mu, sd = (part.astype(psi.dtype) for part in self._compute_logits(psi))
        tail = jnp.clip(_compute_moments(mu, sd**2).tail, 0, 1)
        return jnp.where(mu > 0, 1 - tail, tail)

    def _compute_sd(self, psi: np.ndarray) -> np.ndarray:
        if self._by_particles:
            return np.asarray(self._predict_by_particle(psi).std(axis=1).T)
        mu, sd = self._compute_logits(psi)
        with jax.enable_x64(True):  # Var y = E y (1 − E y) − E y(1 − y), which cancels
            moments = _compute_moments(mu, sd**2)
            variance = np.asarray(moments.tail * (1 - moments.tail) - moments.slope)
        return np.sqrt(np.maximum(variance, 0)).astype(psi.dtype)

    def _compute_quantiles(self, psi: np.ndarray, level: float) -> Array:
        ends = jnp.asarray([(1 - level) / 2, (1 + level) / 2], self.mean.dtype)
        if self._by_particles:
            quantiles = jnp.quantile(self._predict_by_particle(psi), ends, axis=1)
            return jnp.moveaxis(quantiles, 0, -1).swapaxes(0, 1)
        mu, sd = (part.astype(psi.dtype) for part in self._compute_logits(psi))
        z = jax.scipy.special.ndtri(ends)
        return jax.nn.sigmoid(mu[..., None] + sd[..., None] * z)

    def _compute_entropies(self, psi: np.ndarray) -> np.ndarray:
        if self._by_particles:
            total, expected = map(np.asarray, self._compute_particle_entropies(psi))
        else:
            total, expected = self._compute_gaussian_entropies(psi)
        expected = np.clip(expected, 0, total)
        return np.stack([total, expected, total - expected], axis=-1).astype(psi.dtype)

    def _compute_gaussian_entropies(self, psi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mu, sd = self._compute_logits(psi)
        v = sd**2
        with jax.enable_x64(True):
            moments = _compute_moments(mu, v)
            total = np.asarray(_compute_binary_entropy(moments.tail))
            tail, slope, excess = map(np.asarray, moments)
        # E log(1+e^a) − μ E σ − v E σ'; written for −|μ|, whose terms do not cancel
        by_parts = excess + np.abs(mu) * tail - v * slope
        return total, np.where(v > WIDE, np.pi**2 / 3 * slope, by_parts)

    def _compute_logits(
        self, psi: np.ndarray, most: float = STEEP
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return ψ·m_k and √(ψᵀP_kψ), each (n, K), in double precision, since ψᵀPψ cancels.

        A row is taken out of powers of two first, so that no square overflows. Where the logit
        would be larger than `most`, both are scaled down to it alike: the logistic function is a
        step there.
        """
        _, exponent = np.frexp(np.abs(psi).max(axis=1).astype(np.float64))
        scale = np.ldexp(1.0, exponent[:, None] - 1)
        unit = psi.astype(np.float64) / scale
        mu = unit @ self.mean.T.astype(np.float64)
        covariances = (P.astype(np.float64) for P in self.covariance)
        v = np.stack([((unit @ P) * unit).sum(axis=1) for P in covariances], axis=1)
        sd = np.sqrt(np.maximum(v, 0))
        reach = np.maximum(np.hypot(mu, sd), np.finfo(np.float64).tiny)
        with np.errstate(over="ignore"):
            factor = np.minimum(scale, most / reach)
            return mu * factor, sd * factor

    def _compute_particle_entropies(self, psi: np.ndarray) -> tuple[Array, Array]:
        y = self._predict_by_particle(psi)
        if self.likelihood is Likelihood.SOFTMAX:
            entropy = jax.scipy.special.entr
            total = entropy(y.mean(axis=1)).sum(axis=0)
            return total[:, None], entropy(y).sum(axis=0).mean(axis=0)[:, None]
        return _compute_binary_entropy(y.mean(axis=1)).T, _compute_binary_entropy(y).mean(axis=1).T

    def to_arviz(self) -> Any:
        """Return the draws as an `xarray.DataTree` for ArviZ; needs the extra `arviz`.

        Returns
        -------
        xarray.DataTree
            With a group `posterior` that holds `weights` by chain, draw, output and feature.

        Raises
        ------
        equivocal.errors.UserError
            If ArviZ is not installed.
        """
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
        """Write everything to one safetensors file; an interrupted save leaves nothing behind.

        Parameters
        ----------
        path : str or pathlib.Path
            The file; it is overwritten.

        Raises
        ------
        equivocal.errors.UserError
            If the file cannot be written.
        """
        from safetensors.numpy import save_file

        header = {
            "format": FORMAT,
            "likelihood": str(self.likelihood),
            "gaussian": json.dumps(self.gaussian),
            "chains": json.dumps(self.chains),
            "info": json.dumps(self.info.to_dict()),
        }
        arrays = {name: np.ascontiguousarray(getattr(self, name)) for name in ARRAYS}
        with explain_write_errors(Path(path)), write_atomically(path) as temporary:
            save_file(arrays, temporary, metadata=add_tensor_checksum(header, arrays))

    @classmethod
    def load(cls, path: str | Path) -> "Posterior":
        """Load what `save` wrote.

        Parameters
        ----------
        path : str or pathlib.Path
            The file.

        Returns
        -------
        Posterior
            The same arrays and info, bit for bit.

        Raises
        ------
        equivocal.errors.UserError
            If the file is missing, damaged, or no posterior.
        """
        try:
            return cls._from_file(*read_tensors(Path(path), _check_shapes, ARRAYS))
        except UnreadableError as error:
            fail(f"cannot read a posterior from {path!s:.80}: {error.reason:.200}.")
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            fail(
                f"{path} is not a posterior saved by this version of equivocal, or it is damaged; "
                "save it again."
            )

    @classmethod
    def _from_file(cls, header: dict[str, str], arrays: dict[str, np.ndarray]) -> "Posterior":
        """Build a posterior; any error means that the file is not one of ours."""
        K, J, _ = arrays["particles"].shape
        dtype = arrays["mean"].dtype
        if any(array.dtype != dtype or not np.isfinite(array).all() for array in arrays.values()):
            raise ValueError
        info = Info.from_dict(parse_json(header["info"]))
        gaussian, chains = parse_json(header["gaussian"]), parse_json(header["chains"])
        check_bool(gaussian, "gaussian")
        check_int(chains, "chains", least=1)
        per_output = (getattr(info, name) for name in PER_OUTPUT)
        if any(values.shape != (K,) or values.dtype.kind not in "bif" for values in per_output):
            raise ValueError
        if chains > J or not isinstance(info.message, str) or not isinstance(info.method, str):
            raise ValueError
        return cls(
            **arrays,
            info=info,
            likelihood=Likelihood(header["likelihood"]),
            gaussian=gaussian,
            chains=chains,
        )


ARRAYS = ("particles", "mean", "covariance")


def _check_shapes(header: dict[str, str], shapes: Shapes) -> None:
    """Check, before an array is read, that all three are there and of one posterior."""
    K, J, D = shapes["particles"]
    fitting = {"particles": (K, J, D), "mean": (K, D), "covariance": (K, D, D)}
    if header["format"] != FORMAT or shapes != fitting:
        raise ValueError


def _compute_moments(mu: np.ndarray, v: np.ndarray) -> Moments:
    """Return expectations over a ~ N(μ, v), filled up so that nearby sizes share a program."""
    size = max(64, round_to_power_of_two(mu.size))
    filled = (np.resize(x, size) for x in (mu, v))
    return jax.tree.map(lambda x: x[: mu.size].reshape(mu.shape), _average(*filled))


_average = jax.jit(compute_moments)


@jax.jit
def _compute_particle_logits(
    psi: Float[Array, "n D"], particles: Float[Array, "K J D"]
) -> Float[Array, "K J n"]:
    return jnp.matmul(particles, psi.T)


def _compute_binary_entropy(p: Float[Array, "*n"]) -> Float[Array, "*n"]:
    p = jnp.clip(p, 0, 1)
    return jax.scipy.special.entr(p) + jax.scipy.special.entr(1 - p)
