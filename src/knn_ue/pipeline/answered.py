"""Labeled answers that some model gave -> `Fitted`: one set of rows, of which each is scored as if it were new."""

import string
import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from knn_ue.arrays import check_not_empty
from knn_ue.calibrators import SpanVerdict, Verdict
from knn_ue.data import Columns
from knn_ue.data.faults import UnlabeledError
from knn_ue.decisions import Decision
from knn_ue.decisions.risk import Unit
from knn_ue.encoding import Example
from knn_ue.encoding.given import GivenAnswers, given_answer
from knn_ue.encoding.given_spans import GivenSpans, given_entities
from knn_ue.errors import FitWarning, InvalidInputError
from knn_ue.familiarity import FALSE_ALARM_RATE, Familiarity
from knn_ue.pipeline.fitted import Fitted
from knn_ue.pipeline.fitting import fit_outputs, half_of_rows
from knn_ue.pipeline.rows import Rows, iter_examples, with_documents
from knn_ue.tasks import Task
from knn_ue.verifying import Reader
from knn_ue.verifying.labels import MIN_ROWS
from knn_ue.verifying.topic import TopicSpace

VERDICT, SPAN_VERDICT = Verdict.kind, SpanVerdict.kind
SPANS: Task = "token-classification"


def fit_answers(
    task: Task,
    rows: Rows,
    *,
    reader: "str | Reader",
    labels: Sequence[str] | None,
    decisions: Sequence[Decision],
    columns: Columns,
    seed: int,
    false_alarm_rate: float = FALSE_ALARM_RATE,
    unit: Unit | None = None,
) -> tuple[GivenAnswers, Fitted]:
    """Learn which answers to trust from the rows that have a label: each has an answer, and what is right.

    With decisions, half of these rows, drawn at random, are held out for them.
    """
    examples = _labeled_only(rows, task, columns)
    _check_enough(len(examples), halved=bool(decisions))
    encoder = GivenAnswers.of_examples(task, examples, labels)
    _warn_of_spelling([given_answer(example, number)[0] for number, example in enumerate(examples)], encoder.labels)
    outputs = encoder.encode(examples)
    if unit == "document":
        outputs = with_documents(outputs, examples)
    held_out = half_of_rows(outputs, seed) if decisions else np.zeros(len(outputs), dtype=bool)
    chosen = "instant" if reader == "auto" else reader
    fitted = fit_outputs(VERDICT, Verdict(chosen), outputs, held_out, decisions)
    space, scores = TopicSpace.measure(outputs)
    familiarity = Familiarity(space, false_alarm_rate=false_alarm_rate).fit_scores(scores, outputs)
    return encoder, replace(fitted, familiarity=familiarity)


def _labeled_only(rows: Rows, task: Task, columns: Columns) -> list[Example]:
    """Return the rows that have a label, and say how many have none."""
    n_without = 0

    def leave_out(error: InvalidInputError) -> None:
        nonlocal n_without
        if not isinstance(error, UnlabeledError):
            raise error
        n_without += 1

    examples = list(iter_examples(rows, task, labeled=True, columns=columns, on_error=leave_out))
    labeled = [example for example in examples if example.labels is not None and all(map(str.strip, example.labels))]
    if n_without := n_without + len(examples) - len(labeled):
        warnings.warn(f"{n_without} rows have no label and are left out of the fit", FitWarning, stacklevel=4)
    return labeled


def fit_given_spans(
    rows: Rows,
    *,
    reader: "str | Reader",
    decisions: Sequence[Decision],
    columns: Columns,
    seed: int,
    unit: Unit | None = None,
) -> tuple[GivenSpans, Fitted]:
    """Learn which marked entities to trust from labeled sentences: each has an answer, and the entities it has.

    With decisions, half of the sentences, drawn at random, are held out for them.
    """
    splits = GivenSpans(()).words_of
    examples = list(iter_examples(rows, SPANS, labeled=True, columns=columns, words_of=splits))
    check_not_empty(len(examples), "the set of labeled answers")
    without = next((number for number, example in enumerate(examples) if example.labels is None), None)
    if without is not None:
        raise InvalidInputError(
            f"{examples[without].named(without)} has no tags and no label: mark its entities, [] where it has none"
        )
    _check_enough(len(examples), halved=bool(decisions), what="sentences with answers")
    encoder = GivenSpans.of_examples(examples)
    _warn_of_strings(examples)
    outputs = encoder.encode(examples)
    if unit == "document":
        outputs = with_documents(outputs, examples)
    held_out = half_of_rows(outputs, seed) if decisions else np.zeros(len(outputs), dtype=bool)
    chosen = "minilm" if reader == "auto" else reader
    return encoder, fit_outputs(SPAN_VERDICT, SpanVerdict(chosen), outputs, held_out, decisions)


def _warn_of_strings(examples: Sequence[Example]) -> None:
    """Warn of marked strings that are not in their sentences: they are wrong without a verifier."""
    missing = [
        (example.named(number), text)
        for number, example in enumerate(examples)
        for text in given_entities(example, number).not_found
    ]
    if missing:
        row, text = missing[0]
        warnings.warn(
            f"{len(missing)} marked strings are not in their sentences (the first is {text!r}, {row}): they count as "
            "wrong, and get no score",
            FitWarning,
            stacklevel=4,
        )


def _warn_of_spelling(answers: Sequence[str], labels: Sequence[str]) -> None:
    """Warn of answers that are wrong by case or punctuation alone: "Refund." where the label is "refund"."""
    bare = {_bare(label): label for label in labels}
    alike = [answer for answer in answers if answer not in labels and _bare(answer) in bare]
    if alike:
        warnings.warn(
            f"{len(alike)} answers are a label in other case or punctuation ({alike[0]!r}, the label is "
            f"{bare[_bare(alike[0])]!r}) and count as wrong: write them alike",
            FitWarning,
            stacklevel=4,
        )


def _bare(text: str) -> str:
    return text.strip(f"{string.punctuation} ").casefold()


def _check_enough(n_rows: int, *, halved: bool, what: str = "labeled answers") -> None:
    needed = 2 * MIN_ROWS if halved else MIN_ROWS
    if n_rows >= needed:
        return
    why = f", of which half are held out for the decision, so {needed} in all" if halved else ""
    raise InvalidInputError(
        f"{n_rows} {what} are too few to say which to trust: at least {MIN_ROWS} are needed{why}, since with fewer "
        "nobody could tell whether a score is any good; label more, drawn at random"
    )
