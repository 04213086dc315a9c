"""A layer for PyTorch that answers with probabilities averaged over a posterior, without JAX.

It replaces a network's last `torch.nn.Linear`: features in, probabilities out. For
a Gaussian posterior of yes/no outputs E σ(a) = Σ_i w_i Φ(μ / √(v + s_i²)), docs/maths.md (18);
others average over particles.
"""

from typing import Any

import numpy as np
import torch

from lastlayer.logits import make_kolmogorov_nodes
from lastlayer.posterior import Posterior
from lastlayer.problem import Likelihood

TOGETHER = 16  # outputs whose variances are computed at a time


# Any, so that types are checked the same way with and without PyTorch
Module: Any = torch.nn.Module


class PosteriorLayer(Module):  # type: ignore[misc]
    """Features (N, D) without the intercept in, probabilities (N, K) out."""

    def __init__(self, posterior: Posterior, *, intercept: bool) -> None:
        super().__init__()
        self.intercept = intercept
        self.softmax = posterior.likelihood is Likelihood.SOFTMAX
        self.by_particles = self.softmax or not posterior.gaussian or posterior.info.refined.any()
        if self.by_particles:
            self.register_buffer("particles", torch.tensor(posterior.particles))
            return
        scales, weights = make_kolmogorov_nodes(posterior.mean.dtype)
        arrays = (posterior.mean, posterior.covariance, np.square(scales), weights)
        for name, array in zip(("mean", "covariance", "scales", "weights"), arrays, strict=True):
            self.register_buffer(name, torch.tensor(array))

    def forward(self, features: Any) -> Any:
        """Return E[y] of each row and output."""
        psi = features.to(self.particles if self.by_particles else self.mean)
        if self.intercept:
            psi = torch.cat([psi, torch.ones_like(psi[:, :1])], dim=1)
        if self.by_particles:
            logits = torch.matmul(self.particles, psi.T)  # (K, J, N)
            y = torch.softmax(logits, dim=0) if self.softmax else torch.sigmoid(logits)
            return y.mean(dim=1).T
        mu = psi @ self.mean.T
        v = torch.cat(
            [(torch.matmul(psi, P) * psi).sum(dim=-1) for P in self.covariance.split(TOGETHER)]
        ).T
        z = mu[..., None] / torch.sqrt(v.clamp(min=0)[..., None] + self.scales)
        return (self.weights * torch.special.ndtr(z)).sum(dim=-1)
