"""Heads: layers that take the place of a classifier's last one where softmax(W h + b) is not the answer.

A head is saved as one safetensors file, `knn_ue_head.safetensors`, beside the plain Hugging Face files of its model. A
package that brings heads names each as an entry point of the group `knn_ue.heads`, by its kind.
"""

import json
from abc import ABC, abstractmethod
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from knn_ue.errors import MissingExtraError, StorageError

GROUP = "knn_ue.heads"
HEAD_FILE = "knn_ue_head.safetensors"


class Head(nn.Module, ABC):  # type: ignore[misc]
    """Vectors (n, in_features), one a text or tagged word, become logits (n, classes), whose softmax is the answer.

    `pools` gives the head a dense layer of its own in front, as the pooler of a text classifier is: taggers have none.
    `options` are the arguments of the constructor, numbers and booleans only, saved with the weights.
    """

    kind: ClassVar[str]

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options
        self.in_features = int(options["in_features"])
        self.pooler = _pooler(self.in_features) if options["pools"] else nn.Identity()

    def hidden(self, rows: Any) -> Any:
        """Return what the last layer reads (n, in_features): the features called "pooled"."""
        return self.pooler(rows)

    @abstractmethod
    def forward(self, hidden: Any) -> Any:
        """Return what the loss reads (n, classes)."""

    def logits(self, hidden: Any) -> Any:
        """Return (n, classes), of which the softmax is the probability."""
        return self(hidden)


def _pooler(width: int) -> nn.Sequential:
    # From the identity on, so that a tagger starts with the vectors it was pretrained to give.
    dense = nn.Linear(width, width)
    with torch.no_grad():
        dense.weight.copy_(torch.eye(width))
        dense.bias.zero_()
    return nn.Sequential(dense, nn.Tanh())


def save_head(folder: Path, head: Head) -> None:
    """Write all parameters and buffers, random features among them, and how the head was made."""
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in head.state_dict().items()}
    save_file(state, folder / HEAD_FILE, metadata={"kind": head.kind, "options": json.dumps(head.options)})


def head_class(kind: str) -> type[Head]:
    """Return the class of the heads of this kind."""
    for entry in entry_points(group=GROUP, name=kind):
        return cast("type[Head]", entry.load())
    raise MissingExtraError(
        f"a head of the kind {kind[:40]!r} makes this model's logits, and no installed package brings it: install "
        "knn-ue-lab from a clone of the repository with: pip install ./lab"
    )


def load_head(path: Path) -> Head:
    """Read a head that `save_head` wrote; its tensors must fit it exactly."""
    try:
        with safe_open(path, framework="pt") as file:
            written = file.metadata() or {}
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dict)
        with torch.device("meta"):  # nothing is drawn or allocated: all values come from the file
            head = head_class(written["kind"])(**json.loads(written["options"]))
        head.load_state_dict(state, assign=True)
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise StorageError(f"{path} is not a head written by knn-ue ({reason}): restore it, or retrain") from None
    head.eval()
    return head
