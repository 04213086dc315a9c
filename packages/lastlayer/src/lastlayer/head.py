"""A posterior over the last layer of any network: raw inputs in, degrees of belief out.

    a_k(x) = ψ(x)·θ_k,     ψ(x) = (inputs of the last layer, 1)

The network up to its last layer is a fixed feature map ψ. `sample_posterior` gives the posterior of
θ = (weights, bias), one row per output. `last_layer_posterior` takes any callable as ψ;
`LastLayer.from_torch` reads ψ, weights and bias from a PyTorch module
(`torch_features`). Both return a `LastLayer`. A file that it saves also identifies the network: by
the layer's name, whether it has an intercept, and a fingerprint of all weights.

By default the prior is chosen by held-out rows, about zero, and the posterior's mean is moved
towards the network where that is better; its covariance stays (`prior`). With a prior
variance of the caller's own, trained weights are the mean of the prior, as in "Ensemble Kalman
filter for uncertainty in human language comprehension".
"""

import copy
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from lastlayer.batches import (
    agree_on_likelihood,
    check_batch,
    check_batches,
    collect_rows,
    collect_validation,
    compute_features_of,
    join_weights,
)
from lastlayer.checks import fail
from lastlayer.info import Info
from lastlayer.posterior import Entropies, Posterior, load_posterior
from lastlayer.sampling import sample_posterior
from lastlayer.torch_features import BATCH_SIZE, TorchFeatures

__all__ = ["LastLayer", "last_layer_posterior"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LastLayer:
    """A feature map, and the posterior over the last layer on top of it."""

    posterior: Posterior
    feature_map: Callable[[Any], Any]
    intercept: bool = True  # a column of ones follows the features

    def __repr__(self) -> str:
        K, D = self.posterior.mean.shape
        size = f"{K} output{'s' * (K != 1)} × {D} weights"
        return f"<LastLayer of {size}, {self.info.method}: {self.info.message}>"

    @property
    def info(self) -> Info:
        """The diagnostics of the run; `info.message` says whether to trust it."""
        return self.posterior.info

    def features(self, inputs: Any) -> np.ndarray:
        """Return ψ of raw inputs, as the posterior takes them.

        Parameters
        ----------
        inputs
            Whatever the feature map takes; or batches of inputs, with or without targets, such as
            a DataLoader or a generator yields. The same holds for all predictions.

        Returns
        -------
        numpy.ndarray
            (N, D).
        """
        return compute_features_of(self.feature_map, inputs, self.intercept)

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
        cls,
        module: Any,
        inputs: Any,
        targets: Any = None,
        *,
        prior_variance: Any = "auto",
        validation: Any = None,
        likelihood: str | None = None,
        batch_size: int = BATCH_SIZE,
        **options: Any,
    ) -> "LastLayer":
        """Sample the posterior over the last layer of a module that ends in `torch.nn.Linear`.

        ψ are the inputs of that layer in evaluation mode. The prior is chosen by held-out rows,
        about zero, and the posterior's mean may be moved towards the layer's weights and biases;
        with a prior variance of your own the prior's mean are these. A layer without biases gets
        no intercept. The module is not changed, and not copied either: if it is trained further,
        the posterior no longer belongs to it.

        Parameters
        ----------
        module : torch.nn.Module
            Takes a batch of inputs, returns (N, K) logits: no sigmoid and no softmax at its end.
        inputs : tensor, array or DataLoader
            N inputs along the first axis. Floating-point numbers are brought to the module's
            precision. Without targets, batches of (inputs, targets) or (inputs, targets, counts):
            features are kept, the inputs are not.
        targets : (N,) or (N, K), optional
            Class numbers, for two or more outputs; or yes and no for each output. A target whose
            count is 0 is missing, and may be NaN.
        prior_variance : "auto", number, (D,), (K, 1) or (K, D)
            As for `sample_posterior`; D counts the bias.
        validation : (inputs, targets) or DataLoader, optional
            Rows that training has not seen. Give them together with the training rows, or give
            such rows as `inputs`: training rows alone cannot say how wide the prior should be.
        likelihood : "bernoulli" or "softmax", optional
            By default softmax for class numbers (N,) and two or more outputs, else bernoulli.
        batch_size : int
            Inputs that go through the module at a time, here and in predictions.
        **options
            What `sample_posterior` takes; `prior_mean` replaces the trained weights.

        Returns
        -------
        LastLayer
            The module's features with the posterior on top of them; it takes raw inputs.

        Raises
        ------
        lastlayer.errors.UserError
            If the module does not end in a linear layer, or an argument is not what it should be.
        """
        first = inputs
        if targets is None:
            batches = iter(check_batches(inputs))
            batch = next(batches, None)
            first, inputs = check_batch(batch)[0], chain([batch], batches)
        feature_map = TorchFeatures.trace(module, first, batch_size)
        layer = feature_map.layer
        return last_layer_posterior(
            feature_map,
            inputs,
            targets,
            weights=layer.weight,
            bias=layer.bias,
            intercept=layer.bias is not None,
            likelihood=likelihood,
            prior_variance=prior_variance,
            validation=validation,
            **options,
        )

    def to_torch(self) -> Any:
        """Return a PyTorch module that gives the probabilities E[y], without JAX.

        Returns
        -------
        torch.nn.Module
            A copy of the network, in evaluation mode, whose last layer averages over the posterior;
            for any other feature map the last layer alone, which takes features.
        """
        from lastlayer.torch_layer import PosteriorLayer

        layer = PosteriorLayer(self.posterior, intercept=self.intercept).eval()
        if not isinstance(self.feature_map, TorchFeatures) or not self.feature_map.name:
            return layer  # without a name, the module is its own last layer
        module = copy.deepcopy(self.feature_map.module).eval().requires_grad_(False)
        module.set_submodule(self.feature_map.name, layer.to(self.feature_map.layer.weight.device))
        return module

    def save(self, path: str | Path) -> None:
        """Write the posterior to one safetensors file; the network is not part of it.

        Parameters
        ----------
        path : str or pathlib.Path
            The file; it is overwritten.

        Raises
        ------
        lastlayer.errors.UserError
            If the file cannot be written.
        """
        about: dict[str, Any] = {"intercept": bool(self.intercept)}
        if isinstance(self.feature_map, TorchFeatures):
            network = self.feature_map.compute_fingerprint()
            about |= {"layer": self.feature_map.name, "network": network}
        self.posterior.save(path, {"last_layer": json.dumps(about)})

    @classmethod
    def load(cls, path: str | Path, network: Any) -> "LastLayer":
        """Load what `save` wrote, for the network that it belongs to.

        Parameters
        ----------
        path : str or pathlib.Path
            The file.
        network : torch.nn.Module or callable
            The module, with its `state_dict` loaded, or the feature map.

        Returns
        -------
        LastLayer
            With the same posterior, bit for bit. A warning says so if the module has other weights
            than when the posterior was saved.

        Raises
        ------
        lastlayer.errors.UserError
            If the file is missing, damaged, or of another network.
        """
        posterior, header = load_posterior(Path(path))
        about = json.loads(header.get("last_layer", "{}"))
        if "intercept" not in about:
            fail(f"{path} holds a posterior without a feature map; use Posterior.load.")
        intercept, feature_map = bool(about["intercept"]), network
        if "layer" in about:
            feature_map = TorchFeatures(network, str(about["layer"]))
            layer, shape = feature_map.layer, posterior.mean.shape
            if (layer.out_features, layer.in_features + intercept) != shape:
                fail(
                    f"{path} is of a last layer with {shape[1] - intercept} inputs and {shape[0]} "
                    f"outputs, this network's has {layer.in_features} and {layer.out_features}; "
                    "pass the network that it was saved for."
                )
            if feature_map.compute_fingerprint() != about.get("network"):
                warnings.warn(
                    "the network has other weights than when this posterior was saved, and the "
                    "posterior may not belong to it.",
                    UserWarning,
                    stacklevel=2,
                )
        return cls(posterior=posterior, feature_map=feature_map, intercept=intercept)


def last_layer_posterior(
    feature_map: Callable[[Any], Any],
    inputs: Any,
    targets: Any = None,
    *,
    weights: Any = None,
    bias: Any = None,
    intercept: bool = True,
    likelihood: str | None = None,
    prior_variance: Any = "auto",
    validation: Any = None,
    **options: Any,
) -> LastLayer:
    """Sample the posterior over a last layer on top of `feature_map`.

    Parameters
    ----------
    feature_map : callable
        Takes inputs, returns an (N, D) array. It is held fixed and called again for predictions.
    inputs
        Whatever the feature map takes; or, without targets, batches of (inputs, targets) or
        (inputs, targets, counts).
    targets : (N,) or (N, K), optional
        As for `sample_posterior`.
    weights : (K, D), optional
        Trained weights: with a prior variance of your own the mean of the prior, unless
        `prior_mean` is given too; with "auto" what the posterior's mean may be moved towards.
    bias : (K,), optional
        Trained biases, likewise; 0 where only `weights` are given.
    intercept : bool
        Append a column of ones to the features; its weight is the last of each row of weights.
    likelihood : "bernoulli" or "softmax", optional
        By default softmax where `targets` are (N,) and `weights` have several rows, else bernoulli.
    prior_variance, validation
        As for `sample_posterior`; `validation` holds raw inputs and their targets, or batches.
    **options
        What `sample_posterior` takes: `method`, `counts`, `seed`, …

    Returns
    -------
    LastLayer
        The feature map with the posterior on top of it; it takes raw inputs.

    Raises
    ------
    lastlayer.errors.UserError
        If an argument is not what it should be; the message names it and a way out.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([-1.0, 0.0, 2.0])
    >>> belief = last_layer_posterior(lambda x: np.stack([x, x**2], axis=1), x, [0, 0, 1])
    >>> belief  # doctest: +ELLIPSIS
    <LastLayer of 1 output × 3 weights, exact-flow: converged in ... steps; ...>
    >>> belief.predict_proba(np.array([1.0])).shape
    (1, 1)
    """
    if not callable(feature_map):
        fail(
            f"feature_map must be callable, got {type(feature_map).__name__}; for rows of features "
            "that are computed already use sample_posterior."
        )
    counts = options.pop("counts", None)
    psi, t, *c = collect_rows(feature_map, inputs, targets, counts, intercept)
    counts = c[0] if c else None
    mean = join_weights(weights, bias, intercept)
    t, likelihood = agree_on_likelihood(t, None if mean is None else len(mean), likelihood, counts)
    if validation is not None:
        validation = collect_validation(feature_map, validation, intercept)
    posterior = sample_posterior(
        psi,
        t,
        counts=counts,
        likelihood=likelihood,
        prior_variance=prior_variance,
        validation=validation,
        trained=mean,
        **options,
    )
    return LastLayer(posterior=posterior, feature_map=feature_map, intercept=intercept)
