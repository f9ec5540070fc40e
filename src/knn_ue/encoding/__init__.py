"""Examples -> Outputs: the contract is `Encoder`, `huggingface.HuggingFaceEncoder` keeps it; no torch at import."""

from knn_ue.encoding.contract import Encoder, EncoderPart
from knn_ue.encoding.inputs import Example, read_example, read_examples
from knn_ue.encoding.options import EncodingOptions, Pooling

__all__ = [
    "Encoder",
    "EncoderPart",
    "EncodingOptions",
    "Example",
    "Pooling",
    "read_example",
    "read_examples",
]
