"""Words and their neighbors -> how sure one may be of each entity, of a whole sentence, and that nothing was missed."""

from knn_ue.answers import EntityExplanation
from knn_ue.entities.evidence import INGREDIENTS, EntityEvidence
from knn_ue.entities.missed import find_missed, hidden_words, share_right
from knn_ue.entities.model import (
    EntityModel,
    SentenceReading,
    all_right,
    fit_entity_model,
    fit_entity_scores,
    fit_whole,
    whole_scores,
)
from knn_ue.entities.spans import Spans, TagSet, find_entities, is_tagged

__all__ = [
    "INGREDIENTS",
    "EntityEvidence",
    "EntityExplanation",
    "EntityModel",
    "SentenceReading",
    "Spans",
    "TagSet",
    "all_right",
    "find_entities",
    "find_missed",
    "fit_entity_model",
    "fit_entity_scores",
    "fit_whole",
    "hidden_words",
    "is_tagged",
    "share_right",
    "whole_scores",
]
