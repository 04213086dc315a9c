"""Save a posterior to one safetensors file: its arrays, and everything else as JSON in the header.

For a posterior over a network's last layer, the header also identifies the network: by the layer's
name, whether it has an intercept, and a fingerprint of all weights.

Files are untrusted: shapes are checked before an array is read, values afterwards.
"""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from equivocal.store import parse_json
from lastlayer.checks import check_bool, check_int, fail
from lastlayer.files import UnreadableError, explain_write_errors, write_atomically
from lastlayer.info import PER_OUTPUT, Info
from lastlayer.layer_inputs import TorchFeatures
from lastlayer.problem import Likelihood
from lastlayer.tensors import Shapes, add_tensor_checksum, read_tensors

FORMAT = "equivocal-posterior-1"
ARRAYS = ("particles", "mean", "covariance")
GIVE = "give a file that Posterior.save or LastLayer.save wrote"


class Contents(NamedTuple):
    """The fields of a `Posterior`, as a file holds them."""

    draws: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    info: Info
    likelihood: Likelihood
    gaussian: bool
    chains: int


def save_posterior(contents: Contents, path: Path, more: dict[str, str]) -> None:
    """Write a posterior to one file, with `more` in its header; no half-written file is left."""
    from safetensors.numpy import save_file

    header = {
        "format": FORMAT,
        "likelihood": str(contents.likelihood),
        "gaussian": json.dumps(contents.gaussian),
        "chains": json.dumps(contents.chains),
        "info": json.dumps(contents.info.to_dict()),
        **more,
    }
    arrays = dict(zip(ARRAYS, map(np.ascontiguousarray, contents[: len(ARRAYS)]), strict=True))
    with explain_write_errors(path), write_atomically(path) as temporary:
        save_file(arrays, temporary, metadata=add_tensor_checksum(header, arrays))


def load_posterior(path: Path) -> tuple[Contents, dict[str, str]]:
    """Return the saved posterior, and the header of its file."""
    try:
        header, arrays = read_tensors(path, _check_shapes, ARRAYS)
        return _build(header, arrays), header
    except UnreadableError as error:
        fail(f"cannot read a posterior from {path}: {error.reason:.200}; {GIVE}.")
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        fail(
            f"{path} is not a posterior saved by this version of equivocal, or it is damaged; "
            f"{GIVE}, or save it again."
        )


def describe_layer(feature_map: Callable[[Any], Any], intercept: bool) -> dict[str, str]:
    """Return the entry of the header that identifies the layer and its network."""
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
        fail(f"{path} cannot be read: its description of the layer is not JSON ({error}).")
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


def _build(header: dict[str, str], arrays: dict[str, np.ndarray]) -> Contents:
    """Return a posterior from its parts; an error means that it is not one of `save_posterior`."""
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
    return Contents(
        draws=arrays["particles"],
        mean=arrays["mean"],
        covariance=arrays["covariance"],
        info=info,
        likelihood=Likelihood(header["likelihood"]),
        gaussian=gaussian,
        chains=chains,
    )


def _check_shapes(header: dict[str, str], shapes: Shapes) -> None:
    """Check, before any array is read, that all three are there and that their shapes agree."""
    K, J, D = shapes["particles"]
    fitting = {"particles": (K, J, D), "mean": (K, D), "covariance": (K, D, D)}
    if header["format"] != FORMAT or shapes != fitting:
        raise ValueError
