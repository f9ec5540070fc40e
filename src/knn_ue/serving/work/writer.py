"""The one writer: adds and removes examples durably, refits, and swaps in what the folder holds now."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from knn_ue.adapting import Adaptation
from knn_ue.arrays import FloatArray
from knn_ue.calibrators import Calibrator
from knn_ue.errors import InvalidInputError, KnnUeError, StorageError
from knn_ue.pipeline import Fitted
from knn_ue.pipeline.domains import adapt_fitted, forget_domain
from knn_ue.pipeline.editing import add_rows, edit, edit_stores, remove_rows
from knn_ue.pipeline.fitted import store_of
from knn_ue.pipeline.fitting import refit
from knn_ue.serving.logs import log
from knn_ue.serving.problems import ProblemError, busy
from knn_ue.serving.work.state import Served, load_served
from knn_ue.storage.atomic import locked, waiting_at_most
from knn_ue.stores import writable
from knn_ue.types import Outputs

Result = TypeVar("Result")
Swapped = Callable[[Served, Served], None]

_ATTEMPTS = 20  # against other writers of the same folder
_MAX_WAITING = 64
_SERVE_KNN = "serve a folder fitted with knn-ue"


@dataclass(frozen=True, kw_only=True)
class AdaptOptions:
    """How labels are taken; see `knn_ue.pipeline.domains.adapt_fitted`."""

    random_sample: bool = True
    add: bool = False
    force: bool = False


class FolderWriter:
    """Holds what is served; every change happens in its one thread, so changes never meet each other.

    Other processes may write to the folder meanwhile: the datastore's journal refuses a change that does not continue
    what is on disk, and then the folder is read again and the change repeated. `swapped(old, new)` is called, in
    that thread, when another `Served` takes over. Nobody waits longer than `max_wait` seconds for that thread, nor
    that thread for another process.
    """

    def __init__(
        self, served: Served, *, device: str, trust_remote_code: bool, max_wait: float, swapped: Swapped
    ) -> None:
        self.served = served
        self.last_error: str | None = None  # of the last attempt to read the folder again
        self._device = device
        self._trust_remote_code = trust_remote_code
        self._max_wait = max_wait
        self._swapped = swapped
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="knn-ue-writer")
        self._n_waiting = 0

    async def add(self, encoded: Served, outputs: Outputs) -> tuple[list[int], int]:
        """Store labeled outputs that `encoded` made; return their ids and how many examples are stored."""
        return await self._soon(partial(self._add, encoded, outputs))

    async def remove(self, example: int) -> int:
        """Forget an example; return how many are left."""
        return await self._soon(partial(self._remove, example))

    async def refit(self) -> Served:
        """Fit the parameters, threshold and drift percentiles again, on the validation rows in the folder."""
        return await self._soon(self._refit)

    async def adapt(
        self, encoded: Served, outputs: Outputs, *, domain: str, weights: FloatArray | None, options: AdaptOptions
    ) -> tuple[Served, Adaptation]:
        """Adapt to a domain by labeled outputs that `encoded` made; return what is served then."""
        return await self._soon(partial(self._adapt, encoded, outputs, domain, weights, options))

    async def forget_domain(self, domain: str) -> Served:
        """Forget a domain and its labels."""
        return await self._soon(partial(self._forget_domain, domain))

    async def reload(self) -> tuple[Served, bool]:
        """Read the folder again if it changed; return what is served then and whether it is something else."""
        return await self._soon(self._reload_if_stale)

    async def watch(self, seconds: float) -> None:
        """Follow what other processes do to the folder, forever."""
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.reload()
            except (KnnUeError, OSError, ProblemError):
                continue  # told by last_error; what is in memory goes on answering

    async def stop(self) -> None:
        """Finish the change under way and end the thread."""
        await asyncio.get_running_loop().run_in_executor(None, self._thread.shutdown)

    async def _soon(self, change: Callable[[], Result]) -> Result:
        if self._n_waiting >= _MAX_WAITING:
            raise busy("too_many_changes", f"{self._n_waiting} changes wait for the disk", retry_after=5)
        self._n_waiting += 1
        queued = self._thread.submit(self._bounded, change)
        expired: list[bool] = []
        # What has begun is not cancelled by this, and is waited for.
        timer = asyncio.get_running_loop().call_later(self._max_wait, lambda: expired.append(queued.cancel()))
        try:
            return await asyncio.wrap_future(queued)
        except asyncio.CancelledError:
            if any(expired):
                raise busy(
                    "waited_too_long", f"other changes took longer than {self._max_wait:g} s", retry_after=5
                ) from None
            raise
        finally:
            timer.cancel()
            self._n_waiting -= 1

    def _bounded(self, change: Callable[[], Result]) -> Result:
        """Make a change that waits for locks of other processes, all in all, no longer than `max_wait`."""
        with waiting_at_most(self._max_wait):
            return change()

    def _add(self, encoded: Served, outputs: Outputs) -> tuple[list[int], int]:
        def change(calibrator: Calibrator) -> list[int]:
            if self.served.pipe.encoder is not encoded.pipe.encoder:
                raise ModelChangedError
            return [int(number) for number in add_rows(calibrator, outputs)]

        return self._change(change)

    def _remove(self, example: int) -> int:
        def change(calibrator: Calibrator) -> list[int]:
            try:
                remove_rows(calibrator.stores.values(), [example])
            except InvalidInputError:
                raise ProblemError(
                    404, "unknown_id", f"no example has the id {example} (never added, or removed)"
                ) from None
            return []

        return self._change(change)[1]

    def _change(self, change: Callable[[Calibrator], list[int]]) -> tuple[list[int], int]:
        def changed(calibrator: Calibrator) -> tuple[list[int], int]:
            _check_writable(calibrator)
            ids, last = change(calibrator), store_of(calibrator)
            return ids, 0 if last is None else len(last)

        return self._in_turn(lambda served: edit_stores(served.path, changed, opened=served.opened), _SERVE_KNN)

    def _refit(self) -> Served:
        def change(fitted: Fitted) -> tuple[Fitted, None]:
            return refit(fitted, copy(fitted.calibrator)), None

        self._in_turn(lambda served: edit(served.path, change, opened=served.opened), "there is nothing to refit")
        return self.served

    def _adapt(
        self, encoded: Served, outputs: Outputs, domain: str, weights: FloatArray | None, options: AdaptOptions
    ) -> tuple[Served, Adaptation]:
        def change(fitted: Fitted) -> tuple[Fitted, Adaptation]:
            if self.served.pipe.encoder is not encoded.pipe.encoder:
                raise ModelChangedError
            return adapt_fitted(
                fitted,
                outputs,
                domain=domain,
                sample_weight=weights,
                random_sample=options.random_sample,
                add=options.add,
                force=options.force,
            )

        adaptation = self._in_turn(lambda served: edit(served.path, change, opened=served.opened))
        return self.served, adaptation

    def _forget_domain(self, domain: str) -> Served:
        def change(fitted: Fitted) -> tuple[Fitted, None]:
            if domain not in fitted.domains:
                known = ", ".join(fitted.domains) or "none"
                raise ProblemError(
                    404, "unknown_domain", f"there is no domain {domain[:64]!r} to forget; there are: {known}"
                )
            return forget_domain(fitted, domain), None

        self._in_turn(lambda served: edit(served.path, change, opened=served.opened))
        return self.served

    def _in_turn(self, work: Callable[[Served], Result], without_examples: str | None = None) -> Result:
        """Do the work on the folder as it is now; begin again where another process was faster.

        `without_examples` says what to do instead where the method stores none; None where that does not matter.
        """
        if without_examples is not None:
            self._check_has_stores(without_examples)
        for attempt in range(_ATTEMPTS):
            with self._turn():
                self._reload_if_stale()
                served = self.served
                try:
                    result = work(served)
                except StorageError:
                    if not served.opened.is_stale() or attempt == _ATTEMPTS - 1:
                        raise
                else:
                    self._reload_if_stale()  # where the whole folder was saved, and not only a journal
                    return result
        raise AssertionError("the last attempt returns or raises")

    def check_stores(self) -> None:
        """Raise where examples cannot be stored."""
        self._check_has_stores(_SERVE_KNN)
        _check_writable(self.served.pipe.calibrator_)

    def _check_has_stores(self, instead: str) -> None:
        if not self.served.pipe.calibrator_.stores:
            method = self.served.pipe.method_
            raise ProblemError(409, "no_datastore", f"the method {method} stores no examples: {instead}")

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Let the servers of one folder change it in turn: the slower one might otherwise never be first.

        The lock is on the whole folder, which stays; a rewrite replaces every folder inside.
        """
        with ExitStack() as stack:
            try:
                stack.enter_context(locked(self.served.path))
            except StorageError:
                raise
            except OSError:
                pass  # the folder was replaced: whatever takes its place is read again
            yield

    def _reload_if_stale(self) -> tuple[Served, bool]:
        return (self._reload(), True) if self.served.opened.is_stale() else (self.served, False)

    def _reload(self) -> Served:
        before = self.served
        try:
            served = load_served(
                before.path, device=self._device, trust_remote_code=self._trust_remote_code, before=before
            )
        except (KnnUeError, OSError) as error:
            if str(error) != self.last_error:  # the watch comes again every second
                log("reload_failed", level=logging.ERROR, sentence=str(error))
            self.last_error = str(error)
            raise
        self.served, self.last_error = served, None
        self._swapped(before, served)
        return served


def _check_writable(calibrator: Calibrator) -> None:
    try:
        for store in calibrator.stores.values():
            writable(store)
    except InvalidInputError as error:
        raise ProblemError(409, "read_only_store", str(error)) from None


class ModelChangedError(Exception):
    """Another model took over while an example was being encoded: its features belong to the old one."""
