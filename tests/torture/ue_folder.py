"""A UE folder under attack: what writers do to it, and how it is checked afterwards."""

import random
import signal
from copy import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
from knn_ue.pipeline.editing import (
    add_rows,
    compact_stores,
    edit,
    edit_stores,
    open_folder,
    remove_rows,
    save_tuned,
)

from knn_ue import UncertaintyPipeline
from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.pipeline import Fitted
from knn_ue.pipeline.adjusting import with_index
from knn_ue.pipeline.fitting import refit
from knn_ue.pipeline.folder import read_fitted
from knn_ue.stores import Datastore, IndexOptions
from knn_ue.types import Outputs
from torture.ledger import Ledger
from torture.tally import Tally

_INDEXES = (IndexOptions(), IndexOptions(factory="IVF2,Flat", n_probe=2), IndexOptions(factory="HNSW4", ef_search=64))
_MOST_ROWS = 300


class OutdatedError(StorageError):
    """A store of yesterday was refused, as it must be, whoever changed the folder since."""


def write_for_ever(path: Path, ledger_path: Path, seed: int, alone: bool) -> None:
    """Change a UE folder until killed, as servers, commands and notebooks do, and note what was acknowledged.

    A writer that is not `alone` may be refused; one that is may not.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    rng, ledger = random.Random(seed), Ledger(ledger_path)
    pipe = UncertaintyPipeline.load(path, device="cpu")
    while True:
        try:
            change_once(path, ledger, rng, pipe, alone=alone)
        except OutdatedError:
            pipe = pipe.reloaded(path)
        except StorageError as error:
            if alone:
                ledger.broke(error)
            pipe = pipe.reloaded(path)
        except BaseException as error:
            ledger.broke(error)
            raise


def change_once(path: Path, ledger: Ledger, rng: random.Random, pipe: UncertaintyPipeline, *, alone: bool) -> None:
    """Make one random change."""
    action = rng.random()
    stores = list(pipe.calibrator_.stores.values())
    if action < 0.4 or (action < 0.5 and len(stores) > 1):
        new = new_rows(pipe.validation_, rng)
        ids = edit_stores(path, lambda calibrator: add_rows(calibrator, new).tolist())
        ledger.added(ids, list(new.texts or ()))
    elif action < 0.5:  # by a store that may be of yesterday: then it must refuse
        new = new_rows(pipe.validation_, rng)
        store = stores[-1]
        assert isinstance(store, Datastore)
        try:
            added = store.add(new.features, new.labels, texts=list(new.texts or ()))
        except StorageError as error:
            raise OutdatedError(str(error)) from error
        ledger.added(added.tolist(), list(new.texts or ()))
    elif action < 0.66:
        _remove(path, ledger, rng)
    elif action < 0.74:
        edit_stores(path, lambda calibrator: compact_stores(calibrator.stores.values()))
    elif action < 0.86:
        edit(path, lambda fitted: (refit(fitted, copy(fitted.calibrator)), None))
    elif action < 0.94 or not alone:
        opened = open_folder(path)
        index = rng.choice(_INDEXES)
        save_tuned(opened, with_index(opened.fitted, index), index)
    else:
        UncertaintyPipeline.load(path, device="cpu").save(path)


def _remove(path: Path, ledger: Ledger, rng: random.Random) -> None:
    ids = sorted(rows_of(read_fitted(path)))
    some = rng.sample(ids, max(1, len(ids) - _MOST_ROWS))
    if len(ids) < 40:  # the calibrator needs its neighbors
        return
    ledger.removing(some)
    try:
        edit_stores(path, lambda calibrator: remove_rows(calibrator.stores.values(), some))
    except InvalidInputError as error:
        if "is not stored" not in str(error):  # another writer was quicker
            raise
        return
    ledger.removed(some)


def new_rows(validation: Outputs, rng: random.Random) -> Outputs:
    """Return a few rows like those of the validation set, with texts that occur nowhere else."""
    rows = [rng.randrange(len(validation)) for _ in range(rng.choice([1, 1, 2, 5]))]
    texts = [f"row {rng.random():.17f}" for _ in rows]
    return replace(validation.take(np.array(rows)), texts=texts, pairs=None)


def rows_of(fitted: Fitted) -> dict[int, str | None]:
    """Return id -> text of what is stored."""
    store = list(fitted.calibrator.stores.values())[-1]
    assert isinstance(store, Datastore)
    ids = store.ids.tolist()
    return dict(zip(ids, store.texts_of(ids), strict=True))


def check(path: Path, ledger: Ledger, tally: Tally, place: str, *, whole: bool = False) -> None:
    """Count what is lost or wrong in a folder that nobody writes to now; `whole` also loads the model and asks it."""
    try:
        fitted = read_fitted(path)
        found = rows_of(fitted)
        probs = fitted.calibrator.predict_proba(fitted.validation)
        if whole:
            UncertaintyPipeline.load(path, device="cpu")(["a film"])
    except Exception as error:
        tally.blame("wrong", f"{place}: the folder does not open: {error!r:.300}")
        return
    if not np.isfinite(probs).all():
        tally.blame("wrong", f"{place}: a probability is not finite")
    sizes = {tuple(store.ids.tolist()) for store in fitted.calibrator.stores.values() if isinstance(store, Datastore)}
    if len(sizes) > 1:
        tally.blame("wrong", f"{place}: the stores of one calibrator hold different rows")
    ledger.check(found, tally, place)
    if tally.is_clean:
        ledger.start_over(found)
