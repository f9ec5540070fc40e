"""One answer <-> one JSON line of `knn-ue predict`, whoever writes the file."""

import json
import math
from collections.abc import Mapping
from typing import Any

from knn_ue.data import PairRow, Row, TaggedRow

Answer = dict[str, Any]


def input_of(row: Row) -> Answer:
    """Return what an answer repeats of its row; the words of a tagged sentence are in the answer itself.

    >>> from knn_ue.data import TextRow
    >>> input_of(TextRow("a fine film", "pos"))
    {'text': 'a fine film'}
    """
    if isinstance(row, TaggedRow):
        return {}
    if isinstance(row, PairRow):
        return {"premise": row.premise, "hypothesis": row.hypothesis}
    return {"text": row.text}


def passed_on(row: Row, answer: Answer) -> Answer:
    """Return the answer behind its input and the columns that the row had beside it.

    A column that is called like a field of answers, as a label may be, is renamed.

    >>> from knn_ue.data import TextRow
    >>> passed_on(TextRow("fine", extra={"id": 7, "label": "neg"}), {"label": "pos", "score": 0.9})
    {'text': 'fine', 'id': 7, 'input_label': 'neg', 'label': 'pos', 'score': 0.9}
    """
    inputs = input_of(row)
    taken = inputs.keys() | answer.keys()
    extra = {f"input_{name}" if name in taken else name: _plain(value) for name, value in (row.extra or {}).items()}
    return inputs | extra | answer


def _plain(value: Any) -> Any:
    """Return a value of any table as JSON knows it: dates and decimals as text, what is no number as null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if hasattr(value, "tolist"):  # of numpy
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def encoded(answer: Answer) -> bytes:
    """Return an answer as JSON, without the line's end."""
    return json.dumps(answer, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def answer_line(row: Row, answer: Answer) -> bytes:
    """Return the line of the answer to one row."""
    return encoded(passed_on(row, answer)) + b"\n"


def abstains(answer: Answer) -> bool:
    """Say whether the answer, or one of its entities, is an abstention."""
    return bool(answer.get("abstained")) or any(entity["abstained"] for entity in answer.get("entities", ()))
