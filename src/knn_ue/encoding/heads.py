"""A Hugging Face classifier and the head that stands in for its last layer."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from knn_ue.encoding.inspection import base_prefix, last_linear
from knn_ue.errors import InvalidInputError
from knn_ue.tasks import Task

if TYPE_CHECKING:
    from knn_ue.heads.base import Head

_PLACE = "knn_ue_head"  # the attribute: a part of the model, so that it moves, trains and is copied with it
_NOTE = "knn_ue"  # the entry of config.json, which travels with the model wherever it is copied


def attach_head(model: Any, head: "Head") -> None:
    """Let the model give what its last layer would have read, and let the head make the logits of it."""
    from torch.nn import Identity

    linear = last_linear(model)
    reads, n_classes = head.in_features, head.options["n_classes"]
    if (reads, n_classes) != (linear.in_features, linear.out_features):
        raise InvalidInputError(
            f"the head reads {reads} numbers and has {n_classes} classes, the model gives {linear.in_features} and has "
            f"{linear.out_features}: restore the head that was saved with this model, or train again"
        )
    name = next(name for name, module in model.named_modules() if module is linear)
    model.set_submodule(name, Identity())
    setattr(model, _PLACE, head)


def head_of(model: Any) -> "Head | None":
    """Return the head attached to the model, None where its own last layer makes the logits."""
    head: Head | None = getattr(model, _PLACE, None)
    return head


def pooler_layers(model: Any) -> list[Any]:
    """Return the linear layers between the last hidden state and the last layer: none in most taggers."""
    from torch.nn import Linear

    inside = base_prefix(model)
    last = last_linear(model)
    return [
        module
        for name, module in model.named_modules()
        if isinstance(module, Linear)
        and module is not last
        # ALBERT's pooler is a linear layer itself, others' contain one.
        and (not name.startswith(inside) or f"{name}.".startswith(f"{inside}pooler."))
    ]


def note_training(model: Any, name: str, task: Task) -> None:
    """Record in the model's configuration how and for what it was trained, and whether it has a head of ours."""
    setattr(model.config, _NOTE, {"training": name, "task": task, "head": head_of(model) is not None})


def training_of(config: Any) -> str:
    """Return how the model was trained; "plain" where nothing is recorded, as for any model of somebody else."""
    return str(_note(config).get("training", "plain"))


def noted_task(config: Any) -> str | None:
    """Return what the model was trained for, None where nothing is recorded."""
    found = _note(config).get("task")
    return None if found is None else str(found)


def has_saved_head(config: Any) -> bool:
    """Return whether a head of ours was saved beside the model."""
    return bool(_note(config).get("head"))


def save_model(folder: Path, model: Any) -> None:
    """Write the plain Hugging Face files and, where there is one, the head."""
    head = head_of(model)
    if head is None:
        model.save_pretrained(folder)
        return
    from knn_ue.heads.files import save_head

    state = {name: value for name, value in model.state_dict().items() if not name.startswith(f"{_PLACE}.")}
    model.save_pretrained(folder, state_dict=state)
    save_head(folder, head)


def _note(config: Any) -> dict[str, Any]:
    note = getattr(config, _NOTE, None)
    return note if isinstance(note, dict) else {}
