"""What a Hugging Face model says about itself, and the head of ours that may stand in for its last layer."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from knn_ue.errors import InvalidInputError
from knn_ue.tasks import TASKS, Task

if TYPE_CHECKING:
    from knn_ue.encoding.heads import Head

Pooling = Literal["cls", "last", "mean", "cls+mean", "pooled"]

_DEFAULT_MAX_LENGTH = 512
_IN_BOTH_CASES = "The Apple of Oslo ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def saved_names(config: Any) -> tuple[str, ...]:
    """Return the names a configuration has for its outputs, by number: files may list "10" before "2"."""
    return tuple(str(config.id2label[number]) for number in sorted(config.id2label))


def class_names_of(config: Any) -> tuple[str, ...]:
    """Return the names of the classes in the order of the logits."""
    names = saved_names(config)
    if len(names) < 2:
        raise InvalidInputError(f"the model has {len(names)} output, a regression: it must have at least 2 classes")
    if config.problem_type == "multi_label_classification":
        raise InvalidInputError("the model is multi-label: only one label per input is supported")
    return names


def max_length_of(model: Any, tokenizer: Any, wanted: int | None) -> int:
    """Return `wanted`, or what the model can read if that is less; None is what it was made for, at most 512."""
    # DeBERTa has none: positions are differences, without an end.
    relative = getattr(model.config, "relative_attention", False)
    limit = None if relative else getattr(model.config, "max_position_embeddings", None) or None
    for name, module in model.named_modules():
        if name.endswith("embeddings.position_embeddings") and hasattr(module, "num_embeddings"):
            # RoBERTa numbers its positions from the padding number + 1.
            limit = module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1)
            break
    if wanted is None:
        return int(min(_DEFAULT_MAX_LENGTH, tokenizer.model_max_length, limit or _DEFAULT_MAX_LENGTH))
    return wanted if limit is None else int(min(wanted, limit))


def check_layer(config: Any, layer: int) -> None:
    """Raise unless the model has the layer; 0 is the embeddings, negative numbers count from the end."""
    if not -config.num_hidden_layers - 1 <= layer <= config.num_hidden_layers:
        raise InvalidInputError(
            f"layer={layer} does not exist: the model has layers 1 to {config.num_hidden_layers}, and 0, the embeddings"
        )


def is_decoder_only(config: Any) -> bool:
    """Return whether a token sees only those before it, as in GPT-2 and Llama: the last one knows the whole text."""
    from transformers.models.auto import modeling_auto as auto

    if getattr(config, "is_encoder_decoder", False):
        return False
    causal = config.model_type in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    masked = config.model_type in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    return bool(getattr(config, "is_decoder", False)) or (causal and not masked)


def find_pooling(model: Any, tokenizer: Any, given: Pooling | None, *, task: Task) -> Pooling:
    """Return the pooling to use for a model; raise where `given` would give every text, or word, the same features."""
    if TASKS[task].is_tagging:
        if given in ("last", "mean", "cls+mean"):
            raise InvalidInputError(
                f'pooling="{given}" is for whole texts; a tagged word is represented by its first sub-word: '
                'use pooling="cls" or "pooled"'
            )
        return given or "cls"
    special: list[int] = tokenizer("")["input_ids"]
    has_cls = tokenizer.cls_token_id is not None and tokenizer.cls_token_id in special
    # XLNet writes CLS at the end, where even a decoder has seen the text.
    sees_text = has_cls and (not is_decoder_only(model.config) or special[-1] == tokenizer.cls_token_id)
    if given in ("cls", "cls+mean") and not sees_text:
        why = "its first token sees no other one" if is_decoder_only(model.config) else "it has no CLS token"
        raise InvalidInputError(f'pooling="{given}" does not work with this model, {why}: use pooling="last" or "mean"')
    if given is not None or not sees_text:
        return given or "last"
    return "cls" if TASKS[task].is_pair else "cls+mean"


def ignores_case(tokenizer: Any) -> bool:
    """Return whether the tokenizer reads capital and small letters alike."""
    return bool(tokenizer.tokenize(_IN_BOTH_CASES) == tokenizer.tokenize(_IN_BOTH_CASES.lower()))


def padding_id_of(config: Any) -> int | None:
    """Return the token number that the model takes for padding, which decides where a decoder classifies."""
    found: int | None = config.get_text_config().pad_token_id
    return found


def position_reader(model: Any, tokenizer: Any, pooling: Pooling, *, tagging: bool) -> Callable[[Sequence[int]], int]:
    """Return what finds, in the token numbers of a text, the one at which its row is read."""
    if pooling == "last":
        return lambda ids: len(ids) - 1
    if pooling == "pooled" and not tagging and is_decoder_only(model.config):
        pad_id = padding_id_of(model.config)
        # As the models of transformers do it: the rightmost token that is not padding.
        return lambda ids: max((place for place, number in enumerate(ids) if number != pad_id), default=0)
    cls_id = tokenizer.cls_token_id
    return lambda ids: ids.index(cls_id) if cls_id in ids else 0


def base_prefix(model: Any) -> str:
    """Return how the names of the layers below the head begin."""
    return f"{model.base_model_prefix}."


def last_linear(model: Any) -> Any:
    """Return the linear layer of the head that makes the logits."""
    inside = base_prefix(model)
    n_classes = len(model.config.id2label)
    found = [
        module
        for name, module in model.named_modules()
        if not name.startswith(inside) and getattr(module, "out_features", None) == n_classes
    ]
    if not found:
        raise InvalidInputError(
            f"{type(model).__name__} has no linear layer that makes its {n_classes} logits: use another pooling"
        )
    return found[-1]


@contextmanager
def captured_input(module: Any) -> Iterator[list[Any]]:
    """Collect what `module` reads while the block runs; nothing where it is None."""
    seen: list[Any] = []
    if module is None:
        yield seen
        return
    hook = module.register_forward_pre_hook(lambda _module, arguments: seen.append(arguments[0]))
    try:
        yield seen
    finally:
        hook.remove()


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
            f"{linear.out_features}: restore the head that was saved with this model, or retrain"
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


def save_model(folder: Path, model: Any) -> None:
    """Write the plain Hugging Face files and, where there is one, the head."""
    head = head_of(model)
    if head is None:
        model.save_pretrained(folder)
        return
    from knn_ue.encoding.heads import save_head

    state = {name: value for name, value in model.state_dict().items() if not name.startswith(f"{_PLACE}.")}
    model.save_pretrained(folder, state_dict=state)
    save_head(folder, head)


def note_of(config: Any) -> dict[str, Any]:
    """Return what `note_training` recorded, nothing for a model of somebody else."""
    note = getattr(config, _NOTE, None)
    return note if isinstance(note, dict) else {}
