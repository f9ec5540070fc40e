"""E-NER's last layer: evidence for each class instead of a softmax. Zhang et al. (2023), after Sensoy et al. (2018)."""

from typing import Any, ClassVar

import torch
from torch import nn

from knn_ue.encoding.heads import Head

_LARGEST = 10.0  # exp(10), 22,026, is all the evidence there is use for; the exp of a hundred overflows


class EvidentialHead(Head):
    """Evidence e = exp(z), alpha = e + 1, S = sum of alpha: probabilities alpha / S, uncertainty classes / S."""

    kind: ClassVar[str] = "e-ner"

    def __init__(self, *, in_features: int, n_classes: int, pools: bool = False) -> None:
        super().__init__(in_features=in_features, n_classes=n_classes, pools=pools)
        self.output = nn.Linear(in_features, n_classes)

    def forward(self, hidden: Any) -> Any:
        """Return log evidence z (n, classes), clamped to where exp(z) is an ordinary number."""
        return self.output(hidden).clamp(-_LARGEST, _LARGEST)

    def logits(self, hidden: Any) -> Any:
        """Return log(alpha / S) (n, classes)."""
        return torch.log_softmax(torch.nn.functional.softplus(self(hidden)), dim=-1)
