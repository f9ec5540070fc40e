"""SNGP: a distance-keeping network with a Gaussian process as its last layer. Liu et al. (2020)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from knn_ue.arrays import IntArray, check_positive
from knn_ue.encoding.inspection import attach_head, head_of, last_linear, pooler_layers
from knn_ue.errors import InvalidInputError
from knn_ue.training.method import check_above_zero
from knn_ue_lab.training.spectral import SpectralTraining, bounded_layers

_SMALLEST_RIDGE = 1e-9  # with less, a million rows would leave a matrix that float64 cannot invert


@dataclass(frozen=True, kw_only=True)
class Sngp(SpectralTraining):
    """A bounded pooler and `knn_ue_lab.heads.gaussian_process`; see there for the options.

    The covariance is computed once, after training, exactly, in one pass without dropout over the training rows with
    the weights that are kept. It cannot change which class wins, so early stopping does not miss it.
    """

    name: ClassVar[str] = "sngp"

    n_features: int = 1024
    length_scale: float = 1.0
    ridge: float = 1e-3
    mean_field_factor: float = math.pi / 8

    def __post_init__(self) -> None:
        check_positive(self.n_features, "n_features")
        check_above_zero(self, "bound", "length_scale", "mean_field_factor")
        if not self.ridge >= _SMALLEST_RIDGE:
            raise InvalidInputError(f"ridge must be at least {_SMALLEST_RIDGE}, got {self.ridge}")

    def prepare(self, model: Any, *, class_counts: IntArray) -> None:
        """Attach the Gaussian process and bound the layer before it."""
        from knn_ue_lab.heads.gaussian_process import GaussianProcessHead
        from knn_ue_lab.heads.spectral import bound_layer

        head = GaussianProcessHead(
            in_features=last_linear(model).in_features,
            n_classes=len(class_counts),
            pools=not pooler_layers(model),
            n_features=self.n_features,
            length_scale=self.length_scale,
            ridge=self.ridge,
            mean_field_factor=self.mean_field_factor,
        )
        attach_head(model, head)
        for layer in bounded_layers(model):
            bound_layer(layer, self.bound)

    def finish(self, model: Any, head_inputs: Iterator[Any]) -> None:
        """Make the bounded weights plain ones and compute the covariance of the training rows."""
        super().finish(model, head_inputs)
        head = head_of(model)
        assert head is not None
        head.set_covariance(head_inputs)
