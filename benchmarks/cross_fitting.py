"""Neighbors that were held out of the model that encodes them: two models, each of one half of the training rows.

Used by remedies.py. An answer takes three passes: the usual model's, and one of each half's model, whose features are
searched among the rows of the other half.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from knn_ue.data import Row
from knn_ue.data.splits import half_of
from knn_ue.stores import Datastore
from knn_ue.types import Neighbors, Outputs
from knn_ue_lab.reproduce.cells import CellStore
from knn_ue_lab.reproduce.scales import Scale
from knn_ue_lab.reproduce.setups import Setup
from knn_ue_lab.reproduce.task_data import SetRows, TaskData
from knn_ue_lab.reproduce.task_runner import TaskRunner
from knn_ue_lab.reproduce.variants import MethodVariant

OTHER = "other half"
PLAIN = MethodVariant(method="knn-ue")


class HalfTaskData(TaskData):
    """The rows of a setup, of which one half is there to learn from, and the other is a set."""

    def __init__(self, setup: Setup, scale: Scale, half: int) -> None:
        super().__init__(setup, scale)
        whole = TaskData(setup, scale).train
        first = half_of(len(whole), second=False, seed=0)
        parted: tuple[list[Row], list[Row]] = ([], [])
        for number, row in enumerate(whole):
            parted[number not in first].append(row)
        self.train, self._others = parted[half], parted[1 - half]

    @cached_property
    def sets(self) -> dict[str, SetRows]:
        return super().sets | {OTHER: SetRows(name=OTHER, role="in", rows=self._others, labeled=True)}


@dataclass(frozen=True, eq=False)
class HalfRunner(TaskRunner):
    """A runner that trains on one half, and keeps its models, cells and outputs apart from those of the whole."""

    half: int = 0

    @cached_property
    def data(self) -> TaskData:
        return HalfTaskData(self.setup, self.scale, self.half)

    @classmethod
    def of(cls, runner: TaskRunner, half: int) -> "HalfRunner":
        same = {field.name: getattr(runner, field.name) for field in fields(runner)}
        apart = runner.store.work / "halves"
        return cls(**same | {"store": CellStore(apart / "cells", apart), "half": half})


class CrossFitted:
    """Finds a text's neighbors, as many in each half, by what the usual model's features of the text are."""

    def __init__(self, runner: TaskRunner, seed: int, parts: Mapping[str, Outputs], n_neighbors: int) -> None:
        self.found: dict[bytes, tuple[Neighbors, int]] = {}
        halves = [HalfRunner.of(runner, half) for half in (0, 1)]
        stores = []
        for half in halves:
            others = half.outputs(PLAIN, seed, OTHER)
            assert all(others.class_names == one.class_names for one in parts.values()), "a half lacks a class"
            stores.append(Datastore.build(others.features, others.labels))
        for part, outputs in parts.items():
            both = [
                store.search(half.outputs(PLAIN, seed, part).features, n_neighbors // 2)
                for half, store in zip(halves, stores, strict=True)
            ]
            merged = nearest_first(*both)
            self.found |= {key: (merged, row) for row, key in enumerate(keys_of(outputs))}

    def __call__(self, outputs: Outputs) -> Neighbors:
        rows = [self.found[key] for key in keys_of(outputs)]
        ids, distances, labels = (
            np.stack([getattr(found, name)[row] for found, row in rows]) for name in ("ids", "distances", "labels")
        )
        return Neighbors(ids=ids, distances=distances, labels=labels)


def nearest_first(first: Neighbors, second: Neighbors) -> Neighbors:
    distances = np.concatenate([first.distances, second.distances], axis=1)
    order = np.argsort(distances, axis=1, kind="stable")
    ids, labels = (np.concatenate([getattr(first, name), getattr(second, name)], axis=1) for name in ("ids", "labels"))
    return Neighbors(
        ids=np.take_along_axis(ids, order, axis=1),
        distances=np.take_along_axis(distances, order, axis=1),
        labels=np.take_along_axis(labels, order, axis=1),
    )


def keys_of(outputs: Outputs) -> Iterator[bytes]:
    return (row.tobytes() for row in outputs.features)
