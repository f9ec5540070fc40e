"""Outputs come back from arrays as they went, whatever of them is there."""

import numpy as np
import pytest
from knn_ue.storage.tensors import outputs_from_arrays, outputs_to_arrays

from knn_ue.types import Outputs

FULL = {
    "features": np.arange(6, dtype=np.float32).reshape(3, 2),
    "labels": [0, 1, 1],
    "layers": [np.full((3, 2), number, dtype=np.float32) for number in range(11)],
    "groups": [0, 0, 1],
    "texts": ["a", "", "c"],
    "words": ["A", "", "é"],
}


@pytest.mark.parametrize("left_out", [None, *FULL])
def test_outputs_come_back_equal(left_out):
    given = {name: value for name, value in FULL.items() if name != left_out}
    outputs = Outputs(logits=np.eye(3, 2), class_names=["x", "y"], **given)

    back = outputs_from_arrays(outputs_to_arrays(outputs) | {"other": np.empty(0)}, ["x", "y"])

    assert (back.texts, back.words, back.class_names) == (outputs.texts, outputs.words, outputs.class_names)
    for name in ("logits", "features", "labels", "groups", "layers"):
        np.testing.assert_array_equal(getattr(back, name), getattr(outputs, name))
