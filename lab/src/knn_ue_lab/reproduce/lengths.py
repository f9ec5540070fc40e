"""How well the number of words alone tells texts of other sets: a detector that reads nothing should find little."""

from collections.abc import Sequence

import numpy as np

from knn_ue.arrays import FloatArray, IntArray
from knn_ue.data import PairRow, Row, TextRow
from knn_ue.metrics.detection import ood_measure
from knn_ue.tasks import TASKS
from knn_ue_lab.reproduce.setups import Setup
from knn_ue_lab.reproduce.task_data import TaskData

# By setup and test set, in percent.
LengthAurocs = dict[tuple[str, str], float]


def length_aurocs(setup: Setup, data: TaskData) -> LengthAurocs:
    """Return the AUROC of OOD detection by the number of words, of each set that is not in domain; none in tagging.

    The direction (an unusual, a smaller or a larger number) is the best one on the test set itself, so this is an upper
    bound of what a detector could do by length.
    """
    if TASKS[setup.task].is_tagging:
        return {}
    known, inside = (_lengths(rows) for rows in (data.train, data.sets[setup.sets[0].name].rows))
    return {
        (setup.name, one.name): 100 * best_auroc(known, inside, _lengths(data.sets[one.name].rows))
        for one in setup.sets
        if one.role in ("out", "outside") and data.sets[one.name].rows
    }


def best_auroc(known: IntArray, inside: IntArray, outside: IntArray) -> float:
    """Return how well lengths tell the inside from the outside, in the best direction; `known` are those of training.

    >>> best_auroc(np.array([5, 6, 7]), np.array([5, 6]), np.array([9, 9]))
    1.0
    """
    scores = (lambda lengths: usual_length(known, lengths), lambda lengths: lengths, lambda lengths: -lengths)
    return max(ood_measure("auroc", id_confidence=score(inside), ood_confidence=score(outside)) for score in scores)


def usual_length(known: IntArray, lengths: IntArray) -> FloatArray:
    """Return the share of the `known` lengths that are as unusual as each of `lengths` (n,), or more.

    >>> usual_length(np.array([2, 3, 4]), np.array([3, 1])).tolist()
    [1.0, 0.0]
    """
    ordered = np.sort(known)
    shorter = np.searchsorted(ordered, lengths, side="right") / len(ordered)
    longer = 1 - np.searchsorted(ordered, lengths, side="left") / len(ordered)
    shares: FloatArray = np.minimum(1.0, 2 * np.minimum(shorter, longer))
    return shares


def _lengths(rows: Sequence[Row]) -> IntArray:
    return np.array([_n_words(row) for row in rows], dtype=np.int64)


def _n_words(row: Row) -> int:
    if isinstance(row, PairRow):
        return len(row.premise.split()) + len(row.hypothesis.split())
    assert isinstance(row, TextRow)
    return len(row.text.split())
