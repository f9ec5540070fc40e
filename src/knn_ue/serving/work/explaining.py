"""Why a row has the score it has, for every method: terms, classes, neighbors, and a map of the neighborhood."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from knn_ue.answers import Answer, AnyAnswer, Explanation, NeighborExample, Plain
from knn_ue.arrays import BoolArray, FloatArray, softmax
from knn_ue.calibrators.contract import Calibrator, Found
from knn_ue.pipeline.fitted import class_names, nearest
from knn_ue.types import Outputs, Prediction
from knn_ue.verifying import OTHER
from knn_ue.weighting import other_majority

_CLASSES = 10  # the likeliest ones are listed
_MAPS = 64  # rows of one request that get a map


@dataclass(frozen=True, kw_only=True)
class ClassScore(Plain):
    """A class, with the calibrated score and the model's own, None where the model did not say."""

    label: str
    score: float
    raw_score: float | None


@dataclass(frozen=True, kw_only=True)
class MapPoint(Plain):
    """A neighbor on the map."""

    id: int
    label: str
    agrees: bool
    x: float
    y: float


@dataclass(frozen=True, kw_only=True)
class Map(Plain):
    """The input, at (x, y), and its neighbors in the plane that shows most of how they differ.

    `shown` is the share of the differences that the plane shows.
    """

    x: float
    y: float
    points: tuple[MapPoint, ...]
    shown: float


@dataclass(frozen=True, kw_only=True)
class Why(Explanation):
    """Why one text, or one word, has the score it has. Terms are null where the method has none."""

    classes: tuple[ClassScore, ...]
    map: Map | None


def explain_rows(outputs: Outputs, calibrator: Calibrator, found: Found, *, top: int) -> list[Why]:
    """Return the reasons of each row, in order; `found` is what the calibrator's `search` returned for `outputs`."""
    if not len(outputs):
        return []
    prediction = calibrator.predict(outputs, found=found)
    names = class_names(outputs)
    if calibrator.explains:
        rows = calibrator.explain(outputs, top=calibrator.n_neighbors or max(top, 1), found=found)
    else:
        rows = _without_terms(outputs, calibrator, prediction, found)
    maps, judges = _maps(outputs, calibrator, rows), calibrator.judges_given
    return [
        Why(
            **{field.name: getattr(row, field.name) for field in fields(Explanation) if field.name != "neighbors"},
            neighbors=row.neighbors[:top],
            classes=_judged(names, prediction, number, row)
            if judges
            else _classes(names, prediction.probs[number], raw),
            map=maps[number] if number < len(maps) else None,
        )
        for number, (row, raw) in enumerate(zip(rows, softmax(outputs.logits), strict=True))
    ]


def in_words_of(answer: AnyAnswer, why: Why) -> Why:
    """Return the reasons under the words in which an answer was given, which may be no label."""
    label = answer.label or answer.would_be if isinstance(answer, Answer) else None
    if label is None:
        return why
    first, *rest = why.classes
    return replace(why, label=label, classes=(replace(first, label=label), *rest))


def _without_terms(outputs: Outputs, calibrator: Calibrator, prediction: Prediction, found: Found) -> list[Explanation]:
    """Return what is known where the method has no terms: the weight if there is one, and neighbors if it has any."""
    names = class_names(outputs)
    near = nearest(calibrator, found, prediction.predicted, names=names, top=calibrator.n_neighbors)
    weight = calibrator.weight(outputs, found=found)
    return [
        Explanation(
            text=None if outputs.texts is None else outputs.texts[row],
            label=names[predicted],
            score=float(prediction.confidence[row]),
            raw_score=float(prediction.raw_confidence[row]),
            weight=None if weight is None else float(weight[row]),
            distance_term=None,
            label_term=None,
            usual_distance_term=None,
            usual_label_term=None,
            n_agreeing=sum(neighbor.agrees for neighbor in near[row]) if near[row] else None,
            n_neighbors=calibrator.n_neighbors,
            **other_majority([one.label for one in near[row]], names[predicted]),
            raised_by=(),
            lowered_by=(),
            neighbors=near[row],
        )
        for row, predicted in enumerate(prediction.predicted.tolist())
    ]


def _classes(names: Sequence[str], probs: FloatArray, raw: FloatArray) -> tuple[ClassScore, ...]:
    likeliest = np.argsort(-raw, kind="stable")[:_CLASSES].tolist()
    return tuple(ClassScore(label=names[n], score=float(probs[n]), raw_score=float(raw[n])) for n in likeliest)


def _judged(names: Sequence[str], prediction: Prediction, row: int, why: Explanation) -> tuple[ClassScore, ...]:
    """Return the given answer and the labels that the verifier finds likeliest beside it."""
    probs, given = prediction.probs[row], int(prediction.predicted[row])
    labels = names.index(OTHER) if OTHER in names else len(names)
    others = [number for number in np.argsort(-probs[:labels], kind="stable").tolist() if number != given]
    first = ClassScore(label=why.label, score=float(probs[given]), raw_score=why.raw_score)
    rest = [ClassScore(label=names[n], score=float(probs[n]), raw_score=None) for n in others[: _CLASSES - 1]]
    return (first, *rest)


def _maps(outputs: Outputs, calibrator: Calibrator, rows: Sequence[Explanation]) -> list[Map | None]:
    """Return the map of each of the first rows; their vectors are fetched in one call."""
    shown = [row.neighbors for row in rows[:_MAPS]]
    ids = [neighbor.id for neighbors in shown for neighbor in neighbors]
    if not ids or not calibrator.stores:
        return []
    name, store = list(calibrator.stores.items())[-1]
    vectors = store.vectors_of(ids)
    if vectors is None:
        return []
    inputs = store.normalized(calibrator.queries(outputs)[name][: len(shown)])
    ends = np.cumsum([len(neighbors) for neighbors in shown])
    return [
        _map(own, neighbors, part)
        for own, neighbors, part in zip(inputs, shown, np.split(vectors, ends[:-1]), strict=True)
    ]


def _map(own: FloatArray, neighbors: Sequence[NeighborExample], vectors: FloatArray) -> Map | None:
    """Return where the row and its neighbors lie in the plane that shows most of their differences."""
    here: BoolArray = np.logical_not(np.isnan(vectors).any(axis=1))  # a remote store may lose an example meanwhile
    if not here.any():
        return None
    places, shown = project(np.vstack((own, vectors[here])))
    there = [neighbor for neighbor, present in zip(neighbors, here.tolist(), strict=True) if present]
    points = tuple(
        MapPoint(id=near.id, label=near.label, agrees=near.agrees, x=x, y=y)
        for near, (x, y) in zip(there, places[1:].tolist(), strict=True)
    )
    return Map(x=float(places[0, 0]), y=float(places[0, 1]), points=points, shown=shown)


def project(vectors: FloatArray) -> tuple[FloatArray, float]:
    """Return the places (n, 2) of `vectors` (n, d) and the share of their variance that the plane shows.

    The first vector lies at (0, 0). Distances in the plane are never longer than the true ones.

    >>> places, shown = project(np.array([[0.0, 0.0, 0.0], [3.0, 0.0, 0.0], [0.0, 4.0, 0.0]]))
    >>> np.hypot(*places.T).round(6), round(shown, 6)
    (array([0., 3., 4.]), 1.0)
    """
    centered = np.asarray(vectors, dtype=np.float64) - np.mean(vectors, axis=0, dtype=np.float64)
    left, sizes, _ = np.linalg.svd(centered, full_matrices=False)
    places = np.zeros((len(centered), 2))
    kept = min(2, len(sizes))
    places[:, :kept] = left[:, :kept] * sizes[:kept]
    # The sign of a component is arbitrary: let the vector that is farthest out lie to the right, or above.
    farthest = np.abs(places).argmax(axis=0)
    places *= np.where(places[farthest, [0, 1]] < 0, -1.0, 1.0)
    total = float((sizes**2).sum())
    return places - places[0], float((sizes[:kept] ** 2).sum() / total) if total else 1.0
