"""Examples -> Outputs: the contract is `Encoder`; `HuggingFaceEncoder` (a trained classifier or tagger) and
`CausalLMEncoder` (a prompted language model) keep it. No torch at import.
"""

from knn_ue.encoding.causal import CausalLMEncoder, PromptOptions
from knn_ue.encoding.contract import Encoder, EncoderPart
from knn_ue.encoding.huggingface import HuggingFaceEncoder
from knn_ue.encoding.inputs import Example, read_example, read_examples
from knn_ue.encoding.inspection import Pooling
from knn_ue.encoding.options import EncodingNames, EncodingOptions

__all__ = [
    "CausalLMEncoder",
    "Encoder",
    "EncoderPart",
    "EncodingNames",
    "EncodingOptions",
    "Example",
    "HuggingFaceEncoder",
    "Pooling",
    "PromptOptions",
    "read_example",
    "read_examples",
]
