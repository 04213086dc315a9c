"""`LastLayer`: a network with a posterior over its last layer, made in one call.

    a_k(x) = ψ(x)·θ_k,     ψ(x) = (inputs of the last layer, 1)

The network up to its last layer is a fixed feature map ψ. `fit` reads ψ, weights and biases from a
PyTorch module (`torch_features`), or takes any callable as ψ; `fit_features` takes ψ itself.
`sample_posterior` gives the posterior of θ = (weights, bias), one row per output; held-out rows
choose its prior (`prior`), calibrate `out.unfamiliar` (`unfamiliar`) and `out.label_sets`, and make
the report (`report`).
"""

import copy
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lastlayer.batches import (
    collect_rows,
    collect_validation,
    compute_features_of,
    iterate_batches,
    list_names,
)
from lastlayer.checks import fail
from lastlayer.fitting import Head, fit_rows
from lastlayer.outcome import Info
from lastlayer.posterior import Posterior, load_posterior
from lastlayer.predictions import Prediction
from lastlayer.report import SAVED, MissCurve, Report
from lastlayer.torch_features import BATCH_SIZE, TorchFeatures, is_module
from lastlayer.unfamiliar import Familiarity

__all__ = ["LastLayer"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LastLayer:
    """A feature map, the posterior over the last layer on top of it, and what it is worth."""

    posterior: Posterior
    feature_map: Callable[[Any], Any]
    intercept: bool  # a column of ones follows the features
    names: list[str]  # of the outputs
    familiarity: Familiarity
    misses: MissCurve
    report: Report

    def __repr__(self) -> str:
        K, D = self.posterior.mean.shape
        size = f"{K} output{'s' * (K != 1)} × {D} weights"
        return f"<LastLayer of {size}, {self.info.method}: {self.info.message}>"

    @property
    def info(self) -> Info:
        """The diagnostics of the run; `info.message` says whether to trust it."""
        return self.posterior.info

    @classmethod
    def fit(
        cls,
        network: Any,
        train: Any,
        validation: Any = None,
        *,
        head: str | None = None,
        weights: Any = None,
        bias: Any = None,
        intercept: bool | None = None,
        batch_size: int = BATCH_SIZE,
        **options: Any,
    ) -> "LastLayer":
        """Sample the posterior over the last layer of a network.

        The network is not changed, and not copied either: if it is trained further, the posterior
        no longer belongs to it. By default the prior is chosen by held-out rows, and the
        posterior's mean may be moved towards the trained weights.

        Parameters
        ----------
        network : torch.nn.Module or callable
            A module whose last layer is linear (no sigmoid and no softmax at its end), of any
            kind: a Hugging Face classifier, a Lightning module, in half precision. Or a function
            that gives the features (N, D) of inputs.
        train : (inputs, targets), (inputs, targets, counts), a loader or a data set
            Inputs along the first axis, or dictionaries of them with "labels". Targets (N, K) of
            yes and no, class numbers or names (N,); NaN is a missing label. Features are kept, the
            inputs are not.
        validation : like train, optional
            At least 30 rows that training has not seen. They choose the prior, and all that the
            report says is measured on them; without them a fifth of `train` is held out.
        head : str, optional
            The name of the last layer; by default it is found by tracing one batch.
        weights : (K, D), optional
            Trained weights, for a callable; a module has its own.
        bias : (K,), optional
            Trained biases, likewise.
        intercept : bool, optional
            Whether a column of ones follows the features. By default it does unless the trained
            layer has no bias or the features have a constant column.
        batch_size : int
            Inputs that go through a module at a time, here and in predictions.
        **options
            `names` of the outputs, and what `sample_posterior` takes: `likelihood`, `method`,
            `prior_variance`, `groups`, `seed`, …

        Returns
        -------
        LastLayer
            `predict(x)` answers for raw inputs; `report` says how well.

        Raises
        ------
        lastlayer.errors.UserError
            If no last layer is found, or an argument is not what it should be.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(200, 2))
        >>> belief = LastLayer.fit(np.tanh, (x, x[:, :1] + rng.logistic(size=(200, 1)) > 0))
        >>> out = belief.predict(x[:3])
        >>> out.probability.shape, out.unfamiliar.shape, out.abstain(0.05).shape
        ((3, 1), (3,), (3,))
        """
        began = time.perf_counter()
        first, batches = iterate_batches(train, batch_size)
        feature_map, notes = network, []
        if is_module(network):
            if head is None:
                feature_map = TorchFeatures.trace(network, first, batch_size)
            else:
                feature_map = TorchFeatures(network, head, batch_size)
            weights, bias = feature_map.read_weights()
            intercept = bias is not None
            how = "found by tracing" if head is None else "as named"
            notes = [f"last layer: {feature_map.describe()}, {how}"]
            names = getattr(getattr(feature_map.module, "config", None), "id2label", None)
            if names and len(names) == len(weights):
                options = {"names": [names[k] for k in sorted(names)]} | options
        elif not callable(network) or head is not None:
            fail(
                f"network must be a torch.nn.Module, or without head= a callable that gives "
                f"features, got {type(network).__name__}; for features use fit_features."
            )
        if isinstance(train, tuple | list) and len(train) > 1:
            options = {"names": list_names(train[1])} | options
        rows = collect_rows(feature_map, batches, intercept=False)
        if validation is not None:
            validation = collect_validation(feature_map, validation, False, batch_size)
        layer = Head(weights, bias, intercept, notes)
        fitted = fit_rows(rows, validation, layer, **options)
        fitted["report"] = replace(fitted["report"], seconds=time.perf_counter() - began)
        return cls(feature_map=feature_map, **fitted)

    @classmethod
    def fit_features(
        cls,
        features: Any,
        targets: Any,
        *,
        weights: Any = None,
        bias: Any = None,
        validation: Any = None,
        counts: Any = None,
        intercept: bool | None = None,
        **options: Any,
    ) -> "LastLayer":
        """Sample the posterior over a last layer whose inputs are known: NumPy or JAX arrays.

        Parameters
        ----------
        features : (N, D)
            ψ, the inputs of the last layer.
        targets, counts
            As in the `train` of `fit`.
        weights, bias, validation, intercept, **options
            As for `fit`; `validation` holds features and targets.

        Returns
        -------
        LastLayer
            `predict(features)` answers for new rows.
        """
        given = (features, targets) if counts is None else (features, targets, counts)
        given_names = {"weights": weights, "bias": bias, "intercept": intercept}
        return cls.fit(_return_features, given, validation, **given_names, **options)

    def features(self, inputs: Any) -> np.ndarray:
        """Return ψ of raw inputs, or of batches of them, as the posterior takes them, (N, D).

        Parameters
        ----------
        inputs
            As `predict` takes them.

        Returns
        -------
        array (N, D)
            With a last column of ones where there is an intercept.
        """
        return compute_features_of(self.feature_map, inputs, self.intercept)

    def predict(self, inputs: Any) -> Prediction:
        """Return all answers about these inputs; the network and its logits are computed once.

        Parameters
        ----------
        inputs
            Whatever the network takes; or batches of inputs, with or without targets, such as
            a DataLoader or a generator yields.

        Returns
        -------
        Prediction
            `probability`, `interval(level)`, `sd`, `entropies`, `information`, `unfamiliar`,
            `abstain(level)`, `label_sets(missed)`.
        """
        psi = self.features(inputs)
        answers = self.posterior.predict(psi)
        return Prediction(
            answers.parts,
            lambda: self.familiarity.compute_p_values(psi),
            self.misses.choose_threshold,
        )

    def to_torch(self, outputs: tuple[str, ...] = ("probability",)) -> Any:
        """Return a PyTorch module that answers without JAX, and exports to ONNX.

        Parameters
        ----------
        outputs : tuple of str
            What it returns, as a tuple, or alone if it is one: "probability", "unfamiliar", and
            the "mean" and "sd" of the logits.

        Returns
        -------
        torch.nn.Module
            A copy of the network, in evaluation mode, whose last layer averages over the posterior;
            for any other feature map the last layer alone, which takes features.
        """
        from lastlayer.torch_layer import PosteriorLayer, PosteriorNetwork

        own: Any = PosteriorLayer(
            self.posterior, self.familiarity, intercept=self.intercept, outputs=tuple(outputs)
        )
        module = own
        if isinstance(self.feature_map, TorchFeatures) and self.feature_map.name:
            module = copy.deepcopy(self.feature_map.module).requires_grad_(False)
            device = next(iter(module.parameters())).device
            module.set_submodule(self.feature_map.name, own.to(device))
        return PosteriorNetwork(module, own.widths).eval()

    def save(self, path: str | Path) -> None:
        """Write the posterior and its report to one safetensors file, without the network.

        The file also identifies the network: by the layer's name, whether it has an intercept, and
        a fingerprint of all weights.

        Parameters
        ----------
        path : str or pathlib.Path
            The file; it is overwritten.

        Raises
        ------
        lastlayer.errors.UserError
            If the file cannot be written.
        """
        about: dict[str, Any] = {
            "intercept": self.intercept,
            "names": self.names,
            "report": {name: getattr(self.report, name) for name in SAVED},
        }
        if isinstance(self.feature_map, TorchFeatures):
            network = self.feature_map.compute_fingerprint()
            about |= {"layer": self.feature_map.name, "network": network}
        beside = {f"+familiar_{k}": v for k, v in self.familiarity._asdict().items()}
        beside |= {f"+misses_{k}": v for k, v in self.misses._asdict().items() if v.size}
        self.posterior.save(path, {"last_layer": json.dumps(about)}, beside)

    @classmethod
    def load(cls, path: str | Path, network: Any = None) -> "LastLayer":
        """Load what `save` wrote, for the network that it belongs to.

        Parameters
        ----------
        path : str or pathlib.Path
            The file.
        network : torch.nn.Module or callable, optional
            The module, with its `state_dict` loaded, or the feature map; none after `fit_features`.

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
        posterior, header, arrays = load_posterior(Path(path))
        about = json.loads(header.get("last_layer", "{}"))
        if "intercept" not in about:
            fail(f"{path} holds a posterior without a feature map; use Posterior.load.")
        intercept, feature_map = bool(about["intercept"]), network or _return_features
        if "layer" in about:
            feature_map = _load_features(Path(path), about, network, posterior.mean.shape)
        parts = {
            kind: [arrays.get(f"+{name}_{k}", np.zeros(0)) for k in kind._fields]
            for kind, name in ((Familiarity, "familiar"), (MissCurve, "misses"))
        }
        return cls(
            posterior=posterior,
            feature_map=feature_map,
            intercept=intercept,
            names=about["names"],
            familiarity=Familiarity(*parts[Familiarity]),
            misses=MissCurve(*parts[MissCurve]),
            report=Report(**about["report"]),
        )


def _return_features(features: Any) -> Any:
    return features


def _load_features(
    path: Path, about: dict[str, Any], network: Any, shape: tuple[int, ...]
) -> TorchFeatures:
    """Return the features of the network that a file belongs to."""
    intercept = bool(about["intercept"])
    if not is_module(network):
        fail(f"{path} is of a PyTorch module; pass it, with its state_dict loaded, as network.")
    feature_map = TorchFeatures(network, str(about["layer"]))
    layer = feature_map.layer
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
            stacklevel=3,
        )
    return feature_map
