"""The parts of a server joined: who answers, who writes, who watches. Knows nothing of HTTP but its problems."""

import asyncio
import gc
import logging
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from threading import Lock
from typing import Any, Literal

import numpy as np

from knn_ue.encoding import Example
from knn_ue.encoding.inputs import class_numbers
from knn_ue.errors import KnnUeError, StoreUnreachableError
from knn_ue.pipeline import Fitted
from knn_ue.pipeline.sampling import weights_of
from knn_ue.serving.logs import log
from knn_ue.serving.options import ServeOptions
from knn_ue.serving.problems import busy
from knn_ue.serving.work.answering import Done, Work, n_rows_of, run_batch
from knn_ue.serving.work.batcher import Batcher
from knn_ue.serving.work.curve import RiskCurve, risk_curve
from knn_ue.serving.work.drift import DriftReport, DriftWindow
from knn_ue.serving.work.metrics import Metrics
from knn_ue.serving.work.state import Served
from knn_ue.serving.work.writer import Asked, FolderWriter, Learning, ModelChangedError, Said
from knn_ue.stores import NeighborStore, RemoteStore

_MOST_ROWS = 20_000  # of a file to label
_ATTEMPTS = 5  # to encode an example for a model that is being swapped

Source = Literal["file", "recent", "none"]


class Service:
    """One served UE folder: `start` it in a running event loop, `stop` it before that ends."""

    def __init__(self, served: Served, options: ServeOptions, pool: Iterable[Example] | None = None) -> None:
        self.options = options
        self.metrics = Metrics()
        self.drift = DriftWindow(options.drift_window)
        self.pool = Pool(pool, recent=options.keep_recent)
        self.draining = False
        self.is_crowded: Callable[[], bool] = lambda: False  # whoever listens knows how many connections are open
        self.keeper = FolderWriter(
            served,
            device=options.device,
            trust_remote_code=options.trust_remote_code,
            max_wait=options.max_wait,
            swapped=self._swapped,
        )
        self.batcher: Batcher[Work, Done] = Batcher(
            self._run,
            batch_items=options.batch_items,
            batch_wait=options.batch_wait,
            max_queue=options.max_queue,
            max_wait=options.max_wait,
            observe=self.metrics.observe_batch,
        )
        self.store_watch = StoreWatch(lambda: self.served.store)
        self._tasks: list[asyncio.Task[Any]] = []
        self._curve: tuple[Fitted, RiskCurve] | None = None
        self._curve_lock = asyncio.Lock()
        self.metrics.gauge("knn_ue_queue_items", "Inputs that wait for the model.", lambda: self.batcher.n_waiting)
        self.metrics.gauge("knn_ue_examples_stored", "Examples in the datastore.", self._n_stored)
        self.metrics.gauge("knn_ue_ready", "1 where requests are welcome.", lambda: self.why_not_ready() is None)

    @property
    def served(self) -> Served:
        """What is served right now."""
        return self.keeper.served

    def start(self) -> None:
        """Begin to answer, and to follow what others do to the folder."""
        self.batcher.start()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self.curve())]  # whoever opens the page shall not wait for it
        if isinstance(self.served.store, RemoteStore):
            self._tasks.append(loop.create_task(self.store_watch.watch(self.options.watch_seconds or 1.0)))
        if self.options.watch_seconds:
            self._tasks.append(loop.create_task(self.keeper.watch(self.options.watch_seconds)))

    async def stop(self) -> None:
        """Finish what is under way."""
        self.draining = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.batcher.stop()
        await self.keeper.stop()

    def why_not_ready(self) -> str | None:
        """Return why a load balancer should send requests elsewhere; None where it need not."""
        if self.draining:
            return "the server is shutting down"
        if self.batcher.has_ended:
            return "the queue to the model has ended: restart the server"
        if self.store_watch.last_error is not None:
            return str(self.store_watch.last_error)
        return "the queue is full" if self.batcher.is_full else None

    async def answer(self, work: Work) -> Done:
        """Return the answers to a request, and remember them for drift and metrics."""
        self.store_watch.check()
        done = await self.batcher.submit(work, len(work.examples))
        familiarity = [answer.familiarity for answer in done.answers if answer.familiarity is not None]
        self.drift.observe(familiarity, done.near)
        self.pool.observe(work.examples)
        self.metrics.observe_answers(done.answers)
        return done

    async def learn(self, examples: Sequence[Example], learning: Learning, asked: Asked | None = None) -> Said:
        """Encode labeled examples, store them and adapt to their domain, as far as that is wanted; return what to say.

        A repetition of what was `asked` before gets the first answer.
        """
        if learning.store:
            self.store_watch.check()
        for _ in range(_ATTEMPTS):
            done = await self.batcher.submit(Work(kind="encode", examples=examples), len(examples))
            labels = class_numbers(examples, done.served.pipe.class_names)
            try:
                said, is_new = await self.keeper.learn(
                    done.served,
                    replace(done.outputs, labels=labels),
                    learning,
                    n_rows=n_rows_of(examples, tagging=done.outputs.groups is not None),
                    weights=None if learning.domain is None else weights_of(examples),
                    asked=asked,
                )
            except ModelChangedError:
                continue
            self.metrics.added.inc(len(examples) * (is_new and learning.store))
            return said
        raise busy("model_changed", "the model was swapped while the examples were read")

    async def remove(self, example: int, asked: Asked | None = None) -> Said:
        """Forget one example."""
        self.store_watch.check()
        said, is_new = await self.keeper.remove(example, asked)
        self.metrics.removed.inc(is_new)
        return said

    async def curve(self) -> RiskCurve:
        """Return coverage and risk on validation, computed once for what is served."""
        async with self._curve_lock:
            fitted = self.served.pipe.fitted_
            if self._curve is None or self._curve[0] is not fitted:
                self._curve = (fitted, await asyncio.to_thread(risk_curve, fitted))
            return self._curve[1]

    def drift_report(self) -> DriftReport:
        """Return how the last inputs compare with the validation rows."""
        pipe = self.served.pipe
        return self.drift.report(pipe.drift_, has_familiarity=pipe.familiarity_ is not None)

    def facts(self) -> dict[str, Any]:
        """Return what a client may want to know about this server."""
        options = self.options
        limits = ("max_items", "max_characters", "max_request_characters", "max_body_bytes", "max_queue", "max_wait")
        return self.served.facts() | {
            "read_only": options.read_only,
            "limits": {name: getattr(options, name) for name in limits},
            "reload_error": self.keeper.last_error,
            "pool": {"source": self.pool.source, "n": len(self.pool)},
        }

    def _run(self, works: Sequence[Work]) -> Sequence[Done | Exception]:
        try:
            return run_batch(self.served, works)
        except StoreUnreachableError as error:
            self.store_watch.last_error = error
            return [error] * len(works)  # not each by itself: all would wait for the same deadline

    def _n_stored(self) -> float:
        store = self.served.store
        try:
            return 0 if store is None else len(store)
        except StoreUnreachableError:
            return math.nan

    def _swapped(self, before: Served, now: Served) -> None:
        if before.pipe.encoder is not now.pipe.encoder:
            self.drift.clear()
            gc.unfreeze()  # the server froze what was there at its start: the old model may go now
        self.metrics.swaps.inc()
        log("swapped", level=logging.INFO, generation=now.generation, before=before.generation)


class StoreWatch:
    """Remembers that the store was unreachable, until it answers again; a store in a folder is always there."""

    def __init__(self, store: Callable[[], NeighborStore | None]) -> None:
        self._store = store
        self.last_error: StoreUnreachableError | None = None

    def check(self) -> None:
        """Raise at once where the store did not answer a moment ago."""
        if self.last_error is not None:
            # One of its own: a traceback belongs to one request.
            raise StoreUnreachableError(str(self.last_error))

    async def watch(self, seconds: float) -> None:
        """Ask the store again and again, forever."""
        while True:
            await asyncio.sleep(seconds)
            await asyncio.to_thread(self.ask)

    def ask(self) -> None:
        """Find out whether the store answers now."""
        store = self._store()
        try:
            if isinstance(store, RemoteStore):
                store.check_reachable()
        except StoreUnreachableError as error:
            self.last_error = error
        except KnnUeError as error:  # it answers, but not with our rows
            self.last_error = StoreUnreachableError(str(error))
        else:
            self.last_error = None


class Pool:
    """Unlabeled inputs to draw from; `recent` of them are kept as they are asked where no file is given."""

    def __init__(self, rows: Iterable[Example] | None, *, recent: int) -> None:
        self.source: Source = "none" if rows is None and not recent else "recent" if rows is None else "file"
        self._rows: deque[Example] = deque(
            (_bare(row) for row in islice(rows or (), _MOST_ROWS)), maxlen=recent if rows is None else None
        )
        self._lock = Lock()

    def __len__(self) -> int:
        with self._lock:
            return len(self._rows)

    def observe(self, examples: Sequence[Example]) -> None:
        """Remember what was asked, where the operator allowed it."""
        if self.source == "recent":
            with self._lock:
                self._rows.extend(_bare(example) for example in examples)

    def draw(self, n: int, *, seed: int | None = None) -> list[Example]:
        """Return `n` different inputs at random, or all where there are fewer; copies of one count once."""
        with self._lock:
            rows = list(dict.fromkeys(self._rows))
        chosen = np.random.default_rng(seed).permutation(len(rows))[:n]
        return [rows[row] for row in chosen.tolist()]


def _bare(example: Example) -> Example:
    return replace(example, labels=None, domain=None, sample_weight=None)
