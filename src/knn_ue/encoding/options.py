"""How a Hugging Face model reads rows: what a feature is, and how much of a text is read."""

from dataclasses import dataclass
from typing import TypedDict, get_args

from knn_ue.arrays import check_choice, check_not_empty, check_positive
from knn_ue.encoding.inspection import Pooling
from knn_ue.errors import InvalidInputError

# What is larger is a slip of the hand, or a folder that was made to take all memory or time.
_MOST = {"batch_size": 1 << 16, "passes": 10_000, "max_length": 1 << 20, "context_words": 1 << 16}


class EncodingNames(TypedDict, total=False):
    """The keyword arguments that `from_pretrained` takes for `EncodingOptions`."""

    pooling: Pooling | None
    layer: int | tuple[int, ...]
    all_layers: bool
    max_length: int | None
    batch_size: int
    context_words: int
    passes: int
    views: bool


@dataclass(frozen=True, kw_only=True)
class EncodingOptions:
    """What a feature is.

    `pooling`: "cls" (the CLS token; in tagging the first sub-word of each word), "last" (the last real token, for
    decoder-only models), "mean" (over all real tokens, the special ones among them), "cls+mean" (both, each of length
    1, side by side) or "pooled" (what the head's last linear layer reads, at the position where the model classifies).
    None is "cls+mean" for texts and "cls" for pairs and words where the model has a CLS token that sees the text, and
    "last" otherwise; the encoder's own options hold the choice. `layer` counts as `hidden_states` does: 0 the
    embeddings, 1 the first layer, -1 the final one; several are put side by side, each of length 1. `all_layers` adds
    every layer but the embeddings to `Outputs.layers`, of "cls+mean" the CLS token. `max_length` counts sub-words and
    special tokens and ends where the positions of the model do; None is what it was made for, at most 512.
    `context_words` on each side surround a tagged word in `Outputs.texts`. `views` adds what familiarity looks at to
    `Outputs.views`. With `passes` above 1 the logits are the log of the mean probability over so many passes with
    dropout; features stay those of one pass without.

    >>> EncodingOptions(pooling="mean").layer
    -1
    """

    pooling: Pooling | None = None
    layer: int | tuple[int, ...] = -1
    all_layers: bool = False
    max_length: int | None = None
    batch_size: int = 32
    context_words: int = 4
    passes: int = 1
    views: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.layer, int):
            object.__setattr__(self, "layer", tuple(self.layer))
            check_not_empty(len(self.layers), "layer")
        if self.pooling is not None:
            check_choice(self.pooling, "pooling", get_args(Pooling))
        for name, most in _MOST.items():
            value = getattr(self, name)
            if value is not None and name != "context_words":
                check_positive(value, name)
            if value is not None and value > most:
                raise InvalidInputError(f"{name} must be at most {most}, got {value}: lower it")
        if self.context_words < 0:
            raise InvalidInputError(f"context_words must be at least 0, got {self.context_words}: 0 keeps bare words")
        if self.pooling == "pooled" and self.layer != -1:
            raise InvalidInputError(
                f'pooling="pooled" is the input of the classification head, so layer={self.layer} has no effect: '
                'drop it, or use pooling="cls"'
            )

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers that features are made of."""
        return (self.layer,) if isinstance(self.layer, int) else self.layer
