"""What the file of a posterior says of the feature map that it belongs to."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from equivocal.sampling.engine.inputs import fail
from equivocal.sampling.torch_features import TorchFeatures
from equivocal.store import parse_json


def describe_layer(feature_map: Callable[[Any], Any], intercept: bool) -> dict[str, str]:
    """Return the part of the header that names the layer and its network."""
    about: dict[str, Any] = {"intercept": bool(intercept)}
    if isinstance(feature_map, TorchFeatures):
        about |= {"layer": feature_map.name, "network": feature_map.compute_fingerprint()}
    return {"last_layer": json.dumps(about)}


def restore_layer(
    path: str | Path, header: dict[str, str], network: Any, shape: tuple[int, ...]
) -> tuple[Any, bool]:
    """Return the feature map of a network, and whether a column of ones follows it.

    `shape` is (outputs, weights) of the posterior; a module whose last layer has another is
    refused, and one with other weights than when the file was written gets a warning.
    """
    try:
        about = parse_json(header.get("last_layer", "{}"))
    except ValueError as error:
        fail(f"{path} cannot be read: what it says of its layer is not JSON ({error}).")
    if "intercept" not in about:
        fail(f"{path} holds a posterior without a feature map; use Posterior.load.")
    intercept = bool(about["intercept"])
    if "layer" not in about:
        return network, intercept
    feature_map = TorchFeatures.from_layer(network, str(about["layer"]))
    layer, (K, D) = feature_map.layer, shape
    if (layer.out_features, layer.in_features + intercept) != (K, D):
        fail(
            f"{path} is of a last layer with {D - intercept} inputs and {K} outputs, this "
            f"network's has {layer.in_features} and {layer.out_features}; pass the network that "
            "it was saved for."
        )
    if feature_map.compute_fingerprint() != about["network"]:
        warnings.warn(
            "the network has other weights than when this posterior was saved, and the "
            "posterior may not belong to it.",
            UserWarning,
            stacklevel=3,
        )
    return feature_map, intercept
