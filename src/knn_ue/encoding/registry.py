"""The encoders that a UE folder may name: a kind -> the class that opens it again.

A package that brings another one names it as an entry point of the group `knn_ue.encoders`; it is imported when a
folder needs it.
"""

from knn_ue.encoding.causal import CausalLMEncoder
from knn_ue.encoding.contract import Encoder
from knn_ue.encoding.given import GivenAnswers
from knn_ue.encoding.given_spans import GivenSpans
from knn_ue.encoding.huggingface import HuggingFaceEncoder

GROUP = "knn_ue.encoders"
ENCODERS: dict[str, type[Encoder]] = {
    HuggingFaceEncoder.kind: HuggingFaceEncoder,
    CausalLMEncoder.kind: CausalLMEncoder,
    GivenAnswers.kind: GivenAnswers,
    GivenSpans.kind: GivenSpans,
}
