"""The encoders that a UE folder may name: a kind -> the class that opens it again."""

from knn_ue.encoding.contract import Encoder, EncoderPart
from knn_ue.encoding.huggingface import HuggingFaceEncoder
from knn_ue.errors import StorageError

ENCODERS: dict[str, type[Encoder]] = {HuggingFaceEncoder.kind: HuggingFaceEncoder}


def open_encoder(part: EncoderPart, *, device: str, trust_remote_code: bool) -> Encoder:
    """Open the encoder of a UE folder."""
    if part.kind not in ENCODERS:
        raise StorageError(
            f"{part.where} was made with an encoder of the kind {part.kind!r}, known are {', '.join(ENCODERS)}: import "
            "the module that registers it, or upgrade knn-ue"
        )
    return ENCODERS[part.kind].from_part(part, device=device, trust_remote_code=trust_remote_code)
