"""`changes.db`: which fitted folder is current, and all that happened since, one transaction per acknowledged change.

SQLite keeps it: rollback journal, `synchronous=FULL`, one writer at a time, readers never wait for long. Several
processes may write; who changes something first takes over what others changed, under the same lock.

A folder may come from a stranger, so its database must have exactly our tables, pass SQLite's own check, and hold
values of our types; every value is checked again where it is used.
"""

import secrets
import shutil
import sqlite3
import time
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from knn_ue.arrays import MAX_CLASSES, FloatArray, IntArray
from knn_ue.errors import StorageError
from knn_ue.folder.database import DATABASE, TABLES, connected
from knn_ue.folder.disk import RESTORE, storage_errors
from knn_ue.folder.part import FITTED, FORMAT, Added
from knn_ue.folder.tensors import PackedTexts, valid_unicode

MAX_ID = 1 << 62
FOREVER = 1e6  # seconds
_LOOK_AGAIN = 200  # milliseconds
PATIENCE = 60.0  # seconds that a reader waits for a commit, which is soon over unless its process hangs
MOST_ANSWERS, ANSWERS_LAST = 10_000, 86_400  # of requests that may be repeated: so many, for so many seconds
_MAX_BLOB = 1 << 30  # SQLite's own limit is just below


@dataclass(frozen=True, kw_only=True)
class Head:
    """What a folder is now: the name and checksum of its immutable part, and the number of its last change.

    `mark` is drawn for each change, and `place` is the database itself: a copy has another history from here on.
    """

    fitted: str
    sha256: str
    change: int
    mark: str = ""
    place: tuple[int, int] = (0, 0)

    def goes_on_to(self, other: "Head") -> bool:
        """Return whether what is now `other` is this folder with changes that came after it."""
        same = (self.fitted, self.place) == (other.fitted, other.place)
        return same and (self.change < other.change or (self.change, self.mark) == (other.change, other.mark))

    @property
    def generation(self) -> str:
        """A name that changes with every acknowledged change; a copy of the folder goes on with the same names."""
        return f"{self.fitted.removeprefix('fitted-')}.{self.change}"


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredPart:
    """A part that was fitted again, or came later: its parameters and arrays as JSON and safetensors; None if gone."""

    state: str | None
    arrays: bytes | None


@dataclass(frozen=True, kw_only=True, eq=False)
class News:
    """What happened since a change: rows that were added and removed, and the parts that are others now."""

    head: Head
    next_id: int
    added: Added
    removed: IntArray
    parts: Mapping[str, StoredPart]


class Transaction:
    """One change of a folder, made by its methods; nothing of it is seen, or lasts, unless all of it does."""

    def __init__(self, database: sqlite3.Connection, head: Head | None, path: Path) -> None:
        self._database = database
        self.path = path
        self.head = head
        self.number = 0 if head is None else head.change + 1  # of this change
        self.is_change = False

    def news(self, since: int, after_id: int, n_columns: int) -> News:
        """Return what happened after the change `since` and the id `after_id`."""
        return _news(self._database, self._now, since, after_id, n_columns)

    def add(self, labels: IntArray, texts: Sequence[str | None], vectors: FloatArray, *, first: int) -> IntArray:
        """Add examples, and return their ids, all at least `first`."""
        next_id = _next_id(self._database)
        if not first <= next_id <= MAX_ID - len(labels):
            raise StorageError(f"{self.path} gives ids that are in use: it is damaged; {RESTORE}")
        ids = np.arange(next_id, next_id + len(labels))
        self.insert(ids, labels, texts, vectors)
        return ids

    def insert(self, ids: IntArray, labels: IntArray, texts: Sequence[str | None], vectors: FloatArray) -> None:
        """Add examples that have their ids already."""
        self._database.executemany(
            "insert into added values (?, ?, ?, ?, ?)",
            (
                (*row, _crc(row))
                for row in (
                    (number, label, None if text is None else valid_unicode(text), vector.tobytes())
                    for number, label, text, vector in zip(ids.tolist(), labels.tolist(), texts, vectors, strict=True)
                )
            ),
        )
        self.is_change = True

    def remove(self, ids: IntArray) -> None:
        """Remove examples by id, added ones and others."""
        self._database.executemany("delete from added where id = ?", ((number,) for number in ids.tolist()))
        self._database.executemany(
            "insert or ignore into removed values (?, ?, ?)",
            ((*row, _crc(row)) for row in ((number, self.number) for number in ids.tolist())),
        )
        self.is_change = True

    def put(self, name: str, part: StoredPart) -> None:
        """Give the folder another part of this name, or take it away."""
        if len(part.arrays or b"") > _MAX_BLOB or len(part.state or "") > _MAX_BLOB:
            raise StorageError(f"{name} is larger than {_MAX_BLOB} bytes: nothing was changed, use fewer rows")
        self._database.execute(
            "insert or replace into parts values (?, ?, ?, ?, ?)",
            (name, part.state, part.arrays, self.number, _crc((name, part.state, part.arrays))),
        )
        self.is_change = True

    def begin(self, fitted: str, sha256: str, next_id: int, *, folded: Collection[str] | None) -> None:
        """Make another immutable folder the current one, and forget all rows, and the parts that are `folded` into it.

        Without `folded` it is about something else: nothing that happened before is kept.
        """
        self._database.execute("delete from added")
        self._database.execute("delete from removed")
        if folded is None:
            self._database.execute("delete from parts")
            self._database.execute("delete from requests")
        else:
            self._database.executemany("delete from parts where name = ?", ((name,) for name in folded))
            next_id = max(next_id, _next_id(self._database))
        self._database.execute("delete from sqlite_sequence where name = 'added'")
        self._database.execute("insert into sqlite_sequence values ('added', ?)", (next_id - 1,))
        row = (1, FORMAT, fitted, sha256, self.number, "")
        self._database.execute("insert or replace into folder values (?, ?, ?, ?, ?, ?)", row)
        place = (0, 0) if self.head is None else self.head.place
        self.head = Head(fitted=fitted, sha256=sha256, change=self.number, place=place)
        self.is_change = True

    def answered(self, key: str) -> tuple[str, str] | None:
        """Return what was asked and answered under an idempotency key, None where it is new or was forgotten."""
        row = self._database.execute(
            "select asked, answer from requests where key = ? and at > ?", (key, int(time.time()) - ANSWERS_LAST)
        ).fetchone()
        return None if row is None else (row[0], row[1])

    def answer(self, key: str, asked: str, answer: str) -> None:
        """Remember the answer to the request with this key, together with what it changes."""
        now = int(time.time())
        self._database.execute("insert or replace into requests values (?, ?, ?, ?)", (key, asked, answer, now))
        # The oldest two at most, for one that came: all of them go in time, and no change waits for many.
        self._database.execute(
            """delete from requests where rowid in (select rowid from requests order by rowid limit 2)
            and (at <= ? or rowid <= (select max(rowid) from requests) - ?)""",
            (now - ANSWERS_LAST, MOST_ANSWERS),
        )
        self.is_change = True

    @property
    def _now(self) -> Head:
        assert self.head is not None  # only a first `begin` goes before it
        return self.head


def head_of(folder: Path, most: float = FOREVER) -> Head:
    """Return what the folder is now; waits at most `most` seconds for a commit."""
    with connected(folder, min(most, PATIENCE)) as database:
        return _head(database, folder)


def is_saved(folder: Path) -> bool:
    """Return whether the database names what was fitted; not so where the first save never ended."""
    with connected(folder, PATIENCE) as database:
        return _has(database) and bool(database.execute("select count(*) from folder").fetchone()[0])


def read_changes(folder: Path, since: int = -1, after_id: int = -1, n_columns: int = 0) -> News:
    """Return what happened to the folder after the change `since` and the id `after_id`, as of one moment."""
    with connected(folder, PATIENCE) as database:
        database.execute("begin")
        return _news(database, _head(database, folder), since, after_id, n_columns)


def check_database(folder: Path) -> None:
    """Raise unless the database is whole and ours: asked once, when a folder is opened."""
    with connected(folder, PATIENCE) as database:
        said = database.execute("pragma quick_check(1)").fetchone()[0]
        if said != "ok":
            raise StorageError(f"{folder / DATABASE} is damaged ({str(said)[:100]}): {RESTORE}")


def copy_database(folder: Path, target: Path) -> Head:
    """Copy the database as it is at one moment to the new folder `target`; return what it says."""
    with connected(folder, PATIENCE) as database, closing(sqlite3.connect(target / DATABASE)) as copy:
        database.backup(copy)
        copy.execute("pragma synchronous = full")
    return head_of(target)


def discard_unsaved(folder: Path) -> None:
    """Remove the database of a first save that failed, unless another process saved there meanwhile."""
    with suppress(StorageError), connected(folder, 0) as database:
        database.execute("begin immediate")
        if not _has(database) or not database.execute("select count(*) from folder").fetchone()[0]:
            for name in (DATABASE, f"{DATABASE}-journal"):
                (folder / name).unlink(missing_ok=True)


def remove_unnamed(folder: Path) -> None:
    """Remove fitted folders that no transaction names; where another process is at work, a later write does so.

    Within a turn, since a folder that somebody is about to name has no name yet.
    """
    with suppress(StorageError), transaction(folder, wait=0) as change:
        for entry in folder.iterdir():
            named = change.head is None or entry.name == change.head.fitted
            if FITTED.fullmatch(entry.name) and not named and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)


@contextmanager
def transaction(folder: Path, *, wait: float = FOREVER, create: bool = False) -> Iterator[Transaction]:
    """Change the folder in turn with all other writers: what the block does lasts, whole, once it ends well.

    Waits for the turn no longer than `wait` seconds.
    """
    with connected(folder, wait, create=create) as database:
        _take_turn(database, wait)
        try:
            if create and not database.execute("select count(*) from sqlite_schema").fetchone()[0]:
                for sql in TABLES.values():
                    database.execute(sql)
            empty = not database.execute("select count(*) from folder").fetchone()[0] if create else False
            change = Transaction(database, None if empty else _head(database, folder), folder)
            yield change
            if change.is_change:
                _commit(database, change, folder)
        finally:
            if database.in_transaction:
                database.execute("rollback")


def _take_turn(database: sqlite3.Connection, wait: float) -> None:
    """Begin to write once nobody else does, looked for again and again: SQLite alone would not notice a Ctrl-C."""
    end = time.monotonic() + wait
    (patience,) = database.execute("pragma busy_timeout").fetchone()
    database.execute(f"pragma busy_timeout = {min(patience, _LOOK_AGAIN)}")
    while not database.in_transaction:
        try:
            database.execute("begin immediate")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() >= end:
                raise
    database.execute(f"pragma busy_timeout = {patience}")


def _commit(database: sqlite3.Connection, change: Transaction, folder: Path) -> None:
    """Commit; where the disk reports an error, find out what became of it: what was made is never told as undone."""
    mark = secrets.token_hex(8)
    assert change.head is not None  # a first change begins
    change.head = replace(change.head, change=change.number, mark=mark)
    database.execute("update folder set change = ?, mark = ?", (change.number, mark))
    try:
        database.execute("commit")
    except sqlite3.Error as error:
        if database.in_transaction:
            database.execute("rollback")
        row = database.execute("select mark from folder").fetchone()
        if row is None or row[0] != mark:
            raise
        try:  # what follows it on the disk confirms it
            database.execute("update folder set mark = mark")
        except sqlite3.Error:
            raise StorageError(
                f"{folder} was changed, but the disk does not confirm that it will last ({error}): look before you "
                "repeat it"
            ) from error


def _head(database: sqlite3.Connection, folder: Path) -> Head:
    columns = "format, fitted, sha256, change, mark"
    row = database.execute(f"select {columns} from folder").fetchone() if _has(database) else None
    if row is None:
        raise StorageError(f"{folder} was never saved completely: save it again")
    if row[0] != FORMAT:
        raise StorageError(
            f"{folder} has format {row[0]}, this version reads {FORMAT}: refit, or upgrade with pip install -U knn-ue"
        )
    if not FITTED.fullmatch(row[1]) or not 0 <= row[3] < MAX_ID:
        raise StorageError(f"{folder / DATABASE} names what cannot be ours: do not trust this folder")
    with storage_errors(f"{folder} cannot be read", "check the path"):
        found = (folder / DATABASE).stat()
    return Head(fitted=row[1], sha256=row[2], change=row[3], mark=row[4], place=(found.st_dev, found.st_ino))


def _has(database: sqlite3.Connection) -> bool:
    return bool(database.execute("select count(*) from sqlite_schema").fetchone()[0])


def _next_id(database: sqlite3.Connection) -> int:
    # SQLite's own count has no checksum: no id that a row ever had is given again, whatever it says.
    said = database.execute(
        "select coalesce(max(id), -1) from (select seq as id from sqlite_sequence where name = 'added' "
        "union all select max(id) from added union all select max(id) from removed)"
    ).fetchone()[0]
    if not isinstance(said, int):
        raise StorageError(f"its next id is no number: {RESTORE}")
    return said + 1


def _news(database: sqlite3.Connection, head: Head, since: int, after_id: int, n_columns: int) -> News:
    rows = database.execute("select * from added where id > ? order by id", (after_id,)).fetchall()
    removed = database.execute("select * from removed where change > ? order by id", (since,)).fetchall()
    parts = database.execute("select name, state, arrays, crc from parts where change > ?", (since,)).fetchall()
    if any(_crc(row[:-1]) != row[-1] for row in (*rows, *removed, *parts)):
        raise StorageError(f"a change does not match its checksum: it is damaged; {RESTORE}")
    return News(
        head=head,
        next_id=_next_id(database),
        added=_added(rows, n_columns),
        removed=np.array([number for number, *_ in removed], dtype=np.int64),
        parts={name: StoredPart(state=state, arrays=arrays) for name, state, arrays, _ in parts},
    )


def _crc(values: Sequence[Any]) -> int:
    """Return a checksum of a row: the database itself has none, so that damage would go unnoticed."""
    said = 0
    for value in values:
        said = zlib.crc32(value if isinstance(value, bytes) else repr(value).encode(), said)
    return said


def _added(rows: Sequence[tuple[int, int, str | None, bytes, int]], n_columns: int) -> Added:
    if any(len(vector) != 4 * n_columns for *_, vector, _ in rows):
        raise StorageError(f"an example that was added does not have {n_columns} columns: {RESTORE}")
    vectors = np.frombuffer(b"".join(vector for *_, vector, _ in rows), dtype=np.float32).reshape(len(rows), n_columns)
    ids = np.array([number for number, *_ in rows], dtype=np.int64)
    labels = np.array([label for _, label, *_ in rows], dtype=np.int64)
    if len(rows) and not (ids[0] >= 0 and ids[-1] <= MAX_ID and labels.min() >= 0 and labels.max() < MAX_CLASSES):
        raise StorageError(f"an example that was added has an id or a label that none can have: {RESTORE}")
    if not np.isfinite(vectors).all():
        raise StorageError(f"an example that was added has a feature that is no number: {RESTORE}")
    return Added(ids=ids, labels=labels, texts=PackedTexts.pack([text for _, _, text, *_ in rows]), vectors=vectors)
