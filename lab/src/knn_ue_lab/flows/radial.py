"""Radial flows, one per class: the densities of Posterior Networks."""

import math

import torch
from torch.nn import functional

# Keeps alpha and alpha + beta above zero where softplus underflows, so that no logarithm meets a zero.
_SMALLEST = 1e-6


class RadialFlows(torch.nn.Module):  # type: ignore[misc]
    """`n_flows` independent radial flows over `dim` columns, from a point to a standard normal base.

    A layer maps z to z + beta * (z - z0) / (alpha + r), r = |z - z0|. It is invertible whatever the parameters are:
    alpha = softplus(a) > 0 and beta = softplus(b) - alpha > -alpha. Rezende & Mohamed (2015); Posterior Networks,
    Charpentier et al. (2020).

    Expects points of about unit scale (a batch norm before it): the centers z0 start standard normal, and the layers
    start near the identity.

    >>> RadialFlows(n_flows=3, dim=2).log_prob(torch.zeros(5, 2)).shape
    torch.Size([5, 3])
    """

    def __init__(self, n_flows: int, dim: int, n_layers: int = 6) -> None:
        super().__init__()
        self.dim = dim
        spread = 1 / math.sqrt(dim)
        self.center = torch.nn.Parameter(torch.randn(n_layers, n_flows, dim))
        self.raw_alpha = torch.nn.Parameter(torch.empty(n_layers, n_flows).uniform_(-spread, spread))
        self.raw_beta = torch.nn.Parameter(torch.empty(n_layers, n_flows).uniform_(-spread, spread))

    def forward(self, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Map `z` (n, dim) to base points (n, n_flows, dim) and the log-determinants (n, n_flows) of the way there."""
        points = z[:, None, :].expand(-1, self.center.shape[1], -1)
        log_det = points.new_zeros(points.shape[:2])
        for center, raw_alpha, raw_beta in zip(self.center, self.raw_alpha, self.raw_beta, strict=True):
            alpha = functional.softplus(raw_alpha) + _SMALLEST
            at_center = functional.softplus(raw_beta) + _SMALLEST  # alpha + beta
            offset = points - center
            radius = torch.linalg.vector_norm(offset, dim=-1)
            # Both factors of the determinant are sums of positive terms: nothing cancels, near or far.
            stretch = (radius + at_center) / (radius + alpha)
            along = (radius * (radius + 2 * alpha) + alpha * at_center) / (radius + alpha) ** 2
            log_det = log_det + (self.dim - 1) * torch.log(stretch) + torch.log(along)
            points = center + stretch[..., None] * offset
        return points, log_det

    def log_prob(self, z: torch.Tensor) -> torch.Tensor:
        """Return the log-density (n, n_flows) of `z` (n, dim) under each flow."""
        points, log_det = self(z)
        base = -0.5 * (points.square().sum(dim=-1) + self.dim * math.log(2 * math.pi))
        return base + log_det
