"""A pool of unlabeled rows -> the few to label, as JSON lines or as tasks for Label Studio."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Protocol

import numpy as np

from knn_ue.adapting import draw_rows
from knn_ue.adapting.sampling import Strategy
from knn_ue.answers import Answer, AnyAnswer
from knn_ue.arrays import FloatArray, check_not_empty
from knn_ue.data.columns import Columns
from knn_ue.encoding import Encoder, Example
from knn_ue.iob2 import split_tag
from knn_ue.pipeline.rows import Rows, iter_examples
from knn_ue.tasks import TASKS, Task


@dataclass(frozen=True, kw_only=True)
class SampledRow:
    """A row to label, and what its label will count.

    The model's own answer is left out, since it sways people; one that was given with the row stays, since `adapt`
    needs it.
    """

    example: Example
    sample_weight: float

    def to_dict(self, task: Task) -> dict[str, Any]:
        """Return the row as a line of JSON lines: fill in the label, or the tags, which are all null."""
        record, parts = TASKS[task], self.example.parts
        content: list[Any] = [list(parts)] if record.is_tagging else list(parts)
        return (
            dict(zip(record.input_keys, content, strict=True))
            | dict(self.example.given or {})
            | {
                "tags" if record.is_tagging else "label": None,
                "sample_weight": round(self.sample_weight, 6),
            }
        )


class _Answers(Protocol):
    @property
    def task(self) -> Task: ...

    @property
    def encoder(self) -> Encoder: ...

    def __call__(self, inputs: object, *, top: int, domain: str | None) -> list[AnyAnswer]: ...


def sample_rows(
    pipe: _Answers,
    rows: Rows,
    n: int,
    *,
    strategy: Strategy,
    domain: str | None,
    seed: int,
    columns: Columns | None = None,
) -> list[SampledRow]:
    """Return the rows of a pool to label, in a random order; "random" needs no pass through the model.

    Copies are labeled once and weigh as much as all of them, so that the fit stays unbiased.
    """
    copies: dict[tuple[str, ...], list[Example]] = {}
    for example in iter_examples(rows, pipe.task, labeled=False, columns=columns, words_of=pipe.encoder.words_of):
        copies.setdefault(tuple(example.parts), []).append(example)
    pool = [same[0] for same in copies.values()]
    check_not_empty(len(pool), "the pool")
    scores = np.ones(len(pool))
    if strategy == "stratified":
        scores = np.array([score_of(answer) for answer in pipe(pool, top=0, domain=domain)])
    drawn = draw_rows(scores, n, strategy=strategy, seed=seed)
    weights = drawn.weights * np.array([len(same) for same in copies.values()])[drawn.rows]
    return [
        SampledRow(example=pool[row], sample_weight=weight)
        for row, weight in zip(drawn.rows.tolist(), (weights / weights.mean()).tolist(), strict=True)
    ]


def score_of(answer: AnyAnswer) -> float:
    """Return the one number by which an answer is doubtful: its score, or that of the least sure part of a sentence."""
    if isinstance(answer, Answer):
        return answer.score
    if answer.score is not None:
        return answer.score
    return min([entity.score for entity in answer.entities] or [word.score for word in answer.words] or [1.0])


def weights_of(examples: Sequence[Example]) -> FloatArray | None:
    """Return what each label counts, one number per example; None where no row says so."""
    return weights_of_numbers([example.sample_weight for example in examples])


def weights_of_numbers(numbers: Sequence[float | None]) -> FloatArray | None:
    """Return weights where some rows have one: a row without counts once; None where none has."""
    if all(number is None for number in numbers):
        return None
    return np.array([1.0 if number is None else number for number in numbers])


def label_studio_tasks(rows: Sequence[SampledRow], task: Task) -> str:
    """Return the JSON that Label Studio imports; its export, JSON or CSV (texts and pairs), is a file for `adapt`."""
    tasks = []
    for row in rows:
        data = {key: value for key, value in row.to_dict(task).items() if key not in ("label", "tags")}
        if TASKS[task].is_tagging:
            data["text"] = " ".join(row.example.parts)
        tasks.append({"data": data})
    return json.dumps(tasks, ensure_ascii=False, indent=1)


def label_studio_config(task: Task, class_names: Sequence[str]) -> str:
    """Return the labeling interface to paste into Label Studio; the field it fills is called "label"."""
    shown = ["text"] if TASKS[task].is_tagging else list(TASKS[task].input_keys)
    texts = "".join(f'<Text name="{name}" value="${name}"/>' for name in shown)
    if TASKS[task].is_tagging:
        kinds = dict.fromkeys(found[1] for tag in class_names if tag != "O" and (found := split_tag(tag, "BI")))
        labels = "".join(f'<Label value="{escape(str(kind))}"/>' for kind in kinds)
        return f'<View>{texts}<Labels name="label" toName="text">{labels}</Labels></View>'
    choices = "".join(f'<Choice value="{escape(name)}"/>' for name in class_names)
    return f'<View>{texts}<Choices name="label" toName="{shown[0]}" choice="single">{choices}</Choices></View>'
