"""How much an input is like the training data; no label and no probability is read."""

from knn_ue.familiarity.familiarity import (
    ENTITIES,
    FALSE_ALARM_RATE,
    ROWS,
    SENTENCES,
    Familiarity,
    check_rate,
    conformal_p_value,
    span_means,
)
from knn_ue.familiarity.space import TrainingSpace

__all__ = [
    "ENTITIES",
    "FALSE_ALARM_RATE",
    "ROWS",
    "SENTENCES",
    "Familiarity",
    "TrainingSpace",
    "check_rate",
    "conformal_p_value",
    "span_means",
]
