"""An opened folder: its stores follow every change together, or it must be opened again."""

import numpy as np
import pytest

from knn_ue.errors import InvalidInputError, StaleFolderError, StorageError
from knn_ue.folder import Growing, Part, open_folder, write_folder
from knn_ue.folder.changes import transaction
from knn_ue.stores import Datastore, IndexOptions

CODES = IndexOptions(factory="PCA2,Flat", recompute=False)


class Recorder:
    """A store that remembers what it was told, and may fail."""

    def __init__(self):
        self.ids, self.vectors, self.fails = [], [], False

    def follow(self, added, removed):
        if self.fails:
            raise MemoryError
        self.ids = [number for number in [*self.ids, *added.ids.tolist()] if number not in removed.tolist()]
        self.vectors += added.vectors.tolist()


@pytest.fixture
def folder(tmp_path):
    """Two stores without rows, of one and of two columns."""
    parts = {
        name: Part(kind="store", growing=Growing(n_columns=columns, next_id=3))
        for name, columns in (("one", 1), ("two", 2))
    }
    write_folder(tmp_path / "folder", Part(kind="thing", parts=parts))
    return tmp_path / "folder"


def opened(folder):
    live = open_folder(folder).live
    stores = {"one": Recorder(), "two": Recorder()}
    for name, store in stores.items():
        live.join(name, store)
    return live, stores


def add(live, number):
    vectors = {"one": np.full((1, 1), number, np.float32), "two": np.full((1, 2), -number, np.float32)}
    return live.add(vectors, np.array([0]), [None])


def test_every_store_is_told_of_its_own_columns_of_every_change(folder):
    live, stores = opened(folder)
    add(live, 1.0)
    add(live, 2.0)
    live.remove(np.array([3]))

    later = opened(folder)[1]
    assert stores["one"].ids == stores["two"].ids == later["one"].ids == later["two"].ids == [4]
    assert later["one"].vectors == [[2.0]]
    assert later["two"].vectors == [[-2.0, -2.0]]


def test_a_store_that_joins_late_is_told_what_happened_before(folder):
    live = open_folder(folder).live
    one, two = Recorder(), Recorder()
    live.join("one", one)
    add(live, 1.0)
    add(opened(folder)[0], 2.0)
    live.refresh()
    live.join("two", two)
    add(live, 3.0)

    assert one.ids == two.ids == [3, 4, 5]
    assert two.vectors == [[-1.0, -1.0], [-2.0, -2.0], [-3.0, -3.0]]


def test_what_others_did_is_taken_over_before_a_change_of_ones_own(folder):
    (live, stores), (other, _) = opened(folder), opened(folder)
    add(other, 1.0)
    other.put("one", {"scale": 2})

    assert add(live, 2.0).tolist() == [4]

    assert stores["one"].ids == [3, 4]
    assert live.parts["one"].state == '{"scale": 2}'


def test_a_change_within_a_change_is_part_of_it_and_seen_after_it(folder):
    live, stores = opened(folder)

    with live.change():
        add(live, 1.0)
        with live.change():
            live.put("domain", {"a": 1})
            assert (stores["one"].ids, live.parts) == ([], {})

    assert stores["one"].ids == [3]
    assert live.seen.change == 1
    assert live.later("domain") == {"": ({"a": 1}, {})}


def test_nothing_is_told_of_a_change_that_failed(folder):
    live, stores = opened(folder)

    with pytest.raises(KeyboardInterrupt), live.change():
        add(live, 1.0)
        raise KeyboardInterrupt
    add(live, 2.0)

    assert stores["one"].ids == [3]
    assert stores["one"].vectors == [[2.0]]


@pytest.mark.parametrize("whose", ["ours", "theirs"])
def test_a_folder_one_of_whose_stores_could_not_follow_must_be_opened_again(folder, whose):
    live, stores = opened(folder)
    stores["two"].fails = True

    with pytest.raises(MemoryError):
        if whose == "ours":
            add(live, 1.0)
        else:
            add(opened(folder)[0], 1.0)
            live.refresh()
    stores["two"].fails = False

    for change in (live.refresh, lambda: add(live, 2.0)):
        with pytest.raises(StaleFolderError, match="open it again"):
            change()
    assert opened(folder)[1]["two"].ids == [3]


def test_a_damaged_row_of_another_process_is_refused_every_time_and_not_passed_over(tmp_path):
    Datastore.build(np.eye(4), [0, 1, 2, 3]).save(tmp_path)
    store = Datastore.load(tmp_path)
    with transaction(tmp_path) as change:
        change.add(np.array([0]), ["x"], np.full((1, 4), 1e30, np.float32), first=0)  # add would refuse it

    with pytest.raises(StorageError, match=r"does not hold a valid change .features must have lengths between"):
        store.live.refresh()
    with pytest.raises(StaleFolderError, match="open it again"):
        store.live.refresh()


def test_columns_of_some_stores_only_are_refused(folder):
    live, stores = opened(folder)

    with pytest.raises(InvalidInputError, match=r"the 2 stores of .* change together: add through the calibrator"):
        live.add({"one": np.ones((1, 1), np.float32)}, np.array([0]), [None])

    assert stores["one"].ids == []


def stores_of(tmp_path, keep):
    features = np.random.default_rng(0).normal(size=(40, 4))
    built = [
        Datastore.build(features, [0, 1] * 20, index=CODES if not kept else "exact", keep_vectors=kept) for kept in keep
    ]
    for store in built:
        store.add(np.ones((2, 4)), [0, 1])
        store.remove([0, 40])
    return Part(kind="thing", parts={f"layer{number}": store.to_part() for number, store in enumerate(built)})


@pytest.mark.parametrize("keep", [(True, True), (False, False)])
def test_several_stores_with_changes_are_written_and_read_back(tmp_path, keep):
    write_folder(tmp_path / "folder", stores_of(tmp_path, keep))

    stores = [Datastore.from_part(part) for part in open_folder(tmp_path / "folder").parts.values()]

    assert [store.ids.tolist() for store in stores] == [[*range(1, 40), 41]] * 2
    found = stores[0].live.add({store.name: np.ones((1, 4), np.float32) for store in stores}, np.array([0]), ["new"])
    assert found.tolist() == [42]


def test_stores_whose_changes_cannot_be_written_together_are_refused_before_anything_is_lost(tmp_path):
    write_folder(tmp_path / "folder", Part(kind="thing"))

    with pytest.raises(InvalidInputError, match="hold changes that others lack, or keep no vectors: build them again"):
        write_folder(tmp_path / "folder", stores_of(tmp_path, (True, False)))

    assert open_folder(tmp_path / "folder").parts == {}
