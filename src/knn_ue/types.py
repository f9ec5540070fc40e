"""The records that stages hand to each other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from knn_ue.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    check_length,
    check_not_empty,
    float_matrix,
    label_vector,
    logit_matrix,
    read_only,
    text_tuple,
    to_numpy,
)
from knn_ue.errors import InvalidInputError
from knn_ue.shown import Shown

LAYER = "layers."  # where columns are kept by name, the first layer is "layers.0"

# What long work calls: what is being done ("training", "validation", "test", ...), rows done, rows in all or None.
Progress = Callable[[str, int, int | None], None]
# The same within one stage: an encoder does not know which rows it reads.
Step = Callable[[int, int | None], None]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Outputs(Shown):
    """What a model returns for n examples: checked when created, read-only afterwards.

    `logits` (n, classes); `features` (n, d) float32; `labels` (n,) class numbers; `layers`, one (n, d) array per
    layer; `views` (n, views, k), what familiarity looks at; `groups` (n,), the sentence of each word;
    `documents` (n,), the document of each row, where rows of one are not independent;
    `class_names`; `texts`, and `pairs` where each row is two texts: then `texts` shows them as "first → second";
    `words`, those of tagged sentences as they are written: evidence for entities, but for models with `sees_case`,
    which know capital letters; `decoded` (n,) class numbers, where the prediction is not the highest logit, as in a
    parser. Arrays may be lists, numpy arrays (memory-mapped ones stay mapped) or tensors of any
    framework.

    >>> outputs = Outputs(features=[[0.0, 1.0]], logits=[[2.0, -1.0]], labels=[0])
    >>> len(outputs), outputs.n_classes, outputs.predicted
    (1, 2, array([0]))
    """

    logits: FloatArray
    features: FloatArray | None = None
    labels: IntArray | None = None
    layers: Sequence[FloatArray] | None = None
    views: FloatArray | None = None
    decoded: IntArray | None = None
    groups: IntArray | None = None
    documents: IntArray | None = None
    class_names: Sequence[str] | None = None
    texts: Sequence[str] | None = None
    pairs: Sequence[tuple[str, str]] | None = None
    words: Sequence[str] | None = None
    sees_case: bool = False

    def __post_init__(self) -> None:
        logits = logit_matrix(self.logits, "logits")
        n_rows, n_classes = logits.shape
        if n_classes < 2:
            raise InvalidInputError(
                f"logits must have a column for each of at least 2 classes, got shape {logits.shape}"
            )
        checked: dict[str, Any] = {"logits": read_only(logits)}
        if self.features is not None:
            checked["features"] = _matrix_of(self.features, "features", n_rows)
        if self.labels is not None:
            checked["labels"] = read_only(label_vector(self.labels, "labels", n_classes=n_classes, length=n_rows))
        if self.decoded is not None:
            checked["decoded"] = read_only(label_vector(self.decoded, "decoded", n_classes=n_classes, length=n_rows))
        if self.layers is not None:
            checked["layers"] = tuple(_matrix_of(x, f"layers[{i}]", n_rows) for i, x in enumerate(self.layers))
        if self.views is not None:
            checked["views"] = _views_of(self.views, n_rows)
        if self.groups is not None:
            checked["groups"] = read_only(_groups(self.groups, n_rows))
        if self.documents is not None:
            checked["documents"] = read_only(label_vector(self.documents, "documents", length=n_rows))
        if self.class_names is not None:
            names = text_tuple(self.class_names, "class_names")
            if len(names) != n_classes or len(set(names)) != len(names):
                raise InvalidInputError(
                    f"class_names must be {n_classes} different names, one per column of logits, got {names}"
                )
            if bad := [name for name in names if name != name.encode(errors="ignore").decode()]:
                raise InvalidInputError(f"class_names must be valid Unicode, got {bad[0]!r}: rename the class")
            checked["class_names"] = names
        if self.pairs is not None:
            checked["pairs"] = _pairs(self.pairs, n_rows)
            checked["texts"] = tuple(f"{first} → {second}" for first, second in checked["pairs"])
        elif self.texts is not None:
            checked["texts"] = text_tuple(self.texts, "texts", length=n_rows)
        if self.words is not None:
            checked["words"] = text_tuple(self.words, "words", length=n_rows)
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.logits)

    def facts(self) -> dict[str, object]:
        """Return a summary, by name."""
        optional = ("labels", "layers", "views", "groups", "texts", "words")
        facts: dict[str, object] = {"rows": len(self), "classes": ", ".join(self.class_names or ()) or self.n_classes}
        if self.features is not None:
            facts["features"] = self.features.shape[1]
        return facts | {"with": ", ".join(name for name in optional if getattr(self, name) is not None) or "no labels"}

    @property
    def n_classes(self) -> int:
        """Number of classes, the columns of `logits`."""
        return int(self.logits.shape[1])

    @cached_property
    def predicted(self) -> IntArray:
        """The model's own answer (n,): what it `decoded`, or else the first maximum of each row of logits."""
        if self.decoded is not None:
            return self.decoded
        predicted: IntArray = self.logits.argmax(axis=1)
        return predicted

    def take(self, rows: object) -> "Outputs":
        """Return the examples at `rows` (numbers, a slice or a boolean mask); for all of them in order, this record."""
        chosen = _row_numbers(rows, len(self))
        if chosen is None:
            return self
        return replace(
            self,
            logits=self.logits[chosen],
            features=None if self.features is None else self.features[chosen],
            labels=None if self.labels is None else self.labels[chosen],
            layers=None if self.layers is None else [layer[chosen] for layer in self.layers],
            views=None if self.views is None else self.views[chosen],
            decoded=None if self.decoded is None else self.decoded[chosen],
            groups=None if self.groups is None else self.groups[chosen],
            documents=None if self.documents is None else self.documents[chosen],
            texts=None if self.texts is None else [self.texts[row] for row in chosen],
            pairs=None if self.pairs is None else [self.pairs[row] for row in chosen],
            words=None if self.words is None else [self.words[row] for row in chosen],
        )

    def require_features(self, purpose: str) -> FloatArray:
        """Return `features`, or raise an error that names `purpose`."""
        if self.features is None:
            raise InvalidInputError(
                f"{purpose} needs features, but these Outputs have none: pass Outputs(features=...)"
            )
        return self.features

    def require_labels(self, purpose: str) -> IntArray:
        """Return the labels of at least one row, or raise an error that names `purpose`."""
        check_not_empty(len(self), f"the Outputs given to {purpose}")
        if self.labels is None:
            raise InvalidInputError(f"{purpose} needs labels, but these Outputs have none: pass Outputs(labels=...)")
        return self.labels


def join_columns(columns: dict[str, list[Any]], **rest: Any) -> Outputs:
    """Return `Outputs` of columns that came in parts, "layers.0" and so on among them; `rest` is for all rows.

    Each column is taken out of `columns` once it is joined: in memory are never more than all of them and one more.
    """
    joined: dict[str, Any] = {}
    for name in list(columns):
        parts = columns.pop(name)
        joined[name] = np.concatenate(parts) if isinstance(parts[0], np.ndarray) else list(chain.from_iterable(parts))
    layers = [joined.pop(name) for name in list(joined) if name.startswith(LAYER)]
    return Outputs(**joined, layers=layers or None, **rest)


def join_outputs(first: Outputs, *others: Outputs) -> Outputs:
    """Return the rows of outputs of one model, one after the other; what not all of them have is left out."""
    parts = (first, *others)

    def joined(values: Sequence[Any]) -> Any:
        if any(value is None for value in values):
            return None
        return np.concatenate(values) if isinstance(values[0], np.ndarray) else list(chain.from_iterable(values))

    def numbered(numbers: list[IntArray | None]) -> Any:
        """Return the numbers of sentences or documents, those of each part behind those of the part before."""
        sizes = [0 if own is None else int(own.max(initial=-1)) + 1 for own in numbers]
        before = [sum(sizes[:place]) for place in range(len(sizes))]
        return joined([None if own is None else own + n for own, n in zip(numbers, before, strict=True)])

    groups, documents = (numbered([getattr(part, name) for part in parts]) for name in ("groups", "documents"))
    layers = None
    if all(part.layers is not None for part in parts):
        layers = [joined(layer) for layer in zip(*(part.layers or () for part in parts), strict=True)]
    rows = ("logits", "features", "labels", "views", "decoded", "texts", "pairs", "words")
    columns = {name: joined([getattr(part, name) for part in parts]) for name in rows}
    return Outputs(
        **columns,
        groups=groups,
        documents=documents,
        layers=layers,
        class_names=first.class_names,
        sees_case=first.sees_case,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Neighbors:
    """The k nearest stored examples of n queries, nearest first; equal distances are sorted by id.

    `distances` (n, k) are Euclidean. Where fewer than k rows were found the rest is id -1, label -1, distance inf.
    `approximate` says that an index estimated the distances; otherwise they were computed from the vectors.
    """

    ids: IntArray
    distances: FloatArray
    labels: IntArray
    approximate: bool = False

    def __post_init__(self) -> None:
        ids, labels = (
            np.ascontiguousarray(to_numpy(x, "ids and labels"), dtype=np.int64) for x in (self.ids, self.labels)
        )
        distances = np.ascontiguousarray(to_numpy(self.distances, "distances"), dtype=np.float64)
        if ids.ndim != 2 or not ids.shape == distances.shape == labels.shape:
            raise InvalidInputError(
                "ids, distances and labels must have one shape (queries, neighbors), "
                f"got {ids.shape}, {distances.shape} and {labels.shape}"
            )
        if distances.size and not distances.min() >= 0:  # also catches NaN
            raise InvalidInputError(f"distances must be at least 0, got {distances.min()}: pass Euclidean distances")
        for name, value in (("ids", ids), ("distances", distances), ("labels", labels)):
            object.__setattr__(self, name, read_only(value))

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def n_neighbors(self) -> int:
        """Number of neighbors requested, found or not."""
        return int(self.ids.shape[1])

    def take(self, rows: object) -> "Neighbors":
        """Return the neighbors of the queries at `rows`, as `Outputs.take` returns examples."""
        chosen = _row_numbers(rows, len(self))
        if chosen is None:
            return self
        return replace(self, ids=self.ids[chosen], distances=self.distances[chosen], labels=self.labels[chosen])

    def spread(self, rows: BoolArray) -> "Neighbors":
        """Return these as the neighbors of the rows that the mask `rows` (n,) marks, and none for the others."""
        shape = (len(rows), self.n_neighbors)
        ids, labels, distances = np.full(shape, -1), np.full(shape, -1), np.full(shape, np.inf)
        ids[rows], labels[rows], distances[rows] = self.ids, self.labels, self.distances
        return replace(self, ids=ids, distances=distances, labels=labels)


@dataclass(frozen=True, kw_only=True, eq=False)
class Prediction:
    """Answers with their confidence: `predicted` is the model's own class, `confidence` its calibrated probability."""

    predicted: IntArray
    confidence: FloatArray
    raw_confidence: FloatArray
    probs: FloatArray

    def __len__(self) -> int:
        return len(self.predicted)


def _row_numbers(rows: object, n_rows: int) -> IntArray | None:
    """Return the numbers of the rows; None where they are all rows in order, so that nothing need be copied."""
    wanted: Any = rows if isinstance(rows, slice) else to_numpy(rows, "rows")
    # numpy makes an empty list an array of floats, which it then refuses as row numbers.
    chosen: IntArray = np.arange(n_rows)[wanted if isinstance(rows, slice) or wanted.size else slice(0, 0)]
    return None if len(chosen) == n_rows and (chosen == np.arange(n_rows)).all() else chosen


def _matrix_of(values: object, name: str, n_rows: int) -> FloatArray:
    matrix = float_matrix(values, name, dtype=np.float32)
    check_length(len(matrix), name, n_rows)
    view: FloatArray = read_only(matrix)
    return view


def _views_of(values: object, n_rows: int) -> FloatArray:
    views = to_numpy(values, "views")
    if views.ndim != 3 or 0 in views.shape[1:]:
        raise InvalidInputError(f"views must have shape (rows, views, columns), got {views.shape}")
    check_length(len(views), "views", n_rows)
    # Half precision stays as it is: views are the widest of all arrays, and a distance needs no more.
    dtype = np.float16 if views.dtype == np.float16 else np.float32
    flat = float_matrix(views.reshape(len(views), views.shape[1] * views.shape[2]), "views", dtype=dtype)
    view: FloatArray = read_only(flat.reshape(views.shape))
    return view


def _pairs(values: Sequence[tuple[str, str]], n_rows: int) -> tuple[tuple[str, str], ...]:
    pairs = tuple(tuple(pair) for pair in values)
    check_length(len(pairs), "pairs", n_rows)
    for row, pair in enumerate(pairs):
        if len(pair) != 2 or not all(isinstance(text, str) for text in pair):
            raise InvalidInputError(f"pairs must be two strings for each row, row {row} is {pair!r}")
    return pairs  # type: ignore[return-value]


def _groups(values: object, n_rows: int) -> IntArray:
    groups = label_vector(values, "groups", length=n_rows)
    starts = np.flatnonzero(np.diff(groups, prepend=groups[:1] - 1))
    if len(np.unique(groups[starts])) != len(starts):
        seen, counts = np.unique(groups[starts], return_counts=True)
        raise InvalidInputError(
            f"rows of one group must stand together, group {seen[counts > 1][0]} is split: sort the words by sentence"
        )
    return groups
