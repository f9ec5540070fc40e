"""What metrics are given, checked in one place: probabilities with labels, or confidence with correctness."""

import numpy as np

from knn_ue.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    bool_vector,
    check_not_empty,
    float_vector,
    label_vector,
    probability_matrix,
    probability_vector,
)
from knn_ue.errors import InvalidInputError

# How far above 1 the largest of float32 probabilities may round; such a confidence counts as 1.
ROUNDING = 1e-6


def checked_probs(probs: object, labels: object) -> tuple[FloatArray, IntArray]:
    """Return probabilities (n, classes) and the true classes (n,) of at least one row."""
    matrix = probability_matrix(probs, "probs")
    check_not_empty(len(matrix), "probs")
    return matrix, label_vector(labels, "labels", n_classes=matrix.shape[1], length=len(matrix))


def checked_scores(confidence: object, correct: object) -> tuple[FloatArray, BoolArray]:
    """Return scores (n,) that only rank, so that any finite number is allowed, and whether each row is correct (n,)."""
    scores = float_vector(confidence, "confidence")
    check_not_empty(len(scores), "confidence")
    return scores, bool_vector(correct, "correct", length=len(scores))


def checked_confidence(confidence: object) -> FloatArray:
    """Return confidence (n,) within [0, 1]."""
    scores = float_vector(confidence, "confidence")
    if len(scores) and 1.0 < scores.max() <= 1.0 + ROUNDING:
        scores = np.minimum(scores, 1.0)
    return probability_vector(scores, "confidence")


def top_label(probs: object, labels: object, confidence: object, correct: object) -> tuple[FloatArray, BoolArray]:
    """Return the confidence within [0, 1] in the predicted class (n,) and whether it is correct (n,), from either pair.

    The predicted class is the first maximum of a row of `probs`; where a model's answer may be another one, as with
    some calibrators, pass its confidence and whether it is correct.
    """
    arguments = {"probs": probs, "labels": labels, "confidence": confidence, "correct": correct}
    given = [name for name, value in arguments.items() if value is not None]
    if given == ["probs", "labels"]:
        matrix, truth = checked_probs(probs, labels)
        predicted = matrix.argmax(axis=1)
        top = matrix[np.arange(len(matrix)), predicted]
        return np.minimum(top, 1.0, out=top), predicted == truth
    if given == ["confidence", "correct"]:
        return checked_scores(checked_confidence(confidence), correct)
    raise InvalidInputError(
        "pass either probs= with labels= or confidence= with correct=, "
        f"got {', '.join(given) or 'none of them'}: complete one pair and drop the other"
    )
