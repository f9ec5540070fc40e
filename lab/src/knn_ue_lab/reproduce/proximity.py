"""How near the rows of a test set are to validation rows: what PIECE groups answers by. Xiong et al. (2023).

All methods of one model see the same rows, so that the proximity of a set is computed once for each model, and kept.
"""

from dataclasses import replace

import numpy as np

from knn_ue.arrays import FloatArray
from knn_ue.demo.cache import key_of
from knn_ue.entities import find_entities
from knn_ue.familiarity import span_means
from knn_ue.types import Outputs, Prediction
from knn_ue_lab.calibrators import ProximityCalibration
from knn_ue_lab.reproduce.answers import Answers, answers_of
from knn_ue_lab.reproduce.cells import CellName
from knn_ue_lab.reproduce.task_data import SetRows
from knn_ue_lab.reproduce.task_runner import TaskRunner
from knn_ue_lab.reproduce.variants import PASSES, MethodVariant

_MOST = 2000  # validation rows to be near to: in tagging there are many thousand words


def row_proximity(runner: TaskRunner, variant: MethodVariant, seed: int, part: str) -> FloatArray | None:
    """Return the proximity of the rows (n,) of a test set, words in tagging; None where the model has no features.

    mc-dropout, whose features are those of many passes, has none.
    """
    if variant.method == PASSES:
        return None
    model = runner.model_name(runner.training_of(variant), seed)
    key = key_of(model.key, runner.data.scores_key, runner.encoding_of(variant), _MOST)
    name = CellName(runner.setup.name, f"proximity.seed{seed}", key)
    with runner.store.reserved(key_of(key, part), wait=True):
        kept = runner.store.read_arrays(name, part)
        if kept is not None:
            return kept["proximity"]
        fitting, outputs = (runner.outputs(variant, seed, one) for one in ("fitting", part))
        if fitting.features is None or outputs.features is None:
            return None
        near = ProximityCalibration().fit(fitting.take(np.arange(min(_MOST, len(fitting)))))
        proximity = near.proximity(outputs).astype(np.float32)
        runner.store.write_arrays(name, part, {"proximity": proximity})
    return proximity


def with_proximity(
    answers: Answers, outputs: Outputs, prediction: Prediction, rows: SetRows, proximity: FloatArray | None
) -> Answers:
    """Return the answers with the proximity of the text of each, or the mean over the words of each entity."""
    if proximity is None or answers.correct is None:
        return answers
    if outputs.groups is None:
        return replace(answers, proximity=proximity)
    spans = find_entities(outputs, prediction.predicted)
    factors = np.ones(len(outputs))
    factors[spans.first] = span_means(proximity, spans.first, spans.last + 1)
    # Entities in the same order, each with its own number in place of a confidence.
    return replace(answers, proximity=answers_of(outputs, prediction, rows, factors).confidence)
