"""Posterior Network's last layer: one density per class in a small latent space. Charpentier et al. (2020)."""

import math
from typing import Any, ClassVar

import torch
from torch import nn

from knn_ue.encoding.heads import Head
from knn_ue_lab.flows import RadialFlows


class PosteriorHead(Head):
    """A Dirichlet whose alpha_c = 1 + N_c q_c(z): the more training rows of a class lie around z, the surer.

    z is a linear map of the input to `latent_dim` numbers, batch-normalized; q_c a radial flow of `n_layers` layers;
    N_c the training rows of class c. Probabilities are alpha / alpha_0, so that far from all data they are uniform.
    `scaled` measures q_c in units of the mean density that a standard normal has at its own points, (4 pi)^(-d/2) in
    d columns, so that N_c rows count as N_c in any latent space. Charpentier et al. (2022)
    """

    kind: ClassVar[str] = "posterior"

    def __init__(
        self,
        *,
        in_features: int,
        n_classes: int,
        pools: bool = False,
        latent_dim: int = 10,
        n_layers: int = 6,
        scaled: bool = False,
    ) -> None:
        super().__init__(
            in_features=in_features,
            n_classes=n_classes,
            pools=pools,
            latent_dim=latent_dim,
            n_layers=n_layers,
            scaled=scaled,
        )
        self.log_scale = latent_dim / 2 * math.log(4 * math.pi) if scaled else 0.0
        self.project = nn.Linear(in_features, latent_dim)
        self.normalize = nn.BatchNorm1d(latent_dim)
        self.flows = RadialFlows(n_classes, latent_dim, n_layers)
        self.register_buffer("class_counts", torch.ones(n_classes))

    def forward(self, hidden: Any) -> Any:
        """Return log alpha (n, classes)."""
        log_density = self.flows.log_prob(self._latent(hidden))
        return torch.nn.functional.softplus(self.class_counts.log() + self.log_scale + log_density)  # log(1 + N q)

    def logits(self, hidden: Any) -> Any:
        """Return log(alpha / alpha_0) (n, classes)."""
        return torch.log_softmax(self(hidden), dim=-1)

    def _latent(self, hidden: Any) -> Any:
        projected = self.project(hidden)
        if self.training and len(projected) < 2:  # a batch of one has no spread to normalize by
            norm = self.normalize
            return nn.functional.batch_norm(projected, norm.running_mean, norm.running_var, norm.weight, norm.bias)
        return self.normalize(projected)
