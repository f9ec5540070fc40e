"""The classes of a training set, and the score that early stopping looks at."""

import re
from collections.abc import Sequence

import numpy as np

from knn_ue.arrays import IntArray, softmax
from knn_ue.encoding.inputs import Example, all_labeled, class_numbers, read_examples
from knn_ue.errors import InvalidInputError
from knn_ue.iob2 import find_spans, is_tag_set, same_spans
from knn_ue.tasks import TASKS, Task, task_name
from knn_ue.types import Outputs


def label_names(examples: Sequence[Example], task: Task) -> tuple[str, ...]:
    """Return the classes of labeled examples: sorted, whole numbers by value; for entity tags, "O" comes first.

    Every type of entity gets both its tags, since the training rows may hold only one of them.

    >>> label_names([Example(("Ada", "wrote"), ("B-PER", "O"))], "token-classification")
    ('O', 'B-PER', 'I-PER')
    """
    if not examples:
        raise InvalidInputError("the training rows are empty: at least one row of each class is needed")
    if not all_labeled(examples):
        raise InvalidInputError("the training rows have no labels: add them")
    found = {label for example in examples for label in example.labels or ()}
    if TASKS[task].is_tagging and is_tag_set(found):
        types = sorted({label[1:] for label in found if label != "O"})  # "-PER", or nothing after a bare B
        names = ["O", *(f"{part}{kind}" for kind in types for part in "BI")]
    elif all(re.fullmatch(r"-?[0-9]+", label) for label in found):
        names = sorted(found, key=lambda label: (int(label), label))
    else:
        names = sorted(found)
    if len(names) < 2:
        raise InvalidInputError(
            f"the training rows must have at least 2 classes, got {len(names)} ({', '.join(names) or 'no label'}): "
            "add rows of another class"
        )
    return tuple(names)


def check_validation(examples: Sequence[Example], names: Sequence[str]) -> None:
    """Raise unless the validation examples are labeled with classes of the training set."""
    if not examples:
        raise InvalidInputError("the validation rows are empty: early stopping needs at least one")
    if not all_labeled(examples):
        raise InvalidInputError("the validation rows have no labels: add them")
    try:
        class_numbers(examples, names)
    except InvalidInputError as error:
        raise InvalidInputError(f"validation {error} (those of the training rows)") from None


def check_rows(rows: Sequence[object], validation_rows: Sequence[object], task: str) -> None:
    """Raise unless the validation rows are labeled with classes of the training rows."""
    known = task_name(task)
    names = label_names(list(read_examples(rows, known)), known)
    check_validation(list(read_examples(validation_rows, known)), names)


def score_outputs(outputs: Outputs, *, entities: bool) -> dict[str, float]:
    """Return accuracy and mean log loss, and with `entities` the F1, which then stands first."""
    labels = outputs.require_labels("validation")
    probs = softmax(outputs.logits)[np.arange(len(labels)), labels]
    scores = {
        "accuracy": float((outputs.predicted == labels).mean()),
        "loss": float(-np.log(np.maximum(probs, np.finfo(np.float64).tiny)).mean()),
    }
    if not entities:
        return scores
    names = np.asarray(outputs.class_names)
    groups = np.asarray(outputs.groups)
    return {"f1": entity_f1(names[labels].tolist(), names[outputs.predicted].tolist(), groups)} | scores


def entity_f1(gold: Sequence[str], predicted: Sequence[str], groups: IntArray) -> float:
    """Return the micro-averaged F1 of entities, as seqeval's default: type and span must match; 0 where there is none.

    >>> entity_f1(["B-PER", "I-PER", "O"], ["B-PER", "O", "O"], [0, 0, 0])
    0.0
    """
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    _, (truth, found) = find_spans([list(gold), list(predicted)], starts)
    n_right = int(same_spans(found, truth, n_words=len(gold)).sum())
    return 2 * n_right / max(1, int(truth.shape[1] + found.shape[1]))
