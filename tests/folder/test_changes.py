"""`changes.db`: what is acknowledged lasts, ids are never given twice, and a database of a stranger is refused."""

import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from contextlib import closing

import numpy as np
import pytest

from held import fitted_in, forge_database, held
from knn_ue.errors import StorageError
from knn_ue.folder import Part, changes, head_of, open_folder, write_folder
from knn_ue.folder.changes import transaction
from knn_ue.stores import Datastore

ROW = {"labels": np.array([1]), "texts": ["new"], "vectors": np.ones((1, 4), np.float32)}


@pytest.fixture
def folder(tmp_path):
    """A store of four examples, with one added and one removed."""
    Datastore.build(np.eye(4), [0, 1, 2, 3], texts=["a", "b", "c", "d"]).save(tmp_path / "store")
    store = Datastore.load(tmp_path / "store")
    store.add(np.ones((1, 4)), [1], texts=["e"])
    store.remove([0])
    return tmp_path / "store"


def ids_of(folder):
    return Datastore.load(folder).ids.tolist()


# --- changes ------------------------------------------------------------------------------------------------------


def test_nothing_of_a_change_lasts_unless_all_of_it_does(folder):
    before = head_of(folder)

    with pytest.raises(KeyboardInterrupt), transaction(folder) as change:
        change.add(**ROW, first=0)
        change.remove(np.array([1]))
        raise KeyboardInterrupt

    assert head_of(folder) == before
    assert ids_of(folder) == [1, 2, 3, 4]


def test_a_transaction_that_changes_nothing_writes_nothing(folder):
    before = head_of(folder)

    with transaction(folder):
        pass

    assert head_of(folder) == before


def test_every_change_has_a_number_and_a_name_of_its_own(folder):
    heads = [head_of(folder)]
    for _ in range(3):
        Datastore.load(folder).add(np.ones((1, 4)), [1])
        heads.append(head_of(folder))

    assert [head.change for head in heads] == [2, 3, 4, 5]
    assert len({head.mark for head in heads}) == len({head.generation for head in heads}) == 4


def test_ids_go_on_behind_what_was_added_and_removed(folder):
    store = Datastore.load(folder)
    store.remove([4])
    Datastore.load(folder).compact()

    assert Datastore.load(folder).add(np.ones((1, 4)), [1]).tolist() == [5]


def test_an_answer_to_a_request_lasts_together_with_what_it_changed(folder):
    with transaction(folder) as change:
        assert change.answered("key") is None
        change.add(**ROW, first=0)
        change.answer("key", "asked", "answer")
    with pytest.raises(KeyboardInterrupt), transaction(folder) as change:
        change.add(**ROW, first=0)
        change.answer("other", "asked", "answer")
        raise KeyboardInterrupt

    with transaction(folder) as change:
        assert change.answered("key") == ("asked", "answer")
        assert change.answered("other") is None
    Datastore.load(folder).compact()
    with transaction(folder) as change:
        assert change.answered("key") == ("asked", "answer")


def test_texts_of_every_kind_come_back_from_the_database(folder):
    texts = ["", "a\x00b", "half \ud800", "é👩‍🔬", "x" * 100_000, "'; drop table added; --"]
    store = Datastore.load(folder)
    ids = store.add(np.ones((len(texts), 4)), [0] * len(texts), texts=texts)

    expected = ["half \ufffd" if text.startswith("half") else text for text in texts]
    assert store.texts_of(ids) == Datastore.load(folder).texts_of(ids) == expected


def test_a_part_too_large_for_the_database_is_refused_and_nothing_is_changed(folder, monkeypatch):
    monkeypatch.setattr(changes, "_MAX_BLOB", 1000)
    live, before = open_folder(folder).live, head_of(folder)

    with pytest.raises(StorageError, match="domain is larger than 1000 bytes: nothing was changed, use fewer rows"):
        live.put("domain", {}, {"vectors": np.zeros(500)})

    assert head_of(folder) == before


def test_a_commit_that_the_disk_refuses_is_told_as_undone_only_if_it_is(folder, monkeypatch):
    store, before = Datastore.load(folder), head_of(folder)

    with monkeypatch.context() as patch:
        patch.setattr(changes.secrets, "token_hex", lambda _: "x" * 10**7)  # more than the disk may take
        import resource

        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
        try:
            with pytest.raises(StorageError, match="nothing was changed; free space or check the disk, then try again"):
                store.add(np.ones((1, 4)), [1])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert head_of(folder) == before
    assert store.add(np.ones((1, 4)), [1]).tolist() == [5]


# --- threads and processes ----------------------------------------------------------------------------------------


def test_threads_that_add_to_one_store_give_each_row_an_id_of_its_own(folder):
    store, given = Datastore.load(folder), []

    def add():
        for _ in range(10):
            given.extend(store.add(np.ones((2, 4)), [1, 2]).tolist())

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(given) == list(range(5, 85))
    assert ids_of(folder) == store.ids.tolist() == [1, 2, 3, 4, *range(5, 85)]


def test_a_writer_that_waits_keeps_no_other_thread_from_reading(folder):
    store = Datastore.load(folder)
    with held(folder):
        writer = threading.Thread(target=store.add, args=(np.ones((1, 4)), [1]))
        writer.start()
        writer.join(0.1)
        assert writer.is_alive()
        assert ids_of(folder) == [1, 2, 3, 4]
        assert head_of(folder).change == 2
    writer.join()

    assert ids_of(folder) == [1, 2, 3, 4, 5]


def test_a_writer_that_waits_for_another_process_can_be_interrupted(folder):
    code = """
import signal, sys
import numpy as np
from knn_ue.stores import Datastore
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell lets its background jobs ignore
store = Datastore.load(sys.argv[1])
print("ready", flush=True)
try:
    store.add(np.ones((1, 4)), [1])
except KeyboardInterrupt:
    print("interrupted")
"""
    with held(folder):
        writer = subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True)
        try:
            assert writer.stdout.readline() == "ready\n"
            time.sleep(0.5)
            writer.send_signal(signal.SIGINT)
            assert writer.communicate(timeout=20)[0] == "interrupted\n"
        finally:
            writer.kill()
            writer.wait()

    assert ids_of(folder) == [1, 2, 3, 4]


def test_a_fork_waits_for_the_threads_that_are_using_a_database(folder):
    inside, end, forked = threading.Event(), threading.Event(), []

    def change():
        with transaction(folder) as change:
            change.add(**ROW, first=0)
            inside.set()
            end.wait(30)

    def fork():
        child = os.fork()
        if not child:
            try:
                Datastore.load(folder).add(np.ones((1, 4)), [1])
            finally:
                os._exit(0 if len(ids_of(folder)) == 6 else 1)
        forked.append(os.waitpid(child, 0)[1])

    writer, forking = threading.Thread(target=change), threading.Thread(target=fork)
    writer.start()
    inside.wait(30)
    forking.start()
    forking.join(0.2)
    assert forking.is_alive()
    assert not forked
    end.set()
    writer.join()
    forking.join()

    assert forked == [0]
    assert ids_of(folder) == [1, 2, 3, 4, 5, 6]


# --- file systems -------------------------------------------------------------------------------------------------


NO_LOCKS = """
import sys
import numpy as np
from knn_ue.errors import StorageError
from knn_ue.stores import Datastore
for call in (lambda: Datastore.load(sys.argv[1]), lambda: Datastore.build(np.eye(2), [0, 1]).save(sys.argv[1])):
    try:
        call()
        print("worked")
    except StorageError as error:
        print(error)
"""
LOCKS_FAIL = """
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
static int refuse(int command) {
    if (command != F_SETLK && command != F_GETLK && command != F_SETLKW) return 0;
    errno = ENOLCK;
    return -1;
}
int fcntl64(int file, int command, ...) {
    extern int __fcntl(int, int, ...);
    __builtin_va_list all;
    __builtin_va_start(all, command);
    void *argument = __builtin_va_arg(all, void *);
    __builtin_va_end(all);
    return refuse(command) ? -1 : __fcntl(file, command, argument);
}
int fcntl(int file, int command, ...) __attribute__((alias("fcntl64")));
"""


def test_a_file_system_that_cannot_lock_is_named_in_one_sentence(folder, tmp_path):
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    (tmp_path / "locks.c").write_text(LOCKS_FAIL)
    library = tmp_path / "locks.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "locks.c"], check=True)
    before = (folder / "changes.db").read_bytes()

    done = subprocess.run(
        [sys.executable, "-c", NO_LOCKS, str(folder)],
        env=os.environ | {"LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert done.stdout.count("its file system cannot lock files; keep the folder on a local disk") == 2, done
    assert (folder / "changes.db").read_bytes() == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_only_be_read_opens_and_refuses_changes(folder):
    for path in [*folder.rglob("*"), folder]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        store = Datastore.load(folder)
        assert store.ids.tolist() == [1, 2, 3, 4]
        with pytest.raises(StorageError, match="check the permissions of"):
            store.add(np.ones((1, 4)), [1])
    finally:
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o755)


READ_ONLY = """
import sys
import numpy as np
from knn_ue.errors import StorageError
from knn_ue.stores import Datastore
store = Datastore.load(sys.argv[1])
print(store.ids.tolist())
try:
    store.add(np.ones((1, 4)), [1])
except StorageError as error:
    print(error)
"""


def test_a_folder_on_a_disk_that_can_only_be_read_opens_and_refuses_changes(folder):
    mount = f'mount --bind {folder} {folder} && mount -o remount,ro,bind {folder} && exec "$@"'
    mounted = ["unshare", "-Urm", "sh", "-c", mount, "sh"]
    if not shutil.which("unshare") or subprocess.run([*mounted, "true"], capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")

    command = [*mounted, sys.executable, "-c", READ_ONLY, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert done.stdout.startswith("[1, 2, 3, 4]"), done
    assert "check the permissions of" in done.stdout


# --- a database of a stranger -------------------------------------------------------------------------------------


def is_refused(folder, words):
    with pytest.raises(StorageError, match=words) as error:
        Datastore.load(folder)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 600


OTHER = "has other tables than this version writes: refit, and do not trust it if it came from elsewhere"
SCHEMAS = {
    "a trigger": "create trigger t after insert on added begin delete from removed; end",
    "a view": "create view seen as select * from added",
    "another table": "create table other (a)",
    "an index": "create index i on added(label)",
    "another column": "alter table added add column other text",
    "a column of another name": "alter table added rename column label to tag",
    "a table that is gone": "drop table removed",
    "a virtual table": "create virtual table found using fts5(text)",
    "statistics": "analyze",
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_other_tables_than_ours_are_refused(folder, name):
    forge_database(folder, SCHEMAS[name])

    is_refused(folder, OTHER)


REPLACED = {
    "folder": "create view folder as select 1 as one, 2 as format, 'x' as fitted, 'x' as sha256, 0 as change, '' mark",
    "added": "create table added (id integer primary key autoincrement, label, text, vector, crc)",
    "parts": "create table parts (name text primary key, state text, arrays blob, change integer, crc integer) strict",
}


@pytest.mark.parametrize("name", REPLACED)
def test_a_table_of_ours_that_is_something_else_is_refused(folder, name):
    forge_database(folder, f"drop table {name}", REPLACED[name])

    is_refused(folder, OTHER)


def test_a_table_whose_stored_definition_was_written_over_is_refused(folder):
    with closing(sqlite3.connect(folder / "changes.db", isolation_level=None)) as database:
        database.execute("pragma writable_schema = on")
        database.execute(
            "update sqlite_schema set sql = replace(sql, 'label integer', 'label text') where name = 'added'"
        )

    is_refused(folder, OTHER)


def test_a_trigger_never_runs(folder):
    store = Datastore.load(folder)
    forge_database(folder, "create trigger t after insert on added begin delete from removed; end")

    with pytest.raises(StorageError, match=OTHER):
        store.add(np.ones((1, 4)), [1])

    with closing(sqlite3.connect(folder / "changes.db")) as database:
        assert database.execute("select count(*) from removed").fetchone() == (1,)


VALUES = {
    "a fitted folder outside": ("update folder set fitted = '../other'", "names what cannot be ours"),
    "a fitted folder of a path": ("update folder set fitted = '/etc'", "names what cannot be ours"),
    "a fitted folder of a longer name": (
        "update folder set fitted = fitted || '/..'",
        "names what cannot be ours",
    ),
    "a fitted folder that is not there": (
        "update folder set fitted = 'fitted-0000000000000000'",
        r"fitted\.json is missing",
    ),
    "another checksum": ("update folder set sha256 = 'x'", "does not match its checksum"),
    "another format": ("update folder set format = 99", "has format 99, this version reads 2"),
    "no row": ("delete from folder", "was never saved completely: save it again"),
    "a label that was changed": ("update added set label = 2", "does not match its checksum"),
    "a text that was changed": ("update added set text = 'x'", "does not match its checksum"),
    "a vector that was changed": ("update added set vector = zeroblob(16)", "does not match its checksum"),
    "an id that was changed": ("update added set id = 7", "does not match its checksum"),
    "a removed id that was changed": ("update removed set id = 2", "does not match its checksum"),
    "a removed id that was taken away": ("update removed set change = 1", "does not match its checksum"),
    "a checksum that was changed": ("update added set crc = 0", "does not match its checksum"),
    "a text that is no UTF-8": ("update added set text = cast(x'ff' as text)", "restore the folder from a backup"),
    "a part whose checksum is wrong": (
        "insert into parts values ('', '{}', null, 3, 0)",
        "does not match its checksum",
    ),
    "a next id that is a text": ("update sqlite_sequence set seq = 'x'", "its next id is no number"),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_that_we_never_write_is_refused(folder, name):
    sql, words = VALUES[name]
    forge_database(folder, sql)

    is_refused(folder, words)


def sealed(name, state, arrays=None):
    """Return a part with a checksum that fits."""
    return (name, state, arrays, 3, changes._crc((name, state, arrays)))


@pytest.mark.parametrize(
    "part",
    [
        sealed("", "{"),
        sealed("", "[" * 100_000),
        sealed("", "[]"),
        sealed("", "3"),
        sealed("", "null"),
        sealed("", '{"a": ' + "9" * 5000 + "}"),
        sealed("", "{}", b""),
        sealed("", "{}", b"no safetensors"),
        sealed("", "{}", (2**60).to_bytes(8, "little") + b"{}"),
    ],
    ids=lambda part: f"{part[1][:10]} {part[2]!r:.20}",
)
def test_a_sealed_part_that_we_never_write_is_refused(tmp_path, part):
    write_folder(tmp_path, Part(kind="thing", state={"a": 1}))
    with closing(sqlite3.connect(tmp_path / "changes.db", isolation_level=None)) as database:
        database.execute("insert into parts values (?, ?, ?, ?, ?)", part)

    with pytest.raises(StorageError, match="does not hold a valid part"):
        open_folder(tmp_path)


@pytest.mark.parametrize("sequence", [-5, 0, 3])
def test_a_count_of_ids_that_falls_behind_gives_no_id_twice(folder, sequence):
    store = Datastore.load(folder)
    store.remove(store.add(np.ones((1, 4)), [1]))
    forge_database(folder, f"update sqlite_sequence set seq = {sequence}")

    assert Datastore.load(folder).add(np.ones((1, 4)), [1]).tolist() == [6]


def test_a_sequence_of_ids_at_its_end_is_refused_by_add(folder):
    forge_database(folder, f"update sqlite_sequence set seq = {2**63 - 1}")

    with pytest.raises(StorageError, match="gives ids that are in use: it is damaged"):
        Datastore.load(folder).add(np.ones((1, 4)), [1])


def test_a_write_ahead_log_is_refused(folder):
    forge_database(folder, "pragma journal_mode = wal")

    is_refused(folder, "is not a database of ours: restore the folder from a backup")


def test_a_database_in_another_encoding_or_of_garbage_is_refused(folder):
    path = folder / "changes.db"
    content = path.read_bytes()
    for garbage in (b"", b"x" * 5000, content[:100], content[:5000], b"SQLite format 3\x00" + bytes(5000)):
        path.write_bytes(garbage)
        is_refused(folder, r"restore the folder from a backup|was never saved completely")


def test_a_database_with_flipped_bits_is_refused_or_says_the_same(folder):
    import random

    path, rng = folder / "changes.db", random.Random(0)
    content, refused = path.read_bytes(), 0
    written = [place for place, byte in enumerate(content) if byte]
    expected = ids_of(folder), Datastore.load(folder).texts_of(range(5))

    for place in rng.sample(written, 120):
        flipped = bytearray(content)
        flipped[place] ^= 1 << rng.randrange(8)
        path.write_bytes(flipped)
        try:
            found = ids_of(folder), Datastore.load(folder).texts_of(range(5))
        except StorageError:
            refused += 1
        else:
            assert found == expected

    assert refused > 20


@pytest.mark.parametrize("name", ["changes.db", "changes.db-journal"])
@pytest.mark.parametrize("kind", ["symlink", "dangling symlink", "pipe", "folder", "device"])
def test_what_is_no_plain_file_is_refused_without_waiting(folder, name, kind, tmp_path):
    place = folder / name
    real = tmp_path / "real"
    shutil.copy(folder / "changes.db", real)
    place.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    else:
        place.symlink_to({"symlink": real, "device": "/dev/zero"}.get(kind, "nowhere"))
    before = real.read_bytes()

    is_refused(folder, rf"{name} is not a plain file: do not trust this folder")

    assert real.read_bytes() == before
    assert stat.S_ISREG(real.stat().st_mode)


def test_a_journal_that_names_files_outside_is_refused_and_deletes_nothing(folder, tmp_path):
    """A super-journal makes SQLite read, and at the end delete, the file that it names."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    name = str(victim).encode()
    checksum = sum(name).to_bytes(4, "big")
    journal = bytes.fromhex("d9d505f920a163d7") + bytes(504)
    journal += bytes(4) + name + len(name).to_bytes(4, "big") + checksum + bytes.fromhex("d9d505f920a163d7")
    (folder / "changes.db-journal").write_bytes(journal)

    is_refused(folder, "names other files, as none of ours does: do not trust this folder")

    assert victim.read_bytes() == b"mine"


def test_a_journal_that_a_crash_left_is_rolled_back(folder):
    """As left by a writer that was killed amid its commit: pages are written, their journal is not yet truncated."""
    expected = ids_of(folder)
    code = f"""
import os, sqlite3
database = sqlite3.connect({str(folder / "changes.db")!r}, isolation_level=None)
database.execute("pragma journal_mode = truncate")
database.execute("pragma cache_size = 1")
database.execute("begin immediate")
database.execute("delete from removed")
database.executemany("insert into added values (?, 0, ?, zeroblob(16), 0)", [(n, "x" * 3000) for n in range(9, 60)])
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert (folder / "changes.db-journal").stat().st_size > 0

    assert ids_of(folder) == expected
    assert Datastore.load(folder).add(np.ones((1, 4)), [1]).tolist() == [5]


def test_a_huge_value_is_refused_in_one_sentence(folder):
    large = "zeroblob(5000000)"
    forge_database(folder, f"update added set text = cast({large} as text)", f"update added set vector = {large}")

    is_refused(folder, "does not match its checksum|does not have 4 columns")


def test_rows_of_another_width_are_refused_though_their_checksums_fit(folder):
    with transaction(folder) as change:
        change.add(np.array([1]), ["x"], np.ones((1, 5), np.float32), first=0)

    is_refused(folder, "an example that was added does not have 4 columns")


def test_the_fitted_part_of_a_folder_is_never_written(folder):
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in fitted_in(folder).iterdir()}
    store = Datastore.load(folder)
    store.add(np.ones((1, 4)), [1])
    store.remove([1])

    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in fitted_in(folder).iterdir()} == before
