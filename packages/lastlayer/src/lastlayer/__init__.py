"""Posteriors over a last layer: Bayesian logistic regression for many outputs that share features.

Arrays go in, a posterior comes out; the package knows no language. `sample_posterior` (in
`sampling`) is the entry point, and each method has a file of its own: `algorithm1`, `variational`,
`exact`, `laplace`, `nuts`. `LastLayer.fit` puts it on top of a network. `sample_network` (in
`network_flow`) is for more than a last layer.

Names are imported when first used, since importing JAX takes half a second.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lastlayer.errors import import_name

if TYPE_CHECKING:
    from lastlayer.arguments import METHODS
    from lastlayer.head import LastLayer
    from lastlayer.network_flow import sample_network
    from lastlayer.outcome import Info, RunOptions, Snapshot
    from lastlayer.posterior import Posterior
    from lastlayer.predictions import Entropies, Prediction
    from lastlayer.problem import Likelihood
    from lastlayer.sampling import sample_posterior

__all__ = [
    "METHODS",
    "Entropies",
    "Info",
    "LastLayer",
    "Likelihood",
    "Posterior",
    "Prediction",
    "RunOptions",
    "Snapshot",
    "sample_network",
    "sample_posterior",
]

_HOME = {
    "METHODS": "arguments",
    "Entropies": "predictions",
    "Info": "outcome",
    "LastLayer": "head",
    "Likelihood": "problem",
    "Posterior": "posterior",
    "Prediction": "predictions",
    "RunOptions": "outcome",
    "Snapshot": "outcome",
    "sample_network": "network_flow",
    "sample_posterior": "sampling",
}  # the module of each public name


def __getattr__(name: str) -> Any:
    if name == "sklearn":
        return import_module("lastlayer.sklearn")
    return import_name(__name__, _HOME, name)
