"""A bound on how much a linear layer may stretch its input, and the head that brings such a layer to a tagger."""

from typing import Any, ClassVar

import torch
from torch import nn
from torch.nn.utils import parametrize

from knn_ue.encoding.heads import Head

_FIRST_STEPS = 15  # of power iteration, before training
_STEPS = 4  # a training step; a single one, as published, falls behind by up to 15 % where singular values cross


class SpectralBound(nn.Module):  # type: ignore[misc]
    """W * min(1, bound / s), s the largest singular value of W by power iteration: bounded, not normalized.

    torch's own `spectral_norm` divides by s always, which also stretches a layer that stretched less.
    """

    def __init__(self, weight: Any, bound: float) -> None:
        super().__init__()
        self.bound = bound
        self.register_buffer("left", nn.functional.normalize(weight.new_empty(weight.shape[0]).normal_(), dim=0))
        self.register_buffer("right", nn.functional.normalize(weight.new_empty(weight.shape[1]).normal_(), dim=0))
        self._iterate(weight.detach(), _FIRST_STEPS)

    def forward(self, weight: Any) -> Any:
        """Return the bounded weight; in training after a few more steps of power iteration, all in full precision."""
        with torch.autocast(weight.device.type, enabled=False):
            if self.training:
                self._iterate(weight.detach(), _STEPS)
            # Copies, since the buffers change at the next step while autograd may still need these.
            largest = torch.dot(self.left.clone(), weight @ self.right.clone())
            return weight * torch.clamp(self.bound / largest, max=1.0)

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def _iterate(self, weight: Any, steps: int) -> None:
        for _ in range(steps):
            self.right.copy_(nn.functional.normalize(weight.T @ self.left, dim=0))
            self.left.copy_(nn.functional.normalize(weight @ self.right, dim=0))


def bound_layer(linear: Any, bound: float) -> None:
    """Keep the largest singular value of the layer's weight at `bound` or below while it is trained."""
    parametrize.register_parametrization(linear, "weight", SpectralBound(linear.weight, bound))


def release_layer(linear: Any) -> None:
    """Make the bounded weight an ordinary one again, exactly within the bound: power iteration sees it from below."""
    bound = linear.parametrizations.weight[0].bound
    parametrize.remove_parametrizations(linear, "weight", leave_parametrized=True)
    with torch.no_grad():
        largest = torch.linalg.matrix_norm(linear.weight.double(), ord=2)
        linear.weight.mul_(torch.clamp(bound / largest, max=1.0).to(linear.weight.dtype))


class SpectralHead(Head):
    """A bounded dense layer, tanh and a linear layer: for taggers, which have no layer of their own to bound."""

    kind: ClassVar[str] = "spectral"

    def __init__(self, *, in_features: int, n_classes: int, pools: bool = True) -> None:
        super().__init__(in_features=in_features, n_classes=n_classes, pools=pools)
        self.output = nn.Linear(in_features, n_classes)

    def forward(self, hidden: Any) -> Any:
        """Return logits (n, classes)."""
        return self.output(hidden)
