"""A head <-> one safetensors file, `knn_ue_head.safetensors`, beside the plain Hugging Face files of its model."""

import json
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from knn_ue.errors import StorageError
from knn_ue.heads.base import Head
from knn_ue.heads.evidential import EvidentialHead
from knn_ue.heads.gaussian_process import GaussianProcessHead
from knn_ue.heads.posterior import PosteriorHead
from knn_ue.heads.spectral import SpectralHead

HEAD_FILE = "knn_ue_head.safetensors"
HEADS: dict[str, type[Head]] = {
    head.kind: head for head in (SpectralHead, GaussianProcessHead, PosteriorHead, EvidentialHead)
}


def save_head(folder: Path, head: Head) -> None:
    """Write all parameters and buffers, random features among them, and how the head was made."""
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in head.state_dict().items()}
    save_file(state, folder / HEAD_FILE, metadata={"kind": head.kind, "options": json.dumps(head.options)})


def load_head(path: Path) -> Head:
    """Read a head that `save_head` wrote; its tensors must fit it exactly."""
    try:
        with safe_open(path, framework="pt") as file:
            written = file.metadata() or {}
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dict)
        with torch.device("meta"):  # nothing is drawn or allocated: all values come from the file
            head = HEADS[written["kind"]](**json.loads(written["options"]))
        head.load_state_dict(state, assign=True)
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise StorageError(f"{path} is not a head written by knn-ue ({reason}): restore it, or retrain") from None
    head.eval()
    return head
