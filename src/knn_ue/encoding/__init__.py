"""Rows -> Outputs: `huggingface.HuggingFaceEncoder` runs the model; nothing here loads torch when imported."""

from knn_ue.encoding.inputs import TASKS, Example, Task, read_example, read_examples
from knn_ue.encoding.options import EncodingOptions, Pooling

__all__ = ["TASKS", "EncodingOptions", "Example", "Pooling", "Task", "read_example", "read_examples"]
