"""Where a method that trains differently plugs in: the model it makes and the loss it lowers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from knn_ue.encoding.huggingface import load_model
from knn_ue.encoding.inputs import Task

# (path or hub name, task, class names, trust_remote_code) -> a transformers model
ModelFactory = Callable[[str | Path, Task, tuple[str, ...], bool], Any]
# (logits (m, classes), labels (m,), the share of training that is done) -> a scalar tensor; m counts labelled rows only
Loss = Callable[[Any, Any, float], Any]


def load_classifier(path: str | Path, task: Task, class_names: tuple[str, ...], trust_remote_code: bool) -> Any:
    """Load the encoder with a head for the classes, new where the saved one does not fit."""
    model, _ = load_model(path, task, class_names=class_names, trust_remote_code=trust_remote_code)
    return model


def cross_entropy(logits: Any, labels: Any, _done: float) -> Any:
    """Return the mean negative log likelihood."""
    from torch.nn import functional

    return functional.cross_entropy(logits, labels)


@dataclass(frozen=True, kw_only=True)
class TrainingMethod:
    """How a method trains: its `name` is recorded with the model; `callbacks` are transformers `TrainerCallback`s.

    The model that `make_model` returns must answer `output_hidden_states=True` and give `logits`.
    """

    name: str = "plain"
    make_model: ModelFactory = load_classifier
    loss: Loss = cross_entropy
    callbacks: tuple[Any, ...] = field(default=())


PLAIN = TrainingMethod()
