"""The one writer: adds and removes examples durably, refits, and swaps in what the folder holds now."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from knn_ue.adapting import Adaptation
from knn_ue.arrays import FloatArray
from knn_ue.errors import InvalidInputError, KnnUeError, StaleFolderError
from knn_ue.pipeline import Fitted
from knn_ue.pipeline.domains import adapt_fitted, forget_domain
from knn_ue.pipeline.fitted import add_rows
from knn_ue.pipeline.fitting import refit
from knn_ue.serving.logs import log
from knn_ue.serving.problems import ProblemError, busy
from knn_ue.serving.work.state import Served, load_served
from knn_ue.stores import remove_from_all, writable
from knn_ue.types import Outputs

Result = TypeVar("Result")
Swapped = Callable[[Served, Served], None]

_MAX_WAITING = 64


@dataclass(frozen=True, kw_only=True)
class AdaptOptions:
    """How labels are taken; see `knn_ue.pipeline.domains.adapt_fitted`."""

    random_sample: bool = True
    add: bool = False
    force: bool = False


class FolderWriter:
    """Holds what is served; every change happens in its one thread, so changes never meet each other.

    Other processes may write to the folder meanwhile: what they did is taken over before a change, or the folder is
    opened again where they saved, compacted or tuned it. `swapped(old, new)` is called, in that thread, when another
    `Served` takes over. Nobody waits longer than `max_wait` seconds for that thread, nor that thread for another
    process.
    """

    def __init__(
        self, served: Served, *, device: str, trust_remote_code: bool, max_wait: float, swapped: Swapped
    ) -> None:
        self.served = served
        self.served.opened.live.max_wait = max_wait
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
        queued = self._thread.submit(change)
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

    def _add(self, encoded: Served, outputs: Outputs) -> tuple[list[int], int]:
        self.check_stores()

        def change(fitted: Fitted) -> tuple[Fitted, list[int]]:
            self._check_same_model(encoded)
            return fitted, [int(number) for number in add_rows(fitted.calibrator, outputs)]

        return self._in_turn(change), self._n_stored()

    def _remove(self, example: int) -> int:
        self.check_stores()

        def change(fitted: Fitted) -> tuple[Fitted, None]:
            try:
                remove_from_all(fitted.calibrator.stores, [example])
            except InvalidInputError:
                raise ProblemError(
                    404, "unknown_id", f"no example has the id {example} (never added, or removed)"
                ) from None
            return fitted, None

        self._in_turn(change)
        return self._n_stored()

    def _refit(self) -> Served:
        self._check_has_stores("there is nothing to refit")
        self._in_turn(lambda fitted: (refit(fitted, copy(fitted.calibrator)), None))
        return self.served

    def _adapt(
        self, encoded: Served, outputs: Outputs, domain: str, weights: FloatArray | None, options: AdaptOptions
    ) -> tuple[Served, Adaptation]:
        def change(fitted: Fitted) -> tuple[Fitted, Adaptation]:
            self._check_same_model(encoded)
            return adapt_fitted(
                fitted,
                outputs,
                domain=domain,
                sample_weight=weights,
                random_sample=options.random_sample,
                add=options.add,
                force=options.force,
            )

        adaptation = self._in_turn(change)
        return self.served, adaptation

    def _forget_domain(self, domain: str) -> Served:
        def change(fitted: Fitted) -> tuple[Fitted, None]:
            if domain not in fitted.domains:
                known = ", ".join(fitted.domains) or "none"
                raise ProblemError(
                    404, "unknown_domain", f"there is no domain {domain[:64]!r} to forget; there are: {known}"
                )
            return forget_domain(fitted, domain), None

        self._in_turn(change)
        return self.served

    def _in_turn(self, change: Callable[[Fitted], tuple[Fitted, Result]]) -> Result:
        """Change what the folder holds now; where another process saved it, open it again first."""
        try:
            result = self.served.opened.edit(change)
        except StaleFolderError:
            self._load()
            result = self.served.opened.edit(change)
        self._take_over()
        return result

    def check_stores(self) -> None:
        """Raise where examples cannot be stored."""
        self._check_has_stores("serve a folder fitted with knn-ue")
        try:
            for store in self.served.pipe.calibrator_.stores.values():
                writable(store)
        except InvalidInputError as error:
            raise ProblemError(409, "read_only_store", str(error)) from None

    def _check_has_stores(self, instead: str) -> None:
        if not self.served.pipe.calibrator_.stores:
            method = self.served.pipe.method_
            raise ProblemError(409, "no_datastore", f"the method {method} stores no examples: {instead}")

    def _check_same_model(self, encoded: Served) -> None:
        if self.served.pipe.encoder is not encoded.pipe.encoder:
            raise ModelChangedError

    def _n_stored(self) -> int:
        store = self.served.store
        return 0 if store is None else len(store)

    def _reload_if_stale(self) -> tuple[Served, bool]:
        before = self.served
        try:
            before.opened.refresh()
            self._take_over()
            self.last_error = None
        except StaleFolderError:
            self._load()
        except (KnnUeError, OSError) as error:
            self._remember(error)
            raise
        return self.served, self.served is not before

    def _take_over(self) -> None:
        """Serve what was fitted since, by us or by others."""
        before = self.served
        if before.opened.fitted is not before.pipe.fitted_:
            self.served = Served(pipe=before.pipe.of_folder(before.pipe.encoder, before.opened))
            self._swapped(before, self.served)

    def _load(self) -> None:
        before = self.served
        try:
            served = load_served(
                before.path, device=self._device, trust_remote_code=self._trust_remote_code, before=before
            )
        except (KnnUeError, OSError) as error:
            self._remember(error)
            raise
        served.opened.live.max_wait = self._max_wait
        self.served, self.last_error = served, None
        self._swapped(before, served)

    def _remember(self, error: Exception) -> None:
        if str(error) != self.last_error:  # the watch comes again every second
            log("reload_failed", level=logging.ERROR, sentence=str(error))
        self.last_error = str(error)


class ModelChangedError(Exception):
    """Another model took over while an example was being encoded: its features belong to the old one."""
