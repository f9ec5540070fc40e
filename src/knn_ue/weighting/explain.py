"""Why a confidence is what it is: the weight, its two terms, and the neighbors behind them."""

import numpy as np

from knn_ue.answers import Explanation, TextsOf, nearest_examples
from knn_ue.arrays import softmax
from knn_ue.types import Neighbors, Outputs
from knn_ue.weighting.formula import Weight

_NOTABLE = 0.1  # a term within 10 % of its usual size is called usual


def explain_rows(
    outputs: Outputs,
    neighbors: Neighbors,
    weight: Weight,
    texts_of: TextsOf,
    *,
    top: int,
    typical: tuple[float, float] | None,
) -> list[Explanation]:
    """Return an explanation of each row; `typical` are the validation medians of the two terms.

    `texts_of` is asked once, for the neighbors of all rows.
    """
    names = outputs.class_names or [f"class {number}" for number in range(outputs.n_classes)]
    rows = np.arange(len(outputs))
    raw = softmax(outputs.logits)[rows, outputs.predicted]
    calibrated = softmax(outputs.logits, weight.total)[rows, outputs.predicted]
    agrees = neighbors.labels == outputs.predicted[:, None]
    shown = nearest_examples(neighbors, outputs.predicted, texts_of, names=names, top=top)
    explanations = []
    for row in rows.tolist():
        raised, lowered = _reasons(weight, row, typical, int(agrees[row].sum()), neighbors.n_neighbors)
        explanations.append(
            Explanation(
                text=None if outputs.texts is None else outputs.texts[row],
                label=names[int(outputs.predicted[row])],
                score=float(calibrated[row]),
                raw_score=float(raw[row]),
                weight=float(weight.total[row]),
                distance_term=float(weight.distance_term[row]),
                label_term=float(weight.label_term[row]),
                usual_distance_term=None if typical is None else typical[0],
                usual_label_term=None if typical is None else typical[1],
                n_agreeing=int(agrees[row].sum()),
                n_neighbors=neighbors.n_neighbors,
                raised_by=raised,
                lowered_by=lowered,
                neighbors=shown[row],
            )
        )
    return explanations


def _reasons(
    weight: Weight, row: int, typical: tuple[float, float] | None, n_agreeing: int, n_neighbors: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Name each term that is notably above or below its median on validation."""
    if typical is None:
        return (), ()
    raised, lowered = [], []
    terms = (
        (weight.distance_term[row], typical[0], "closer neighbors than usual", "more distant neighbors than usual"),
        (
            weight.label_term[row],
            typical[1],
            f"more agreement than usual ({n_agreeing} of {n_neighbors})",
            f"less agreement than usual ({n_agreeing} of {n_neighbors})",
        ),
    )
    for value, usual, above, below in terms:
        if value > usual + _NOTABLE * abs(usual):
            raised.append(above)
        elif value < usual - _NOTABLE * abs(usual):
            lowered.append(below)
    return tuple(raised), tuple(lowered)
