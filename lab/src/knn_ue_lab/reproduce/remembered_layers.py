"""Frozen layers read a batch once: what they said of it is kept for the models of other seeds and methods.

Most of the time of encoding goes into layers that no training changes. A layer is a function of its weights and its
inputs, so its answer is kept under the bits of both, and a layer that was changed never finds the answer of another.
"""

import hashlib
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from knn_ue.folder import write_file
from knn_ue.training.frozen import layer_stack


@contextmanager
def remembered(model: Any, *, n_layers: int, folder: Path) -> Iterator[None]:
    """Let the lowest `n_layers` of a model return what is kept in `folder` of the same weights and inputs.

    What they have not seen is computed and kept; where the bits of an input cannot be read, it is only computed.
    Dropout must be off.
    """
    import torch

    layers = layer_stack(model).layers[:n_layers]
    folder.mkdir(parents=True, exist_ok=True)
    for layer in layers:
        start = hashlib.blake2b(str(torch.get_num_threads()).encode(), digest_size=16)
        for name, weights in layer.state_dict().items():
            _update(start, name, weights)
        layer.forward = _remembering(layer.forward, start, folder)
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward  # the class has its own


def _remembering(compute: Callable[..., Any], start: Any, folder: Path) -> Callable[..., Any]:
    def forward(*inputs: Any, **named: Any) -> Any:
        key = start.copy()
        try:
            for name, value in (*enumerate(inputs), *sorted(named.items())):
                _update(key, str(name), value)
        except TypeError:
            return compute(*inputs, **named)
        path = folder / key.hexdigest()
        known = _read(path)
        if known is not None:
            return known
        said = compute(*inputs, **named)
        _write(path, said)
        return said

    return forward


# A layer returns its states or, in some families, a tuple of states and None: the ending tells how long, 0 for none.
_ENDINGS = (".npy", ".1.npy", ".2.npy")


def _read(path: Path) -> Any | None:
    """Return what is kept under a path, None where it was never written or was cut short by a full disk."""
    import torch

    for length, ending in enumerate(_ENDINGS):
        try:
            states = torch.from_numpy(np.load(path.with_suffix(ending), allow_pickle=False))
        except (OSError, ValueError, EOFError):
            continue
        return (states, *[None] * (length - 1)) if length else states
    return None


def _write(path: Path, said: Any) -> None:
    """Keep what a layer said, if it is of a kind that can be read again."""
    import torch

    states, *others = said if isinstance(said, tuple) else (said,)
    length = len(said) if isinstance(said, tuple) else 0
    if length >= len(_ENDINGS) or any(other is not None for other in others) or states.dtype != torch.float32:
        return
    content = io.BytesIO()
    np.save(content, states.numpy(), allow_pickle=False)
    write_file(path.with_suffix(_ENDINGS[length]), content.getvalue())


def _update(key: Any, name: str, value: Any) -> None:
    """Add an input to a key: the bits of a tensor, the words of a plain value, or several; TypeError for others."""
    import torch

    if isinstance(value, torch.Tensor):
        bits = value.detach().contiguous()
        key.update(f"{name} {bits.dtype} {tuple(bits.shape)}".encode())
        key.update(bits.numpy().reshape(-1).view(np.uint8).data)
    elif value is None or isinstance(value, bool | int | float | str):
        key.update(f"{name} {value!r}".encode())
    elif isinstance(value, tuple):
        key.update(f"{name} {len(value)}".encode())
        for number, one in enumerate(value):
            _update(key, f"{name}.{number}", one)
    else:
        raise TypeError(f"the input {name} of a layer is a {type(value).__name__}: neither a tensor nor plain")
