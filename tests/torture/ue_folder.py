"""A UE folder under attack: what writers do to it, and how it is checked afterwards."""

import random
import signal
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path

import numpy as np

from knn_ue import UncertaintyPipeline
from knn_ue.arrays import FloatArray
from knn_ue.errors import InvalidInputError, StaleFolderError
from knn_ue.pipeline import Fitted
from knn_ue.pipeline.adjusting import with_index
from knn_ue.pipeline.domains import adapt_fitted, forget_domain
from knn_ue.pipeline.fitted import add_rows
from knn_ue.pipeline.fitting import refit
from knn_ue.pipeline.folder import OpenedFolder, save_tuned
from knn_ue.stores import Datastore, IndexOptions, compact_folder, remove_from_all
from knn_ue.types import Outputs
from torture.ledger import Ledger, check_events
from torture.tally import Tally

_INDEXES = (IndexOptions(), IndexOptions(factory="IVF2,Flat", n_probe=2), IndexOptions(factory="HNSW4", ef_search=64))
_MOST_ROWS = 300


def write_for_ever(path: Path, ledger_path: Path, seed: int, alone: bool) -> None:
    """Change a UE folder until killed, as servers, commands and notebooks do, and note what was acknowledged.

    A writer that is not `alone` may be told that what it opened is another folder now; one that is may not.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    rng, ledger = random.Random(seed), Ledger(ledger_path)
    pipe = UncertaintyPipeline.load(path, device="cpu")
    while True:
        try:
            pipe = change_once(path, ledger, rng, pipe, alone=alone)
        except StaleFolderError as error:
            if alone:
                ledger.broke(error)
            pipe = pipe.reloaded(path)
        except BaseException as error:
            ledger.broke(error)
            raise


def change_once(
    path: Path, ledger: Ledger, rng: random.Random, pipe: UncertaintyPipeline, *, alone: bool
) -> UncertaintyPipeline:
    """Make one random change, and return the pipeline to go on with."""
    action = rng.random()
    if action < 0.25:
        new = new_rows(pipe.validation_, rng)
        ledger.added(
            pipe.opened.edit(lambda fitted: (fitted, add_rows(fitted.calibrator, new).tolist())), texts_of(new)
        )
    elif action < 0.45:
        new = new_rows(pipe.validation_, rng)
        ledger.added(add_rows(pipe.calibrator_, new).tolist(), texts_of(new))
    elif action < 0.6:
        _remove(pipe, ledger, rng)
    elif action < 0.68:
        compact_folder(path)
        return pipe.reloaded(path)
    elif action < 0.78:
        pipe.opened.edit(lambda fitted: (refit(fitted, copy(fitted.calibrator)), None))
    elif action < 0.86:
        pipe.opened.edit(lambda fitted: _adapted(fitted, rng))
    elif action < 0.94 or not alone:
        opened, index = OpenedFolder.open(path), rng.choice(_INDEXES)
        save_tuned(opened, opened.live.seen, with_index(opened.fitted, index), index)
        return pipe.reloaded(path)
    else:
        elsewhere = path.with_name(f"{path.name}-elsewhere")
        pipe.opened.refresh()
        UncertaintyPipeline.of_folder(pipe.encoder, pipe.opened).save(elsewhere)
        pipe.reloaded(elsewhere).save(path)
        return pipe.reloaded(path)
    return pipe


def _adapted(fitted: Fitted, rng: random.Random) -> tuple[Fitted, None]:
    """Give a domain labels, or forget one."""
    name = f"domain {rng.randrange(3)}"
    if name in fitted.domains and rng.random() < 0.5:
        return forget_domain(fitted, name), None
    rows = np.array(rng.sample(range(len(fitted.validation)), 30))
    return adapt_fitted(fitted, fitted.validation.take(rows), domain=name, force=True)[0], None


def _remove(pipe: UncertaintyPipeline, ledger: Ledger, rng: random.Random) -> None:
    ids = sorted(rows_of(pipe.fitted_))
    if len(ids) < 40:  # the calibrator needs its neighbors
        return
    some = rng.sample(ids, max(1, len(ids) - _MOST_ROWS))
    ledger.removing(some)
    try:
        remove_from_all(pipe.calibrator_.stores, some)
    except InvalidInputError as error:
        if "is not stored" not in str(error):  # another writer was quicker
            raise
        return
    ledger.removed(some)


def new_rows(validation: Outputs, rng: random.Random) -> Outputs:
    """Return a few rows near those of the validation set, with texts that occur nowhere else."""
    rows = validation.take(np.array([rng.randrange(len(validation)) for _ in range(rng.choice([1, 1, 2, 5]))]))
    texts = [f"row {rng.random():.17f}" for _ in range(len(rows))]
    moved = {
        name: _moved(getattr(rows, name), rng) for name in ("features", "views") if getattr(rows, name) is not None
    }
    layers = None if rows.layers is None else [_moved(layer, rng) for layer in rows.layers]
    return replace(rows, texts=texts, pairs=None, layers=layers, **moved)


def _moved(vectors: FloatArray, rng: random.Random) -> FloatArray:
    noise = np.random.default_rng(rng.randrange(10**9)).normal(size=vectors.shape)
    return vectors * (1 + 0.1 * noise.astype(vectors.dtype))


def texts_of(outputs: Outputs) -> list[str]:
    """Return the texts of new rows."""
    return list(outputs.texts or ())


def rows_of(fitted: Fitted) -> dict[int, str | None]:
    """Return id -> text of what is stored."""
    store = list(fitted.calibrator.stores.values())[-1]
    assert isinstance(store, Datastore)
    ids = store.ids.tolist()
    return dict(zip(ids, store.texts_of(ids), strict=True))


def check(path: Path, ledger: Ledger, tally: Tally, place: str, *, whole: bool = False) -> None:
    """Count what is lost or wrong in a folder that nobody writes to now; `whole` also loads the model and asks it."""
    try:
        fitted = OpenedFolder.open(path).fitted
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


def check_copy(path: Path, before: Sequence[str], after: Sequence[str], tally: Tally, place: str) -> None:
    """Count what a backup lacks of what was acknowledged `before` it began; `after` are all events until its end."""
    try:
        found = rows_of(OpenedFolder.open(path).fitted)
    except Exception as error:
        tally.blame("wrong", f"{place}: the backup does not open: {error!r:.300}")
        return
    check_events(found, before, after, tally, place)
