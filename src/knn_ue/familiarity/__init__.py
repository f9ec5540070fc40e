"""How much an input is like the training data; no label and no probability is read."""

from knn_ue.familiarity.familiarity import FALSE_ALARM_RATE, Familiarity, check_rate, conformal_p_value, span_means
from knn_ue.familiarity.space import TrainingSpace

__all__ = ["FALSE_ALARM_RATE", "Familiarity", "TrainingSpace", "check_rate", "conformal_p_value", "span_means"]
