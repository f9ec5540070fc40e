"""JSON files that are one array of objects -> records, such as the JSON export of Label Studio.

Of a task of Label Studio that is its data, with the label that was chosen or the tags of marked spans.
"""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

from knn_ue.data.faults import OnError
from knn_ue.data.lines import Place
from knn_ue.data.reading import Record
from knn_ue.data.tool_answers import label_studio_answer, label_studio_entities
from knn_ue.errors import InvalidInputError

_ARRAY_BYTES = 256 << 20  # an array must be in memory as a whole


def read_array(path: Path, lines: Iterator[tuple[Place, str]], on_error: OnError) -> Iterator[tuple[Place, Record]]:
    """Yield each object of a JSON array, which may stand on many lines, with its place."""
    parts: list[str] = []
    n_bytes = 0
    for _, line in lines:
        n_bytes += len(line.encode())
        if n_bytes > _ARRAY_BYTES:
            raise InvalidInputError(
                f"{path} is one JSON array of more than {_ARRAY_BYTES >> 20} MiB, which must be in memory as a whole: "
                "save it as JSON lines, one object per line"
            )
        parts.append(line)
    try:
        items = json.loads("".join(parts))
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{path} must be one JSON array or JSON lines ({error}): correct the file") from None
    for number, item in enumerate(items, start=1):
        place = Place(str(path), number, "item")
        if not isinstance(item, dict):
            raise place.error("an item of the array must be an object", item, 'write {"text": ..., "label": ...}')
        try:
            record = read_task(item, place) if is_label_studio(item) else item
        except InvalidInputError as error:
            on_error(error)
            continue
        yield place, record


def is_label_studio(item: Record) -> bool:
    """Return whether an item of a JSON array is a task as Label Studio exports it, or imports it without any label."""
    labeled = isinstance(item.get("annotations"), list) or isinstance(item.get("predictions"), list)
    return isinstance(item.get("data"), dict) and (labeled or item.keys() == {"data"})


def read_task(item: Record, place: Place) -> dict[str, Any]:
    """Return the data of a task with its `label`, or with `tags` where it holds `tokens`; of the last annotation.

    The last prediction is its `answer`. A span belongs to every word it touches. Raises InvalidInputError where nobody
    has labeled the task.
    """
    data = {key: value for key, value in item["data"].items() if key not in ("label", "tags")}
    data |= label_studio_answer(item)
    done = [x for x in item.get("annotations", []) if isinstance(x, dict) and not x.get("was_cancelled")]
    if not done and "answer" in data and "annotations" not in item:
        return data  # answers to be scored
    if not done:
        raise place.error("a task of Label Studio must be labeled", data, "label it, or leave it out of the export")
    results = done[-1].get("result")
    items: list[Any] = results if isinstance(results, list) else []
    values: list[dict[str, Any]] = [
        x["value"] for x in items if isinstance(x, dict) and isinstance(x.get("value"), dict)
    ]
    tokens = data.get("tokens")
    if isinstance(tokens, list) and all(isinstance(token, str) for token in tokens):
        data.pop("text", None)
        return data | {"tags": _tags(tokens, values, place)}
    if done and any("labels" in value for value in values):
        return data | {"label": [entity for one in items for entity in label_studio_entities(one)]}
    chosen = [value["choices"] for value in values if isinstance(value.get("choices"), list)]
    if len(chosen) != 1 or len(chosen[0]) != 1:
        raise place.error("a task of Label Studio must have one choice", chosen, "choose one label for each text")
    return data | {"label": chosen[0][0]}


def _tags(tokens: list[str], values: list[dict[str, Any]], place: Place) -> list[str]:
    """Return IOB2 tags of words that were shown with one space between them."""
    ends = list(accumulate(len(token) + 1 for token in tokens))
    firsts = [end - 1 - len(token) for token, end in zip(tokens, ends, strict=True)]
    lasts = [end - 1 for end in ends]
    tags = ["O"] * len(tokens)
    for value in values:
        start, end, kinds = value.get("start"), value.get("end"), value.get("labels")
        if not (isinstance(start, int) and isinstance(end, int) and isinstance(kinds, list) and len(kinds) == 1):
            raise place.error("a marked span needs start, end and one label", value, "export it again as JSON")
        words = range(bisect_right(lasts, start), bisect_left(firsts, end))
        if any(tags[number] != "O" for number in words):
            raise place.error("marked spans must not share a word", value, "keep one of them")
        for number in words:
            tags[number] = f"{'B' if number == words[0] else 'I'}-{kinds[0]}"
    return tags
