"""A posterior over last-layer weights, with its predictions, their uncertainty and diagnostics.

For a new row ψ the logits are ψ·θ_k. With y = σ(ψ·θ_k) (or a softmax over k):

    predict_proba            E[y]
    predict_interval         quantiles of y over the posterior
    predict_sd               standard deviation of y over the posterior
    entropies    total        H(E[y])            uncertainty of the prediction
                 expected     E[H(y)]            what more rows would not remove (aleatoric)
                 information  H(E[y]) − E[H(y)]  mutual information with the weights (epistemic)

This is maths.md (25), computed in `predictions`. Particles of a Gaussian are drawn when they
are first used. A posterior is saved as one safetensors file: a Gaussian's mean and factor, from
which particles can be drawn again, else particles and moments; all else is JSON in the header.
Files are untrusted: shapes are checked before an array is read, values afterwards.
"""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from lastlayer.checks import check_bool, check_features, check_int, fail
from lastlayer.covariance import Draws, Root, Subspace, make_triangular
from lastlayer.files import (
    Shapes,
    UnreadableError,
    add_tensor_checksum,
    explain_write_errors,
    read_tensors,
    write_atomically,
)
from lastlayer.outcome import PER_OUTPUT, Info
from lastlayer.predictions import Entropies, Gaussian, Particles, Prediction, compute_logits
from lastlayer.problem import Likelihood

FORMAT = "lastlayer-posterior-3"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Posterior:
    """Weights θ_k of K outputs: draws, moments, predictions; `info` says whether to trust them."""

    draws: np.ndarray | Draws  # (K, J, D), or the recipe to draw them
    mean: np.ndarray  # (K, D)
    info: Info
    spread: np.ndarray | None = None  # covariance (K, D, D), where draws are no recipe
    likelihood: Likelihood = Likelihood.BERNOULLI
    gaussian: bool = True  # predict by mean and covariance; otherwise by the particles
    chains: int = 1

    def __repr__(self) -> str:
        K, D = self.mean.shape
        size = f"{K} output{'s' * (K != 1)} × {D} weights, {self.num_particles} particles"
        return f"<Posterior of {size}, {self.info.method}: {self.info.message}>"

    @cached_property
    def particles(self) -> np.ndarray:
        """The draws, (K, J, D); a Gaussian's are drawn at the first use."""
        return self.draws if isinstance(self.draws, np.ndarray) else self.draws.make()

    @cached_property
    def covariance(self) -> np.ndarray:
        """The covariance of the weights, (K, D, D); a Gaussian's is computed at the first use."""
        if self.spread is not None:
            return self.spread
        return np.matmul(self.factor, self.factor.swapaxes(1, 2))

    @cached_property
    def root(self) -> Root:
        """The factor of the covariance as it is kept; `factor` is the same in full."""
        if isinstance(self.draws, Draws):
            return self.draws.root
        values, vectors = np.linalg.eigh(self.covariance)
        G = make_triangular(vectors * np.sqrt(np.maximum(values, 0))[:, None])
        return Root(inner=G, scale=np.ones_like(self.mean[0]))

    @cached_property
    def factor(self) -> np.ndarray:
        """Lower triangular G with covariance GGᵀ, (K, D, D); computed at the first use."""
        return self.root.expand()

    @property
    def num_particles(self) -> int:
        """The number of draws J."""
        return int(self.draws.shape[1])

    def predict(self, features: Any) -> Prediction:
        """Return all answers about these rows; logits are computed once.

        Parameters
        ----------
        features : (N, D)
            Rows as the posterior was made with; no intercept is added.

        Returns
        -------
        Prediction
            `probability`, `interval(level)`, `sd`, `entropies`, `information`.
        """
        psi, refined = self._check_features(features), self.info.refined
        softmax = self.likelihood is Likelihood.SOFTMAX
        exact = np.full(len(self.mean), softmax or not self.gaussian) | refined
        parts: list[tuple[np.ndarray, Gaussian | Particles]] = []
        if not exact.all():
            mean, root = self.mean, self.root
            if exact.any():
                mean, root = mean[~exact], root.select(~exact)
            parts.append((~exact, Gaussian(*compute_logits(psi, mean, root), psi.dtype)))
        if exact.any():
            drawn = self.particles if exact.all() else self.particles[exact]
            parts.append((exact, Particles(drawn, softmax, psi)))
        return Prediction(parts)

    def predict_proba(self, features: Any) -> np.ndarray:
        """Return the probability E[y] of each row and output, (N, K).

        Parameters
        ----------
        features : array (N, D)
            As the posterior was fitted to.

        Returns
        -------
        array (N, K)
            Averaged over the posterior.
        """
        return self.predict(features).probability

    def predict_interval(self, features: Any, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of the central `level` of y over the posterior, each (N, K).

        Parameters
        ----------
        features : array (N, D)
            As the posterior was fitted to.
        level : float
            The probability between the ends.

        Returns
        -------
        two arrays (N, K)
            Low and high.
        """
        return self.predict(features).interval(level)

    def predict_sd(self, features: Any) -> np.ndarray:
        """Return the standard deviation of y over the posterior, (N, K).

        Parameters
        ----------
        features : array (N, D)
            As the posterior was fitted to.

        Returns
        -------
        array (N, K)
            Of the probability, from 0 to ½.
        """
        return self.predict(features).sd

    def entropies(self, features: Any) -> Entropies:
        """Return the total, aleatoric and epistemic uncertainty of each prediction, in nats.

        Parameters
        ----------
        features : array (N, D)
            As the posterior was fitted to.

        Returns
        -------
        Entropies
            Arrays (N, K); information is the epistemic part.
        """
        return self.predict(features).entropies

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
            both = compute_logits(psi, self.mean, self.root, np.inf)
            mean, sd = (part.astype(psi.dtype) for part in both)
        if not (np.isfinite(mean).all() and np.isfinite(sd).all()):
            fail(
                f"features must give logits below {np.finfo(psi.dtype).max:.0e} in {psi.dtype}, "
                f"got entries up to {np.abs(psi).max():.0e}; rescale them."
            )
        return mean, sd

    def _check_features(self, features: Any) -> np.ndarray:
        """Return the features as an array, with as many columns as there are weights."""
        psi = check_features(features, self.mean.dtype)
        if psi.shape[1] != self.mean.shape[1]:
            fail(
                f"features must have {self.mean.shape[1]} columns, as the posterior was made with, "
                f"got {psi.shape[1]}; no intercept is added."
            )
        return psi

    def to_arviz(self) -> Any:
        """Return the draws as an `xarray.DataTree` for ArviZ; needs the extra `arviz`.

        Returns
        -------
        xarray.DataTree
            With a group `posterior` that holds `weights` by chain, draw, output and feature.

        Raises
        ------
        lastlayer.errors.UserError
            If ArviZ is not installed.
        """
        try:
            import arviz_base
        except ImportError:
            fail("to_arviz needs ArviZ: pip install 'lastlayer[arviz]'.")
        K, J, D = self.particles.shape
        per_chain = J // self.chains
        draws = self.particles[:, : per_chain * self.chains].reshape(K, per_chain, self.chains, D)
        weights = draws.transpose(2, 1, 0, 3)
        return arviz_base.from_dict(
            {"posterior": {"weights": weights}},
            dims={"weights": ["output", "feature"]},
            attrs={"posterior": {"method": self.info.method, "message": self.info.message}},
        )

    def save(
        self,
        path: str | Path,
        more: dict[str, str] | None = None,
        beside: dict[str, np.ndarray] | None = None,
    ) -> None:
        """Write the posterior to one safetensors file; an interrupted save leaves no file behind.

        Parameters
        ----------
        path : str or pathlib.Path
            The file; it is overwritten.
        more : dict, optional
            Further entries of its header.
        beside : dict, optional
            Further arrays, under names that begin with "+".

        Raises
        ------
        lastlayer.errors.UserError
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
        if isinstance(self.draws, Draws):
            root = self.draws.root
            arrays = {"mean": self.mean, "factor": root.triangles, "scale": root.scale}
            if root.subspace is not None:
                arrays["basis"] = np.hstack([root.subspace.fitted, root.subspace.others])
            header["draws"] = json.dumps([self.draws.num_particles, self.draws.seed])
        else:
            arrays = {"mean": self.mean, "covariance": self.covariance, "particles": self.draws}
        arrays = {k: np.ascontiguousarray(v) for k, v in (arrays | (beside or {})).items()}
        path, header = Path(path), header | (more or {})
        with explain_write_errors(path), write_atomically(path) as temporary:
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
            With the same mean, draws and info.

        Raises
        ------
        lastlayer.errors.UserError
            If the file is missing, damaged, or no posterior.
        """
        return load_posterior(Path(path))[0]


def load_posterior(path: Path) -> tuple[Posterior, dict[str, str], dict[str, np.ndarray]]:
    """Return the saved posterior, the header of its file, and all arrays."""
    way_out = "give a file that Posterior.save or LastLayer.save wrote"
    try:
        header, arrays = read_tensors(path, _check_shapes, finite=True)
        return _build(header, arrays), header, arrays
    except UnreadableError as error:
        fail(f"cannot read a posterior from {path}: {error.reason:.200}; {way_out}.")
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        fail(f"{path} is not a posterior saved by this version, or it is damaged; {way_out}.")


def _check_shapes(header: dict[str, str], shapes: Shapes) -> None:
    """Check, before any array is read, that all are there and that their shapes agree."""
    (K, D), shape = shapes["mean"], shapes["factor" if "draws" in header else "particles"]
    fitting = {"mean": (K, D), "covariance": (K, D, D), "particles": (K, shape[1], D)}
    if "draws" in header:
        r = shape[1] if "basis" in shapes else D
        fitting = {"mean": (K, D), "factor": (K, r, r), "scale": (D,)}
        fitting |= {"basis": (D, D)} if "basis" in shapes else {}
    stored = {name: shape for name, shape in shapes.items() if not name.startswith("+")}
    if header["format"] != FORMAT or stored != fitting:
        raise ValueError


def _build(header: dict[str, str], arrays: dict[str, np.ndarray]) -> Posterior:
    """Return a posterior from its parts; an error means that it is not one of `save`."""
    mean, info = arrays["mean"], Info.from_dict(json.loads(header["info"]))
    if any(getattr(info, name).shape != mean.shape[:1] for name in PER_OUTPUT):
        raise ValueError
    if "draws" in header:
        J, seed = (check_int(number, "draws", least=0) for number in json.loads(header["draws"]))
        G, basis = arrays["factor"], arrays.get("basis")
        subspace = None
        if basis is not None:
            subspace = Subspace(basis[:, : G.shape[1]], basis[:, G.shape[1] :], info.rank_error)
        root = Root(inner=G, scale=arrays["scale"], subspace=subspace)
        stored: Any = {"draws": Draws(mean=mean, root=root, num_particles=J, seed=seed)}
    else:
        stored = {"draws": arrays["particles"], "spread": arrays["covariance"]}
    return Posterior(
        **stored,
        mean=mean,
        info=info,
        likelihood=Likelihood(header["likelihood"]),
        gaussian=check_bool(json.loads(header["gaussian"]), "gaussian"),
        chains=check_int(json.loads(header["chains"]), "chains", least=1),
    )
