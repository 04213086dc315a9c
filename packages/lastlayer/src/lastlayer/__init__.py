"""Posteriors over a last layer: Bayesian logistic regression for many outputs that share features.

This package takes arrays and returns a posterior. It is independent of language; besides `jax` and
`numpy` it uses only `equivocal.store`, `machine`, `seeds` and `errors`.

`sample_posterior` is the entry point; each algorithm has a file of its own:
`exact_flow`, `mean_field`, `dropout_deterministic`, `homotopy`, `aldi`, `laplace`, `hmc`, `nuts`.
`LastLayer.from_torch` puts it on top of a PyTorch module, `last_layer.last_layer_posterior` on top
of any callable. `sample_network` is for more than a last layer (`network_flow`).

Names are imported when first used, since importing JAX takes half a second.
"""

from typing import TYPE_CHECKING, Any

from lastlayer.errors import import_name

if TYPE_CHECKING:
    from lastlayer.engine.problem import Likelihood
    from lastlayer.engine.settings import Snapshot
    from lastlayer.front import METHODS, sample_posterior
    from lastlayer.info import Info
    from lastlayer.last_layer import LastLayer
    from lastlayer.posterior import Entropies, Posterior
    from lastlayer.samplers.network_flow import sample_network

__all__ = [
    "METHODS",
    "Entropies",
    "Info",
    "LastLayer",
    "Likelihood",
    "Posterior",
    "Snapshot",
    "sample_network",
    "sample_posterior",
]

_HOME = {
    "METHODS": "front",
    "Entropies": "posterior",
    "Info": "info",
    "LastLayer": "last_layer",
    "Likelihood": "engine.problem",
    "Posterior": "posterior",
    "Snapshot": "engine.settings",
    "sample_network": "samplers.network_flow",
    "sample_posterior": "front",
}  # the module of each public name


def __getattr__(name: str) -> Any:
    return import_name(__name__, _HOME, name)
