"""Where labeled text comes from: files, named sources and the paper's sets -> rows."""

from knn_ue.data.columns import Columns
from knn_ue.data.faults import Skipped
from knn_ue.data.lines import Limits
from knn_ue.data.presets import PAPER_SETS, PaperSet, PaperSplit, read_paper
from knn_ue.data.readers import read_rows
from knn_ue.data.rows import PairRow, Row, TaggedRow, TextRow, without_label
from knn_ue.data.splits import split_rows
from knn_ue.data.tags import TagScheme, convert_tags
from knn_ue.data.vader import cache_folder, read_vader
from knn_ue.tasks import Task

__all__ = [
    "PAPER_SETS",
    "Columns",
    "Limits",
    "PairRow",
    "PaperSet",
    "PaperSplit",
    "Row",
    "Skipped",
    "TagScheme",
    "TaggedRow",
    "Task",
    "TextRow",
    "cache_folder",
    "convert_tags",
    "read_paper",
    "read_rows",
    "read_vader",
    "split_rows",
    "without_label",
]
