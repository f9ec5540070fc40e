"""Why a confidence is what it is: the weight, its two terms, and the neighbors behind them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from knn_ue.answers import Explanation, TextsOf, class_name, nearest_examples
from knn_ue.arrays import softmax
from knn_ue.reasons import percent
from knn_ue.types import Neighbors, Outputs
from knn_ue.weighting.formula import Weight

_NOTABLE = 0.02  # a term counts as a reason where it moves the weight by this share of its usual size


@dataclass(frozen=True, kw_only=True)
class Typical:
    """A typical neighborhood on validation: the medians of both terms, the weight that they give, the agreement."""

    distance_term: float
    label_term: float
    weight: float
    n_agreeing: int | None


def explain_rows(
    outputs: Outputs,
    neighbors: Neighbors,
    weight: Weight,
    texts_of: TextsOf,
    *,
    top: int,
    typical: Typical | None,
) -> list[Explanation]:
    """Return an explanation of each row; `typical` is what it is compared with, None where nothing was fitted.

    `texts_of` is asked once, for the neighbors of all rows.
    """
    names = outputs.class_names or [f"class {number}" for number in range(outputs.n_classes)]
    rows = np.arange(len(outputs))
    raw = softmax(outputs.logits)[rows, outputs.predicted]
    calibrated = softmax(outputs.logits, weight.total)[rows, outputs.predicted]
    usual = None if typical is None else np.full(len(outputs), typical.weight)
    usual_scores = calibrated if usual is None else softmax(outputs.logits, usual)[rows, outputs.predicted]
    agreeing = (neighbors.labels == outputs.predicted[:, None]).sum(axis=1).tolist()
    shown = nearest_examples(neighbors, outputs.predicted, texts_of, names=names, top=top)
    explanations = []
    for row in rows.tolist():
        score, usual_score = float(calibrated[row]), float(usual_scores[row])
        changed = percent(score) != percent(usual_score)
        raised, lowered = _reasons(weight, row, typical, f"({agreeing[row]} of {neighbors.n_neighbors})", changed)
        label = names[int(outputs.predicted[row])]
        labels = [class_name(names, number) for number in neighbors.labels[row].tolist() if number >= 0]
        explanations.append(
            Explanation(
                text=None if outputs.texts is None else outputs.texts[row],
                label=label,
                score=score,
                raw_score=float(raw[row]),
                weight=float(weight.total[row]),
                distance_term=float(weight.distance_term[row]),
                label_term=float(weight.label_term[row]),
                usual_distance_term=None if typical is None else typical.distance_term,
                usual_label_term=None if typical is None else typical.label_term,
                usual_weight=None if typical is None else typical.weight,
                usual_score=None if typical is None else usual_score,
                usual_n_agreeing=None if typical is None else typical.n_agreeing,
                n_agreeing=agreeing[row],
                n_neighbors=neighbors.n_neighbors,
                **other_majority(labels, label),
                raised_by=raised,
                lowered_by=lowered,
                neighbors=shown[row],
            )
        )
    return explanations


def other_majority(labels: Sequence[str], predicted: str) -> dict[str, Any]:
    """Return the label that is more common among the neighbors than the predicted one, and how many carry it.

    >>> other_majority(["neg", "neg", "pos"], "pos"), other_majority(["neg", "pos"], "pos")
    ({'majority_label': 'neg', 'n_majority': 2}, {})
    """
    counts = Counter(labels)
    if not counts:
        return {}
    label, count = counts.most_common(1)[0]
    return {"majority_label": label, "n_majority": count} if count > counts[predicted] else {}


def _reasons(
    weight: Weight, row: int, typical: Typical | None, count: str, changed: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Name each term that notably moves the weight away from the typical one, the stronger first.

    Where the score is `changed`, the stronger term is always named; its sign is that of the change.
    """
    if typical is None:
        return (), ()
    terms = [
        (
            weight.distance_term[row] - typical.distance_term,
            "closer neighbors than usual",
            "more distant neighbors than usual",
        ),
        (
            weight.label_term[row] - typical.label_term,
            f"more agreement than usual {count}",
            f"less agreement than usual {count}",
        ),
    ]
    terms.sort(key=lambda term: -abs(term[0]))
    least = _NOTABLE * typical.weight
    named = [term for place, term in enumerate(terms) if abs(term[0]) > least or (changed and not place)]
    raised = tuple(above for change, above, _ in named if change > 0)
    return raised, tuple(below for change, _, below in named if change < 0)
