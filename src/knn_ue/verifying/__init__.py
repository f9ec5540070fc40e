"""A small independent model that reads the same input, learns from labeled answers, and says which ones to trust."""

from knn_ue.verifying.comparison import Comparison, compare, compare_cross_fitted
from knn_ue.verifying.given import OTHER, UNSTATED, answer_numbers, n_answers_of, off_list_names
from knn_ue.verifying.instant import InstantReader
from knn_ue.verifying.labels import LabelParams, LabelVerifier, VerdictExplanation, fit_labels
from knn_ue.verifying.readers import (
    READERS,
    EmbeddingReader,
    Reader,
    WordReader,
    WordVectors,
    choose_reader,
    open_reader,
    read_inputs,
    read_outputs,
    read_pairs,
    word_reader,
)
from knn_ue.verifying.spans import SpanParams, SpanVerifier, fit_spans
from knn_ue.verifying.views import FittedView, RawView, RawViews, SparseRows, take_rows

__all__ = [
    "OTHER",
    "READERS",
    "UNSTATED",
    "Comparison",
    "EmbeddingReader",
    "FittedView",
    "InstantReader",
    "LabelParams",
    "LabelVerifier",
    "RawView",
    "RawViews",
    "Reader",
    "SpanParams",
    "SpanVerifier",
    "SparseRows",
    "VerdictExplanation",
    "WordReader",
    "WordVectors",
    "answer_numbers",
    "choose_reader",
    "compare",
    "compare_cross_fitted",
    "fit_labels",
    "fit_spans",
    "n_answers_of",
    "off_list_names",
    "open_reader",
    "read_inputs",
    "read_outputs",
    "read_pairs",
    "take_rows",
    "word_reader",
]
