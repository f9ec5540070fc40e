"""What a search found -> the training examples that answers show."""

from collections.abc import Sequence

from knn_ue.answers import NeighborExample
from knn_ue.arrays import IntArray
from knn_ue.calibrators.contract import Calibrator, Found, take_found
from knn_ue.types import Outputs
from knn_ue.weighting import nearest_examples


def nearest(
    calibrator: Calibrator,
    found: Found,
    predicted: IntArray,
    *,
    names: Sequence[str],
    top: int,
    rows: IntArray | slice = slice(None),
) -> list[tuple[NeighborExample, ...]]:
    """Return the `top` nearest training examples of each of the `rows`; none where the method has no store.

    They are those of the last store; their texts are fetched in one call.
    """
    wanted = predicted[rows]
    if not found or not top:
        return [() for _ in range(len(wanted))]
    name, store = list(calibrator.stores.items())[-1]
    return nearest_examples(take_found(found, rows)[name], wanted, store.texts_of, names=names, top=top)


def class_names(outputs: Outputs) -> Sequence[str]:
    """Return the names of the classes, or "class 0", "class 1", ... where they have none."""
    return outputs.class_names or [f"class {number}" for number in range(outputs.n_classes)]
