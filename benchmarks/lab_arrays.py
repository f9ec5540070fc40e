"""Read what `lab.py` made: arrays of one model over many sets, and rows of equal length."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from knn_ue.types import Outputs

Arrays = Mapping[str, np.ndarray[Any, Any]]
IN_DOMAIN = ("train", "validation", "test")


def seeds_of(lab: Path, task: str) -> list[Path]:
    """Return the folders of all complete seeds of a task: a set that only some have would shift the mean."""
    folders = sorted(path for path in (lab / task).glob("seed*") if (path / "test.npz").exists())
    names = [set_names(folder) for folder in folders]
    complete = max(map(len, names), default=0)
    return [folder for folder, found in zip(folders, names, strict=True) if len(found) == complete]


def set_names(folder: Path) -> list[str]:
    """Return the names of the sets in a folder, in domain first."""
    found = sorted(path.stem for path in folder.glob("*.npz") if not path.stem.endswith(".draft"))
    return [name for name in IN_DOMAIN if name in found] + [name for name in found if name not in IN_DOMAIN]


def read_set(folder: Path, name: str) -> Arrays:
    """Return the arrays of one set."""
    return dict(np.load(folder / f"{name}.npz"))


def unit(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return each row divided by its length, in float32."""
    values = values.astype(np.float32)
    return values / np.linalg.norm(values, axis=-1, keepdims=True)


def with_views(arrays: Arrays) -> Outputs:
    """Return outputs with the views that the encoder makes: both poolings of every layer but the embeddings."""
    views = np.stack([unit(arrays["first"][:, 1:]), unit(arrays["mean"][:, 1:])], axis=2)
    flat = views.reshape(len(views), -1, views.shape[-1]).astype(np.float16)
    return Outputs(logits=arrays["logits"], views=flat)


def matched(
    one: np.ndarray[Any, Any], other: np.ndarray[Any, Any], *, seed: int = 0, width: int = 2
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return rows of both sets whose lengths, in bins of `width` tokens, are distributed alike."""
    random = np.random.default_rng(seed)
    chosen: tuple[list[int], list[int]] = ([], [])
    for length in np.unique(one // width):
        places = [np.flatnonzero(lengths // width == length) for lengths in (one, other)]
        n_rows = min(map(len, places))
        for rows, found in zip(chosen, places, strict=True):
            rows += random.permutation(found)[:n_rows].tolist()
    return np.array(chosen[0], dtype=np.int64), np.array(chosen[1], dtype=np.int64)


def shown(values: list[float], digits: int = 1) -> str:
    """Return mean and standard deviation over seeds; only the number where there is one seed."""
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) < 2 else f"{mean} ± {np.std(values, ddof=1):.{digits}f}"
