"""Whether the store on another server answers: noticed by requests and by asking, so that none waits in vain."""

import asyncio
from collections.abc import Callable

from knn_ue.errors import KnnUeError, StoreUnreachableError
from knn_ue.stores import NeighborStore, RemoteStore


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
