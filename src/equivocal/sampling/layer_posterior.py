"""A feature map with the posterior over what is put on top of it: raw inputs in, beliefs out."""

import copy
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from equivocal.sampling.engine.inputs import fail
from equivocal.sampling.info import Info
from equivocal.sampling.layer_inputs import compute_features
from equivocal.sampling.posterior import Entropies, Posterior
from equivocal.sampling.torch_features import TorchFeatures
from equivocal.store import parse_json


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LastLayerPosterior:
    """A feature map and the posterior over what is put on top of it."""

    posterior: Posterior
    feature_map: Callable[[Any], Any]
    intercept: bool = True  # a column of ones follows the features

    def __repr__(self) -> str:
        K, D = self.posterior.mean.shape
        size = f"{K} output{'s' * (K != 1)} × {D} weights"
        return f"<LastLayerPosterior of {size}, {self.info.method}: {self.info.message}>"

    @property
    def info(self) -> Info:
        """How the run went and whether to trust it."""
        return self.posterior.info

    def features(self, inputs: Any) -> np.ndarray:
        """Return ψ of raw inputs, as the posterior takes them.

        Parameters
        ----------
        inputs
            Whatever the feature map takes.

        Returns
        -------
        numpy.ndarray
            (N, D).
        """
        return compute_features(self.feature_map, inputs, self.intercept)

    def predict_proba(self, inputs: Any) -> np.ndarray:
        """Return the probability E[y] of each input and output.

        Parameters
        ----------
        inputs
            Whatever the feature map takes.

        Returns
        -------
        numpy.ndarray
            (N, K).
        """
        return self.posterior.predict_proba(self.features(inputs))

    def predict_interval(self, inputs: Any, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of the central `level` of y over the posterior.

        Parameters
        ----------
        inputs
            Whatever the feature map takes.
        level : float
            Share of the posterior between the two ends, in (0, 1).

        Returns
        -------
        low, high : numpy.ndarray
            Each (N, K).
        """
        return self.posterior.predict_interval(self.features(inputs), level)

    def predict_sd(self, inputs: Any) -> np.ndarray:
        """Return the standard deviation of y over the posterior.

        Parameters
        ----------
        inputs
            Whatever the feature map takes.

        Returns
        -------
        numpy.ndarray
            (N, K).
        """
        return self.posterior.predict_sd(self.features(inputs))

    def entropies(self, inputs: Any) -> Entropies:
        """Return the total, aleatoric and epistemic uncertainty of each prediction, in nats.

        Parameters
        ----------
        inputs
            Whatever the feature map takes.

        Returns
        -------
        Entropies
            `total`, `expected` (aleatoric) and `information` (epistemic).
        """
        return self.posterior.entropies(self.features(inputs))

    @classmethod
    def from_torch(
        cls, module: Any, inputs: Any, targets: Any = None, **options: Any
    ) -> "LastLayerPosterior":
        """Sample the posterior over the last layer of a PyTorch module; see `from_torch`.

        Parameters
        ----------
        module : torch.nn.Module
            The trained network, which ends in a linear layer.
        inputs, targets
            The data, as `from_torch` takes them.
        **options
            Further arguments of `from_torch`.

        Returns
        -------
        LastLayerPosterior
            The posterior, which takes the inputs of the module.
        """
        from equivocal.sampling.last_layer import from_torch

        return from_torch(module, inputs, targets, **options)

    def to_torch(self) -> Any:
        """Return a PyTorch module that gives the probabilities E[y], without JAX.

        Returns
        -------
        torch.nn.Module
            A copy of the network, in evaluation mode, whose last layer answers for the posterior;
            of another feature map the last layer alone, which takes features.
        """
        from equivocal.sampling.torch_layer import PosteriorLayer

        layer = PosteriorLayer(self.posterior, intercept=self.intercept).eval()
        if not isinstance(self.feature_map, TorchFeatures):
            return layer
        if not self.feature_map.name:  # the module is its last layer
            return layer
        module = copy.deepcopy(self.feature_map.module).eval().requires_grad_(False)
        module.set_submodule(self.feature_map.name, layer.to(self.feature_map.layer.weight.device))
        return module

    def save(self, path: str | Path) -> None:
        """Write the posterior to one safetensors file, without the network.

        Parameters
        ----------
        path : str or pathlib.Path
            The file; it is overwritten.

        Raises
        ------
        equivocal.errors.UserError
            If the file cannot be written.
        """
        from equivocal.sampling.posterior_files import save_posterior

        about: dict[str, Any] = {"intercept": bool(self.intercept)}
        if isinstance(self.feature_map, TorchFeatures):
            about |= {
                "layer": self.feature_map.name,
                "network": self.feature_map.compute_fingerprint(),
            }
        save_posterior(self.posterior, Path(path), {"last_layer": json.dumps(about)})

    @classmethod
    def load(cls, path: str | Path, network: Any) -> "LastLayerPosterior":
        """Load what `save` wrote, for the network that it belongs to.

        Parameters
        ----------
        path : str or pathlib.Path
            The file.
        network : torch.nn.Module or callable
            The module, with its `state_dict` loaded, or the feature map.

        Returns
        -------
        LastLayerPosterior
            With the same posterior, bit for bit. A warning says so if the module has other weights
            than when the posterior was saved.

        Raises
        ------
        equivocal.errors.UserError
            If the file is missing, damaged, or of another network.
        """
        from equivocal.sampling.posterior_files import load_posterior

        posterior, header = load_posterior(Path(path))
        try:
            about = parse_json(header.get("last_layer", "{}"))
        except ValueError as error:
            fail(f"{path} cannot be read: what it says of its layer is not JSON ({error}).")
        if "intercept" not in about:
            fail(f"{path} holds a posterior without a feature map; use Posterior.load.")
        feature_map = network
        if "layer" in about:
            feature_map = TorchFeatures.of_layer(network, str(about["layer"]))
            layer, (K, D) = feature_map.layer, posterior.mean.shape
            if (layer.out_features, layer.in_features + bool(about["intercept"])) != (K, D):
                fail(
                    f"{path} is of a last layer with {D - bool(about['intercept'])} inputs and {K} "
                    f"outputs, this network's has {layer.in_features} and {layer.out_features}; "
                    "pass the network that it was saved for."
                )
            if feature_map.compute_fingerprint() != about["network"]:
                warnings.warn(
                    "the network has other weights than when this posterior was saved, and the "
                    "posterior may not belong to it.",
                    UserWarning,
                    stacklevel=2,
                )
        return cls(posterior=posterior, feature_map=feature_map, intercept=bool(about["intercept"]))
