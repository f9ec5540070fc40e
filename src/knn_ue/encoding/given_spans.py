"""Entities that somebody else marked, as a judged model: of a closed model nothing is known but what it said.

A row has `tokens` or a `text`, and as its `answer` entities in any shape of `knn_ue.marked`, each maybe with a
`confidence`; strings are looked for in the text. A labeled row has `tags`, or a `label` of the same shapes.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from annotated_types import Len

from knn_ue.encoding.contract import Encoder, EncoderPart
from knn_ue.encoding.given import GivenOptions, given_logits, given_number
from knn_ue.encoding.inputs import Example, RawText, all_labeled, class_numbers, read_examples
from knn_ue.errors import InvalidInputError
from knn_ue.folder import as_written, from_plain, to_plain
from knn_ue.iob2 import split_tag
from knn_ue.marked import Answer, read_marked, split_text
from knn_ue.tasks import Task, task_name
from knn_ue.types import Outputs, Step
from knn_ue.verifying import OTHER


@dataclass(frozen=True, kw_only=True)
class _State:
    """What a folder holds of it."""

    options: GivenOptions
    types: Annotated[tuple[str, ...], Len(1)]


class GivenSpans(Encoder):
    """Sentences with marked entities in, `Outputs` of their words out: the marks are `decoded`, as IOB2 tags.

    `types` are those of the labeled rows, the model's among them; another one is called "(other)" later. The stated
    confidence is in the logits.
    """

    kind: ClassVar[str] = "given-spans"
    gives_answers: ClassVar[bool] = True
    splits_texts: ClassVar[bool] = True

    def __init__(self, types: Sequence[str], *, options: GivenOptions | None = None) -> None:
        self.task: Task = task_name("ner")
        self.types = tuple(types)
        self.class_names = ("O", *(f"{prefix}-{kind}" for kind in (*self.types, OTHER) for prefix in "BI"))
        self.options = options or GivenOptions()

    @classmethod
    def of_examples(cls, examples: Sequence[Example]) -> Self:
        """Return the encoder for labeled examples: the types are theirs and those of their answers."""
        gold = {split_tag(tag) for example in examples for tag in example.labels or ()} - {None}
        kinds = {kind for _, kind in filter(None, gold) if kind}
        answers = [given_entities(example, number) for number, example in enumerate(examples)]
        said = Counter(one.kind for answer in answers for one in answer.found)
        if not kinds:
            raise InvalidInputError("no labeled row has an entity, so there is nothing to learn: add rows with some")
        return cls((*sorted(kinds), *sorted(said.keys() - kinds)))

    def words_of(self, text: str) -> RawText:
        """Return the words of a text: runs of letters and digits, and each other mark by itself."""
        return RawText(text, split_text(text))

    def encode(self, examples: Iterable[object], *, with_labels: bool = True, progress: Step | None = None) -> Outputs:
        """Return one row per word; nothing is run."""
        rows = list(read_examples(examples, self.task, words_of=self.words_of))
        labels = class_numbers(rows, self.class_names) if with_labels and all_labeled(rows) else None
        places = {name: number for number, name in enumerate(self.class_names)}
        tags: list[int] = []
        sure: list[float | None] = []
        for number, example in enumerate(rows):
            answer = self._known(given_entities(example, number))
            tags += [places[tag] for tag in answer.tags(len(example.parts))]
            stated: list[float | None] = [None] * len(example.parts)
            for one in answer.found:
                stated[one.first : one.last + 1] = [one.confidence] * (one.last - one.first + 1)
            sure += stated
        if progress is not None:
            progress(len(rows), len(rows))
        decoded = np.array(tags, dtype=np.int64)
        return Outputs(
            logits=given_logits(decoded, sure, len(self.class_names)),
            decoded=decoded,
            labels=labels,
            class_names=self.class_names,
            groups=np.repeat(np.arange(len(rows)), [len(example.parts) for example in rows]),
            words=[word for example in rows for word in example.parts],
        )

    def with_options(self, **changes: Any) -> "GivenSpans":
        """Return this encoder with other options; raise where it does not have them."""
        if changes.keys() - {"batch_size"}:
            return super().with_options(**changes)  # type: ignore[return-value]  # it raises
        return GivenSpans(self.types, options=replace(self.options, **changes))

    def to_part(self) -> EncoderPart:
        """Return the types."""
        state = _State(options=self.options, types=self.types)
        return EncoderPart(kind=self.kind, task=self.task, class_names=self.class_names, plain=to_plain(state))

    @classmethod
    def from_part(cls, part: EncoderPart, *, device: str, trust_remote_code: bool) -> Self:
        """Open the encoder that `to_part` described."""
        del device, trust_remote_code
        with as_written(part.where, cls.kind):
            state = from_plain(_State, part.plain)
            return cls(state.types, options=state.options)

    def _known(self, answer: Answer) -> Answer:
        """Return the answer with every type that labeled rows did not have called "(other)"."""
        found = [one if one.kind in self.types else replace(one, kind=OTHER) for one in answer.found]
        return replace(answer, found=tuple(found))


def given_entities(example: Example, number: int = 0) -> Answer:
    """Return the entities that a row's answer marks, and its strings that are not in the sentence."""
    given = example.given or {}
    row = example.named(number)
    if "answer" not in given:
        raise InvalidInputError(
            f"{row} has no answer: name its column (answer='NAME'), or leave the row out",
            shell=f"{row} has no answer: name its column (--answer-column NAME), or leave it out",
        )
    raw = example.raw
    return read_marked(
        given["answer"],
        example.parts,
        row,
        text=None if raw is None else raw.text,
        places=None if raw is None else raw.spans,
        confidence=given_number(given.get("confidence"), f"confidence of {row}"),
    )
