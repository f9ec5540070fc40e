"""How rows become features: one frozen record, saved beside whatever was made from the features."""

from dataclasses import dataclass
from typing import Literal, get_args

from knn_ue.arrays import check_choice, check_positive
from knn_ue.errors import InvalidInputError
from knn_ue.tasks import TASKS, Task

Pooling = Literal["cls", "last", "mean", "pooled"]


@dataclass(frozen=True, kw_only=True)
class EncodingOptions:
    """What a feature is.

    `pooling`: "cls" (the CLS token; in tagging the first sub-word of each word), "last" (the last real token, for
    decoder-only models), "mean" (over all real tokens, the special ones among them) or "pooled" (what the head's last
    linear layer reads, at the position where the model classifies). None is "cls" where the model has a CLS token that
    sees the text, and "last" otherwise; the encoder's own options hold the choice. `layer` counts as
    `hidden_states` does: 0 the embeddings, 1 the first layer, -1 the final one. `all_layers` adds every layer but
    the embeddings to `Outputs.layers`. `max_length` counts sub-words and special tokens and ends where the
    positions of the model do; None is what it was made for, at most 512. `context_words` on each side surround a
    tagged word in `Outputs.texts`. With `passes` above 1 the logits are the log of the mean probability over so many
    passes with dropout; features stay those of one pass without.

    >>> EncodingOptions(pooling="mean").layer
    -1
    """

    pooling: Pooling | None = None
    layer: int = -1
    all_layers: bool = False
    max_length: int | None = None
    batch_size: int = 32
    context_words: int = 4
    passes: int = 1

    def __post_init__(self) -> None:
        if self.pooling is not None:
            check_choice(self.pooling, "pooling", get_args(Pooling))
        check_positive(self.batch_size, "batch_size")
        check_positive(self.passes, "passes")
        if self.max_length is not None:
            check_positive(self.max_length, "max_length")
        if self.context_words < 0:
            raise InvalidInputError(f"context_words must be at least 0, got {self.context_words}: 0 keeps bare words")
        if self.pooling == "pooled" and self.layer != -1:
            raise InvalidInputError(
                f'pooling="pooled" is the input of the classification head, so layer={self.layer} means nothing: '
                'drop it, or use pooling="cls"'
            )

    def check_task(self, task: Task) -> None:
        """Raise where `pooling` has no meaning for the task."""
        if TASKS[task].is_tagging and self.pooling in ("last", "mean"):
            raise InvalidInputError(
                f'pooling="{self.pooling}" is for whole texts; a tagged word is represented by its first sub-word: '
                'use pooling="cls" or "pooled"'
            )
