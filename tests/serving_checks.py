"""What tests ask of a server, and comparisons of what it answers."""

import math
from pathlib import Path
from typing import Any

from knn_ue.pipeline import UncertaintyPipeline

TEXT_ROW = {"text": "a film unlike any other", "label": "pos"}


def add(client: Any, *rows: Any) -> Any:
    """Store labeled examples; return what the server says."""
    found = client.post("/examples", json={"examples": list(rows)})
    assert found.status_code == 201, found.text
    return found.json()


def nearest(client: Any, text: str, top: int = 1) -> Any:
    """Return the nearest training examples of a text."""
    (answer,) = client.post("/predict", json={"inputs": text, "top": top}).json()["answers"]
    return answer["neighbors"]


def stored_texts(path: Path) -> dict[int, str | None]:
    """Return id -> text of what is on disk."""
    store = UncertaintyPipeline.load(path, device="cpu").calibrator_.store
    ids = store.ids.tolist()
    return dict(zip(ids, store.texts_of(ids), strict=True))


def near(found: Any, expected: Any, *, tolerance: float = 1e-4) -> bool:
    """Say whether two answers are alike but for the rounding that another batch brings."""
    if isinstance(expected, dict):
        return set(found) == set(expected) and all(near(found[key], expected[key]) for key in expected)
    if isinstance(expected, (list, tuple)):
        return len(found) == len(expected) and all(map(near, found, expected))
    if isinstance(expected, float):
        return math.isclose(found, expected, rel_tol=tolerance, abs_tol=tolerance)
    return bool(found == expected)
