"""Requests of many clients -> batches for one model: a bounded queue, a bounded wait, one worker thread."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import monotonic
from typing import Generic, TypeVar

from knn_ue.serving.problems import busy

Work = TypeVar("Work")
Done = TypeVar("Done")


_LONGEST_RETRY = 60  # seconds
_MEMORY = 0.8  # how much of the old estimate of the speed stays with each batch


@dataclass(eq=False)
class _Place(Generic[Work, Done]):
    work: Work
    n_items: int
    done: "asyncio.Future[Done]"
    entered: float = field(default_factory=monotonic)


class Batcher(Generic[Work, Done]):
    """Runs `run(works) -> results` in a thread of its own, as many works at a time as have come together.

    `run` returns a result, or an exception to raise, for each work. While a batch is in the model, others gather: under
    load no time is lost with waiting. A client that goes away leaves the queue, and its place is free at once.
    """

    def __init__(
        self,
        run: Callable[[Sequence[Work]], Sequence[Done | Exception]],
        *,
        batch_items: int,
        batch_wait: float,
        max_queue: int,
        max_wait: float,
        observe: Callable[[int, float], None] = lambda _items, _seconds: None,
    ) -> None:
        self._run = run
        self._batch_items = batch_items
        self._batch_wait = batch_wait
        self._max_queue = max_queue
        self._max_wait = max_wait
        self._observe = observe
        self._waiting: deque[_Place[Work, Done]] = deque()
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="knn-ue-model")
        self._items_per_second = 0.0
        self._closed = False
        self._worker: asyncio.Task[None] | None = None
        self.n_waiting = 0  # inputs, not requests

    def start(self) -> None:
        """Begin to work; needs a running event loop."""
        self._worker = asyncio.get_running_loop().create_task(self._work())

    async def stop(self) -> None:
        """Refuse new work, finish what is in the model, and end the thread; requests that still wait get 503."""
        self._closed = True
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)
        while self._waiting:
            self._refuse(self._waiting[0], "stopping", "the server is shutting down")
        await asyncio.get_running_loop().run_in_executor(None, self._thread.shutdown)

    @property
    def has_ended(self) -> bool:
        """Whether nothing works through the queue any more, which would be a bug."""
        return self._worker is not None and self._worker.done()

    @property
    def is_full(self) -> bool:
        """Whether a request of one input would be refused now."""
        return self.n_waiting >= self._max_queue

    async def submit(self, work: Work, n_items: int) -> Done:
        """Return the result of `work`, which is `n_items` inputs long, once a batch has run it."""
        if self._closed:
            raise busy("stopping", "the server is shutting down")
        if self.has_ended:
            raise busy("no_model", "the queue to the model has ended")
        if self.n_waiting + n_items > self._max_queue:
            raise busy(
                "queue_full",
                f"{self.n_waiting} inputs wait for the model and the queue holds {self._max_queue}",
                retry_after=self._retry_after(),
            )
        loop = asyncio.get_running_loop()
        place: _Place[Work, Done] = _Place(work, n_items, loop.create_future())
        self._waiting.append(place)
        self.n_waiting += n_items
        self._arrived.set()
        timer = loop.call_later(self._max_wait, self._expire, place)
        try:
            return await place.done
        finally:
            timer.cancel()
            self._leave(place)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._arrived.wait()
            if self._batch_wait and self.n_waiting < self._batch_items:
                await asyncio.sleep(self._batch_wait)
            batch = self._take()
            if not batch:
                continue
            begun = monotonic()
            running = loop.run_in_executor(self._thread, self._results, [place.work for place in batch])
            try:
                results = await asyncio.shield(running)
            except asyncio.CancelledError:
                _settle(batch, await running)
                raise
            _settle(batch, results)
            self._learn(sum(place.n_items for place in batch), monotonic() - begun)

    def _results(self, works: Sequence[Work]) -> Sequence[Done | Exception]:
        """Run a batch; where that fails, each work by itself, so that one client's input cannot hurt another's."""
        try:
            results = self._run(works)
            if len(results) != len(works):
                raise RuntimeError(f"the model gave {len(results)} results for {len(works)} works")
            return results
        except BaseException as error:  # a tokenizer that panics, or asks the process to end, ends its own work only
            if len(works) == 1:
                return [error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {error}")]
            return [result for work in works for result in self._results([work])]

    def _take(self) -> list[_Place[Work, Done]]:
        """Remove the works of the next batch from the queue, in the order they came."""
        batch: list[_Place[Work, Done]] = []
        room = self._batch_items
        while self._waiting and (not batch or self._waiting[0].n_items <= room):
            place = self._waiting[0]
            self._leave(place)
            if not place.done.done():
                batch.append(place)
                room -= place.n_items
        return batch

    def _leave(self, place: _Place[Work, Done]) -> None:
        if place in self._waiting:
            self._waiting.remove(place)
            self.n_waiting -= place.n_items
        if not self._waiting:
            self._arrived.clear()

    def _expire(self, place: _Place[Work, Done]) -> None:
        if place in self._waiting:
            self._refuse(place, "waited_too_long", f"the model did not get to this request within {self._max_wait:g} s")

    def _refuse(self, place: _Place[Work, Done], code: str, message: str) -> None:
        self._leave(place)
        if not place.done.done():
            place.done.set_exception(busy(code, message, retry_after=self._retry_after()))

    def _learn(self, n_items: int, seconds: float) -> None:
        speed = n_items / max(seconds, 1e-6)
        self._items_per_second = _MEMORY * (self._items_per_second or speed) + (1 - _MEMORY) * speed
        self._observe(n_items, seconds)

    def _retry_after(self) -> int:
        """Return in how many seconds the queue will be half empty, if nobody else comes."""
        if not self._items_per_second:
            return 1
        return min(_LONGEST_RETRY, max(1, round(self.n_waiting / 2 / self._items_per_second)))


def _settle(batch: Sequence[_Place[Work, Done]], results: Sequence[Done | Exception]) -> None:
    for place, result in zip(batch, results, strict=True):
        if place.done.done():  # the client has gone
            continue
        if isinstance(result, Exception):
            place.done.set_exception(result)
        else:
            place.done.set_result(result)
