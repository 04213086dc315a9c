"""A layer for PyTorch and ONNX that answers from a posterior, without JAX.

It replaces a network's last linear layer: features in; out come the columns of `outputs`, side by
side, so that they pass through whatever the network does with its logits. For a Gaussian posterior
of yes/no outputs E σ(a) = Σ_i w_i Φ(μ / √(v + s_i²)), maths.md (18); others average over
particles. Unfamiliarity is that of `unfamiliar`, in double precision as there.
"""

from typing import Any

import numpy as np
import torch

from lastlayer.checks import check_choice, fail
from lastlayer.logits import make_kolmogorov_nodes
from lastlayer.posterior import Posterior
from lastlayer.problem import Likelihood
from lastlayer.unfamiliar import ROUNDING, Familiarity

OUTPUTS = ("probability", "mean", "sd", "unfamiliar")  # mean and sd are those of the logits
TOGETHER = 16  # outputs whose variances are computed at a time


# Any, so that types are checked the same way with and without PyTorch
Module: Any = torch.nn.Module


class PosteriorLayer(Module):  # type: ignore[misc]
    """Features (..., D) without the intercept in, the columns of `outputs` out."""

    def __init__(
        self,
        posterior: Posterior,
        familiarity: Familiarity | None,
        *,
        intercept: bool,
        outputs: tuple[str, ...],
    ) -> None:
        super().__init__()
        self.intercept, self.outputs = intercept, outputs
        self.softmax = posterior.likelihood is Likelihood.SOFTMAX
        self.by_particles = self.softmax or not posterior.gaussian or posterior.info.refined.any()
        for name in outputs:
            check_choice(name, "outputs", OUTPUTS)
            if self.by_particles and name in ("mean", "sd"):
                fail(f"outputs {name!r} is of Gaussian posteriors; this one has particles.")
        scales, weights = make_kolmogorov_nodes(posterior.mean.dtype)
        if self.by_particles:
            arrays = {"particles": posterior.particles}
        else:
            root = posterior.root
            arrays = {"mean": posterior.mean, "factor": root.triangles, "prior_sd": root.scale}
            arrays |= {"scales": np.square(scales), "weights": weights}
            self.in_subspace = root.subspace is not None
            if root.subspace is not None:
                arrays |= {"fitted": root.subspace.fitted, "others": root.subspace.others}
        if "unfamiliar" in outputs:
            if familiarity is None:
                fail("outputs 'unfamiliar' needs the training rows: fit with LastLayer.fit.")
            arrays |= {f"familiar_{k}": v for k, v in familiarity._asdict().items()}
        for name, array in arrays.items():
            self.register_buffer(name, torch.tensor(array))
        K = len(posterior.mean)
        self.widths = [1 if name == "unfamiliar" else K for name in outputs]

    def forward(self, features: Any) -> Any:
        """Return the outputs of each row, side by side."""
        rows = features.flatten(0, -2)
        if self.intercept:
            rows = torch.cat([rows, torch.ones_like(rows[:, :1])], dim=1)
        answers = self.average_particles(rows) if self.by_particles else self.average_gaussian(rows)
        if "unfamiliar" in self.outputs:
            answers["unfamiliar"] = self.measure_unfamiliar(rows.double())
        kind = answers["probability"].dtype
        columns = torch.cat([answers[name].to(kind) for name in self.outputs], dim=-1)
        return columns.reshape(*features.shape[:-1], sum(self.widths))

    def average_gaussian(self, rows: Any) -> dict[str, Any]:
        """Return the mean, the sd and E[y] of logits."""
        psi = rows.to(self.mean.dtype)
        mu = psi @ self.mean.T
        along, beyond = psi * self.prior_sd, 0.0
        if self.in_subspace:
            beyond = ((along @ self.others) ** 2).sum(-1, keepdim=True)
            along = along @ self.fitted
        own = [(torch.matmul(along, G) ** 2).sum(-1) for G in self.factor.split(TOGETHER)]
        v = torch.cat(own).T + beyond
        z = mu[..., None] / torch.sqrt(v[..., None] + self.scales)
        y = (self.weights * torch.special.ndtr(z)).sum(dim=-1)
        return {"probability": y, "mean": mu, "sd": torch.sqrt(v)}

    def average_particles(self, rows: Any) -> dict[str, Any]:
        """Return E[y]."""
        logits = torch.matmul(self.particles, rows.to(self.particles.dtype).T)  # (K, J, N)
        y = torch.softmax(logits, dim=0) if self.softmax else torch.sigmoid(logits)
        return {"probability": y.mean(dim=1).T}

    def measure_unfamiliar(self, psi: Any) -> Any:
        """Return the p-value of each row, (N, 1)."""
        h, size = ((psi @ self.familiar_factor.T) ** 2).sum(-1), (psi**2).sum(-1)
        leverages = torch.stack([h, h / size.clamp(min=np.finfo(np.float64).tiny)], dim=-1)
        s = ((leverages - self.familiar_centre) / self.familiar_scale).amax(dim=-1, keepdim=True)
        s = s - ROUNDING * (1 + s.abs())
        n = len(self.familiar_calibration)
        return (1 + (self.familiar_calibration >= s).sum(dim=-1, keepdim=True)) / (1 + n)


class PosteriorNetwork(Module):  # type: ignore[misc]
    """A network whose last layer is a `PosteriorLayer`: its outputs as a tuple, or the only one."""

    def __init__(self, network: Any, widths: list[int]) -> None:
        super().__init__()
        self.network, self.widths = network, widths

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Return the outputs, in the order in which they were asked for."""
        returned = self.network(*inputs, **named)
        columns = returned if isinstance(returned, torch.Tensor) else returned["logits"]
        if len(self.widths) == 1:
            return columns
        *parts, last = columns.split(self.widths, dim=-1)
        return (*parts, last)
