"""The last layer of a model that reads only the first token of a text computes that token alone.

Its keys and values are still those of all tokens; everything behind its attention is of the first. It is used on CPUs,
where dropout can draw the noise of all tokens, so that training goes as it would without this, but for rounding.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from knn_ue.errors import InvalidInputError
from knn_ue.training.frozen import LayerStack, is_close, layer_stack

# Where BERT and its kin (RoBERTa, XLM-R, ELECTRA) keep what a layer is made of.
_PARTS = (
    *(f"attention.self.{name}" for name in ("query", "key", "value", "dropout", "num_attention_heads", "scaling")),
    *(f"attention.output.{name}" for name in ("dense", "dropout", "LayerNorm")),
    *(f"output.{name}" for name in ("dense", "dropout", "LayerNorm")),
    "intermediate",
)


@contextmanager
def first_token_only(model: Any, inputs: Mapping[str, Any]) -> Iterator[bool]:
    """Let the last layer compute the first token alone, and say whether it does.

    It does not on other devices, where the layer has other parts than BERT's, or where what the model says of `inputs`,
    a batch of its own, would not stay the same, as in a model that reads other tokens too.
    """
    layer = _last_layer(model)
    if layer is None or model.device.type != "cpu":
        yield False
        return
    model.eval()
    before = _answers(model, inputs)
    layer.forward = _of_first_token(layer)
    try:
        is_same = _are_close(model, inputs, before)
        if not is_same:
            del layer.forward
        yield is_same
    finally:
        layer.__dict__.pop("forward", None)  # the class has its own


def _last_layer(model: Any) -> Any | None:
    """Return the last layer if it has the parts, None elsewhere."""
    try:
        stack: LayerStack = layer_stack(model)
    except InvalidInputError:
        return None
    layer = stack.layers[-1]
    if getattr(layer, "is_decoder", False) or not all(_has(layer, name) for name in _PARTS):
        return None
    return layer


def _has(layer: Any, name: str) -> bool:
    first, _, rest = name.partition(".")
    return hasattr(layer, first) and (not rest or _has(getattr(layer, first), rest))


def _answers(model: Any, inputs: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the logits and the last state of the first token; those of a new head are small and tell little."""
    import torch

    with torch.inference_mode():
        found = model(**inputs, output_hidden_states=True)
    return found.logits, found.hidden_states[-1][:, 0]


def _are_close(model: Any, inputs: Mapping[str, Any], before: tuple[Any, Any]) -> bool:
    """Say whether the answers are as before; a layer that is given other masks than ours knows has none."""
    try:
        now = _answers(model, inputs)
    except (AttributeError, IndexError, RuntimeError, TypeError):
        return False
    return all(is_close(*both) for both in zip(before, now, strict=True))


def _of_first_token(layer: Any) -> Callable[..., Any]:
    attention, after, output = layer.attention.self, layer.attention.output, layer.output

    def forward(hidden_states: Any, attention_mask: Any = None, *_: Any, **__: Any) -> Any:
        n_texts, length, width = hidden_states.shape
        n_heads = attention.num_attention_heads
        first = hidden_states[:, :1]

        def heads(states: Any) -> Any:
            return states.view(n_texts, -1, n_heads, width // n_heads).transpose(1, 2)

        query = heads(attention.query(first)) * attention.scaling
        scores = query @ heads(attention.key(hidden_states)).transpose(-1, -2)
        if attention_mask is not None:
            mask = attention_mask[:, :, :1]
            scores = scores + mask if mask.is_floating_point() else scores.masked_fill(~mask, -math.inf)
        weights = _dropped(scores.softmax(dim=-1), attention.dropout, (n_texts, n_heads, length, length), 2)
        seen = (weights @ heads(attention.value(hidden_states))).transpose(1, 2).reshape(n_texts, 1, width)
        whole = (n_texts, length, width)
        middle = after.LayerNorm(_dropped(after.dense(seen), after.dropout, whole, 1) + first)
        return output.LayerNorm(_dropped(output.dense(layer.intermediate(middle)), output.dropout, whole, 1) + middle)

    return forward


def _dropped(values: Any, dropout: Any, whole: tuple[int, ...], dim: int) -> Any:
    """Return values of the first token after dropout, with the noise that those of all tokens, `whole`, would have."""
    if not dropout.training or dropout.p == 0:
        return values
    noise = values.new_empty(whole).bernoulli_(1 - dropout.p).div_(1 - dropout.p)
    return values * noise.narrow(dim, 0, 1)
