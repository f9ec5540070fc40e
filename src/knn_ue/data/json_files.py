"""JSON lines, and JSON files that are one array of objects, such as the JSON export of Label Studio."""

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from knn_ue.data.faults import OnError
from knn_ue.data.label_studio import is_label_studio, read_task
from knn_ue.data.lines import Limits, Place, read_lines
from knn_ue.data.reading import Record
from knn_ue.errors import InvalidInputError

_ARRAY_BYTES = 256 << 20  # an array must be in memory as a whole


def read_json(path: Path, limits: Limits, on_error: OnError) -> Iterator[tuple[Place, Record]]:
    """Yield each JSON object with its place: one per line, blank lines aside, or the items of one array."""
    lines = read_lines(path, limits)
    for place, line in lines:
        if not line.strip():
            continue
        again = chain([(place, line)], lines)
        yield from (_array(path, again, on_error) if line.lstrip().startswith("[") else _lines(again, on_error))
        return


def _lines(lines: Iterator[tuple[Place, str]], on_error: OnError) -> Iterator[tuple[Place, Record]]:
    for place, line in lines:
        line = line.strip()
        if not line:
            continue
        try:
            record = _object(line, place)
        except InvalidInputError as error:
            on_error(error)
            continue
        yield place, record


def _object(line: str, place: Place) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise place.error(
            f"a line must be one JSON object ({error.msg} at column {error.colno})",
            line,
            "write one complete object per line",
        ) from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, lists in lists without end
        raise place.error(f"a line must be one JSON object ({error})", line, "simplify the line") from None
    if not isinstance(record, dict):
        raise place.error("a line must be a JSON object", line, 'write {"text": ..., "label": ...}')
    return record


def _array(path: Path, lines: Iterator[tuple[Place, str]], on_error: OnError) -> Iterator[tuple[Place, Record]]:
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
