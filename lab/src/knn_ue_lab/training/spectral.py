"""A spectral-normalized network: the layer before the last keeps distances. Used by MDSN, Vazhentsev et al. (2022)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from knn_ue.arrays import IntArray
from knn_ue.encoding.inspection import attach_head, head_of, last_linear, pooler_layers
from knn_ue.training.method import TrainingMethod, check_above_zero


@dataclass(frozen=True, kw_only=True)
class SpectralTraining(TrainingMethod):
    """Cross-entropy, with the largest singular value of the pooler's weights kept at `bound` or below.

    Taggers have no pooler; they get a bounded dense layer in front of the last one. The bound holds in the saved
    weights, which are plain ones.
    """

    name: ClassVar[str] = "spectral"

    bound: float = 0.95

    def __post_init__(self) -> None:
        check_above_zero(self, "bound")

    def prepare(self, model: Any, *, class_counts: IntArray) -> None:
        """Bound the pooler, or attach a head with a layer to bound."""
        from knn_ue_lab.heads.spectral import SpectralHead, bound_layer

        if not pooler_layers(model):
            head = SpectralHead(in_features=last_linear(model).in_features, n_classes=len(class_counts))
            attach_head(model, head)
        for layer in bounded_layers(model):
            bound_layer(layer, self.bound)

    def finish(self, model: Any, head_inputs: Iterator[Any]) -> None:
        """Make the bounded weights plain ones."""
        from knn_ue_lab.heads.spectral import release_layer

        del head_inputs
        for layer in bounded_layers(model):
            release_layer(layer)


def bounded_layers(model: Any) -> list[Any]:
    """Return the linear layers between the last hidden state and the last layer, those of a head included."""
    head = head_of(model)
    return [head.pooler[0]] if head is not None and head.options["pools"] else pooler_layers(model)
