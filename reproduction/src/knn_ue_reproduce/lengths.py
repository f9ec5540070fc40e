"""How well the number of words alone tells texts of other sets: a detector that reads nothing should find little."""

from collections.abc import Sequence

import numpy as np

from knn_ue.arrays import FloatArray
from knn_ue.data import PairRow, Row, TextRow
from knn_ue.metrics.detection import ood_measure
from knn_ue.tasks import TASKS
from knn_ue_reproduce.setups import Setup
from knn_ue_reproduce.task_data import TaskData

# By setup and test set, in percent.
LengthAurocs = dict[tuple[str, str], float]


def length_aurocs(setup: Setup, data: TaskData) -> LengthAurocs:
    """Return the AUROC of OOD detection by the number of words, of each set that is not in domain; none in tagging."""
    if TASKS[setup.task].is_tagging:
        return {}
    inside = familiar_length(data.train, data.sets[setup.sets[0].name].rows)
    return {
        (setup.name, one.name): 100 * auroc
        for one in setup.sets
        if one.role in ("out", "outside") and data.sets[one.name].rows
        for auroc in [
            ood_measure(
                "auroc", id_confidence=inside, ood_confidence=familiar_length(data.train, data.sets[one.name].rows)
            )
        ]
    }


def familiar_length(train: Sequence[Row], rows: Sequence[Row]) -> FloatArray:
    """Return the share of training rows (n,) whose length is as unusual as that of each row, or more.

    >>> train = [TextRow("a b", "x"), TextRow("a b c", "x"), TextRow("a b c d", "x")]
    >>> familiar_length(train, [TextRow("a b c", "x"), TextRow("a", "x")]).tolist()
    [1.0, 0.0]
    """
    known = np.sort([_n_words(row) for row in train])
    lengths = np.array([_n_words(row) for row in rows])
    shorter = np.searchsorted(known, lengths, side="right") / len(known)
    longer = 1 - np.searchsorted(known, lengths, side="left") / len(known)
    shares: FloatArray = np.minimum(1.0, 2 * np.minimum(shorter, longer))
    return shares


def _n_words(row: Row) -> int:
    if isinstance(row, PairRow):
        return len(row.premise.split()) + len(row.hypothesis.split())
    assert isinstance(row, TextRow)
    return len(row.text.split())
