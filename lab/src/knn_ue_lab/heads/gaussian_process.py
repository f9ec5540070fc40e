"""SNGP's last layer: a Gaussian process by random features, with a Laplace covariance. Liu et al. (2020)."""

import math
from collections.abc import Iterable
from typing import Any, ClassVar

import torch
from torch import nn

from knn_ue.encoding.heads import Head


class GaussianProcessHead(Head):
    """Logits from fixed random cosine features phi of the LayerNormed input, shrunk where the variance is high.

    phi = sqrt(2/D) cos(W h + b), the kernel exp(-|h - h'|^2 / 2 l^2) with l = `length_scale` * sqrt(in_features), which
    is how long a LayerNormed vector is. W and b are buffers: never trained, saved with the head. The variance is
    ridge * phi' (ridge I + Phi'Phi)^-1 phi over the training rows: about 1 without any, and less the more there are,
    far from them too, since D features have only D directions to be unsure in. Logits are divided by
    sqrt(1 + mean_field_factor * variance), the mean-field approximation of the softmax's expectation.
    """

    kind: ClassVar[str] = "sngp"

    def __init__(
        self,
        *,
        in_features: int,
        n_classes: int,
        pools: bool = False,
        n_features: int = 1024,
        length_scale: float = 1.0,
        ridge: float = 1e-3,
        mean_field_factor: float = math.pi / 8,
    ) -> None:
        super().__init__(
            in_features=in_features,
            n_classes=n_classes,
            pools=pools,
            n_features=n_features,
            length_scale=length_scale,
            ridge=ridge,
            mean_field_factor=mean_field_factor,
        )
        self.ridge, self.mean_field_factor = ridge, mean_field_factor
        self.normalize = nn.LayerNorm(in_features, elementwise_affine=False)
        width = length_scale * math.sqrt(in_features)
        self.register_buffer("directions", torch.randn(n_features, in_features) / width)
        self.register_buffer("phases", 2 * math.pi * torch.rand(n_features))
        self.register_buffer("covariance", torch.eye(n_features))  # of the prior, until the training rows are known
        self.output = nn.Linear(n_features, n_classes, bias=False)
        nn.init.zeros_(self.output.weight)

    def features(self, hidden: Any) -> Any:
        """Return phi (n, n_features), of length about 1."""
        angles = nn.functional.linear(self.normalize(hidden), self.directions, self.phases)
        return math.sqrt(2 / len(self.phases)) * torch.cos(angles)

    def forward(self, hidden: Any) -> Any:
        """Return the logits (n, classes) without regard to the variance."""
        # The output weights are those of phi times sqrt(D): the same functions, learned at the pace of other layers.
        return self.output(math.sqrt(len(self.phases)) * self.features(hidden))

    def variance(self, hidden: Any) -> Any:
        """Return the posterior variance (n,) of the logits."""
        phi = self.features(hidden)
        return ((phi @ self.covariance) * phi).sum(dim=-1).clamp(min=0)

    def logits(self, hidden: Any) -> Any:
        """Return the mean-field logits (n, classes)."""
        return self(hidden) / torch.sqrt(1 + self.mean_field_factor * self.variance(hidden))[:, None]

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def set_covariance(self, batches: Iterable[Any]) -> None:
        """Recompute the covariance exactly, in one pass over what the last layer reads of all training rows."""
        size = len(self.phases)
        precision = self.ridge * torch.eye(size, dtype=torch.float64)
        for hidden in batches:
            phi = self.features(hidden).cpu().double()
            precision += phi.T @ phi
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(precision))
        self.covariance.copy_(self.ridge * inverse)
