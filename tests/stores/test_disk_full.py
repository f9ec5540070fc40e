"""When the disk is full, a call fails with one clear sentence, what was there stays, and later calls work again."""

import os
import resource
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from held import fitted_in
from knn_ue.errors import StorageError
from knn_ue.stores import Datastore

ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}


@contextmanager
def no_file_longer_than(n_bytes):
    """Make the operating system refuse every write beyond `n_bytes` of a file, as a full disk would."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_save_that_fails_leaves_no_empty_folder_where_there_was_none(tmp_path):
    large = Datastore.build(np.random.default_rng(0).normal(size=(300, 40)), np.arange(300))

    with no_file_longer_than(20_000), pytest.raises(StorageError, match="cannot be written"):
        large.save(tmp_path / "new" / "store")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("index", ["exact", "IVF4,Flat", "HNSW8"])
def test_a_save_that_fails_leaves_the_old_store_and_no_litter(index, saved):
    before = fitted_in(saved)
    large = Datastore.build(np.random.default_rng(0).normal(size=(300, 40)), np.arange(300), index=index)

    with (
        no_file_longer_than(20_000),
        pytest.raises(StorageError, match=r"store cannot be written \(.+\): what it held is unchanged"),
    ):
        large.save(saved)

    assert fitted_in(saved) == before
    assert Datastore.load(saved).texts_of([0, 3]) == ["zero", "three"]
    large.save(saved)
    assert len(Datastore.load(saved)) == 300


def test_an_index_file_that_does_not_fit_fails_like_an_array_file(saved):
    large = Datastore.build(np.random.default_rng(0).normal(size=(300, 4)), np.arange(300), index="HNSW32")

    with no_file_longer_than(40_000), pytest.raises(StorageError, match="store cannot be written"):
        large.save(saved)

    assert len(Datastore.load(saved)) == 4


def test_an_add_that_fails_changes_nothing_and_the_next_one_works(saved):
    store = Datastore.load(saved)
    store.add(np.ones((1, 4)), [4])

    with (
        no_file_longer_than(3_000),
        pytest.raises(StorageError, match=r"changes\.db cannot be used \(.+\): nothing was changed; free space"),
    ):
        store.add(np.ones((300, 4)), np.arange(300))

    assert len(store) == len(Datastore.load(saved)) == 5
    assert store.add(np.full((2, 4), 2.0), [5, 6]).tolist() == [5, 6]
    assert len(Datastore.load(saved)) == 7


def test_a_compact_that_fails_leaves_the_store_usable(saved):
    store = Datastore.load(saved)
    store.add(np.random.default_rng(0).normal(size=(100, 4)), np.arange(100))

    with no_file_longer_than(2_000), pytest.raises(StorageError, match="cannot be written"):
        store.compact()

    store.add(np.ones((1, 4)), [7])
    assert len(Datastore.load(saved)) == len(store) == 105


FILL = """
import sys, numpy as np
from pathlib import Path
from knn_ue.stores import Datastore
from held import fitted_in
from knn_ue.errors import StorageError

folder = Path(sys.argv[1])
Datastore.build(np.eye(4), [0, 1, 2, 3]).save(folder / "store")
store = Datastore.load(folder / "store")
filler = folder / "filler"
errors = []
for number in range(40):
    try:
        filler.write_bytes(bytes(380_000))
    except OSError:
        pass
    for change in (lambda: store.add(np.ones((600, 4)), np.ones(600, int)), lambda: store.compact()):
        try:
            change()
        except StorageError as error:
            errors.append(str(error))
    filler.unlink()
    assert len(Datastore.load(folder / "store")) == len(store)
    store.add(np.ones((1, 4)), [1])
    store.remove(store.ids[4:])
assert any("No space left on device" in error for error in errors), errors
print("whole")
"""


@pytest.mark.slow
def test_a_disk_that_fills_up_and_is_freed_again_loses_nothing(tmp_path):
    mounted = ["unshare", "-Urm", "sh", "-c", f'mount -t tmpfs -o size=400k none {tmp_path} && exec "$@"', "sh"]
    if not shutil.which("unshare") or subprocess.run([*mounted, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no small file system can be mounted here")

    done = subprocess.run(
        [*mounted, sys.executable, "-c", FILL, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=ENVIRONMENT,
    )

    assert done.stdout.strip() == "whole", done.stderr[-2000:]
