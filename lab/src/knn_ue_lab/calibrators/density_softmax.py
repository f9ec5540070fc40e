"""Density Softmax, the post-hoc variant: logits weighted by the likelihood of the features. Bui & Liu (2024).

The weight is exp((log p(x) - max log p over training) / s), at most 1. A flow's likelihoods of hundreds of columns span
hundreds to thousands of nats, so unnormalized (s = 1) almost every row would be uniform. s, in nats, is our stated
normalization and the one number fitted, by the validation log-loss; an infinite s is the plain softmax, so the fit is
never worse than it on validation. The weight is at most 1: an underconfident model stays as it is.

The original also regularizes the input gradient and retrains the classifier on the weighted logits; here the model
stays as it is. A likelihood near zero reaches the uniform distribution. With sigmoid(exp(.)) as the weight, as in the
comparison published with kNN-UE, it could not: that is at least one half.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

import numpy as np
from annotated_types import Interval

from knn_ue.arrays import FloatArray, IntArray
from knn_ue.calibrators.contract import Found, LogitScaling
from knn_ue.errors import InvalidInputError, require
from knn_ue.folder.schema import Arrays
from knn_ue.types import Outputs
from knn_ue.weighting import ScaledLogits

if TYPE_CHECKING:
    from knn_ue_lab.flows import FeatureDensity

# The smallest weight: positive, and no logit is so large that its product with it would show in a probability.
_TINY = float(np.finfo(np.float64).tiny)
# What s may be, in typical shortfalls of the validation rows: from a step to what is practically a softmax.
_SCALE_RANGE = (1e-3, 1e6)
_N_STARTS = 55


class DensitySoftmax(LogitScaling):
    """softmax(weight * logits), weight = exp(-shortfall / s), where likelihood falls short of the highest in training.

    `from_training` fits the flow that measures the likelihood. Bui & Liu (2024), the post-hoc variant.

    >>> from knn_ue.toy import two_blobs
    >>> train, validation, test = two_blobs(n_train=300)
    >>> calibrator = DensitySoftmax.from_training(train).fit(validation)
    >>> calibrator.score(test).shape, bool(calibrator.weight(test).max() <= 1), calibrator.scale_ > 0
    ((4000,), True, True)
    """

    kind: ClassVar[str] = "density-softmax"

    @dataclass(frozen=True, kw_only=True)
    class State:
        """What is saved beside the flow; JSON knows no infinity, so an infinite scale is None."""

        highest: Annotated[float, Interval(ge=-1e300, le=1e300)]
        scale: Annotated[float, Interval(ge=1e-300, le=1e300)] | None

    scale_: float
    """s in nats, above 0, maybe infinite."""

    def __init__(self, density: "FeatureDensity", *, highest: float) -> None:
        self.density = density
        self.highest = highest

    @classmethod
    def from_training(cls, train: Outputs, *, seed: int = 0) -> Self:
        """Fit the flow to the features of training outputs; `highest` is the largest log-likelihood of them."""
        require("torch", extra="hf", purpose="DensitySoftmax")
        from knn_ue_lab.flows import fit_real_nvp

        features = train.require_features("DensitySoftmax.from_training")
        density = fit_real_nvp(features, seed=seed)
        return cls(density, highest=float(density.log_prob(features).max()))

    def score(self, outputs: Outputs) -> FloatArray:
        """Return the log-likelihood (n,) of the features, in nats: larger is more certain."""
        features = outputs.require_features("DensitySoftmax")
        n_columns = len(self.density.center)
        if features.shape[1] != n_columns:
            raise InvalidInputError(
                f"features must have {n_columns} columns, got {features.shape[1]}: use the same encoder"
            )
        return self.density.log_prob(features)

    def _fit(self, validation: Outputs, _found: Found, /) -> None:
        labels = validation.require_labels("DensitySoftmax.fit")
        self.scale_ = _fit_scale(validation.logits, labels, self._shortfall(validation))

    def _weight(self, outputs: Outputs, _found: Found, /) -> FloatArray:
        return _density_weight(self._shortfall(outputs), self.scale_)

    def _shortfall(self, outputs: Outputs) -> FloatArray:
        # A row may be likelier than any of training: it is trusted as they are, not more.
        shortfall: FloatArray = np.maximum(self.highest - self.score(outputs), 0.0)
        return shortfall

    def _own_state(self) -> State:
        return self.State(highest=self.highest, scale=self.scale_ if np.isfinite(self.scale_) else None)

    def _arrays(self) -> Arrays:
        return dict(self.density.to_arrays())

    def _restore(self, state: State, arrays: Arrays) -> None:
        require("torch", extra="hf", purpose="DensitySoftmax")
        from knn_ue_lab.flows import FeatureDensity

        self.density, self.highest = FeatureDensity.from_arrays(arrays), state.highest
        self.scale_ = np.inf if state.scale is None else state.scale


def _density_weight(shortfall: FloatArray, scale: float) -> FloatArray:
    with np.errstate(over="ignore", under="ignore"):  # far off is as good as infinitely far
        weight: FloatArray = np.maximum(np.exp(-shortfall / scale), _TINY)
    return weight


def _fit_scale(logits: FloatArray, labels: IntArray, shortfall: FloatArray) -> float:
    """Return the s > 0 that minimizes the log-loss of softmax(exp(-shortfall / s) * logits); it may be infinite."""
    from scipy.optimize import minimize_scalar

    scaled = ScaledLogits.of(logits, labels)
    positive = shortfall[shortfall > 0]
    unit = float(np.median(positive)) if len(positive) else 1.0

    def loss(log_scale: float) -> float:
        return scaled.loss(scaled.unit * _density_weight(shortfall, unit * float(np.exp(log_scale))))[0]

    # The loss may have several valleys: look along all of them, then refine the deepest.
    low, high = np.log(_SCALE_RANGE)
    grid, step = np.linspace(low, high, _N_STARTS, retstep=True)
    deepest = float(min(grid, key=loss))
    found = minimize_scalar(
        loss, bounds=(deepest - step, deepest + step), method="bounded", options={"xatol": 1e-9, "maxiter": 200}
    )
    best = min((np.inf, float(found.x), deepest), key=loss)
    return unit * float(np.exp(best))
