"""The verifier of given labels: what a small reader would answer, the judged model's record, and how to join them.

`fit_labels` learns from m labeled rows (50 and more) in a few milliseconds. P(class | x) comes from ridge and neighbors
of each view (`classes`), the record of the judged model from its confusion (`record`); their product says how probable
the given answer is, and a logistic with strong priors turns that, and the model's own score, into a probability.
All that is fitted on top of something uses it left out: a row's own label never speaks for it.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Self

import numpy as np
import numpy.typing as npt
from annotated_types import Interval, Len

from knn_ue.arrays import MAX_CLASSES, FloatArray, IntArray, check_length, label_vector, read_only, to_numpy
from knn_ue.errors import InvalidInputError
from knn_ue.verifying import classes, record
from knn_ue.verifying.dual_ridge import DualRidge, fit_ridge
from knn_ue.verifying.logistic import fit_logistic, log_odds, sigmoid
from knn_ue.verifying.stored import check_stored
from knn_ue.verifying.views import FittedView, Inner, RawViews, fit_view, inner_views

MIN_ROWS = 50
MAX_ROWS = 5000  # inner products of all rows with each other are held in memory
# What bias, the verifier's log-odds and the standardized own score usually weigh. The verifier's slope is looser than
# it needs to be for ranking (which it cannot change without an own score): with 50 rows that calibrates better.
_MEANS = np.array([0.0, 0.8, 0.5])
_SPREADS = np.array([1.0, 0.3, 0.2])
_FARTHEST = 4.0  # standard deviations; an own score beyond says no more


_Real = Annotated[float, Interval(ge=-1e9, le=1e9)]


@dataclass(frozen=True, kw_only=True)
class LabelParams:
    """The numbers of a fitted verifier, as plain JSON has them; `own_slope` is 0 where no own score was given."""

    n_classes: Annotated[int, Interval(ge=2, le=MAX_CLASSES)]
    n_answers: Annotated[int, Interval(ge=2, le=2 * MAX_CLASSES)]
    gamma: Annotated[float, Interval(ge=1e-3, le=1e3)]
    bias: _Real
    slope: _Real
    own_slope: _Real = 0.0
    own_mean: _Real = 0.0
    own_spread: Annotated[float, Interval(ge=1e-12, le=1e9)] = 1.0
    penalties: Annotated[dict[str, _Real], Len(1, 64)]


@dataclass(frozen=True, kw_only=True, eq=False)
class VerdictExplanation:
    """What spoke for and against n given answers.

    The log-odds of `score` (n,) are `bias` + `verifier` (n,), which is `slope` times those of the answer, + `own` (n,).
    `distribution` (n, classes) is what the verifier would answer without knowing the answer. `said` and `right` (n,):
    how often the judged model gave this answer in the labeled rows, and was right. `rows` (n, top): the nearest labeled
    rows, their `similarity` (n, top), their `gold` labels and what the model had `given` there.
    """

    score: FloatArray
    bias: float
    slope: float
    verifier: FloatArray
    own: FloatArray
    distribution: FloatArray
    said: IntArray
    right: IntArray
    rows: IntArray
    similarity: FloatArray
    gold: IntArray
    given: IntArray


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelVerifier:
    """A fitted verifier: parameters and arrays, nothing else.

    `gold` and `answers` (m,) are the labeled rows'; `weights` (m, classes) each view's ridge. `left_out` (m, classes)
    and `scores` (m,) are the distribution and the verdict of the labeled rows as if they were new: decisions and
    reports use those. `own` (m,) are the judged model's own scores, where there are some.
    """

    params: LabelParams
    views: Mapping[str, FittedView]
    weights: Mapping[str, FloatArray]
    gold: IntArray
    answers: IntArray
    left_out: FloatArray
    scores: FloatArray
    own: FloatArray | None = None

    @property
    def share_right(self) -> float:
        """The share of right answers among the labeled rows, with one more of each kind."""
        return float((np.count_nonzero(self.gold == self.answers) + 1) / (len(self.gold) + 2))

    def distribution(self, views: RawViews) -> FloatArray:
        """Return P(class | x), (n, classes), without knowing the given answer."""
        return self.distribution_of(inner_views(self.views, views))

    def posterior(self, views: RawViews, answers: IntArray) -> FloatArray:
        """Return P(class | x, given answer), (n, classes): its best class is the correction, if it is another one."""
        return self.posterior_of(inner_views(self.views, views), answers)

    def posterior_of(self, inner: Inner, answers: IntArray) -> FloatArray:
        """Return the `posterior` where the inner products with the labeled rows are known."""
        probs = self.distribution_of(inner)
        return record.posterior(probs, self._checked(answers, len(probs)), self._confusion())

    def verdict(self, views: RawViews, answers: IntArray, own_score: FloatArray | None = None) -> FloatArray:
        """Return the probability (n,) that each given answer is right; NaN in `own_score` (n,) is an unknown one."""
        return self.verdict_of(inner_views(self.views, views), answers, own_score)

    def verdict_of(self, inner: Inner, answers: IntArray, own_score: FloatArray | None = None) -> FloatArray:
        """Return the `verdict` where the inner products with the labeled rows are known."""
        _, verifier, own = self._terms(inner, answers, own_score)
        return sigmoid(self.params.bias + verifier + own)

    def judge(
        self, views: RawViews, answers: IntArray, own_score: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the `posterior` and the `verdict`, for the price of one of them."""
        probs, verifier, own = self._terms(inner_views(self.views, views), answers, own_score)
        likely = record.posterior(probs, self._checked(answers, len(probs)), self._confusion())
        return likely, sigmoid(self.params.bias + verifier + own)

    def explain(
        self, views: RawViews, answers: IntArray, own_score: FloatArray | None = None, *, top: int = 5
    ) -> VerdictExplanation:
        """Return the verdict with all that led to it."""
        inner = inner_views(self.views, views)
        probs, verifier, own = self._terms(inner, answers, own_score)
        numbers = self._checked(answers, len(probs))
        similar = np.mean([cosines for _, cosines in inner.values()], axis=0)
        nearest = np.argsort(-similar, axis=1, kind="stable")[:, :top]
        right = self.gold == self.answers
        return VerdictExplanation(
            score=sigmoid(self.params.bias + verifier + own),
            bias=self.params.bias,
            slope=self.params.slope,
            verifier=verifier,
            own=own,
            distribution=probs,
            said=np.bincount(self.answers, minlength=self.params.n_answers)[numbers],
            right=np.bincount(self.answers[right], minlength=self.params.n_answers)[numbers],
            rows=nearest,
            similarity=np.take_along_axis(similar, nearest, axis=1),
            gold=self.gold[nearest],
            given=self.answers[nearest],
        )

    def state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return the parameters as plain JSON and the arrays by name: all that `from_state` needs."""
        arrays: dict[str, npt.NDArray[Any]] = {name: getattr(self, name) for name in _ARRAYS}
        arrays |= {} if self.own is None else {"own": self.own}
        for name, view in self.views.items():
            parts = view.arrays() | {"weights": self.weights[name]}
            arrays |= {f"{name}.{part}": np.ascontiguousarray(array) for part, array in parts.items()}
        return asdict(self.params), arrays

    @classmethod
    def from_state(cls, params: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Restore what `state` returned."""
        return cls.restored(LabelParams(**params), arrays)

    @classmethod
    def restored(cls, read: LabelParams, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Restore a verifier from its parameters and arrays; ValueError where they are not those of one."""
        if read.n_answers < read.n_classes:
            raise ValueError(f"{read.n_answers} answers are fewer than {read.n_classes} classes")
        check_stored(arrays, read.penalties, n_classes=read.n_classes, n_answers=read.n_answers)
        parts: dict[str, dict[str, npt.NDArray[Any]]] = {name: {} for name in read.penalties}
        for key in arrays.keys() - {*_ARRAYS, "own"}:
            name, part = key.rsplit(".", 1)
            parts[name][part] = arrays[key]
        weights = {name: found.pop("weights") for name, found in parts.items()}
        views = {name: FittedView.from_arrays(found) for name, found in parts.items()}
        kept: dict[str, Any] = {name: arrays[name] for name in _ARRAYS} | {"own": arrays.get("own")}
        return cls(params=read, views=views, weights=weights, **kept)

    def distribution_of(self, inner: Inner) -> FloatArray:
        """Return the `distribution` where the inner products with the labeled rows are known."""
        prior = classes.class_prior(self.gold, self.params.n_classes)
        by_ridge = [classes.ridge_probs(values @ self.weights[name], prior) for name, (values, _) in inner.items()]
        by_neighbors = [
            classes.neighbor_probs(cosines, self.gold, prior, left_out=False) for _, cosines in inner.values()
        ]
        return classes.tempered(classes.pooled_log_probs(by_ridge, by_neighbors), self.params.gamma)

    def _confusion(self) -> FloatArray:
        sizes = {"n_classes": self.params.n_classes, "n_answers": self.params.n_answers}
        return record.confusion(self.gold, self.answers, **sizes)

    def _terms(
        self, inner: Inner, answers: IntArray, own_score: FloatArray | None
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        probs = self.distribution_of(inner)
        numbers = self._checked(answers, len(probs))
        verifier = self.params.slope * log_odds(record.agreement(probs, numbers, self._confusion()))
        own: FloatArray = np.zeros(len(probs))
        if self.params.own_slope:
            if own_score is None:
                raise InvalidInputError("the verifier was fitted with own scores: pass own_score, NaN where unknown")
            scores = _own_scores(own_score, len(probs))
            own = self.params.own_slope * standardized(scores, self.params.own_mean, self.params.own_spread)
        return probs, verifier, own

    def _checked(self, answers: IntArray, n_rows: int) -> IntArray:
        return label_vector(answers, "answers", n_classes=self.params.n_answers, length=n_rows)


_ARRAYS = ("gold", "answers", "left_out", "scores")


def fit_labels(
    views: RawViews,
    answers: IntArray,
    gold: IntArray,
    own_score: FloatArray | None = None,
    *,
    n_classes: int | None = None,
    n_answers: int | None = None,
) -> LabelVerifier:
    """Learn from m labeled rows which given answers to trust.

    `views` by name, each (m, d) or sparse; `answers` (m,) numbers of which those from `n_classes` on are no class
    (`given.answer_numbers`); `gold` (m,) class numbers; `own_score` (m,) the judged model's own confidence or
    log-probability, NaN where unknown. Without them `n_classes` and `n_answers` are as many as the rows have.
    """
    gold = label_vector(gold, "gold", n_classes=n_classes)
    if not MIN_ROWS <= len(gold) <= MAX_ROWS:
        raise InvalidInputError(
            f"the verifier needs {MIN_ROWS} to {MAX_ROWS:,} labeled rows, got {len(gold)}: "
            + ("with fewer it cannot be checked; label more" if len(gold) < MIN_ROWS else "pass a random sample")
        )
    return fit_checked(views, answers, gold, own_score, n_classes=n_classes, n_answers=n_answers)


def fit_checked(
    views: RawViews,
    answers: IntArray,
    gold: IntArray,
    own_score: FloatArray | None = None,
    *,
    n_classes: int | None = None,
    n_answers: int | None = None,
) -> LabelVerifier:
    """Do what `fit_labels` does with any number of rows: cross-fits use it, whose folds may be smaller."""
    gold = label_vector(gold, "gold", n_classes=n_classes)
    answers = label_vector(answers, "answers", n_classes=n_answers, length=len(gold))
    if not views:
        raise InvalidInputError("the verifier needs at least one view of the texts: read them with a reader")
    for name, view in views.items():
        check_length(len(view), f"the view {name!r}", len(gold))
    n_classes = n_classes or int(max(gold.max(), answers.max())) + 1
    n_answers = n_answers or max(int(answers.max()) + 1, n_classes)
    fitted = {name: fit_view(view) for name, view in views.items()}
    ridges, log_probs = _fit_classes(fitted, gold, n_classes)
    gamma = classes.fit_gamma(log_probs, gold)
    left_out = classes.tempered(log_probs, gamma)
    agreed = record.left_out_agreement(left_out, gold, answers, n_answers=n_answers)
    own = None if own_score is None else _own_scores(own_score, len(gold))
    mean, spread = center(own)
    columns = [np.ones(len(gold)), log_odds(agreed)]
    columns += [] if own is None else [standardized(own, mean, spread)]
    coefficients, scores = _fit_verdict(np.column_stack(columns), gold, answers)
    return LabelVerifier(
        params=LabelParams(
            n_classes=n_classes,
            n_answers=n_answers,
            gamma=gamma,
            bias=float(coefficients[0]),
            slope=float(coefficients[1]),
            own_slope=0.0 if own is None else float(coefficients[2]),
            own_mean=mean,
            own_spread=spread,
            penalties={name: ridge.penalty for name, ridge in ridges.items()},
        ),
        views=fitted,
        weights={name: ridge.weights for name, ridge in ridges.items()},
        gold=read_only(gold),
        answers=read_only(answers),
        left_out=read_only(left_out),
        scores=read_only(scores),
        own=None if own is None else read_only(own),
    )


def _fit_classes(
    views: Mapping[str, FittedView], gold: IntArray, n_classes: int
) -> tuple[dict[str, DualRidge], FloatArray]:
    """Return the ridge of each view and the pooled log P(class | x) of the labeled rows, each left out."""
    prior = classes.class_prior(gold, n_classes)
    targets = classes.one_hot(gold, n_classes) - prior
    grams = {name: view.gram() for name, view in views.items()}
    ridges = {name: fit_ridge(values, targets) for name, (values, _) in grams.items()}
    by_ridge = [classes.ridge_probs(ridge.left_out, prior) for ridge in ridges.values()]
    by_neighbors = [classes.neighbor_probs(cosines, gold, prior, left_out=True) for _, cosines in grams.values()]
    return ridges, classes.pooled_log_probs(by_ridge, by_neighbors)


def _fit_verdict(columns: FloatArray, gold: IntArray, answers: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the coefficients from all rows, and scores (m,) by coefficients from the other four folds."""
    right = gold == answers
    priors = {"means": _MEANS[: columns.shape[1]], "spreads": _SPREADS[: columns.shape[1]]}
    folds = record.folds_of(gold)
    scores = np.empty(len(gold))
    for fold in range(record.N_FOLDS):
        inside = folds == fold
        scores[inside] = sigmoid(columns[inside] @ fit_logistic(columns[~inside], right[~inside], **priors))
    return fit_logistic(columns, right, **priors), scores


def _own_scores(values: object, n_rows: int) -> FloatArray:
    scores = to_numpy(values, "own_score")
    if scores.ndim != 1:
        raise InvalidInputError(f"own_score must have one dimension, got shape {scores.shape}: one number per row")
    check_length(len(scores), "own_score", n_rows)
    if np.isinf(scores).any():
        raise InvalidInputError("own_score must be finite or NaN (unknown), got an infinite one: replace it")
    return scores.astype(np.float64)


def center(own: FloatArray | None) -> tuple[float, float]:
    """Return mean and standard deviation of the known own scores."""
    known = own[~np.isnan(own)] if own is not None else np.zeros(0)
    if not len(known):
        return 0.0, 1.0
    spread = float(known.std())
    return float(known.mean()), spread if spread > 1e-9 * max(1.0, float(np.abs(known).max())) else 1.0


def standardized(own: FloatArray, mean: float, spread: float) -> FloatArray:
    scaled: FloatArray = np.clip(np.nan_to_num((own - mean) / spread, nan=0.0), -_FARTHEST, _FARTHEST)
    return scaled
