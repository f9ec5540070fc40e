"""A folder that `Dataset.save_to_disk` wrote is a file like any other: what it says of itself is checked, then read."""

import json
import shutil

import numpy as np
import pytest

from knn_ue.data import read_rows
from knn_ue.errors import InvalidInputError

datasets = pytest.importorskip("datasets")
TEXT = "text-classification"


@pytest.fixture
def saved(tmp_path):
    rows = {"text": ["a" * 10, "b" * 10], "label": ["pos", "neg"]}
    datasets.Dataset.from_dict(rows).save_to_disk(str(tmp_path / "set"))
    return tmp_path / "set"


def texts_in(folder):
    return [row.text for row in read_rows(str(folder), TEXT)]


def name_file(folder, name):
    state = json.loads((folder / "state.json").read_text())
    state["_data_files"][0]["filename"] = name
    (folder / "state.json").write_text(json.dumps(state))


def test_a_saved_set_is_read(saved):
    assert texts_in(saved) == ["a" * 10, "b" * 10]


@pytest.mark.parametrize("ends", [(0, 2**30, 2**31 - 5), (-64, 10, 20), (0, 20, 10)])
def test_texts_that_end_outside_of_the_file_are_refused(ends, saved):
    (file,) = saved.glob("*.arrow")
    content = file.read_bytes()
    true = np.array([0, 10, 20], np.int32).tobytes()
    assert content.count(true) == 1
    file.write_bytes(content.replace(true, np.array(ends, np.int32).tobytes()))

    with pytest.raises(InvalidInputError, match="is not a readable data set"):
        texts_in(saved)


def test_a_file_outside_of_the_folder_is_refused(saved):
    (file,) = saved.glob("*.arrow")
    shutil.move(file, saved.parent / "outside.arrow")
    name_file(saved, "../outside.arrow")

    with pytest.raises(InvalidInputError, match=r"names '../outside.arrow', which is outside of its folder"):
        texts_in(saved)


def test_a_link_out_of_the_folder_is_refused(saved):
    (file,) = saved.glob("*.arrow")
    shutil.move(file, saved.parent / "outside.arrow")
    file.symlink_to(saved.parent / "outside.arrow")

    with pytest.raises(InvalidInputError, match="which is outside of its folder"):
        texts_in(saved)
