"""Data sets of the `datasets` library, in memory, saved to disk or from the hub -> rows; class numbers become names."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from knn_ue.data.columns import proposal
from knn_ue.data.lines import Place, check_file
from knn_ue.data.reading import Reading, Record, at_least_one
from knn_ue.data.rows import Row
from knn_ue.errors import InvalidInputError, require
from knn_ue.tasks import TASKS, Task

IN_MEMORY = "the data set"  # what messages call one that has no name

Unlabeled = Literal["refuse", "drop"]

# The names that published sets give to our keys; the first that a set has is taken.
INPUT_COLUMNS: Mapping[Task, Sequence[tuple[str, ...]]] = {
    "text-classification": [("text",), ("sentence",), ("content",), ("review",), ("utterance",)],
    "text-pair": [
        ("premise", "hypothesis"),
        ("sentence1", "sentence2"),
        ("text1", "text2"),
        ("question1", "question2"),
        ("question", "sentence"),
    ],
    "token-classification": [("tokens",), ("words",)],
}
LABEL_COLUMNS: Mapping[Task, Sequence[tuple[str, ...]]] = {
    "text-classification": [("label",), ("labels",), ("sentiment",), ("intent",)],
    "text-pair": [("label",), ("labels",), ("gold_label",)],
    "token-classification": [("ner_tags",), ("tags",), ("ner",), ("labels",)],
}


def is_dataset(given: object) -> bool:
    """Say whether `given` is a `datasets.Dataset`, streamed or not; the library is not loaded to find out."""
    return type(given).__module__.partition(".")[0] == "datasets" and hasattr(given, "column_names")


def load_saved(path: Path) -> Any:
    """Return the data set that `Dataset.save_to_disk` wrote to the folder `path`."""
    if not any((path / name).is_file() for name in ("dataset_info.json", "dataset_dict.json")):
        check_file(path)
    require("datasets", extra="hf", purpose=f"reading {path}")
    import datasets

    try:
        _check_named_files(path)
        found = datasets.load_from_disk(str(path))
        for split in found.values() if isinstance(found, Mapping) else (found,):
            # Arrow believes what a file says of its texts: where one ends may lie outside of the file.
            split.data.table.validate(full=True)
    except Exception as error:  # the library raises anything
        reason = re.sub(r"\w+://\S+", "...", str(error).strip().split("\n")[0])[:200]
        raise InvalidInputError(f"{path} is not a readable data set ({reason}): save it again") from None
    return check_split(found, str(path))


def _check_named_files(path: Path) -> None:
    """Raise where a saved set names a file outside of its folder: such a file is none of its own."""
    for said in (*path.glob("state.json"), *path.glob("*/state.json")):
        state = json.loads(said.read_bytes())
        for entry in [*(state.get("_data_files") or ()), *(state.get("_indices_files") or ())]:
            name = str(entry["filename"])
            if Path(name).name != name or (said.parent / name).is_symlink():
                raise ValueError(f"{said.name} names {name[:60]!r}, which is outside of its folder")


def check_split(found: Any, name: str) -> Any:
    """Return the data set; raise where it is a dictionary of several."""
    if isinstance(found, Mapping):
        splits = ", ".join(map(str, found))
        first = str(next(iter(found)))
        way = f"pass one, data[{first!r}]" if name == IN_MEMORY else f"name one, {name}/{first}"
        raise InvalidInputError(f"{name} holds the splits {splits}, but one is needed: {way}")
    return found


def rows_of(dataset: Any, name: str, reading: Reading, *, unlabeled: Unlabeled = "refuse") -> Iterator[Row]:
    """Yield the rows of a loaded split; one without a label (None or -1) is an error, or dropped."""
    dataset = check_split(dataset, name).with_format(None)  # plain values, whatever they were formatted as
    columns = _columns(_features(dataset), name, reading)
    known = replace(reading, columns=columns)
    return at_least_one(known.rows(lambda: _records(dataset, name, known, drop=unlabeled == "drop")), name)


def _features(dataset: Any) -> Mapping[str, Any]:
    """Return the columns with their types where known; a stream may not know them before its first row."""
    return dataset.features or dict.fromkeys(dataset.column_names or next(iter(dataset), ()))


def _columns(features: Mapping[str, Any], name: str, reading: Reading) -> dict[str, str]:
    """Return the columns to read: those the user named, our own, or the usual ones of published sets."""
    task = TASKS[reading.task]
    given = reading.columns
    wanted = [(task.input_keys, INPUT_COLUMNS[reading.task])]
    has_words = any(column in features for names in INPUT_COLUMNS[reading.task] for column in names)
    if task.is_tagging and "text" in reading.needed(features) and ("text" in given or not has_words):
        wanted = [(("text",), [("text",)])]
    if reading.labeled:
        wanted.append(((task.label_key,), LABEL_COLUMNS[reading.task]))
    chosen: dict[str, str] = {}
    for keys, candidates in wanted:
        if any(key in given for key in keys):
            candidates = [tuple(given.get(key, key) for key in keys)]
        chosen |= dict(zip(keys, _first(keys, candidates, features, name), strict=True))
    return chosen


def _first(
    keys: Sequence[str], candidates: Sequence[tuple[str, ...]], features: Mapping[str, Any], name: str
) -> tuple[str, ...]:
    for columns in candidates:
        if all(column in features for column in columns):
            return columns
    known = "; ".join(", ".join(columns) for columns in candidates)
    python, shell = proposal(keys, list(features))
    said = f"{name} must have one of the columns {known}, got {', '.join(features)}: "
    raise InvalidInputError(said + python, shell=said + shell)


def _records(dataset: Any, name: str, reading: Reading, *, drop: bool) -> Iterator[tuple[Place, Record]]:
    key = TASKS[reading.task].label_key
    label = reading.columns.get(key, key)
    names = _class_names((dataset.features or {}).get(label)) if reading.labeled or reading.extras else None
    if not reading.extras:
        known = _features(dataset)
        dataset = dataset.select_columns([name for name in reading.wanted(known) if name in known])
    for number, values in enumerate(dataset):
        record, place = dict(values), Place(name, number, "row")
        if label in record:
            record[label] = _named(record[label], names)
        if reading.labeled and record[label] is None:
            if drop:
                continue
            way_out = (
                f"name {name}?unlabeled=drop to leave such rows out" if name.startswith("hub:") else "filter them out"
            )
            raise place.error("every row must have a label", values, way_out)
        yield place, record


def _named(label: Any, names: Sequence[str] | None) -> Any:
    if isinstance(label, list):
        return [_named(tag, names) for tag in label]
    if label == -1:
        return None
    return names[label] if names and isinstance(label, int) else label


def _class_names(feature: Any) -> list[str] | None:
    """Return the names behind class numbers, for one label or a list of them, whatever the library's version."""
    inner = feature[0] if isinstance(feature, list) else getattr(feature, "feature", feature)
    return getattr(inner, "names", None)
