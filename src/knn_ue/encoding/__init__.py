"""Examples -> Outputs: the contract is `Encoder`, `huggingface.HuggingFaceEncoder` keeps it; no torch at import."""

from knn_ue.encoding.contract import Encoder, EncoderPart, EncodingNames, EncodingOptions, Pooling
from knn_ue.encoding.inputs import Example, read_example, read_examples

__all__ = [
    "Encoder",
    "EncoderPart",
    "EncodingNames",
    "EncodingOptions",
    "Example",
    "Pooling",
    "read_example",
    "read_examples",
]
