"""What the pipeline asks of a model: whatever is an `Encoder` can be fitted, saved, served and explained.

`EncodingOptions` are those of the encoders that read a transformer: how rows become features.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self, TypedDict, get_args

from knn_ue.arrays import check_choice, check_not_empty, check_positive
from knn_ue.encoding.inputs import Example, RawText, split_words
from knn_ue.errors import InvalidInputError
from knn_ue.storage import SubfolderWriter
from knn_ue.tasks import Task
from knn_ue.types import Outputs, Step

Pooling = Literal["cls", "last", "mean", "cls+mean", "pooled"]

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


class EncoderOptions(Protocol):
    """A frozen dataclass whose fields all have defaults; `batch_size` decides how many rows are answered at a time."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def batch_size(self) -> int:
        """Examples per forward pass."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class EncoderPart:
    """An encoder's part of a UE folder.

    `kind` is its key in `ENCODERS`; `plain` goes to meta.json. An encoder that needs files of its own has them in
    `folder`, and `write` makes a copy of that folder and returns its identity. `where` is the UE folder it was read
    from, for messages.
    """

    kind: str
    task: Task
    class_names: tuple[str, ...]
    plain: Mapping[str, Any]
    folder: Path | None = None
    write: SubfolderWriter | None = None
    where: str = "memory"

    def is_same(self, other: "EncoderPart") -> bool:
        """Return whether both describe one encoder: folders of a UE folder are never overwritten in place."""
        return all(
            getattr(self, name) == getattr(other, name) for name in ("kind", "task", "class_names", "plain", "folder")
        )


class Encoder(Protocol):
    """Examples in, `Outputs` out.

    A subclass sets `kind`, `task`, `class_names` and `options`, and has `encode`, `to_part` and `from_part`; one line
    registers it: `ENCODERS[MyEncoder.kind] = MyEncoder`. One that tags and `splits_texts` has `words_of`, too.
    `n_encoded` examples were read so far, of which `n_truncated` were cut.
    """

    kind: ClassVar[str]
    task: Task
    class_names: tuple[str, ...]
    options: EncoderOptions
    splits_texts: ClassVar[bool] = False
    n_encoded: int = 0
    n_truncated: int = 0

    @property
    def training(self) -> str:
        """How the model was trained: the name of a training method."""
        return "plain"

    def encode(self, examples: Iterable[Example], *, with_labels: bool = True, progress: Step | None = None) -> Outputs:
        """Return one row per example, in tagging one per word; labels where the examples have them.

        Where they have `views`, answers say how familiar their inputs are. With `with_labels=False` labels stay
        unread. No examples give `Outputs` of length 0 with all its columns.
        """
        ...

    def words_of(self, text: str) -> RawText:
        """Return the words of a text to tag, as the model reads them; by default it is split at white space."""
        return split_words(text)

    def with_options(self, **changes: Any) -> "Encoder":
        """Return this encoder with other options, as a method needs them; raise where it does not have them."""
        raise InvalidInputError(
            f"the encoder {self.kind!r} cannot be used with {', '.join(f'{k}={v!r}' for k, v in changes.items())}: "
            "choose a method that does not need it"
        )

    def to_part(self) -> EncoderPart:
        """Return what a UE folder must hold to open this encoder again."""
        ...

    @classmethod
    def from_part(cls, part: EncoderPart, *, device: str, trust_remote_code: bool) -> Self:
        """Open the encoder that `to_part` described; `part.folder` is its own folder, if it has one."""
        ...
