"""The JSON export of Label Studio -> records: its data, with the label that was chosen or the tags of marked spans."""

from itertools import accumulate
from typing import Any

from knn_ue.data.lines import Place
from knn_ue.data.reading import Record


def is_label_studio(item: Record) -> bool:
    """Return whether an item of a JSON array is a task as Label Studio exports it."""
    return isinstance(item.get("data"), dict) and isinstance(item.get("annotations"), list)


def read_task(item: Record, place: Place) -> dict[str, Any]:
    """Return the data of a task with its `label`, or with `tags` where it holds `tokens`; of the last annotation.

    A span belongs to every word it touches. Raises InvalidInputError where nobody has labeled the task.
    """
    data = {key: value for key, value in item["data"].items() if key not in ("label", "tags")}
    done = [x for x in item["annotations"] if isinstance(x, dict) and not x.get("was_cancelled")]
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
    chosen = [value["choices"] for value in values if isinstance(value.get("choices"), list)]
    if len(chosen) != 1 or len(chosen[0]) != 1:
        raise place.error("a task of Label Studio must have one choice", chosen, "choose one label for each text")
    return data | {"label": chosen[0][0]}


def _tags(tokens: list[str], values: list[dict[str, Any]], place: Place) -> list[str]:
    """Return IOB2 tags of words that were shown with one space between them."""
    ends = list(accumulate(len(token) + 1 for token in tokens))
    bounds = [(end - 1 - len(token), end - 1) for token, end in zip(tokens, ends, strict=True)]
    tags = ["O"] * len(tokens)
    for value in values:
        start, end, kinds = value.get("start"), value.get("end"), value.get("labels")
        if not (isinstance(start, int) and isinstance(end, int) and isinstance(kinds, list) and len(kinds) == 1):
            raise place.error("a marked span needs start, end and one label", value, "export it again as JSON")
        words = [number for number, (first, last) in enumerate(bounds) if first < end and start < last]
        if any(tags[number] != "O" for number in words):
            raise place.error("marked spans must not share a word", value, "keep one of them")
        for number in words:
            tags[number] = f"{'B' if number == words[0] else 'I'}-{kinds[0]}"
    return tags
