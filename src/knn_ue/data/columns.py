"""What people call our keys: the columns of their files, frames and data sets."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TypedDict

from knn_ue.errors import InvalidInputError
from knn_ue.tasks import TASKS, Task

# The names that published sets give to our keys. Data sets are read by the first that fits, files by none: an error
# proposes it instead.
USUAL_NAMES: Mapping[str, Sequence[str]] = {
    "text": ("text", "sentence", "content", "review", "utterance", "body", "message", "comment", "tweet", "document"),
    "premise": ("premise", "sentence1", "text1", "question1", "question", "context"),
    "hypothesis": ("hypothesis", "sentence2", "text2", "question2", "sentence", "answer"),
    "tokens": ("tokens", "words"),
    "label": ("label", "labels", "sentiment", "intent", "gold_label", "class", "category", "target", "y"),
    "tags": ("ner_tags", "tags", "ner", "labels"),
    "answer": ("answer", "prediction", "predicted", "response", "output", "completion", "model_answer"),
}


class ColumnNames(TypedDict, total=False):
    """The keyword arguments that name columns."""

    text: str
    label: str
    premise: str
    hypothesis: str
    tokens: str
    tags: str
    answer: str
    confidence: str


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The name of each column that is not called as our keys are; `Columns(text="review", label="sentiment")`.

    >>> Columns(text="review").of("text-classification")
    {'text': 'review'}
    """

    text: str | None = None
    label: str | None = None
    premise: str | None = None
    hypothesis: str | None = None
    tokens: str | None = None
    tags: str | None = None
    answer: str | None = None
    confidence: str | None = None

    def of(self, task: Task, *, labeled: bool = True) -> dict[str, str]:
        """Return the columns that were named; raise where the task has no use for one of them.

        Without labels a tagger reads texts as well as words.
        """
        keys, given = (*TASKS[task].keys(labeled=True), "answer", "confidence"), self.given()
        if TASKS[task].is_tagging:
            keys = ("text", *keys, "label") if labeled else ("text", *keys)
        other = next((key for key in given if key not in keys), None)
        if other is not None:
            raise InvalidInputError(
                f"the columns of {task} are {', '.join(keys)}, got {other}={given[other]!r}: leave it out",
                shell=f"--{other}-column is not for {task}, whose columns are {', '.join(keys)}: leave it out",
            )
        return given

    def given(self) -> dict[str, str]:
        """Return the columns that were named."""
        return {field.name: getattr(self, field.name) for field in fields(self) if getattr(self, field.name)}


def proposal(missing: Iterable[str], known: Sequence[str]) -> tuple[str, str]:
    """Return how to name the missing columns, in Python and at a command line, guessed from those that are there.

    >>> proposal(["text", "label"], ["id", "Review", "sentiment"])
    ("name them: text='Review', label='sentiment'", 'name them: --text-column Review --label-column sentiment')
    """
    lower = {name.strip().casefold(): name for name in known}
    guesses = {key: next((lower[name] for name in USUAL_NAMES[key] if name in lower), "NAME") for key in missing}
    python = ", ".join(f"{key}={name!r}" for key, name in guesses.items())
    shell = " ".join(f"--{key}-column {shlex.quote(name)}" for key, name in guesses.items())
    return f"name them: {python}", f"name them: {shell}"
