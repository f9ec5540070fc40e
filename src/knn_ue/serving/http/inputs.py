"""What a client sent -> examples for the model, every limit checked before the model sees them."""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from knn_ue.encoding import Example, read_example
from knn_ue.errors import InvalidInputError
from knn_ue.pipeline.rows import labeled_examples
from knn_ue.serving.options import ServeOptions
from knn_ue.serving.problems import ProblemError
from knn_ue.serving.work.state import Served
from knn_ue.tasks import TASKS, Task

_MAX_SHOWN = 2000  # neighbors in one answer
_MAX_SHOWN_WORDS = 20_000  # of the entities of sentences, whose number is not known before
_WANTED: dict[Task, str] = {
    "text-classification": 'a string or {"text": ...}',
    "text-pair": '{"premise": ..., "hypothesis": ...}',
    "token-classification": 'a string or {"text": ...}, which the model splits into words, or {"tokens": [...]}',
}


def read_inputs(served: Served, inputs: Any, options: ServeOptions) -> list[Example]:
    """Return the examples to answer; a single input is one example."""
    rows = inputs if isinstance(inputs, list) else [inputs]
    _check_number(len(rows), "inputs", options)
    _check_sizes([_n_characters(row) for row in rows], "inputs", options)  # before a tokenizer sees them
    return _checked([_read(row, served, number) for number, row in enumerate(rows)], "inputs", options)


def read_labeled(served: Served, examples: Sequence[BaseModel], options: ServeOptions) -> list[Example]:
    """Return the examples to learn from; all have labels that the model knows."""
    _check_number(len(examples), "examples", options)
    pipe = served.pipe
    read = [_read(row, served, number) for number, row in enumerate(examples)]
    return labeled_examples(_checked(read, "examples", options), pipe.task, pipe.class_names, name="examples:")


def check_shown(served: Served, examples: Sequence[Example], top: int, *, explained: bool) -> None:
    """Raise where an answer would be too long: neighbors come with their texts, in tagging short ones, but many."""
    tagging = TASKS[served.pipe.task].is_tagging
    n_rows = sum(len(example.parts) for example in examples) if tagging else len(examples)
    most = _MAX_SHOWN if explained or not tagging else _MAX_SHOWN_WORDS
    if n_rows * top > most:
        raise ProblemError(
            413,
            "too_many_neighbors",
            f"one answer shows at most {most} neighbors, got {n_rows} {'words' if tagging else 'inputs'} with "
            f"top={top}: lower top",
        )


def _read(row: Any, served: Served, number: int) -> Example:
    content: object = row
    if isinstance(row, BaseModel):
        content = row.model_dump(exclude_unset=True)
    task, words_of = served.pipe.task, served.pipe.encoder.words_of
    try:
        return _with_answer(read_example(content, task, number, words_of=words_of), served, number)
    except _AnswerError:
        raise
    except InvalidInputError as error:
        if "words but" in str(error):  # the numbers of words and tags say more than the shape would
            raise
        # The library's message shows the value: right in a terminal, but too much of a user's text in an answer.
        raise InvalidInputError(f"input {number} must be {_WANTED[task]}: this model is for {task}") from None


class _AnswerError(InvalidInputError):
    """What is wrong with a given answer, in words that show nothing of the input."""


def _with_answer(example: Example, served: Served, number: int) -> Example:
    """Return the example if it has an answer exactly where the folder judges given ones."""
    if not served.pipe.encoder.gives_answers:
        if example.given is not None:
            raise _AnswerError(f"input {number} has an answer, this folder's model gives its own: leave the answer out")
        return example
    if "answer" not in (example.given or {}) and not (example.given or {}).get("samples"):
        raise _AnswerError(f"input {number} has no answer, and this folder judges given ones: send it as answer")
    try:
        served.pipe.encoder.encode([example], with_labels=False)  # which reads the answer, and runs nothing
    except InvalidInputError as error:
        raise _AnswerError(str(error)) from None
    return example


def _check_number(n_rows: int, name: str, options: ServeOptions) -> None:
    if n_rows > options.max_items:
        raise ProblemError(
            413, "too_many_items", f"{name} may hold {options.max_items} at a time, got {n_rows}: send them in parts"
        )


def _checked(examples: list[Example], name: str, options: ServeOptions) -> list[Example]:
    for number, example in enumerate(examples):
        if not any(part.strip() for part in example.parts) or "" in example.parts:
            raise InvalidInputError(f"{name}[{number}] must not be empty: write a text with at least one character")
        if any("\0" in part for part in example.parts):
            raise InvalidInputError(f"{name}[{number}] must not hold NUL characters: remove them")
    _check_sizes([_size(example) for example in examples], name, options)
    return examples


def _size(example: Example) -> int:
    # A word alone costs the model about as much as two characters more.
    return len(example.raw.text) if example.raw else sum(len(part) + 1 for part in example.parts) - 1


def _n_characters(row: Any) -> int:
    text = row if isinstance(row, str) else getattr(row, "text", "")
    return len(text)


def _check_sizes(sizes: Sequence[int], name: str, options: ServeOptions) -> None:
    for number, size in enumerate(sizes):
        if size > options.max_characters:
            raise ProblemError(
                413,
                "too_long",
                f"{name}[{number}] may have {options.max_characters} characters, got {size}: cut it",
            )
    if (total := sum(sizes)) > options.max_request_characters:
        raise ProblemError(
            413,
            "too_long",
            f"one request may have {options.max_request_characters} characters, got {total}: send {name} in parts",
        )
