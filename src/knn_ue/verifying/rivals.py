"""The plain rivals of the verifier, in its style: `evaluate` compares with them, always, and says when it does not pay.

Each is fitted on the same m labeled rows and returns the probability that a given answer is right.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray, IntArray
from knn_ue.verifying.classes import class_prior, neighbor_probs, one_hot
from knn_ue.verifying.logistic import KernelLogistic, fit_kernel_logistic, fit_logistic, sigmoid
from knn_ue.verifying.views import FittedView, Inner

FittedViews = Mapping[str, FittedView]
_PRIOR_ROWS = 4.0
_LOOSE = 10.0  # Platt scaling has next to no prior


@dataclass(frozen=True, kw_only=True, eq=False)
class ConstantPerAnswer:
    """One score per answer, (answers,): how often it was right, shrunk to the share of all right answers."""

    scores: FloatArray

    def verdict(self, answers: IntArray) -> FloatArray:
        """Return the score (n,) of each answer."""
        return self.scores[answers]


def fit_constant(answers: IntArray, right: BoolArray, *, n_answers: int) -> ConstantPerAnswer:
    """Count how often each answer (m,) was right, with four rows' worth of the mean.

    >>> fit_constant(np.array([0, 0, 1]), np.array([True, True, False]), n_answers=2).scores.round(2).tolist()
    [0.78, 0.53]
    """
    said = np.bincount(answers, minlength=n_answers)
    hits = np.bincount(answers, weights=right, minlength=n_answers)
    return ConstantPerAnswer(scores=(hits + _PRIOR_ROWS * right.mean()) / (said + _PRIOR_ROWS))


@dataclass(frozen=True, kw_only=True)
class PlattScaling:
    """A logistic of the judged model's own score, standardized by `mean` and `spread`. Platt (1999)."""

    bias: float
    slope: float
    mean: float
    spread: float

    def verdict(self, own_score: FloatArray) -> FloatArray:
        """Return the probability (n,) for own scores (n,); NaN counts as the mean."""
        return sigmoid(self.bias + self.slope * np.nan_to_num((own_score - self.mean) / self.spread))


def fit_platt(own_score: FloatArray, right: BoolArray) -> PlattScaling:
    """Fit the logistic on own scores (m,), NaN where unknown."""
    known = own_score[~np.isnan(own_score)]
    mean, spread = (float(known.mean()), float(known.std()) or 1.0) if len(known) else (0.0, 1.0)
    columns = np.column_stack([np.ones(len(right)), np.nan_to_num((own_score - mean) / spread)])
    bias, slope = fit_logistic(columns, right, means=np.zeros(2), spreads=np.full(2, _LOOSE))
    return PlattScaling(bias=float(bias), slope=float(slope), mean=mean, spread=spread)


@dataclass(frozen=True, kw_only=True, eq=False)
class DirectRegression:
    """Logistic regression, right or wrong, on (views, given answer); `crossed`: with a slope of its own per answer."""

    answers: IntArray
    n_answers: int
    crossed: bool
    model: KernelLogistic

    def verdict_of(self, inner: Inner, answers: IntArray) -> FloatArray:
        """Return the probability (n,) that each given answer is right."""
        mean = np.mean([values for values, _ in inner.values()], axis=0)
        same = one_hot(answers, self.n_answers) @ one_hot(self.answers, self.n_answers).T
        return self.model.predict(_joined(mean, same, crossed=self.crossed))


def fit_direct(
    views: FittedViews, answers: IntArray, right: BoolArray, *, n_answers: int, crossed: bool = False
) -> DirectRegression:
    """Fit the regression (C = 1) on m rows: their `views` as the verifier has them, and their answers (m,)."""
    inner = np.mean([view.gram()[0] for view in views.values()], axis=0)
    said = one_hot(answers, n_answers)
    model = fit_kernel_logistic(_joined(inner, said @ said.T, crossed=crossed), right)
    return DirectRegression(answers=answers, n_answers=n_answers, crossed=crossed, model=model)


@dataclass(frozen=True, kw_only=True, eq=False)
class NeighborShare:
    """The share of the nearest labeled rows whose gold label is the given answer, as it is."""

    gold: IntArray
    n_classes: int

    def verdict_of(self, inner: Inner, answers: IntArray) -> FloatArray:
        """Return the share (n,), the mean over views; 0 for an answer that is no class."""
        prior = class_prior(self.gold, self.n_classes)
        by_view = [neighbor_probs(cosines, self.gold, prior, left_out=False) for _, cosines in inner.values()]
        share = np.mean(by_view, axis=0)
        on_list = answers < self.n_classes
        found: FloatArray = share[np.arange(len(answers)), np.where(on_list, answers, 0)] * on_list
        return found


def _joined(inner: FloatArray, same: FloatArray, *, crossed: bool) -> FloatArray:
    return inner * (0.5 + same) + same if crossed else inner + same
