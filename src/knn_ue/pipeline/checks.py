"""What saves users from themselves: rows on both sides of a fit, and validation rows that cannot carry one."""

import warnings
from collections.abc import Sequence

import numpy as np

from knn_ue.calibrators import Found
from knn_ue.encoding import Example
from knn_ue.errors import FitWarning, InvalidInputError
from knn_ue.iob2 import find_spans, is_tag_set
from knn_ue.types import Outputs

_FEW_ROWS = 50
_FEW_MISTAKES = 5
_WAY_OUT = "remove them from one of the two"


def check_leakage(train: Sequence[Example], validation: Sequence[Example]) -> None:
    """Raise where validation examples are also training examples, white space aside.

    The model knows its training rows by heart: scores fitted on them promise too much for every other row.
    """
    known = {_content(example) for example in train}
    both = [number for number, example in enumerate(validation) if _content(example) in known]
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
    if _finds_no_entity(validation):
        _warn("the model predicts no entity on the validation rows: check the model, its tags and the language")


def _finds_no_entity(validation: Outputs) -> bool:
    names = validation.class_names
    if validation.groups is None or names is None or not is_tag_set(set(names)):
        return False
    tags = np.asarray(names)[validation.predicted].tolist()
    _, (spans,) = find_spans([tags], np.flatnonzero(np.diff(validation.groups, prepend=-1)))
    return bool(spans.shape[1] == 0)


def _content(example: Example) -> tuple[str, ...]:
    return tuple(" ".join(part.split()) for part in example.parts)


def _refuse(n_rows: int, n_all: int, detail: str) -> None:
    rule = f"{n_rows} of {n_all} validation rows are also training rows ({detail}), so scores would promise too much: "
    raise InvalidInputError(
        f"{rule}{_WAY_OUT}, or pass allow_leakage=True", shell=f"{rule}{_WAY_OUT}, or pass --allow-leakage"
    )


def _warn(sentence: str) -> None:
    warnings.warn(sentence, FitWarning, stacklevel=5)
