"""The ensemble of one network at one stop: what its last layers make of a feature vector.

The weights of output unit k are N(θ_k + δ_k, v R_k²): θ_k is trained, δ_k the `shift` that the data
made, v the prior's variance and R_k the symmetric `root` of what the data left of it, I at the
start. A feature vector ψ then has the logit N((θ_k + δ_k)·ψ, v |R_k ψ|²).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equivocal.asking.beliefs import Floats
from equivocal.asking.network import NumpyNetwork

__all__ = ["Ensemble", "LastLayers", "Listener"]


@dataclass(frozen=True, eq=False)
class LastLayers:
    """The last layers of the units that are shown, in the order of the units."""

    variance: float  # v, of the prior
    shift: Floats  # δ, (units, D)
    root: Floats  # R, (units, D, D)
    time: float | None  # τ of the paper's sampler; None where it has converged


@dataclass(frozen=True, eq=False)
class Listener:
    """A network, and its last layers by prior variance and step."""

    network: NumpyNetwork
    load: Callable[[float, int | str], LastLayers]


class Ensemble:
    """Last layers in the order in which roles need them.

    Parameters
    ----------
    layers : LastLayers
        Of the units.
    trained : (units, D)
        θ.
    wanted : list of (candidates,) arrays
        For each role, the units of its candidates.
    """

    def __init__(self, layers: LastLayers, trained: Floats, wanted: list[NDArray[np.intp]]) -> None:
        self.time = layers.time
        mean, root = trained + layers.shift, np.sqrt(np.float32(layers.variance)) * layers.root
        kept: dict[bytes, Floats] = {}  # roles that share candidates share an array
        for units in wanted:
            kept.setdefault(units.tobytes(), root[units])
        self._roles = [(mean[units].T, kept[units.tobytes()]) for units in wanted]

    def compute_logits(self, psi: Floats) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of the logits.

        Parameters
        ----------
        psi : (words, roles, D)
            Features.

        Returns
        -------
        mean, sd : (words, pairs)
            For every candidate of the first role, then of the second, and so on.
        """
        means, sds = [], []
        for r, (weights, root) in enumerate(self._roles):
            rows = np.ascontiguousarray(psi[:, r])
            means.append(rows @ weights)
            moved = rows @ root  # (candidates, words, D)
            sds.append(np.sqrt(np.einsum("cwd,cwd->wc", moved, moved)))
        return np.concatenate(means, axis=1), np.concatenate(sds, axis=1)
