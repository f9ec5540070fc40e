"""Each kind of change of a UE folder, made without the model, and what the folder says before and after it."""

import hashlib
import random
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np

from knn_ue.folder import copy_folder
from knn_ue.pipeline import Fitted
from knn_ue.pipeline.adjusting import with_index
from knn_ue.pipeline.domains import adapt_fitted
from knn_ue.pipeline.fitted import add_rows
from knn_ue.pipeline.fitting import refit
from knn_ue.pipeline.folder import OpenedFolder, save_tuned
from knn_ue.stores import Datastore, IndexOptions, compact_folder, remove_from_all
from torture.ue_folder import new_rows

_INDEX = IndexOptions(factory="IVF2,Flat", n_probe=2)
Content = tuple[str, ...]


def _add(opened: OpenedFolder) -> None:
    add_rows(opened.fitted.calibrator, new_rows(opened.fitted.validation, random.Random(1)))


def _remove(opened: OpenedFolder) -> None:
    remove_from_all(opened.fitted.calibrator.stores, [2, 5])


def _refit(opened: OpenedFolder) -> None:
    opened.edit(lambda fitted: (refit(fitted, copy(fitted.calibrator)), None))


def _adapt(opened: OpenedFolder) -> None:
    """Add examples and labels of a domain in one change."""

    def change(fitted: Fitted) -> tuple[Fitted, None]:
        add_rows(fitted.calibrator, new_rows(fitted.validation, random.Random(2)))
        return adapt_fitted(fitted, fitted.validation, domain="adapted", add=True, force=True)[0], None

    opened.edit(change)


def _tune(opened: OpenedFolder) -> None:
    save_tuned(opened, opened.live.seen, with_index(opened.fitted, _INDEX), _INDEX)


def _copy(opened: OpenedFolder) -> None:
    copy_folder(opened.path, opened.path.with_name("copy"))


CHANGES: dict[str, Callable[[OpenedFolder], Any]] = {
    "add": _add,
    "remove": _remove,
    "refit": _refit,
    "adapt": _adapt,
    "compact": lambda opened: compact_folder(opened.path),
    "tune": _tune,
    "copy": _copy,
}


def content_of(opened: OpenedFolder) -> Content:
    """Return the rows of each store, a digest of what is answered, and each domain with its labels."""
    fitted = opened.fitted
    rows = []
    for store in fitted.calibrator.stores.values():
        assert isinstance(store, Datastore)
        rows.append(repr(list(zip(store.ids.tolist(), store.texts_of(store.ids), strict=True))))
    probs = np.round(fitted.calibrator.predict_proba(fitted.validation), 6)
    domains = sorted((name, domain.adaptation.n_rows) for name, domain in fitted.domains.items())
    return (*rows, hashlib.sha256(probs.tobytes()).hexdigest(), repr(domains))


def content_in(path: Path) -> Content:
    """Return what a folder on disk says."""
    return content_of(OpenedFolder.open(path))
