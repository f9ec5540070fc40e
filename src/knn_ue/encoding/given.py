"""Answers that somebody else gave, as a judged model: of a closed model nothing is known but what it said.

A row has the model's `answer`, and maybe how sure it was: `confidence` (0 to 1), `logprob` (of the answer),
`probabilities` (of each label), or `samples` (what it answered when asked several times; without an `answer` the most
frequent one counts). An answer that is no label ("I don't know", a refusal, an empty string) is an answer
too: it counts as wrong, and where it comes often it has a class of its own.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from annotated_types import Interval, Len

from knn_ue.arrays import FloatArray, IntArray
from knn_ue.encoding.contract import Encoder, EncoderPart
from knn_ue.encoding.inputs import Example, all_labeled, class_numbers, read_examples
from knn_ue.errors import InvalidInputError
from knn_ue.folder import as_written, from_plain, to_plain
from knn_ue.tasks import TASKS, Task, task_name
from knn_ue.types import Outputs, Step
from knn_ue.verifying import OTHER, UNSTATED, answer_numbers, off_list_names

_LEAST = 1e-6  # the least and, from 1, the most that a stated confidence counts for


@dataclass(frozen=True, kw_only=True)
class GivenOptions:
    """How many answers are scored at a time."""

    batch_size: Annotated[int, Interval(ge=1, le=1 << 16)] = 256


@dataclass(frozen=True, kw_only=True)
class _State:
    """What a folder holds of it."""

    options: GivenOptions
    labels: Annotated[tuple[str, ...], Len(2)]
    off_list: tuple[str, ...]


class GivenAnswers(Encoder):
    """Rows with answers in, `Outputs` out: what was answered is `decoded`, the stated confidence is in the logits.

    `labels` are what an answer should be one of; `off_list` are frequent answers that are none of them. `class_names`
    are the labels, one name for all other answers, and those of `off_list`.
    """

    kind: ClassVar[str] = "given"
    gives_answers: ClassVar[bool] = True

    def __init__(
        self,
        task: str,
        labels: Sequence[str],
        off_list: Sequence[str] = (),
        *,
        options: GivenOptions | None = None,
    ) -> None:
        self.task: Task = task_name(task)
        if TASKS[self.task].is_tagging:
            raise InvalidInputError("given answers are labels of texts or pairs, got a tagging task: pass task='text'")
        self._labels, self.off_list = tuple(labels), tuple(off_list)
        self.class_names = (*self._labels, OTHER, *self.off_list)
        self.options = options or GivenOptions()

    @property
    def labels(self) -> tuple[str, ...]:
        """What an answer should be one of."""
        return self._labels

    @classmethod
    def of_examples(cls, task: str, examples: Sequence[Example], labels: Sequence[str] | None = None) -> Self:
        """Return the encoder for labeled examples: their labels and `labels` are the list, in this order."""
        gold = [label for example in examples for label in example.labels or ()]
        listed = tuple(dict.fromkeys([*(labels or ()), *sorted(set(gold))]))
        if len(listed) < 2:
            raise InvalidInputError(
                f"answers need at least 2 labels to choose from, the rows have {len(listed)}: pass labels=[...], or "
                "rows with other labels"
            )
        answers = [given_answer(example, number)[0] for number, example in enumerate(examples)]
        return cls(task, listed, off_list_names(answers, listed))

    def encode(self, examples: Iterable[object], *, with_labels: bool = True, progress: Step | None = None) -> Outputs:
        """Return one row per answer; nothing is run."""
        rows = list(read_examples(examples, self.task))
        given = [given_answer(example, number) for number, example in enumerate(rows)]
        labels = None
        if with_labels and all_labeled(rows):
            labels = class_numbers(rows, self.labels)
        answers = answer_numbers([answer for answer, _ in given], self.labels, self.off_list)
        if progress is not None:
            progress(len(rows), len(rows))
        is_pair = TASKS[self.task].is_pair
        return Outputs(
            logits=given_logits(answers, [sure for _, sure in given], len(self.class_names)),
            decoded=answers,
            labels=labels,
            class_names=self.class_names,
            texts=None if is_pair else [example.parts[0] for example in rows],
            pairs=[(example.parts[0], example.parts[1]) for example in rows] if is_pair else None,
        )

    def with_options(self, **changes: Any) -> "GivenAnswers":
        """Return this encoder with other options; raise where it does not have them."""
        if changes.keys() - {"batch_size"}:
            return super().with_options(**changes)  # type: ignore[return-value]  # it raises
        return GivenAnswers(self.task, self.labels, self.off_list, options=replace(self.options, **changes))

    def to_part(self) -> EncoderPart:
        """Return the labels and the frequent answers that are none."""
        state = _State(options=self.options, labels=self.labels, off_list=self.off_list)
        return EncoderPart(kind=self.kind, task=self.task, class_names=self.class_names, plain=to_plain(state))

    @classmethod
    def from_part(cls, part: EncoderPart, *, device: str, trust_remote_code: bool) -> Self:
        """Open the encoder that `to_part` described."""
        del device, trust_remote_code
        with as_written(part.where, cls.kind):
            state = from_plain(_State, part.plain)
            return cls(part.task, state.labels, state.off_list, options=state.options)


def given_answer(example: Example, number: int = 0) -> tuple[str, float | None]:
    """Return the answer that a row has, and how sure the model said it was, None where it did not say.

    >>> given_answer(Example(("a text",), given={"answer": "refund ", "logprob": -0.1}))
    ('refund', 0.9048374180359595)
    """
    given = example.given or {}
    samples = _samples(given.get("samples"), example.named(number))
    if "answer" not in given and samples:
        return max(samples, key=samples.count), _agreement(samples, max(samples, key=samples.count))
    if "answer" not in given:
        raise InvalidInputError(
            f"{example.named(number)} has no answer: name its column (answer='NAME'), or leave the row out",
            shell=f"{example.named(number)} has no answer: name its column (--answer-column NAME), or leave it out",
        )
    answer = given["answer"]
    if answer is None or (isinstance(answer, float) and math.isnan(answer)):  # a model that said nothing
        answer = ""
    if not isinstance(answer, (str, int)) or isinstance(answer, bool):
        raise InvalidInputError(
            f"the answer of {example.named(number)} must be a string, got {str(answer)[:40]!r}: write its name"
        )
    said = str(answer).strip()
    stated = _confidence(given, said, example.named(number))
    return said, _agreement(samples, said) if stated is None and samples else stated


def _samples(samples: object, row: str) -> list[str]:
    """Return what the model answered when it was asked several times; in tables it is a JSON list."""
    if isinstance(samples, str) and samples.strip():
        try:
            samples = json.loads(samples)
        except ValueError:
            samples = None
        if not isinstance(samples, list):
            raise InvalidInputError(f'the samples of {row} must be a JSON list of answers: write ["one", "other"]')
    if samples is None or samples == "" or (isinstance(samples, float) and math.isnan(samples)):
        return []
    if isinstance(samples, Mapping) or not isinstance(samples, Iterable):
        raise InvalidInputError(f"the samples of {row} must be a list of answers, got {str(samples)[:40]!r}")
    return [str(each).strip() for each in samples]


def _agreement(samples: Sequence[str], answer: str) -> float:
    """Return how sure samples make an answer: a share that a few samples cannot drive to 0 or 1.

    >>> _agreement(["yes", "yes", "no"], "yes")
    0.625
    """
    return (samples.count(answer) + 0.5) / (len(samples) + 1)


def _confidence(given: Mapping[str, Any], answer: str, row: str) -> float | None:
    stated = given_number(given.get("confidence"), f"confidence of {row}")
    if stated is not None:
        if not 0 <= stated <= 1:
            raise InvalidInputError(
                f"the confidence of {row} must lie within 0 and 1, got {stated}: write 0.95 for 95 %"
            )
        return stated
    logarithm = given_number(given.get("logprob"), f"logprob of {row}")
    if logarithm is not None:
        if logarithm > 0:
            raise InvalidInputError(
                f"the logprob of {row} must be at most 0, got {logarithm}: pass the logarithm of a probability"
            )
        return math.exp(logarithm)
    probabilities = given.get("probabilities")
    if probabilities is None or probabilities == "":
        return None
    if not isinstance(probabilities, Mapping):
        raise InvalidInputError(
            f"the probabilities of {row} must be an object, got {str(probabilities)[:40]!r}: write one number per label"
        )
    share = given_number(probabilities.get(answer, 0.0), f"probabilities of {row}")
    if share is None or not 0 <= share <= 1:
        raise InvalidInputError(f"the probabilities of {row} must lie within 0 and 1, got {share}: pass shares")
    return share


def given_number(value: object, what: str) -> float | None:
    """Return a number as rows have it, None where there is none; `what` is what errors call it."""
    if value is None or value == "":
        return None
    shown = str(value)[:40]
    if isinstance(value, str):  # as tables have it
        try:
            value = float(value)
        except ValueError:
            raise InvalidInputError(f"the {what} must be a number, got {shown!r}: correct the row") from None
    if isinstance(value, bool) or not isinstance(value, (Real, np.floating, np.integer)):
        raise InvalidInputError(f"the {what} must be a number, got {shown!r}: correct the row")
    return None if math.isnan(float(value)) else float(value)


def given_logits(answers: IntArray, sure: Sequence[float | None], n_answers: int) -> FloatArray:
    """Return logits whose softmax gives each answer its stated confidence; where none was stated, nearly 1."""
    stated = np.array([np.nan if value is None else value for value in sure], dtype=np.float64)
    kept = np.clip(stated, _LEAST, 1 - _LEAST)
    logits = np.zeros((len(answers), n_answers))
    log_odds = np.where(np.isnan(stated), UNSTATED, np.log(kept / (1 - kept)))
    logits[np.arange(len(answers)), answers] = log_odds + np.log(n_answers - 1)
    return logits
