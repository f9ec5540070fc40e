"""SDM: similarity, distance and magnitude in one activation. Schmaltz (2026).

p = softmax(z d ln(2 + q) / T). q counts the nearest training rows, from the nearest on, that have the predicted label
and that the model itself got right; it ends at the first that does not. d is the least, over classes, of the share of
validation rows of that class (those with q > 0) that are at least as far from their nearest training row.

This is the activation on the model's own logits and features, with one temperature T fitted on validation. The
authors also train an adaptor network with it (package reexpress-sdm); that is no post-hoc method and is left out here.
Another deviation: a class without such a validation row is left out of d, so that d = 1 everywhere if no class has one.
There the authors set d = 0, and they refuse shuffled splits that lack a class.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from knn_ue.arrays import MAX_CLASSES, BoolArray, FloatArray, IntArray, check_not_empty
from knn_ue.calibrators.contract import STORE, Found, OneStoreScaling
from knn_ue.folder import ArrayRule
from knn_ue.stores import NeighborStore
from knn_ue.types import Neighbors, Outputs
from knn_ue.weighting import Temperature, fit_temperature

_LEAST_WEIGHT = 1e-12


class SdmActivation(OneStoreScaling):
    """softmax(W * logits) with W = d ln(2 + q) / T.

    `right` (n,) says of each stored row, by its id, whether the model got it right; rows that were added later count
    as right. Classes without a validation row to compare with are left out of d; where all are, d is 1.
    """

    kind: ClassVar[str] = "sdm"

    @dataclass(frozen=True, kw_only=True)
    class State:
        """What is saved beside arrays and its store."""

        n_neighbors: int
        temperature_: Temperature

    ARRAYS: ClassVar[Mapping[str, ArrayRule]] = {
        "right": ArrayRule(dtype=np.bool_, shape=("stored",)),
        "distances_": ArrayRule(dtype=np.float64, shape=("rows",), least=0, most=1e300),
        "classes_": ArrayRule(dtype=np.int64, shape=("rows",), least=0, most=MAX_CLASSES - 1),
    }

    temperature_: float
    distances_: FloatArray
    classes_: IntArray

    def __init__(self, store: NeighborStore, right: BoolArray, *, n_neighbors: int = 32) -> None:
        self.store = store
        self.right = right
        self.n_neighbors = n_neighbors

    def _check_options(self) -> None:
        super()._check_options()
        check_not_empty(len(self.right), "right, whether the model got each stored row right,")

    def _fit(self, validation: Outputs, found: Found, /) -> None:
        labels = validation.require_labels("SdmActivation.fit")
        near = found[STORE]
        nearest = near.distances[:, 0]
        usable = (self._similarity(validation, near) > 0) & np.isfinite(nearest)
        order = np.lexsort((nearest[usable], labels[usable]))
        self.distances_ = nearest[usable][order]
        self.classes_ = np.asarray(labels[usable][order], dtype=np.int64)
        factor = self._factor(validation, near)
        self.temperature_ = fit_temperature(validation.logits * factor[:, None], labels)

    def _weight(self, outputs: Outputs, found: Found, /) -> FloatArray:
        weight: FloatArray = np.maximum(self._factor(outputs, found[STORE]) / self.temperature_, _LEAST_WEIGHT)
        return weight

    def _factor(self, outputs: Outputs, near: Neighbors) -> FloatArray:
        similarity = self._similarity(outputs, near)
        distance = distance_quantile(near.distances[:, 0], self.distances_, self.classes_)
        factor: FloatArray = distance * np.log(2.0 + similarity)
        return factor

    def _similarity(self, outputs: Outputs, near: Neighbors) -> IntArray:
        known = near.ids < len(self.right)
        right = np.where(known, self.right[np.clip(near.ids, 0, len(self.right) - 1)], True)
        return similarity_count(near, right, outputs.predicted)


def similarity_count(near: Neighbors, right: BoolArray, predicted: IntArray) -> IntArray:
    """Return q (n,): how many neighbors in a row, from the nearest on, agree with the prediction and were right."""
    agree = (near.ids >= 0) & (near.labels == np.asarray(predicted)[:, None]) & right
    count: IntArray = np.logical_and.accumulate(agree, axis=1).sum(axis=1)
    return count


def distance_quantile(nearest: FloatArray, distances: FloatArray, classes: IntArray) -> FloatArray:
    """Return d (n,): the least share over classes of `distances` (m,) of that class that are not below `nearest`.

    A class without distances is left out; without any class d is 1.
    """
    quantile = np.ones(len(nearest))
    for label in np.unique(classes):
        of_class = np.sort(distances[classes == label])
        share = 1.0 - np.searchsorted(of_class, nearest, side="left") / len(of_class)
        quantile = np.minimum(quantile, share)
    return quantile
