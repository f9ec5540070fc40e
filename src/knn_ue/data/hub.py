"""Data sets of the Hugging Face hub through the `datasets` library -> rows."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from knn_ue.arrays import check_choice
from knn_ue.data.fields import Record, pair_row, text_row, tokens_and_tags
from knn_ue.data.lines import Place, shorten
from knn_ue.data.rows import Row, at_least_one
from knn_ue.data.tags import Sentence, TagScheme, tagged_rows
from knn_ue.errors import InvalidInputError, require
from knn_ue.hub_access import cache_only_if_unreachable
from knn_ue.tasks import TASKS, Task

Unlabeled = Literal["refuse", "drop"]

# What the hub allows in names; in a config also what is in use there. Never a path: "..", "~", "C:".
_NAME = re.compile(r"\w[\w.+-]*")

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


@dataclass(frozen=True)
class HubName:
    """What `owner/name:split` or `owner/name/config:split` names."""

    dataset: str
    config: str | None
    split: str

    @classmethod
    def parse(cls, text: str) -> "HubName":
        """Read the part of a source after "hub:".

        >>> HubName.parse("nyu-mll/glue/mnli:validation_matched")
        HubName(dataset='nyu-mll/glue', config='mnli', split='validation_matched')
        """
        path, _, split = text.partition(":")
        parts = path.split("/")
        if not split or len(parts) not in (2, 3) or not all(map(_NAME.fullmatch, parts)):
            raise InvalidInputError(
                "a hub source must be hub:owner/name:split or hub:owner/name/config:split, "
                f"got {shorten('hub:' + text)}"
            )
        return cls("/".join(parts[:2]), parts[2] if len(parts) == 3 else None, split)

    def __str__(self) -> str:
        path = self.dataset if self.config is None else f"{self.dataset}/{self.config}"
        return f"hub:{path}:{self.split}"


def read_hub(
    name: HubName,
    task: Task,
    *,
    labeled: bool = True,
    scheme: TagScheme = "auto",
    unlabeled: Unlabeled = "refuse",
) -> Iterator[Row]:
    """Yield the rows of one split; class numbers become their names.

    A row without a label (None or -1) is an error, or left out with `unlabeled="drop"`.
    """
    check_choice(unlabeled, "unlabeled", get_args(Unlabeled))
    return rows_of(load_split(name), name, task, labeled=labeled, scheme=scheme, unlabeled=unlabeled)


def rows_of(
    dataset: Any, name: HubName, task: Task, *, labeled: bool, scheme: TagScheme, unlabeled: Unlabeled
) -> Iterator[Row]:
    """Yield the rows of a loaded split, as `read_hub` does."""
    records = _Records(dataset, name, task, labeled=labeled, drop=unlabeled == "drop")
    if TASKS[task].is_tagging:
        return at_least_one(tagged_rows(records.sentences, scheme, labeled=labeled), str(name))
    build = pair_row if TASKS[task].is_pair else text_row
    return at_least_one((build(record, place, labeled=labeled) for place, record in records), str(name))


def load_split(name: HubName) -> Any:
    """Return the `datasets.Dataset` of one split, memory-mapped from the library's own cache."""
    require("datasets", extra="hf", purpose=str(name))
    import datasets

    try:
        with cache_only_if_unreachable():
            return datasets.load_dataset(name.dataset, name.config, split=name.split)
    except Exception as error:  # the library raises anything from ValueError to errors of its HTTP client
        reason = re.sub(r"\w+://\S+", "...", str(error).strip().split("\n")[0])[:200]
        raise InvalidInputError(
            f"{name} cannot be loaded ({type(error).__name__}: {reason}): check owner, name, config and split, "
            "and that the hub can be reached or the set is in the cache of the datasets library"
        ) from None


class _Records:
    """The rows of a hub split as records with our keys."""

    def __init__(self, dataset: Any, name: HubName, task: Task, *, labeled: bool, drop: bool) -> None:
        self.name, self.task, self.labeled, self.drop = name, task, labeled, drop
        found = _first(INPUT_COLUMNS[task], dataset.features, name)
        self.columns = dict(zip(TASKS[task].input_keys, found, strict=True))
        self.names: list[str] | None = None
        if labeled:
            (column,) = _first(LABEL_COLUMNS[task], dataset.features, name)
            self.columns[TASKS[task].label_key] = column
            self.names = _class_names(dataset.features[column])
        self.dataset = dataset.select_columns(list(self.columns.values()))

    def __iter__(self) -> Iterator[tuple[Place, Record]]:
        label_key = TASKS[self.task].label_key
        for number, values in enumerate(self.dataset):
            record = {key: values[column] for key, column in self.columns.items()}
            place = Place(str(self.name), number, "row")
            if self.labeled:
                record[label_key] = self._named(record[label_key])
                if record[label_key] is None and self.drop:
                    continue
                if record[label_key] is None:
                    raise place.error(
                        "every row must have a label",
                        values,
                        f"name {self.name}?unlabeled=drop to leave such rows out",
                    )
            yield place, record

    def sentences(self) -> Iterator[Sentence]:
        for place, record in self:
            tokens, tags = tokens_and_tags(record, place, labeled=self.labeled)
            yield Sentence(tokens, tags, (place,) * len(tokens))

    def _named(self, label: Any) -> Any:
        if isinstance(label, list):
            return [self._named(tag) for tag in label]
        if label == -1:
            return None
        return self.names[label] if self.names and isinstance(label, int) else label


def _first(candidates: Sequence[tuple[str, ...]], features: Mapping[str, Any], name: HubName) -> tuple[str, ...]:
    for columns in candidates:
        if all(column in features for column in columns):
            return columns
    known = "; ".join(", ".join(columns) for columns in candidates)
    raise InvalidInputError(
        f"{name} must have one of the columns {known}, got {', '.join(features)}: save it as JSON lines with our keys"
    )


def _class_names(feature: Any) -> list[str] | None:
    """Return the names behind class numbers, for one label or a list of them, whatever the library's version."""
    inner = feature[0] if isinstance(feature, list) else getattr(feature, "feature", feature)
    return getattr(inner, "names", None)
