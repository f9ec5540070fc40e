"""How much an input is like the training data, on two scales.

`TrainingSpace` says how unusual an input is among the training inputs: Mahalanobis distances in several views, put on
one scale. `Familiarity` compares that with the validation inputs: the share of them that are at least as unusual as
this one, a conformal p-value.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from knn_ue.arrays import BoolArray, FloatArray, IntArray, check_not_empty, float_vector, read_only
from knn_ue.entities import find_entities, is_tagged
from knn_ue.errors import InvalidInputError, NotFittedError
from knn_ue.shown import Shown
from knn_ue.types import Outputs

FALSE_ALARM_RATE = 0.01
_REFERENCE = "reference."
ROWS, SENTENCES, ENTITIES = "rows", "sentences", "entities"
_SHRINKAGE = 1e-3
_BLOCK = 4096  # rows at a time: float64 copies of all of them would cost several times the views
_PREFIX = "space."
_MOST = 1e15  # of a stored number: squares and sums of such stay finite


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingSpace:
    """What is kept of the training inputs: nothing grows with their number.

    For each view its mean (k,), the whitening (k, k) of its covariance, and the `center` and `scale` (views,) of the
    training rows' own log distances. The covariance is shrunk by 0.1 % towards a multiple of the identity, so that
    constant columns and fewer rows than columns are no problem.
    """

    means: tuple[FloatArray, ...]
    whitenings: tuple[FloatArray, ...]
    center: FloatArray
    scale: FloatArray

    @classmethod
    def measure(cls, train: Outputs) -> "TrainingSpace":
        """Measure the training inputs; labels are not read."""
        views = views_of(train)
        check_not_empty(len(train), "the training Outputs given to Familiarity")
        return cls.measure_views(views)

    @classmethod
    def measure_views(cls, views: Sequence[FloatArray]) -> "TrainingSpace":
        """Measure the training inputs by their views, one (n, k) array each."""
        means, whitenings, center, scale = [], [], [], []
        for view in views:
            mean, whitening = _whiten(view)
            distances = _log_distance(view, mean, whitening)
            means.append(read_only(mean))
            whitenings.append(read_only(whitening))
            center.append(distances.mean())
            scale.append(distances.std() or 1.0)
        return cls(means=tuple(means), whitenings=tuple(whitenings), center=np.array(center), scale=np.array(scale))

    def score(self, outputs: Outputs) -> FloatArray:
        """Return how unusual each row (n,) is: the mean over views of its z-scored log distance."""
        views = views_of(outputs)
        widths = [view.shape[1] for view in views]
        expected = [len(mean) for mean in self.means]
        if widths != expected:
            raise InvalidInputError(
                f"familiarity was measured in {len(expected)} views of {_widths(expected)} columns, these Outputs have "
                f"{len(widths)} of {_widths(widths)}: use the same encoder with the same options"
            )
        total = np.zeros(len(outputs))
        for number, view in enumerate(views):
            distances = _log_distance(view, self.means[number], self.whitenings[number])
            total += (distances - self.center[number]) / self.scale[number]
        return total / len(views)

    def measures(self, outputs: Outputs) -> bool:
        """Say whether rows like these have what it looks at; features of an encoder without views do not count."""
        return outputs.views is not None

    def to_arrays(self) -> dict[str, FloatArray]:
        """Return the arrays to store; whitenings in float32, which is small beside what they are made of."""
        arrays = {f"{_PREFIX}center": self.center, f"{_PREFIX}scale": self.scale}
        for number, (mean, whitening) in enumerate(zip(self.means, self.whitenings, strict=True)):
            arrays |= {f"{_PREFIX}mean.{number}": mean, f"{_PREFIX}whitening.{number}": whitening}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[np.generic]]) -> "TrainingSpace":
        """Return what `to_arrays` gave; KeyError or ValueError where it is not that."""
        center, scale = (np.asarray(arrays[f"{_PREFIX}{name}"], dtype=np.float64) for name in ("center", "scale"))
        numbers = range(len(center))
        means, whitenings = (
            tuple(np.asarray(arrays[f"{_PREFIX}{name}.{number}"]) for number in numbers)
            for name in ("mean", "whitening")
        )
        square = all(
            mean.ndim == 1 and whitening.shape == (len(mean), len(mean))
            for mean, whitening in zip(means, whitenings, strict=True)
        )
        every = (center, scale, *means, *whitenings)
        if not square or scale.shape != center.shape or not len(center):
            raise ValueError("the views of its familiarity do not fit each other")
        if not all(x.dtype.kind == "f" and np.abs(x).max(initial=0) <= _MOST for x in every) or not (scale > 0).all():
            raise ValueError("its familiarity holds numbers that are not finite or too large, or a scale of 0")
        return cls(means=means, whitenings=whitenings, center=center, scale=scale)


@runtime_checkable
class Space(Protocol):
    """What says how unusual a row is among the training inputs."""

    def score(self, outputs: Outputs) -> FloatArray:
        """Return how unusual each row (n,) is."""
        ...

    def measures(self, outputs: Outputs) -> bool:
        """Say whether rows like these have what it looks at."""
        ...

    def to_arrays(self) -> Mapping[str, npt.NDArray[Any]]:
        """Return the arrays to store."""
        ...


class Familiarity(Shown):
    """How much inputs are like the training data.

    `score` is how unusual a row is among the training inputs, over all its views (see `TrainingSpace`); labels are
    not used. `p_value` compares it with the validation inputs: the share of them, this one counted in, that are at
    least as unusual. An input drawn like the validation inputs has a p-value of at most `a` with probability at
    most `a`, for every `a` and any number of validation rows: so `unfamiliar`, p <= `false_alarm_rate`, is a false
    alarm for at most that share of in-domain inputs. It says nothing about whether the answer is right. With fewer
    than 1 / `false_alarm_rate` - 1 validation rows nothing is ever unfamiliar.

    In tagging a row is a word. A sentence, or an entity, is as unusual as its words are on average, and is compared
    with the validation sentences, or with the entities predicted in them. Words and entities of one sentence are not
    independent, so for them the rate holds on average over many sentences only.

    >>> from knn_ue.toy import two_blobs
    >>> train, validation, test = two_blobs(seed=0)
    >>> familiarity = Familiarity(train).fit(validation)
    >>> familiarity.p_value(test).shape == (len(test),)
    True
    """

    space_: Space
    reference_: Mapping[str, FloatArray]

    def __init__(self, train: Outputs | Space, *, false_alarm_rate: float = FALSE_ALARM_RATE) -> None:
        self.train = train
        self.false_alarm_rate = false_alarm_rate

    def facts(self) -> dict[str, object]:
        """Return a summary, by name."""
        facts: dict[str, object] = {"false_alarm_rate": self.false_alarm_rate}
        if not hasattr(self, "reference_"):
            return facts | {"fitted": "no: call fit(validation)"}
        return facts | {"fitted on": ", ".join(f"{len(scores)} {name}" for name, scores in self.reference_.items())}

    def fit(self, validation: Outputs) -> Self:
        """Measure the training inputs, then score the validation inputs, which must not be among them."""
        self.space_ = self.train if isinstance(self.train, Space) else TrainingSpace.measure(self.train)
        return self.fit_scores(self.space_.score(validation), validation)

    def fit_scores(self, scores: FloatArray, validation: Outputs) -> Self:
        """Fit with the `scores` (n,) of the validation inputs in the training space; their views are not needed."""
        check_rate(self.false_alarm_rate)
        check_not_empty(len(validation), "the validation Outputs given to Familiarity")
        if isinstance(self.train, Space):
            self.space_ = self.train
        reference = {ROWS: scores}
        if validation.groups is not None:
            reference[SENTENCES] = _sentence_means(scores, validation.groups)
            if is_tagged(validation):
                entities = find_entities(validation, validation.predicted)
                reference[ENTITIES] = span_means(scores, entities.first, entities.last + 1)
        self.reference_ = {name: read_only(np.sort(values)) for name, values in reference.items()}
        return self

    def score(self, outputs: Outputs) -> FloatArray:
        """Return how unusual each row (n,) is; higher is less like the training data."""
        self._check_fitted()
        return self.space_.score(outputs)

    def p_value(self, outputs: Outputs) -> FloatArray:
        """Return the p-value (n,) of each row, in tagging of each word: small is unlike the training data."""
        return conformal_p_value(self.score(outputs), self.reference_[ROWS])

    def p_value_of(self, scores: object, kind: str = ROWS) -> FloatArray:
        """Return the p-value of each of `scores` (n,) among those of the validation rows, sentences or entities."""
        self._check_fitted()
        if kind not in self.reference_:
            raise InvalidInputError(
                f"familiarity of {kind!r} was not fitted, only of {', '.join(self.reference_)}: fit it on Outputs with "
                "groups and IOB2 class_names"
            )
        return conformal_p_value(float_vector(scores, "scores"), self.reference_[kind])

    def mean_p_value(self, outputs: Outputs) -> float:
        """Return the mean p-value of the rows, or of the sentences in tagging: about one half in domain."""
        scores = self.score(outputs)
        if outputs.groups is None:
            return float(self.p_value_of(scores).mean())
        return float(self.p_value_of(_sentence_means(scores, outputs.groups), SENTENCES).mean())

    def n_reference(self, outputs: Outputs) -> int:
        """Return the number of validation rows, or sentences in tagging, that `mean_p_value` compares with."""
        self._check_fitted()
        return len(self.reference_[ROWS if outputs.groups is None else SENTENCES])

    def is_unfamiliar(self, p_value: FloatArray) -> BoolArray:
        """Return whether each p-value (n,) is at or below the false-alarm rate."""
        unfamiliar: BoolArray = np.asarray(p_value) <= self.false_alarm_rate
        return unfamiliar

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays to store: those of the training space, and the scores of the validation inputs."""
        self._check_fitted()
        return dict(self.space_.to_arrays()) | {f"{_REFERENCE}{name}": x for name, x in self.reference_.items()}

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, npt.NDArray[Any]], *, false_alarm_rate: float, space: Space | None = None
    ) -> Self:
        """Return what `to_arrays` gave; KeyError or ValueError where it is not that. Other arrays are ignored.

        Without a `space` it is a `TrainingSpace`.
        """
        check_rate(false_alarm_rate)
        space = space or TrainingSpace.from_arrays(arrays)
        familiarity = cls(space, false_alarm_rate=false_alarm_rate)
        familiarity.space_ = space
        reference = {
            name: arrays[f"{_REFERENCE}{name}"]
            for name in (ROWS, SENTENCES, ENTITIES)
            if name == ROWS or f"{_REFERENCE}{name}" in arrays
        }
        for name, values in reference.items():
            if values.ndim != 1 or values.dtype.kind != "f" or not (np.diff(values) >= 0).all():
                raise ValueError(f"the scores of its validation {name} are not sorted numbers")
        familiarity.reference_ = reference
        return familiarity

    def _check_fitted(self) -> None:
        if not hasattr(self, "reference_"):
            raise NotFittedError(type(self).__name__)


def conformal_p_value(scores: FloatArray, reference: FloatArray) -> FloatArray:
    """Return (1 + #{reference >= score}) / (1 + n) for each score; `reference` (n,) is sorted.

    Ties count against the input, so the value is never too small.

    >>> conformal_p_value(np.array([0.5, 3.0, 9.0]), np.array([1.0, 2.0, 3.0]))
    array([1.  , 0.5 , 0.25])
    """
    n_as_unusual = len(reference) - np.searchsorted(reference, scores, side="left")
    p_value: FloatArray = (1 + n_as_unusual) / (1 + len(reference))
    return p_value


def span_means(values: FloatArray, start: IntArray, end: IntArray) -> FloatArray:
    """Return the mean of `values` (n,) from each `start` up to, not including, `end` (m,); NaN where that is empty."""
    sums = np.concatenate(([0.0], np.cumsum(values, dtype=np.float64)))
    length = np.asarray(end) - np.asarray(start)
    means: FloatArray = np.divide(sums[end] - sums[start], length, out=np.full(len(length), np.nan), where=length > 0)
    return means


def _sentence_means(scores: FloatArray, groups: IntArray) -> FloatArray:
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    return span_means(scores, starts, np.append(starts[1:], len(scores)))


def check_rate(rate: float) -> None:
    """Raise unless the false-alarm rate lies strictly between 0 and 1."""
    if isinstance(rate, bool) or not isinstance(rate, Real) or not 0 < rate < 1:
        raise InvalidInputError(f"false_alarm_rate must lie between 0 and 1, got {rate!r}: 0.01 is one in a hundred")


def views_of(outputs: Outputs) -> Sequence[FloatArray]:
    """Return what familiarity looks at, one (n, k) array per view: `views`, else `layers`, else the features."""
    if not isinstance(outputs, Outputs):
        raise InvalidInputError(
            f"Familiarity reads Outputs, got {type(outputs).__name__}: pass Outputs(features=..., logits=...)"
        )
    if outputs.views is not None:
        return [outputs.views[:, number] for number in range(outputs.views.shape[1])]
    if outputs.layers is not None:
        return list(outputs.layers)
    return [outputs.require_features("Familiarity")]


def _whiten(view: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean (k,) and the whitening (k, k) of the rows, both float32."""
    width = view.shape[1]
    mean = view.mean(axis=0, dtype=np.float64)
    covariance = np.zeros((width, width))
    for start in range(0, len(view), _BLOCK):
        centered = view[start : start + _BLOCK].astype(np.float64) - mean
        covariance += centered.T @ centered
    covariance /= len(view)
    average = float(np.trace(covariance)) / width or 1.0
    shrunk = (1 - _SHRINKAGE) * covariance + _SHRINKAGE * average * np.eye(width)
    whitening = np.linalg.inv(np.linalg.cholesky(shrunk))
    return mean.astype(np.float32), whitening.astype(np.float32)


def _log_distance(view: FloatArray, mean: FloatArray, whitening: FloatArray) -> FloatArray:
    """Return log(1 + Mahalanobis distance) of each row (n,): finite at the mean itself."""
    distances = np.empty(len(view))
    for start in range(0, len(view), _BLOCK):
        part = slice(start, start + _BLOCK)
        whitened = (view[part].astype(np.float64) - mean) @ whitening.T.astype(np.float64)
        distances[part] = np.log1p(np.linalg.norm(whitened, axis=1))
    return distances


def _widths(widths: Sequence[int]) -> str:
    return " and ".join(str(width) for width in sorted(set(widths))) or "no"
