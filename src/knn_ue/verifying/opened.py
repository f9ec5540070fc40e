"""The verifier beside a model that one can open: what a reader learned from training rows, joined with its own score.

The judged model has seen the training rows, so what it says of them proves nothing: they teach the reader alone
(`learn_classes`). How far to trust each of the two, and the model's record, come from validation rows (`fit_join`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from knn_ue import metrics
from knn_ue.arrays import BoolArray, FloatArray, IntArray, softmax
from knn_ue.verifying import classes, record
from knn_ue.verifying.dual_ridge import DualRidge, ridge_path
from knn_ue.verifying.labels import center, standardized
from knn_ue.verifying.logistic import fit_logistic, log_odds, sigmoid
from knn_ue.verifying.views import FittedView, RawViews, fit_view

MAX_STUDIED = 1000  # training rows: the time to learn grows with their cube
PENALTIES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
_SHARPNESSES = np.exp(np.linspace(np.log(0.5), np.log(100.0), 48))
_EMBEDDING = "embedding"  # how views of whole texts by an encoder begin
# What bias, the verifier's log-odds and the standardized own score usually weigh; they are loose, since validation rows
# are many.
_MEANS = np.array([0.0, 0.5, 1.0])
_SPREADS = np.array([1.0, 0.5, 1.0])
_DRAWS = 200
_SURE = 0.95  # share of bootstrap draws in which the verifier must rank better to be used by itself
_FEW_MISTAKES = 10


@dataclass(frozen=True, kw_only=True, eq=False)
class LearnedClasses:
    """P(class | x) = softmax(log prior + sharpness * scores), as a reader learned it from training rows.

    The scores are linear in the `views`: `weights` (columns, classes) of each. Nothing of a row is kept.
    """

    views: Mapping[str, FittedView]
    weights: Mapping[str, FloatArray]
    prior: FloatArray
    sharpness: float

    def probs(self, views: RawViews) -> FloatArray:
        """Return P(class | x), (n, classes)."""
        scores = sum(np.asarray(view.prepared(views[name]) @ self.weights[name]) for name, view in self.views.items())
        return softmax(np.log(self.prior) + self.sharpness * np.asarray(scores, dtype=np.float64))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return its arrays by name: all that `from_arrays` needs beside the `sharpness`."""
        arrays: dict[str, npt.NDArray[Any]] = {"prior": self.prior}
        for name, view in self.views.items():
            parts = view.arrays() | {"weights": self.weights[name]}
            arrays |= {f"{name}.{part}": np.ascontiguousarray(array) for part, array in parts.items()}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], *, sharpness: float) -> Self:
        """Restore what `arrays` returned."""
        parts: dict[str, dict[str, npt.NDArray[Any]]] = {}
        for key in sorted(arrays.keys() - {"prior"}):
            name, part = key.rsplit(".", 1)
            parts.setdefault(name, {})[part] = arrays[key]
        weights = {name: found.pop("weights") for name, found in parts.items()}
        views = {name: FittedView.from_arrays(found) for name, found in parts.items()}
        return cls(views=views, weights=weights, prior=arrays["prior"], sharpness=sharpness)


def learn_classes(views: RawViews, gold: IntArray, *, n_classes: int) -> LearnedClasses:
    """Learn P(class | x) from the views of m training rows and their classes (m,).

    One ridge on all views; where there is an embedding, on that alone: words and letters that go with a class in one
    domain mislead in another. The penalty is the strongest whose left-out log-loss is within one standard error of the
    best: in domain it costs nothing, in other domains it reads better.
    """
    names = [name for name in sorted(views) if name.startswith(_EMBEDDING)] or sorted(views)
    fitted = {name: fit_view(views[name]) for name in names}
    prior = (np.bincount(gold, minlength=n_classes) + 1.0) / (len(gold) + n_classes)
    targets = classes.one_hot(gold, n_classes) - classes.class_prior(gold, n_classes)
    gram = np.sum([view.gram()[0] for view in fitted.values()], axis=0)
    trials = [_sharpened(ridge, prior, gold) for ridge in ridge_path(gram, targets, PENALTIES)]
    best = min(trials, key=lambda trial: trial.loss)
    chosen = max((trial for trial in trials if trial.loss <= best.loss + best.error), key=lambda one: one.ridge.penalty)
    return LearnedClasses(
        views={name: view.without_rows() for name, view in fitted.items()},
        weights={name: view.primal(chosen.ridge.weights) for name, view in fitted.items()},
        prior=prior,
        sharpness=chosen.sharpness,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Trial:
    """A ridge with the sharpness that suits its left-out scores, their log-loss, and its standard error."""

    ridge: DualRidge
    sharpness: float
    loss: float
    error: float


def _sharpened(ridge: DualRidge, prior: FloatArray, gold: IntArray) -> _Trial:
    losses = {
        sharpness: -np.log(softmax(np.log(prior) + sharpness * ridge.left_out)[np.arange(len(gold)), gold])
        for sharpness in _SHARPNESSES.tolist()
    }
    best = min(losses, key=lambda sharpness: float(losses[sharpness].mean()))
    error = float(losses[best].std() / np.sqrt(len(gold)))
    return _Trial(ridge=ridge, sharpness=best, loss=float(losses[best].mean()), error=error)


@dataclass(frozen=True, kw_only=True)
class JoinParams:
    """The numbers of a `Join`, as plain JSON has them."""

    bias: float
    slope: float
    own_slope: float
    own_mean: float
    own_spread: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Join:
    """How the reader's P(class | x) and the model's own log-odds become one score.

    `said` (classes, classes) is the model's confusion, P(answer | class), in the validation rows.
    """

    params: JoinParams
    said: FloatArray

    def scores(self, probs: FloatArray, answers: IntArray, own: FloatArray) -> FloatArray:
        """Return the probability (n,) that each answer is right."""
        params, agreed = self.params, log_odds(record.agreement(probs, answers, self.said))
        model = standardized(own, params.own_mean, params.own_spread)
        return sigmoid(params.bias + params.slope * agreed + params.own_slope * model)


def fit_join(probs: FloatArray, answers: IntArray, gold: IntArray, own: FloatArray) -> Join:
    """Fit on n validation rows: the reader's `probs` (n, classes), the model's answers (n,) and `own` log-odds (n,)."""
    n_classes = probs.shape[1]
    agreed = log_odds(record.left_out_agreement(probs, gold, answers, n_answers=n_classes))
    mean, spread = center(own)
    columns = np.column_stack([np.ones(len(gold)), agreed, standardized(own, mean, spread)])
    bias, slope, own_slope = fit_logistic(columns, gold == answers, means=_MEANS, spreads=_SPREADS).tolist()
    return Join(
        params=JoinParams(bias=bias, slope=slope, own_slope=own_slope, own_mean=mean, own_spread=spread),
        said=record.confusion(gold, answers, n_classes=n_classes, n_answers=n_classes),
    )


@dataclass(frozen=True, kw_only=True)
class Gain:
    """What the verifier does to the ranking of n validation rows, cross-fitted, and what a text costs.

    It `pays` where the ranking is better in nearly all bootstrap draws.
    """

    before: float
    after: float
    n_rows: int
    pays: bool
    milliseconds: float = 0.0

    def __str__(self) -> str:
        areas = f"E-AURC x1000 {1000 * self.before:.0f} -> {1000 * self.after:.0f} on {self.n_rows} validation rows"
        return f"verifier: {areas}, +{self.milliseconds:.1f} ms a text"


def measure_gain(probs: FloatArray, answers: IntArray, gold: IntArray, own: FloatArray, *, seed: int = 0) -> Gain:
    """Return what a `Join` gains over the own score, each of five folds scored by what the others taught."""
    folds, right = record.folds_of(gold), gold == answers
    scores = np.empty(len(gold))
    for fold in range(record.N_FOLDS):
        kept, asked = folds != fold, folds == fold
        join = fit_join(probs[kept], answers[kept], gold[kept], own[kept])
        scores[asked] = join.scores(probs[asked], answers[asked], own[asked])
    before, after = (metrics.e_aurc(confidence=found, correct=right) for found in (own, scores))
    return Gain(before=before, after=after, n_rows=len(gold), pays=ranks_better(own, scores, right, seed=seed))


def ranks_better(own: FloatArray, scores: FloatArray, right: BoolArray, *, seed: int = 0) -> bool:
    """Say whether `scores` rank better than `own` in nearly all bootstrap draws of the rows."""
    if np.count_nonzero(~right) < _FEW_MISTAKES:
        return False
    random, better = np.random.default_rng(seed), 0
    for _ in range(_DRAWS):
        drawn = random.integers(len(right), size=len(right))
        areas = [metrics.e_aurc(confidence=found[drawn], correct=right[drawn]) for found in (own, scores)]
        better += areas[1] < areas[0]
    return better >= _SURE * _DRAWS
