"""What the pipeline asks of a model: whatever is an `Encoder` can be fitted, saved, served and explained."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from knn_ue.encoding.inputs import Example, RawText, split_words
from knn_ue.errors import InvalidInputError
from knn_ue.tasks import Task
from knn_ue.types import Outputs, Step


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

    `kind` is its key in `ENCODERS`; `plain` are its parameters. An encoder that needs files of its own writes them by
    `fill`, which is given a folder; read again, `files` are where they are and `digests` their SHA-256. `where` is the
    UE folder it was read from, for messages.
    """

    kind: str
    task: Task
    class_names: tuple[str, ...]
    plain: Mapping[str, Any]
    fill: Callable[[Path], None] | None = None
    files: Mapping[str, Path] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    where: str = "memory"

    def is_same(self, other: "EncoderPart") -> bool:
        """Return whether both describe one encoder."""
        names = ("kind", "task", "class_names", "plain", "digests")
        return all(getattr(self, name) == getattr(other, name) for name in names)


class NotExportedError(Exception):
    """Why a model stays in PyTorch, in words that follow a colon; `is_surprising` where an export was tried."""

    def __init__(self, reason: str, *, is_surprising: bool = False) -> None:
        super().__init__(reason)
        self.is_surprising = is_surprising


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
    backend: ClassVar[str] = ""
    """What answers in place of the model's own program, where something does."""
    gives_answers: ClassVar[bool] = False
    """Whether answers come with the rows, so that nothing is to be trained or stored."""
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

    @property
    def labels(self) -> tuple[str, ...]:
        """What the right answer of a row may be; `class_names` may hold other answers too."""
        return self.class_names

    def words_of(self, text: str) -> RawText:
        """Return the words of a text to tag, as the model reads them; by default it is split at white space."""
        return split_words(text)

    def with_options(self, **changes: Any) -> "Encoder":
        """Return this encoder with other options, as a method needs them; raise where it does not have them."""
        raise InvalidInputError(
            f"the encoder {self.kind!r} cannot be used with {', '.join(f'{k}={v!r}' for k, v in changes.items())}: "
            "choose a method that does not need it"
        )

    def exported(self, examples: Sequence[Example]) -> "Encoder":
        """Return what answers these examples alike and faster; `NotExportedError` says why there is nothing."""
        del examples
        raise NotExportedError("this kind of model has no export")

    def in_pytorch(self) -> "Encoder":
        """Return the model behind an export; by default the encoder is no export."""
        return self

    def to_part(self) -> EncoderPart:
        """Return what a UE folder must hold to open this encoder again."""
        ...

    @classmethod
    def from_part(cls, part: EncoderPart, *, device: str, trust_remote_code: bool) -> "Encoder":
        """Open the encoder that `to_part` described."""
        ...
