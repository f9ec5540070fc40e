"""One connection to the database of a folder: opened safely, whoever made the folder, and closed within one call.

No write-ahead log: it needs shared memory, which network file systems lack, and leaves files beside the database that
a copy would miss.
"""

import errno
import fcntl
import os
import sqlite3
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from threading import Condition, get_ident
from urllib.parse import quote

from knn_ue.errors import StorageError
from knn_ue.folder.disk import RESTORE, storage_errors

DATABASE = "changes.db"
_SUPER_JOURNAL = bytes.fromhex("d9d505f920a163d7")
TABLES = {
    "folder": """create table folder (
        one integer primary key check (one = 1), format integer not null, fitted text not null, sha256 text not null,
        change integer not null, mark text not null) strict""",
    "added": """create table added (
        id integer primary key autoincrement, label integer not null, text text, vector blob not null,
        crc integer not null) strict""",
    "removed": "create table removed (id integer primary key, change integer not null, crc integer not null) strict",
    "parts": """create table parts (
        name text primary key, state text, arrays blob, change integer not null, crc integer not null) strict""",
    "requests": """create table requests (
        key text primary key, asked text not null, answer text not null, at integer not null) strict""",
}
_BUILT_IN = {"sqlite_sequence", "sqlite_autoindex_parts_1", "sqlite_autoindex_requests_1"}
_NO_LOCK = "its file system cannot lock files; keep the folder on a local disk"
_NO_LOCKS = ("SQLITE_IOERR_LOCK", "SQLITE_IOERR_RDLOCK", "SQLITE_IOERR_UNLOCK", "SQLITE_IOERR_CHECKRESERVEDLOCK")
_DAMAGED = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_SCHEMA", "SQLITE_MISMATCH")


class _NoFork:
    """A block during which no other thread forks: neither SQLite nor a lock of ours must be carried across a fork.

    A fork waits until all such blocks have ended, and those that come later wait for the fork. A writer that waits for
    its turn keeps nobody else from reading.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._threads: Counter[int] = Counter()
        self._n_forks = 0
        os.register_at_fork(
            before=self._before_fork, after_in_parent=self._after_fork, after_in_child=self._after_in_child
        )

    def __enter__(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._n_forks or get_ident() in self._threads)
            self._threads[get_ident()] += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._threads -= Counter([get_ident()])
            self._changed.notify_all()

    def _before_fork(self) -> None:
        self._changed.acquire()
        self._n_forks += 1
        self._changed.wait_for(lambda: not self._threads.keys() - {get_ident()})

    def _after_fork(self) -> None:
        self._n_forks -= 1
        self._changed.notify_all()
        self._changed.release()

    def _after_in_child(self) -> None:
        self._n_forks = 1  # threads that fork elsewhere stayed behind
        self._after_fork()


no_fork = _NoFork()


@contextmanager
def connected(folder: Path, wait: float, *, create: bool = False) -> Iterator[sqlite3.Connection]:
    """Give a connection that waits `wait` seconds for others at most; close it, and report errors in one sentence."""
    path = folder / DATABASE
    with no_fork, _database_errors(path, wait):
        with storage_errors(f"{path} cannot be used", "check its permissions"):
            _check_files(path, create=create)
            _check_locks(folder)
        mode = "rwc" if create else "rw"
        database = sqlite3.connect(
            f"file:{quote(str(path.absolute()))}?mode={mode}", uri=True, timeout=wait, isolation_level=None
        )
        with closing(database):
            for pragma in ("trusted_schema = off", "cell_size_check = on", "synchronous = full", "temp_store = memory"):
                database.execute(f"pragma {pragma}")
            if database.execute("pragma journal_mode").fetchone()[0] == "wal":
                raise StorageError(f"{path} is not a database of ours: {RESTORE}")
            if create:
                database.execute("pragma auto_vacuum = full")  # what was folded into a fitted part takes no space
            # Truncated, not deleted: the end of a change is then synced too.
            database.execute("pragma journal_mode = truncate")
            _check_tables(database, path)
            yield database


def _check_files(path: Path, *, create: bool) -> None:
    """Raise where opening the database could touch anything else: a link, a pipe, or a journal that names others."""
    journal = path.with_name(f"{path.name}-journal")
    for file in (path, journal):
        if os.path.lexists(file) and not stat.S_ISREG(file.lstat().st_mode):
            raise StorageError(f"{file} is not a plain file: do not trust this folder")
    if not create and not path.exists():
        if not path.parent.exists():
            raise StorageError(f"the folder {path.parent} does not exist: check the path")
        raise StorageError(
            f"{path.parent} has no {DATABASE}, so it is not a knn-ue folder or was never saved completely: give a "
            "folder that knn-ue fit or save wrote"
        )
    if journal.exists():
        with journal.open("rb") as content:
            content.seek(max(0, os.fstat(content.fileno()).st_size - len(_SUPER_JOURNAL)))
            if content.read() == _SUPER_JOURNAL:
                raise StorageError(f"{journal} names other files, as none of ours does: do not trust this folder")


@cache
def _check_locks(folder: Path) -> None:
    """Raise where a file system says that it cannot lock now: SQLite would take that for another writer, and wait."""
    try:
        with TemporaryFile(dir=folder) as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno == errno.ENOLCK:
            raise StorageError(f"{folder} cannot be used ({error.strerror}): {_NO_LOCK}") from error


def _check_tables(database: sqlite3.Connection, path: Path) -> None:
    found = dict(database.execute("select name, sql from sqlite_schema").fetchall())
    if found and {name: sql for name, sql in found.items() if name not in _BUILT_IN} != _SCHEMA:
        raise StorageError(
            f"{path} has other tables than this version writes: refit, and do not trust it if it came from elsewhere"
        )


_SCHEMA = {name: sql.replace("create table", "CREATE TABLE", 1) for name, sql in TABLES.items()}


@contextmanager
def _database_errors(path: Path, wait: float) -> Iterator[None]:
    """Turn what SQLite reports into one sentence."""
    try:
        yield
    except UnicodeDecodeError as error:  # what SQLite says of a damaged schema quotes it
        raise StorageError(f"{path} cannot be used (its schema is no text): {RESTORE}") from error
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        said = f"{path} cannot be used ({error})"
        if name == "SQLITE_BUSY":
            said = f"{path.parent} is still being written by another process after {wait:.3g} s: nothing was changed"
            raise StorageError(f"{said}, try again") from error
        if name in _NO_LOCKS or name.startswith("SQLITE_PROTOCOL"):
            raise StorageError(f"{said}: {_NO_LOCK}") from error
        if name.startswith(_DAMAGED) or isinstance(error, sqlite3.DataError) or "decode" in str(error):
            raise StorageError(f"{said}: {RESTORE}") from error
        if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
            raise StorageError(f"{said}: check the permissions of {path.parent}") from error
        raise StorageError(f"{said}: nothing was changed; free space or check the disk, then try again") from error
