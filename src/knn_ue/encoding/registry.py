"""The encoders that a UE folder may name: a kind -> the class that opens it again.

A package that brings another one names it as an entry point of the group `knn_ue.encoders`; it is imported when a
folder needs it.
"""

from importlib.metadata import entry_points

from knn_ue.encoding.causal import CausalLMEncoder
from knn_ue.encoding.contract import Encoder, EncoderPart
from knn_ue.encoding.huggingface import HuggingFaceEncoder
from knn_ue.errors import StorageError

GROUP = "knn_ue.encoders"
ENCODERS: dict[str, type[Encoder]] = {
    HuggingFaceEncoder.kind: HuggingFaceEncoder,
    CausalLMEncoder.kind: CausalLMEncoder,
}


def open_encoder(part: EncoderPart, *, device: str, trust_remote_code: bool) -> Encoder:
    """Open the encoder of a UE folder."""
    for entry in entry_points(group=GROUP, name=part.kind):
        ENCODERS.setdefault(part.kind, entry.load())
    if part.kind not in ENCODERS:
        raise StorageError(
            f"{part.where} was made with an encoder of the kind {part.kind!r}, known are {', '.join(ENCODERS)}: import "
            "the module that registers it, or upgrade knn-ue"
        )
    return ENCODERS[part.kind].from_part(part, device=device, trust_remote_code=trust_remote_code)
