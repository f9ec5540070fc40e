"""Posterior Networks: a Dirichlet from the density of each class. Charpentier et al. (2020)."""

from dataclasses import dataclass
from typing import Any, ClassVar

from knn_ue.arrays import IntArray, check_positive
from knn_ue.encoding.inspection import attach_head, last_linear
from knn_ue.errors import InvalidInputError
from knn_ue.training.method import TrainingMethod, check_above_zero

_MOST = 30.0  # a log alpha beyond it changes nothing but the rounding of the entropy


@dataclass(frozen=True, kw_only=True)
class Posterior(TrainingMethod):
    """`knn_ue_lab.heads.posterior` trained by the expected cross-entropy, less `entropy_weight` times the entropy.

    A density of ten columns starts so low that alpha is 1 everywhere, and a model can hardly leave that plain. So the
    head has a `head_learning_rate` of its own, and its densities are `scaled`; without, alpha is as first published.
    """

    name: ClassVar[str] = "posterior"

    latent_dim: int = 10
    n_layers: int = 6
    entropy_weight: float = 1e-5
    head_learning_rate: float = 3e-2
    scaled: bool = True

    def __post_init__(self) -> None:
        check_positive(self.latent_dim, "latent_dim")
        check_positive(self.n_layers, "n_layers")
        check_above_zero(self, "head_learning_rate")
        if not self.entropy_weight >= 0:
            raise InvalidInputError(f"entropy_weight must be at least 0, got {self.entropy_weight}")

    def prepare(self, model: Any, *, class_counts: IntArray) -> None:
        """Attach the densities, which know how many training rows each class has."""
        from torch import from_numpy

        from knn_ue_lab.heads.posterior import PosteriorHead

        head = PosteriorHead(
            in_features=last_linear(model).in_features,
            n_classes=len(class_counts),
            latent_dim=self.latent_dim,
            n_layers=self.n_layers,
            scaled=self.scaled,
        )
        head.class_counts.copy_(from_numpy(class_counts))
        attach_head(model, head)

    def head_rate(self, learning_rate: float) -> float:
        """Return the head's own rate."""
        del learning_rate
        return self.head_learning_rate

    def loss(self, answers: Any, labels: Any, done: float) -> Any:
        """Return the mean of `uncertain_cross_entropy`; the answers are log alpha."""
        del done
        return uncertain_cross_entropy(answers, labels, entropy_weight=self.entropy_weight).mean()


def uncertain_cross_entropy(log_alpha: Any, labels: Any, *, entropy_weight: float) -> Any:
    """Return (m,): the cross-entropy expected under Dirichlet(alpha), less the weighted entropy of it.

    Expected: digamma(alpha_0) - digamma(alpha_label). In float64, for alpha may be large.
    """
    import torch

    alpha = log_alpha.double().clamp(max=_MOST).exp()
    total = torch.digamma(alpha.sum(dim=-1))
    expected = total - torch.digamma(alpha.gather(1, labels[:, None])[:, 0])
    # Unchecked: of an alpha that is no number the loss is none either, and the trainer says so in one sentence.
    return expected - entropy_weight * torch.distributions.Dirichlet(alpha, validate_args=False).entropy()
