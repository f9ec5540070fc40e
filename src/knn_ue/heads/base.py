"""What every head is: rows of vectors in, what the loss reads and what `Outputs.logits` hold out."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import nn


class Head(nn.Module, ABC):  # type: ignore[misc]
    """Vectors (n, in_features), one a text or tagged word, become logits (n, classes), whose softmax is the answer.

    `pools` gives the head a dense layer of its own in front, as the pooler of a text classifier is: taggers have none.
    `options` are the arguments of the constructor, numbers and booleans only, saved with the weights.
    """

    kind: ClassVar[str]

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options
        self.in_features = int(options["in_features"])
        self.pooler = _pooler(self.in_features) if options["pools"] else nn.Identity()

    def hidden(self, rows: Any) -> Any:
        """Return what the last layer reads (n, in_features): the features called "pooled"."""
        return self.pooler(rows)

    @abstractmethod
    def forward(self, hidden: Any) -> Any:
        """Return what the loss reads (n, classes)."""

    def logits(self, hidden: Any) -> Any:
        """Return (n, classes), of which the softmax is the probability."""
        return self(hidden)


def _pooler(width: int) -> nn.Sequential:
    # From the identity on, so that a tagger starts with the vectors it was pretrained to give.
    dense = nn.Linear(width, width)
    with torch.no_grad():
        dense.weight.copy_(torch.eye(width))
        dense.bias.zero_()
    return nn.Sequential(dense, nn.Tanh())
