"""Layers that do not learn run once: what they say of each training piece is kept, and epochs begin above them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from knn_ue.arrays import IntArray
from knn_ue.encoding.forward import ForwardPass, Piece
from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.folder import Part, open_folder, write_folder

_KIND = "frozen-states"
_BATCH = 32
_CLOSE = 1e-3  # float32 sums in another order; a wrong cut is off by more than 0.1


class LayerStack:
    """Where a model keeps its layers: `module` holds them as a ModuleList under the name `name`."""

    def __init__(self, module: Any, name: str) -> None:
        self.module, self.name = module, name

    @property
    def layers(self) -> list[Any]:
        """The layers, from below."""
        return list(getattr(self.module, self.name))

    @contextmanager
    def only(self, layers: Sequence[Any]) -> Iterator[None]:
        """Let the model have these layers alone."""
        from torch import nn

        before = getattr(self.module, self.name)
        setattr(self.module, self.name, nn.ModuleList(layers))
        try:
            yield
        finally:
            setattr(self.module, self.name, before)


def layer_stack(model: Any) -> LayerStack:
    """Return where the layers of a transformer are; raise where they cannot be found."""
    for module in model.base_model.modules():
        for name, child in module.named_children():
            if type(child).__name__ == "ModuleList" and len(child) == model.config.num_hidden_layers:
                return LayerStack(module, name)
    raise InvalidInputError(f"the layers of {type(model).__name__} cannot be found: train with freeze_lower=0")


def n_frozen_layers(model: Any, share: float) -> int:
    """Return how many of the layers, from below, the share `freeze_lower` keeps as they are."""
    return round(share * len(layer_stack(model).layers))


def is_close(first: Any, second: Any) -> bool:
    """Say whether two tensors of answers are the same but for rounding."""
    return float((first - second).abs().max()) <= _CLOSE * max(1.0, float(first.abs().max()))


class FrozenStates:
    """The states (length, width) that the `n_frozen` lowest layers give each piece, without dropout.

    Within `feeding` the model begins with these states instead of its embeddings and lower layers. A model whose
    layers read more than the states of the layer below gives other answers then: it is refused. States are kept in the
    folder `kept`, if it is given, for the next training that begins with the same layers and pieces; where what it
    holds is not what the layers say of some of them, they are asked again.
    """

    def __init__(
        self, forward: ForwardPass, pieces: Sequence[Piece], *, n_frozen: int, kept: Path | None = None
    ) -> None:
        model = forward.model
        self._model, self._inputs = model, forward.inputs_of
        self._stack = layer_stack(model)
        self._lower, self._upper = self._stack.layers[:n_frozen], self._stack.layers[n_frozen:]
        if not self._lower or not self._upper or not hasattr(model.base_model, "embeddings"):
            raise InvalidInputError(
                f"{n_frozen} frozen layers of {len(self._stack.layers)} leave nothing to keep between epochs: "
                "train with reuse_frozen=False"
            )
        order = sorted(range(len(pieces)), key=lambda number: -len(pieces[number]))
        self._batches = [order[start : start + _BATCH] for start in range(0, len(order), _BATCH)]
        model.eval()
        known = _read(kept)
        self._states = [] if known is None else self._matching(pieces, known)
        if not self._states:
            made = dict(pair for numbers in self._batches for pair in self._asked(pieces, numbers).items())
            self._states = [made[number] for number in range(len(pieces))]
        if kept is not None and known is None:  # those of other layers stay: most trainings begin with them
            write_folder(kept, Part(kind=_KIND, arrays={"states": np.concatenate(self._states)}))
        self._check([pieces[i] for i in self._batches[-1]], self._batches[-1])

    @contextmanager
    def feeding(self, numbers: IntArray) -> Iterator[None]:
        """Let the model read the states of the pieces with these numbers, padded to the longest of them."""
        base = self._model.base_model
        before = base.embeddings
        base.embeddings = _given(self._padded(numbers), next(self._model.parameters()).device)
        try:
            with self._stack.only(self._upper):
                yield
        finally:
            base.embeddings = before

    def _asked(self, pieces: Sequence[Piece], numbers: Sequence[int]) -> dict[int, npt.NDArray[np.float32]]:
        """Return what the layers say of the pieces with these numbers."""
        states = self._run_lower([pieces[i] for i in numbers])
        return {i: found[: len(pieces[i])].copy() for i, found in zip(numbers, states, strict=True)}

    def _matching(self, pieces: Sequence[Piece], known: npt.NDArray[np.float32]) -> list[npt.NDArray[np.float32]]:
        """Return what was kept, piece by piece; nothing where it is not what these layers say of these pieces."""
        ends = np.cumsum([len(piece) for piece in pieces])
        if len(known) != ends[-1]:
            return []
        states = np.split(known, ends[:-1])
        for numbers in (self._batches[0], self._batches[-1]):
            if any(not np.array_equal(states[i], said) for i, said in self._asked(pieces, numbers).items()):
                return []
        return states

    def _padded(self, numbers: IntArray) -> npt.NDArray[np.float32]:
        chosen = [self._states[number] for number in numbers]
        padded = np.zeros((len(chosen), max(map(len, chosen)), chosen[0].shape[1]), np.float32)
        for row, states in enumerate(chosen):
            padded[row, : len(states)] = states
        return padded

    def _run_lower(self, pieces: Sequence[Piece]) -> npt.NDArray[np.float32]:
        import torch

        with torch.inference_mode(), self._stack.only(self._lower):
            states: npt.NDArray[np.float32] = self._model.base_model(**self._inputs(pieces))[0].float().cpu().numpy()
        return states

    def _check(self, pieces: Sequence[Piece], numbers: Sequence[int]) -> None:
        import torch

        inputs = self._inputs(pieces)
        with torch.inference_mode():
            whole = self._model(**inputs).logits
            with self.feeding(np.asarray(numbers)):
                fed = self._model(**inputs).logits
        if whole.ndim == 3:  # what a tagger says of padding means nothing
            real = inputs["attention_mask"].bool()
            whole, fed = whole[real], fed[real]
        if not is_close(whole, fed):
            raise InvalidInputError(
                f"the upper layers of {type(self._model).__name__} read more than the layer below them: "
                "train with reuse_frozen=False"
            )


def _read(kept: Path | None) -> npt.NDArray[np.float32] | None:
    """Return the states in a folder, None where there are none."""
    try:
        return None if kept is None else open_folder(kept, kind=_KIND).arrays.get("states")
    except StorageError:
        return None


def _given(states: npt.NDArray[np.float32], device: Any) -> Any:
    """Return what stands in the place of the embeddings and gives these states, whatever it is asked."""
    import torch

    class Given(torch.nn.Module):  # type: ignore[misc]
        def forward(self, *_: Any, **__: Any) -> Any:
            return torch.from_numpy(states).to(device)

    return Given()
