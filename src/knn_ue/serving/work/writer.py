"""The one writer: adds and removes examples durably, refits, and swaps in what the folder holds now."""

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from knn_ue.arrays import FloatArray
from knn_ue.errors import InvalidInputError, KnnUeError, StaleFolderError
from knn_ue.folder import Transaction, as_written
from knn_ue.pipeline import Fitted
from knn_ue.pipeline.domains import adapt_fitted, forget_domain
from knn_ue.pipeline.fitted import add_rows, store_of
from knn_ue.pipeline.fitting import refit_grown
from knn_ue.serving.logs import log
from knn_ue.serving.problems import ProblemError, busy
from knn_ue.serving.work.curve import adapted_facts
from knn_ue.serving.work.state import Served, load_served
from knn_ue.stores import remove_from_all, writable
from knn_ue.types import Outputs

Result = TypeVar("Result")
Swapped = Callable[[Served, Served], None]
Said = dict[str, Any]  # the JSON that a change is answered with
Change = Callable[[Fitted, Transaction], tuple[Fitted, Said]]

_MAX_WAITING = 64


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request that may be repeated: its idempotency key, and a digest of all that it asks."""

    key: str
    digest: str


@dataclass(frozen=True, kw_only=True)
class Learning:
    """What labeled examples are for: to be stored, to count as labels of a `domain` (see `adapt_fitted`), or both."""

    store: bool = False
    domain: str | None = None
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
        self.served.pipe.opened.live.max_wait = max_wait
        self.last_error: str | None = None  # of the last attempt to read the folder again
        self._device = device
        self._trust_remote_code = trust_remote_code
        self._max_wait = max_wait
        self._swapped = swapped
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="knn-ue-writer")
        self._n_waiting = 0

    async def learn(
        self,
        encoded: Served,
        outputs: Outputs,
        learning: Learning,
        *,
        n_rows: Sequence[int],
        weights: FloatArray | None = None,
        asked: Asked | None = None,
    ) -> tuple[Said, bool]:
        """Learn from labeled outputs that `encoded` made, `n_rows` of each example, all in one transaction.

        Return what to say, and whether it was done now: of a request that was `asked` before it is the first answer.
        """
        change = partial(self._learn, encoded, outputs, learning, n_rows, weights)
        return await self._soon(partial(self._in_turn, change, asked))

    async def remove(self, example: int, asked: Asked | None = None) -> tuple[Said, bool]:
        """Forget an example."""
        return await self._soon(partial(self._in_turn, partial(_removed, example), asked))

    async def refit(self, asked: Asked | None = None) -> Said:
        """Fit the parameters, threshold and drift percentiles again, on the validation rows in the folder."""
        return (await self._soon(partial(self._in_turn, _refitted, asked)))[0]

    async def forget_domain(self, domain: str, asked: Asked | None = None) -> Said:
        """Forget a domain and its labels."""
        return (await self._soon(partial(self._in_turn, partial(_forgotten, domain), asked)))[0]

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

    def _in_turn(self, change: Change, asked: Asked | None) -> tuple[Said, bool]:
        """Change what the folder holds now; where another process saved it, open it again first."""

        def once(fitted: Fitted) -> tuple[Fitted, tuple[Said, bool]]:
            live = self.served.pipe.opened.live
            with live.change() as transaction:  # that of `edit`
                before = None if asked is None else transaction.answered(asked.key)
                if asked is not None and before is not None:
                    return fitted, (_said_before(asked, before), False)
                changed, said = change(fitted, transaction)
                if asked is not None:
                    transaction.answer(asked.key, asked.digest, json.dumps(said))
                return changed, (said, True)

        try:
            result = self.served.pipe.opened.edit(once)
        except StaleFolderError:
            self._load()
            result = self.served.pipe.opened.edit(once)
        self._take_over()
        return result

    def _learn(
        self,
        encoded: Served,
        outputs: Outputs,
        learning: Learning,
        n_rows: Sequence[int],
        weights: FloatArray | None,
        fitted: Fitted,
        _: Transaction,
    ) -> tuple[Fitted, Said]:
        if self.served.pipe.encoder is not encoded.pipe.encoder:
            raise ModelChangedError
        if learning.store:
            _check_stores(fitted)
        said: Said = {}
        if learning.domain is not None:
            # Before they are stored: an example that finds itself among its neighbors is sure of itself.
            fitted, adaptation = adapt_fitted(
                fitted,
                outputs,
                domain=learning.domain,
                sample_weight=weights,
                random_sample=learning.random_sample,
                add=learning.add,
                force=learning.force,
            )
            said = adapted_facts(fitted, learning.domain, adaptation, force=learning.force)
        if not learning.store:
            return fitted, said
        n_before = _n_stored(fitted)
        ids = iter(add_rows(fitted.calibrator, outputs).tolist())
        stored: Said = {"ids": [[next(ids) for _ in range(n)] for n in n_rows], "n_stored": n_before + sum(n_rows)}
        return fitted, stored | ({"labels": said} if said else {})

    def _reload_if_stale(self) -> tuple[Served, bool]:
        before = self.served
        try:
            before.pipe.opened.refresh()
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
        if before.pipe.opened.fitted is not before.pipe.fitted_:
            self.served = Served(pipe=before.pipe.of_folder(before.pipe.encoder, before.pipe.opened))
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
        served.pipe.opened.live.max_wait = self._max_wait
        self.served, self.last_error = served, None
        self._swapped(before, served)

    def _remember(self, error: Exception) -> None:
        if str(error) != self.last_error:  # the watch comes again every second
            log("reload_failed", level=logging.ERROR, sentence=str(error))
        self.last_error = str(error)


class ModelChangedError(Exception):
    """Another model took over while an example was being encoded: its features belong to the old one."""


def threshold_said(changed: bool, generation: str, fitted: Fitted, message: str) -> Said:
    """Return what a refit or a reload is answered with."""
    threshold = None if fitted.threshold is None else fitted.threshold.threshold
    return {"changed": changed, "generation": generation, "threshold": threshold, "message": message}


def _removed(example: int, fitted: Fitted, _: Transaction) -> tuple[Fitted, Said]:
    _check_stores(fitted)
    n_before = _n_stored(fitted)
    try:
        remove_from_all(fitted.calibrator.stores, [example])
    except InvalidInputError:
        raise ProblemError(404, "unknown_id", f"no example has the id {example} (never added, or removed)") from None
    return fitted, {"removed": example, "n_stored": n_before - 1}


def _refitted(fitted: Fitted, change: Transaction) -> tuple[Fitted, Said]:
    _check_has_stores(fitted, "there is nothing to refit")
    changed = refit_grown(fitted)
    assert change.head is not None
    generation = replace(change.head, change=change.number).generation
    return changed, threshold_said(True, generation, changed, "fitted again on the validation rows")


def _forgotten(domain: str, fitted: Fitted, _: Transaction) -> tuple[Fitted, Said]:
    if domain not in fitted.domains:
        known = ", ".join(fitted.domains) or "none"
        raise ProblemError(404, "unknown_domain", f"there is no domain {domain[:64]!r} to forget; there are: {known}")
    changed = forget_domain(fitted, domain)
    return changed, {"forgot": domain, "domains": list(changed.domains)}


def _said_before(asked: Asked, before: tuple[str, str]) -> Said:
    digest, answer = before
    if digest != asked.digest:
        raise ProblemError(
            422,
            "key_in_use",
            f"the Idempotency-Key {asked.key} belongs to another request: use a new key for each request, and the same "
            "one only to repeat it",
        )
    with as_written("the folder", "answer to this request"):
        said: Said = {**json.loads(answer)}
    return said


def _check_stores(fitted: Fitted) -> None:
    """Raise where examples cannot be stored."""
    _check_has_stores(fitted, "serve a folder fitted with knn-ue")
    try:
        for store in fitted.calibrator.stores.values():
            writable(store)
    except InvalidInputError as error:
        raise ProblemError(409, "read_only_store", str(error)) from None


def _check_has_stores(fitted: Fitted, instead: str) -> None:
    if not fitted.calibrator.stores:
        raise ProblemError(409, "no_datastore", f"the method {fitted.method} stores no examples: {instead}")


def _n_stored(fitted: Fitted) -> int:
    store = store_of(fitted.calibrator)
    return 0 if store is None else len(store)
