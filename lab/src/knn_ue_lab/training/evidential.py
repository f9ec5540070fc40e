"""E-NER: evidential tagging with importance weights and an uncertainty term. Zhang et al. (2023)."""

from dataclasses import dataclass
from typing import Any, ClassVar

from knn_ue.arrays import IntArray
from knn_ue.encoding.inspection import attach_head, last_linear
from knn_ue.tasks import Task
from knn_ue.training.method import TrainingMethod, check_above_zero


@dataclass(frozen=True, kw_only=True)
class Evidential(TrainingMethod):
    """`knn_ue_lab.heads.evidential` trained by three terms; the second and third grow to full weight.

    They do so while the share `annealed` of training passes.
    """

    name: ClassVar[str] = "e-ner"
    tasks: ClassVar[tuple[Task, ...]] = ("token-classification",)

    annealed: float = 1.0

    def __post_init__(self) -> None:
        check_above_zero(self, "annealed")

    def prepare(self, model: Any, *, class_counts: IntArray) -> None:
        """Attach the layer that gives evidence."""
        from knn_ue_lab.heads.evidential import EvidentialHead

        attach_head(model, EvidentialHead(in_features=last_linear(model).in_features, n_classes=len(class_counts)))

    def loss(self, answers: Any, labels: Any, done: float) -> Any:
        """Return the mean of the three terms; the answers are log evidence."""
        weight = min(1.0, done / self.annealed)
        fit, divergence, mass = evidential_terms(answers, labels)
        return (fit + weight * divergence + weight * mass).mean()


def evidential_terms(log_evidence: Any, labels: Any) -> tuple[Any, Any, Any]:
    """Return three terms (m,), with e the evidence, alpha = e + 1, S its sum, u = classes / S, y the label.

    (1 - e_y/S) (digamma(S) - digamma(alpha_y)); KL(Dir(alpha, but 1 at y) || Dir(1)); -log u where the answer is wrong.
    """
    import torch
    from torch.distributions import Dirichlet, kl_divergence

    evidence = log_evidence.double().exp()
    alpha = evidence + 1
    total = alpha.sum(dim=-1)
    at_label = labels[:, None]
    share = evidence.gather(1, at_label)[:, 0] / total
    fit = (1 - share) * (torch.digamma(total) - torch.digamma(alpha.gather(1, at_label)[:, 0]))
    misleading = alpha.scatter(1, at_label, 1.0)
    # Unchecked: of evidence that is no number the loss is none either, and the trainer says so in one sentence.
    flat = Dirichlet(torch.ones_like(misleading), validate_args=False)
    divergence = kl_divergence(Dirichlet(misleading, validate_args=False), flat)
    wrong = alpha.argmax(dim=-1) != labels
    mass = wrong * torch.log(total / alpha.shape[-1])
    return fit, divergence, mass
