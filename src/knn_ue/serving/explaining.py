"""Why a row is as sure as it is, for every method: terms, classes, neighbors, and a map of the neighborhood."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray, softmax
from knn_ue.calibrators import Calibrator
from knn_ue.pipeline.answers import nearest
from knn_ue.serving.projection import project
from knn_ue.serving.state import Served
from knn_ue.types import Outputs

_CLASSES = 10  # the likeliest ones are named
_MAPS = 64  # rows of one request that get a map

Why = dict[str, Any]


def explain_rows(served: Served, outputs: Outputs, calibrator: Calibrator, *, top: int) -> list[Why]:
    """Return the reasons of each row, in the order of `outputs`."""
    if not len(outputs):
        return []
    reasons = _terms(outputs, calibrator) if calibrator.explains else _neighbors_only(outputs, calibrator)
    probs = calibrator.predict_proba(outputs)
    raw = softmax(outputs.logits)
    names = served.pipe.class_names
    return [
        reason
        | {
            "predicted": names[predicted],
            "text": None if outputs.texts is None else outputs.texts[row],
            "score": float(probs[row, predicted]),
            "raw_score": float(raw[row, predicted]),
            "classes": _classes(names, probs[row], raw[row]),
            "n_neighbors": len(reason["neighbors"]),
            "neighbors": reason["neighbors"][:top],
            "map": _map(served, outputs, row, reason["neighbors"]) if row < _MAPS else None,
        }
        for row, (predicted, reason) in enumerate(zip(outputs.predicted.tolist(), reasons, strict=True))
    ]


def _terms(outputs: Outputs, calibrator: Calibrator) -> list[Why]:
    """Return the weight of kNN-UE, its two terms and all neighbors behind them, from a single search."""
    usual: tuple[float | None, float | None] = getattr(calibrator, "typical_", (None, None))
    return [
        {
            "weight": row.weight,
            "distance_term": row.distance_term,
            "label_term": row.label_term,
            "usual_distance_term": usual[0],
            "usual_label_term": usual[1],
            "n_agreeing": row.n_agreeing,
            "raised_by": list(row.raised_by),
            "lowered_by": list(row.lowered_by),
            "neighbors": [
                {"id": n.id, "label": n.label_name, "distance": n.distance, "text": n.text, "agrees": n.agrees}
                for n in row.neighbors
            ],
        }
        for row in calibrator.explain(outputs, top=calibrator.n_neighbors)
    ]


def _neighbors_only(outputs: Outputs, calibrator: Calibrator) -> list[Why]:
    """Return the neighbors of a method that has no terms to show, where it has a store."""
    near = nearest(outputs, calibrator, top=calibrator.n_neighbors)
    weights = calibrator.weight(outputs)
    listed = [None] * len(outputs) if weights is None else weights.tolist()
    none = dict.fromkeys(("distance_term", "label_term", "usual_distance_term", "usual_label_term"))
    return [
        {
            **none,
            "weight": weight,
            "n_agreeing": sum(neighbor["agrees"] for neighbor in found) if found else None,
            "raised_by": [],
            "lowered_by": [],
            "neighbors": found,
        }
        for weight, found in zip(listed, near, strict=True)
    ]


def _classes(names: Sequence[str], probs: FloatArray, raw: FloatArray) -> list[Why]:
    likeliest = np.argsort(-raw, kind="stable")[:_CLASSES].tolist()
    return [{"label": names[n], "score": float(probs[n]), "raw_score": float(raw[n])} for n in likeliest]


def _map(served: Served, outputs: Outputs, row: int, near: list[Why]) -> Why | None:
    """Return where the row and its neighbors lie in the plane that shows most of their differences."""
    store = served.store
    vectors = None if store is None or not near else store.vectors_of([neighbor["id"] for neighbor in near])
    if store is None or vectors is None:
        return None
    *_, features = served.pipe.calibrator_.queries(outputs).values()
    here: BoolArray = np.logical_not(np.isnan(vectors).any(axis=1))  # an example may be removed at this very moment
    places, shown = project(np.vstack((store.normalized(features[row : row + 1]), vectors[here])))
    there = [neighbor for neighbor, found in zip(near, here.tolist(), strict=True) if found]
    points = [
        {"id": n["id"], "label": n["label"], "agrees": n["agrees"], "x": x, "y": y}
        for n, (x, y) in zip(there, places[1:].tolist(), strict=True)
    ]
    return {"x": float(places[0, 0]), "y": float(places[0, 1]), "points": points, "shown": shown}
