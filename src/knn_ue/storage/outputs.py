"""`Outputs` <-> the arrays of a folder, for all who keep them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from knn_ue.storage.tensors import PackedTexts
from knn_ue.types import Outputs

Arrays = dict[str, npt.NDArray[Any]]
_LAYER = "layers."
_WORD = "word"
_OPTIONAL = ("features", "labels", "views", "decoded", "groups")


def outputs_to_arrays(outputs: Outputs) -> Arrays:
    """Return the arrays to store; the class names are for the folder's options."""
    arrays: Arrays = {"logits": outputs.logits}
    arrays |= {name: values for name in _OPTIONAL if (values := getattr(outputs, name)) is not None}
    arrays |= {f"{_LAYER}{number}": layer for number, layer in enumerate(outputs.layers or ())}
    if outputs.pairs is not None:  # one after the other, since texts shows them joined
        arrays |= PackedTexts.pack([text for pair in outputs.pairs for text in pair]).to_arrays()
    elif outputs.texts is not None:
        arrays |= PackedTexts.pack(outputs.texts).to_arrays()
    if outputs.words is not None:
        arrays |= PackedTexts.pack(outputs.words).to_arrays(_WORD)
    return arrays


def outputs_from_arrays(arrays: Mapping[str, npt.NDArray[Any]], class_names: Sequence[str] | None) -> Outputs:
    """Return what `outputs_to_arrays` stored; ValueError or KeyError where it is not that. Other arrays are ignored."""
    n_layers = sum(name.startswith(_LAYER) for name in arrays)
    packed = PackedTexts.from_arrays(dict(arrays)) if "text_ends" in arrays else ()
    texts = [text or "" for text in packed]
    words = PackedTexts.from_arrays(dict(arrays), _WORD) if f"{_WORD}_ends" in arrays else None
    paired = 0 < len(texts) == 2 * len(arrays["logits"])
    return Outputs(
        logits=arrays["logits"],
        **{name: arrays.get(name) for name in _OPTIONAL},
        layers=[arrays[f"{_LAYER}{number}"] for number in range(n_layers)] or None,
        class_names=class_names,
        texts=None if paired else texts or None,
        pairs=list(zip(texts[::2], texts[1::2], strict=True)) if paired else None,
        words=None if words is None else [word or "" for word in words],
    )
