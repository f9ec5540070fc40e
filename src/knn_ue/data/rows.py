"""The records of labeled text that every reader returns.

`domain` is the domain whose scores a row asks for, `sample_weight` what it counts where labels were drawn unevenly
(see docs/adapting.md); both are None in most files.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from knn_ue.data.lines import Place
from knn_ue.errors import InvalidInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a row was read (`place`), the columns it had beside ours (`extra`) and what it says of an answer that some
    model gave (`given`, unchecked) and the `document` that it is from; none is a part of its content."""

    place: Place | None = field(default=None, compare=False, repr=False)
    given: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    extra: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    document: str | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TextRow(Origin):
    """One text; `label_counts` are the votes of human raters, `ratings` their individual numbers where known.

    >>> TextRow("a fine film", "pos").label
    'pos'
    """

    text: str
    label: str | None = None
    label_counts: Mapping[str, int] | None = field(default=None, hash=False)
    ratings: tuple[int, ...] | None = None
    domain: str | None = field(default=None, repr=False)
    sample_weight: float | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class PairRow(Origin):
    """Two texts and how the second follows from the first; `label_counts` are the votes of human raters."""

    premise: str
    hypothesis: str
    label: str | None = None
    label_counts: Mapping[str, int] | None = field(default=None, hash=False)
    domain: str | None = field(default=None, repr=False)
    sample_weight: float | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class TaggedRow(Origin):
    """The words of one sentence, each with its tag in IOB2: "O", "B-TYPE" or "I-TYPE".

    Where a file has a text in place of words, it is `raw_text`, and the words are those between white space; a model
    with a tokenizer of its own splits it in another way.

    >>> TaggedRow(("Ada", "wrote"), ("B-PER", "O")).tags
    ('B-PER', 'O')
    """

    tokens: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    domain: str | None = field(default=None, repr=False)
    sample_weight: float | None = field(default=None, repr=False)
    raw_text: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", tuple(self.tokens))
        if self.tags is not None:
            object.__setattr__(self, "tags", tuple(self.tags))
            if len(self.tags) != len(self.tokens):
                raise InvalidInputError(
                    f"each token must have one tag, got {len(self.tokens)} tokens and {len(self.tags)} tags: align them"
                )


Row = TextRow | PairRow | TaggedRow
RowT = TypeVar("RowT", bound=Row)


def without_label(row: Row) -> Row:
    """Return `row` as a model sees it, without what people said about it.

    >>> without_label(TextRow("a fine film", "pos"))
    TextRow(text='a fine film', label=None, label_counts=None, ratings=None)
    """
    if isinstance(row, TextRow):
        return replace(row, label=None, label_counts=None, ratings=None)
    if isinstance(row, PairRow):
        return replace(row, label=None, label_counts=None)
    return replace(row, tags=None)
