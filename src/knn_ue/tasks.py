"""What a model does: one record per task, which every other module asks instead of comparing names."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from knn_ue.errors import InvalidInputError

Task = Literal["text-classification", "text-pair", "token-classification"]
# What a row may say of an answer that some other model gave: see `knn_ue.encoding.given`.
GIVEN_KEYS = ("answer", "confidence", "logprob", "probabilities", "samples")


@dataclass(frozen=True, kw_only=True)
class TaskRecord:
    """Everything that depends on the task.

    `cli_name` is the short form of `name`; both are accepted everywhere. A row has the `input_keys` and, where it is
    labeled, the `label_key`; `example` says in words what a row may be, `answer` what a model answers. A Hugging Face
    class for the task ends in `architecture`. In tagging an example has one output row per word, otherwise one.
    """

    name: Task
    cli_name: str
    input_keys: tuple[str, ...]
    label_key: str
    example: str
    answer: str
    architecture: str
    is_tagging: bool = False
    is_pair: bool = False

    def keys(self, *, labeled: bool) -> tuple[str, ...]:
        """Return the keys that a row must have.

        >>> TASKS["text-pair"].keys(labeled=True)
        ('premise', 'hypothesis', 'label')
        """
        return (*self.input_keys, self.label_key) if labeled else self.input_keys


_RECORDS = (
    TaskRecord(
        name="text-classification",
        cli_name="text",
        input_keys=("text",),
        label_key="label",
        example='a string or {"text", "label"}',
        answer="a label",
        architecture="ForSequenceClassification",
    ),
    TaskRecord(
        name="text-pair",
        cli_name="pair",
        input_keys=("premise", "hypothesis"),
        label_key="label",
        example='a (premise, hypothesis) tuple or {"premise", "hypothesis", "label"}',
        answer="a label",
        architecture="ForSequenceClassification",
        is_pair=True,
    ),
    TaskRecord(
        name="token-classification",
        cli_name="ner",
        input_keys=("tokens",),
        label_key="tags",
        example='a list of words or {"tokens", "tags"}',
        answer="a tag per word",
        architecture="ForTokenClassification",
        is_tagging=True,
    ),
)
TASKS: Mapping[Task, TaskRecord] = MappingProxyType({record.name: record for record in _RECORDS})


def task_name(given: str) -> Task:
    """Return the full name of a task; `given` is the full or the short form.

    >>> task_name("pair"), task_name("text-pair")
    ('text-pair', 'text-pair')
    """
    for record in _RECORDS:
        if given in (record.name, record.cli_name):
            return record.name
    known = ", ".join(f"{record.name!r} ({record.cli_name})" for record in _RECORDS)
    raise InvalidInputError(f"task must be one of {known}, got {given!r}")
