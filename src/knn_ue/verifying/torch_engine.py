"""PyTorch as the engine of a reader, for encoders that come without ONNX."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from knn_ue.arrays import FloatArray, IntArray
from knn_ue.errors import InvalidInputError, require


class TorchEngine:
    """Runs the encoder in a folder of Hugging Face; weights are safetensors only."""

    def __init__(self, folder: Path, *, device: str = "cpu") -> None:
        for module in ("torch", "transformers"):
            require(module, extra="hf", purpose="a reader without ONNX")
        from transformers import AutoModel

        try:
            with _without_progress():
                self._model = AutoModel.from_pretrained(folder, use_safetensors=True, local_files_only=True).eval()
        except (OSError, ValueError) as error:
            raise InvalidInputError(f"the encoder in {folder} cannot be opened ({error}): pass another") from None
        self._model.to(device)
        self._device = device

    def states(self, ids: IntArray, mask: IntArray, layers: tuple[int, ...] | None) -> list[FloatArray]:
        """Return the states (batch, pieces, d) after each of these layers, counted from 1; None is the last one."""
        import torch

        given = {"input_ids": ids, "attention_mask": mask}
        with torch.inference_mode():
            tensors = {name: torch.from_numpy(array).to(self._device) for name, array in given.items()}
            found = self._model(**tensors, output_hidden_states=layers is not None)
        if layers is None:
            return [found.last_hidden_state.float().cpu().numpy()]
        states = found.hidden_states
        if max(layers) >= len(states) or min(layers) < 1:
            raise InvalidInputError(f"the reader has the layers 1 to {len(states) - 1}, got {layers}: pass one of them")
        return [np.asarray(states[layer].float().cpu().numpy()) for layer in layers]


@contextmanager
def _without_progress() -> Iterator[None]:
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
