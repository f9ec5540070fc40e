"""Whatever a user has -> `Example`: a file or source name, a frame or data set, records, dicts or tuples.

| task                 | a labeled tuple                                                          |
|----------------------|---------------------------------------------------------------------------|
| text-classification  | `(text, label)`                                                           |
| text-pair            | `(premise, hypothesis, label)` or `((premise, hypothesis), label)`        |
| token-classification | `(tokens, tags)`, both lists                                              |

Other rows are read as `knn_ue.encoding` reads them. The second half saves users from themselves: rows on both sides of
a fit, and validation rows that cannot carry one.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from knn_ue.arrays import check_not_empty
from knn_ue.calibrators import Calibrator, Found
from knn_ue.data import Columns, read_rows
from knn_ue.data.datasets import is_dataset
from knn_ue.data.faults import OnError, stop
from knn_ue.data.frames import is_frame
from knn_ue.encoding import Example, read_example
from knn_ue.encoding.inputs import WordsOf, class_numbers, reads_numbers, split_words
from knn_ue.errors import FitWarning, InvalidInputError
from knn_ue.iob2 import find_spans, is_tag_set
from knn_ue.tasks import TASKS, Task
from knn_ue.types import Outputs

_SHOWN_NAMES = 12
_ENDS = ("E-", "S-", "L-", "U-")  # of BIOES and BILOU

Rows = str | Path | Iterable[object]


def iter_examples(
    rows: Rows,
    task: Task,
    *,
    labeled: bool,
    columns: Columns | None = None,
    words_of: WordsOf = split_words,
    on_error: OnError = stop,
) -> Iterator[Example]:
    """Yield the examples of a file, of a named source or of rows in memory; without labels unless `labeled`.

    `words_of` is how the model splits texts to tag (`Encoder.words_of`), `on_error` what is done about a row of a file
    or table that cannot be read.
    """
    if isinstance(rows, (str, Path)) or (not isinstance(rows, (list, Iterator)) and is_table(rows)):
        rows = read_rows(rows, task, labeled=labeled, columns=columns, on_error=on_error)
    elif columns is not None and columns != Columns():
        raise InvalidInputError(
            f"columns are named for files, frames and data sets, got rows of type {type(rows).__name__}: leave out "
            f"{', '.join(columns.given())}"
        )
    elif isinstance(rows, (bytes, Mapping)) or not isinstance(rows, Iterable):
        raise InvalidInputError(
            f"rows must be a list of rows or the name of a file, got one {type(rows).__name__}: wrap it in a list"
        )
    for number, row in enumerate(rows):
        if type(row) is tuple:
            row = _from_tuple(row, task)
        example = read_example(row, task, number, words_of=words_of)
        if not TASKS[task].is_tagging and not all(map(str.strip, example.parts)):
            raise InvalidInputError(
                f"{example.named(number)} must not be an empty text, got {''.join(example.parts)[:20]!r}: "
                "fill it in or leave it out"
            )
        yield example if labeled else replace(example, labels=None)


def labeled_examples(
    rows: Rows,
    task: Task,
    class_names: Sequence[str],
    *,
    name: str,
    columns: Columns | None = None,
    words_of: WordsOf = split_words,
) -> list[Example]:
    """Return examples that all have labels the model knows; `name` ("training") is how messages call them."""
    examples = list(iter_examples(rows, task, labeled=True, columns=columns, words_of=words_of))
    check_not_empty(len(examples), f"the {name} set")
    without = next((number for number, example in enumerate(examples) if example.labels is None), None)
    if without is not None:
        raise InvalidInputError(f"{name} {examples[without].named(without)} has no label: label every row")
    try:
        class_numbers(examples, class_names)
    except InvalidInputError as error:
        # "training row 3 has ...", but "training: reviews.csv, line 3 has ..."
        raise InvalidInputError(f"{name}{' ' if str(error).startswith('row ') else ': '}{error}") from None
    if reads_numbers(examples, class_names) and class_names[0] != "LABEL_0":
        order = ", ".join(f"{number} = {label}" for number, label in enumerate(class_names[:_SHOWN_NAMES]))
        more = ", ..." if len(class_names) > _SHOWN_NAMES else ""
        warnings.warn(f"the {name} labels are read as class numbers in the model's order: {order}{more}", stacklevel=3)
    if TASKS[task].is_tagging:
        _check_scheme(examples, class_names, name)
    return examples


def maybe_labeled_examples(
    rows: Rows,
    task: Task,
    class_names: Sequence[str],
    *,
    columns: Columns | None = None,
    words_of: WordsOf = split_words,
) -> tuple[list[Example], str | None]:
    """Return examples, and why their labels are left out: None where all of them have one that the model knows."""
    if isinstance(rows, Iterator):
        rows = list(rows)  # it may be needed twice
    try:
        return labeled_examples(rows, task, class_names, name="out-of-domain", columns=columns, words_of=words_of), None
    except InvalidInputError as error:
        # What is wrong beside labels is raised here.
        return list(iter_examples(rows, task, labeled=False, columns=columns, words_of=words_of)), str(error)


def input_examples(
    inputs: object, task: Task, columns: Columns | None = None, *, words_of: WordsOf = split_words
) -> Iterator[Example]:
    """Yield the examples to answer: a list, iterator, frame or data set holds many, anything else is one."""
    if is_table(inputs):
        if hasattr(inputs, "__len__") and not len(inputs):
            return iter(())  # as of an empty list
        return iter_examples(
            inputs,  # type: ignore[arg-type]
            task,
            labeled=False,
            columns=columns,
            words_of=words_of,
        )
    many = isinstance(inputs, (list, Iterator)) or (
        isinstance(inputs, Iterable) and not isinstance(inputs, (str, bytes, Mapping, tuple))
    )
    rows: Rows = inputs if many else [inputs]  # type: ignore[assignment]
    return iter_examples(rows, task, labeled=False, columns=columns, words_of=words_of)


def is_table(rows: object) -> bool:
    """Say whether `rows` have named columns: a DataFrame or a `datasets.Dataset`."""
    return is_frame(rows) or is_dataset(rows)


def count_stored(rows: Sequence[Example] | Outputs, task: Task) -> int:
    """Return how many examples a datastore will hold: in tagging each word is one."""
    if isinstance(rows, Outputs) or not TASKS[task].is_tagging:
        return len(rows)
    return sum(len(example.parts) for example in rows)


def _check_scheme(examples: Sequence[Example], class_names: Sequence[str], name: str) -> None:
    """Raise where the model marks the ends of entities and the tags do not: its right answers would count as wrong."""
    ends = {tag for tag in class_names if tag[:2] in _ENDS}
    used = {tag for example in examples for tag in example.labels or ()}
    if ends and not used & ends and any(tag[:2] in ("B-", "I-") for tag in used):
        raise InvalidInputError(
            f"the {name} tags end no entity with {' or '.join(sorted({tag[0] for tag in ends}))}, as the model's do "
            f"({min(ends)}), and files are read as IOB2: give rows in memory with the tags of the model"
        )


def _from_tuple(row: tuple[Any, ...], task: Task) -> object:
    record = TASKS[task]
    if record.is_pair and len(row) == 2 and isinstance(row[0], (tuple, list)) and len(row[0]) == 2:
        row = (*row[0], row[1])
    keys = record.keys(labeled=True)
    if len(row) != len(keys) or (record.is_tagging and isinstance(row[0], str)):
        return row
    return dict(zip(keys, row, strict=True))


_FEW_ROWS = 50
_FEW_MISTAKES = 5
_WAY_OUT = "remove them from one of the two"


def check_leakage(train: Sequence[Example], validation: Sequence[Example]) -> None:
    """Raise where validation examples are also training examples, white space aside.

    The model knows its training rows by heart: scores fitted on them promise too much for every other row.
    """
    contents = [tuple(" ".join(part.split()) for part in example.parts) for example in (*train, *validation)]
    known = set(contents[: len(train)])
    both = [number for number, content in enumerate(contents[len(train) :]) if content in known]
    if both:
        first = validation[both[0]]
        _refuse(len(both), len(validation), f"the first is {first.named(both[0])}, {' '.join(first.parts)[:60]!r}")


def check_vectors(found: Found, validation: Outputs) -> None:
    """Raise where the model cannot tell validation rows from stored ones: their vectors are the same.

    In tagging the same word in the same words may well occur twice, so only texts and pairs are checked.
    """
    if validation.groups is not None or not found:
        return
    nearest = np.min([neighbors.distances[:, 0] for neighbors in found.values()], axis=0)
    same = int((nearest == 0).sum())
    if same:
        _refuse(same, len(validation), "their vectors lie at distance 0 from stored ones")


def with_documents(outputs: Outputs, examples: Sequence[Example], *, required: bool = True) -> Outputs:
    """Return the outputs of the examples with the number of each one's document, which all of them must name."""
    without = next((number for number, example in enumerate(examples) if example.document is None), None)
    if without is not None or not examples:
        if not required:
            return outputs
        named = "there is no row" if without is None else f"{examples[without].named(without)} has none"
        raise InvalidInputError(
            f"unit='document' needs the field document in every row, {named}: add it, or leave out unit",
            shell=f"--unit document needs the field document in every row, {named}: add it, or leave out --unit",
        )
    numbers = np.unique([example.document for example in examples], return_inverse=True)[1]
    sizes = [1 if outputs.groups is None else len(example.parts) for example in examples]
    return replace(outputs, documents=np.repeat(numbers, sizes))


def check_not_stored(calibrator: Calibrator, held_out: Outputs) -> None:
    """Raise where held-out rows, or all words of such a sentence, are stored: they would find themselves.

    The vector of a text may differ in its last digits from the stored one, so their texts are compared too.
    """
    if not any(map(len, calibrator.stores.values())):
        return
    *_, (name, store) = calibrator.stores.items()
    neighbors = calibrator.search(held_out)[name]
    same = neighbors.distances[:, 0] == 0
    if held_out.texts is not None:
        texts = zip(store.texts_of(neighbors.ids[:, 0]), held_out.texts, strict=True)
        same |= np.array([theirs == own for theirs, own in texts], dtype=bool)
    rows = np.arange(len(same)) if held_out.groups is None else np.unique(held_out.groups, return_inverse=True)[1]
    stored = np.ones(int(rows.max()) + 1, dtype=bool)
    np.logical_and.at(stored, rows, same)
    if not stored.any():
        return
    ids = np.unique(neighbors.ids[stored[rows] & same, 0]).tolist()
    shown = ", ".join(map(str, ids[:_SHOWN_NAMES])) + (", ..." if len(ids) > _SHOWN_NAMES else "")
    raise InvalidInputError(
        f"{int(stored.sum())} of the {len(stored)} validation rows held out for the promise are stored examples, so a "
        f"refit would promise too much: remove these examples (ids {shown}), or fit again with other validation rows"
    )


def warn_if_weak(validation: Outputs) -> None:
    """Warn where the validation rows are too few, hold too few mistakes, or no entity is ever predicted."""
    labels = validation.require_labels("fit")
    n_mistakes = int((validation.predicted != labels).sum())
    n_rows = len(validation) if validation.groups is None else len(np.unique(validation.groups))
    if n_rows < _FEW_ROWS:
        _warn(f"{n_rows} validation rows are too few to fit confidence on: use at least {_FEW_ROWS}, better 500")
    elif n_mistakes < _FEW_MISTAKES:
        _warn(
            f"the model is wrong on {n_mistakes} of {n_rows} validation rows, too few to learn when it is wrong: add "
            "rows, and check that it was not trained on these"
        )
    if validation.groups is not None and _finds_no_entity(validation):
        _warn("the model predicts no entity on the validation rows: check the model, its tags and the language")


def warn_of_absent_classes(stored: Outputs) -> None:
    """Warn where no stored row has a class of the model: what is near to one is then always of another class."""
    names = stored.class_names
    if names is None or stored.groups is not None:  # a tag that no word has is no surprise
        return
    absent = [names[number] for number in np.setdiff1d(np.arange(len(names)), stored.require_labels("fit"))]
    if absent:
        shown = ", ".join(absent[:_SHOWN_NAMES]) + (", ..." if len(absent) > _SHOWN_NAMES else "")
        _warn(
            f"no training row has {len(absent)} of the model's {len(names)} labels ({shown}): check the training rows"
        )


def _finds_no_entity(validation: Outputs) -> bool:
    names = validation.class_names
    if names is None or not is_tag_set(set(names)):
        return False
    assert validation.groups is not None
    tags = np.asarray(names)[validation.predicted].tolist()
    _, (spans,) = find_spans([tags], np.flatnonzero(np.diff(validation.groups, prepend=-1)))
    return bool(spans.shape[1] == 0)


def _refuse(n_rows: int, n_all: int, detail: str) -> None:
    rule = f"{n_rows} of {n_all} validation rows are also training rows ({detail}), so scores would be too high: "
    raise InvalidInputError(
        f"{rule}{_WAY_OUT}, or pass allow_leakage=True", shell=f"{rule}{_WAY_OUT}, or pass --allow-leakage"
    )


def _warn(sentence: str) -> None:
    warnings.warn(sentence, FitWarning, stacklevel=5)
