"""The records check what they are given once, say what is wrong in words, and cannot be changed afterwards."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from knn_ue.errors import InvalidInputError
from knn_ue.types import Neighbors, Outputs, Prediction, join_columns

LOGITS = [[2.0, 1.0, 0.0], [0.0, 3.0, 3.0], [1.0, 1.0, 5.0]]


@pytest.fixture
def outputs():
    return Outputs(
        logits=LOGITS,
        features=np.arange(6.0).reshape(3, 2),
        labels=[0, 1, 2],
        layers=[np.ones((3, 4)), np.zeros((3, 2))],
        groups=[7, 7, 2],
        class_names=["a", "b", "c"],
        texts=["x", "y", "z"],
    )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"logits": [1.0, 2.0]}, r"logits must have two dimensions \(rows, columns\), got shape \(2,\)"),
        ({"logits": [[1.0]]}, r"logits must have a column for each of at least 2 classes, got shape \(1, 1\)"),
        ({"logits": [[1.0, np.nan, 0.0]] * 3}, r"logits must be finite, got nan at \(0, 1\)"),
        ({"features": np.ones(3)}, "features must have two dimensions"),
        ({"features": np.ones((2, 2))}, "features has 2 rows but 3 are expected"),
        ({"features": np.full((3, 2), np.inf)}, r"features must be finite, got inf at \(0, 0\)"),
        ({"features": np.full((3, 2), 1e39)}, "features must be finite.*values are held as float32"),
        ({"labels": [0, 1]}, "labels has 2 rows but 3 are expected"),
        ({"labels": [0, 1, 3]}, "labels must be below the number of classes 3, got 3"),
        ({"labels": [0, 1, -1]}, "labels must not be negative, got -1"),
        ({"labels": [0.0, 1.0, 2.0]}, "labels must be whole class numbers, got dtype float64"),
        ({"layers": [np.ones((3, 2)), np.ones((2, 2))]}, r"layers\[1\] has 2 rows but 3 are expected"),
        ({"layers": [np.ones(3)]}, r"layers\[0\] must have two dimensions"),
        ({"groups": [1, 2]}, "groups has 2 rows but 3 are expected"),
        ({"groups": [1, 2, 1]}, "rows of one group must stand together, group 1 is split: sort the words by sentence"),
        ({"class_names": ["a", "b"]}, "class_names must be 3 different names, one per column of logits"),
        ({"class_names": ["a", "b", "a"]}, "class_names must be 3 different names"),
        ({"class_names": "abc"}, "class_names must be a sequence of strings, got one string"),
        ({"texts": ["a", "b"]}, "texts has 2 rows but 3 are expected"),
        ({"texts": ["a", "b", None]}, "texts must be strings, item 2 is a NoneType"),
    ],
)
def test_outputs_that_break_a_rule_say_which(fields, words):
    with pytest.raises(InvalidInputError, match=words):
        Outputs(**({"logits": LOGITS} | fields))


def test_the_predicted_class_is_the_first_maximum(outputs):
    assert outputs.predicted.tolist() == [0, 1, 2]


def test_length_and_classes_are_those_of_the_logits(outputs):
    assert (len(outputs), outputs.n_classes) == (3, 3)


def test_features_are_float32_and_labels_int64(outputs):
    assert outputs.features.dtype == np.float32
    assert outputs.labels.dtype == np.int64
    assert [layer.dtype for layer in outputs.layers] == [np.float32, np.float32]


def test_float32_and_float64_logits_stay_what_they_are():
    assert Outputs(logits=np.ones((1, 2), np.float32)).logits.dtype == np.float32
    assert Outputs(logits=np.ones((1, 2), np.float64)).logits.dtype == np.float64


def test_memory_mapped_features_stay_mapped(tmp_path):
    np.save(tmp_path / "f.npy", np.ones((3, 2), dtype=np.float32))
    mapped = np.load(tmp_path / "f.npy", mmap_mode="r")

    assert np.shares_memory(Outputs(logits=LOGITS, features=mapped).features, mapped)


@pytest.mark.parametrize("name", ["logits", "features", "labels", "groups"])
def test_the_arrays_of_a_record_cannot_be_written(outputs, name):
    with pytest.raises(ValueError, match="read-only"):
        getattr(outputs, name)[0] = 0


def test_the_arrays_that_were_given_can_still_be_written():
    logits = np.array(LOGITS)
    Outputs(logits=logits)
    logits[0] = 5


def test_the_fields_of_a_record_cannot_be_replaced(outputs):
    with pytest.raises(FrozenInstanceError):
        outputs.labels = None


def test_outputs_of_no_rows_are_outputs():
    empty = Outputs(logits=np.empty((0, 2)), features=np.empty((0, 3)), labels=[], groups=[], texts=[])

    assert len(empty) == 0
    assert empty.predicted.tolist() == []


@pytest.mark.parametrize("rows", [[2, 0], np.array([2, 0]), (2, 0)])
def test_take_chooses_rows_of_everything(outputs, rows):
    taken = outputs.take(rows)

    assert taken.logits.tolist() == [LOGITS[2], LOGITS[0]]
    assert taken.features.tolist() == [[4.0, 5.0], [0.0, 1.0]]
    assert taken.labels.tolist() == [2, 0]
    assert taken.layers[0].shape == (2, 4)
    assert taken.groups.tolist() == [2, 7]
    assert taken.texts == ("z", "x")
    assert taken.class_names == ("a", "b", "c")


def test_take_chooses_the_words_too():
    assert Outputs(logits=LOGITS, words=["In", "Oslo", "."]).take([1, 2]).words == ("Oslo", ".")


def test_take_accepts_a_slice_and_a_mask(outputs):
    assert outputs.take(slice(1, None)).texts == ("y", "z")
    assert outputs.take(outputs.labels > 0).texts == ("y", "z")


def test_neighbors_spread_over_more_rows_are_where_the_mask_says_and_nowhere_else():
    near = Neighbors(ids=[[4, 2]], distances=[[0.5, 1.0]], labels=[[1, 0]])

    spread = near.spread(np.array([False, True]))

    assert spread.ids.tolist() == [[-1, -1], [4, 2]]
    assert spread.labels.tolist() == [[-1, -1], [1, 0]]
    assert spread.distances.tolist() == [[np.inf, np.inf], [0.5, 1.0]]


@pytest.mark.parametrize("rows", [[], np.zeros(3, dtype=bool), slice(0, 0)])
def test_take_of_nothing_is_outputs_of_no_rows(outputs, rows):
    assert len(outputs.take(rows)) == 0


def test_take_leaves_what_is_absent_absent():
    taken = Outputs(logits=LOGITS).take([0])

    assert taken.features is taken.labels is taken.layers is taken.groups is taken.texts is None


def test_a_method_that_needs_features_says_its_name():
    with pytest.raises(InvalidInputError, match=r"KnnUE needs features, .* pass Outputs\(features=\.\.\.\)"):
        Outputs(logits=LOGITS).require_features("KnnUE")


def test_a_method_that_needs_labels_says_its_name():
    with pytest.raises(InvalidInputError, match=r"KnnUE.fit needs labels, .* pass Outputs\(labels=\.\.\.\)"):
        Outputs(logits=LOGITS).require_labels("KnnUE.fit")


def test_a_method_that_needs_rows_says_its_name():
    with pytest.raises(InvalidInputError, match=r"the Outputs given to KnnUE.fit is empty: at least one row is needed"):
        Outputs(logits=np.empty((0, 2)), labels=[]).require_labels("KnnUE.fit")


def test_what_is_required_and_present_is_returned(outputs):
    assert outputs.require_features("x") is outputs.features
    assert outputs.require_labels("x") is outputs.labels


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"ids": [0, 1]}, r"must have one shape \(queries, neighbors\), got \(2,\), \(1, 2\) and \(1, 2\)"),
        ({"labels": [[0]]}, r"must have one shape \(queries, neighbors\), got \(1, 2\), \(1, 2\) and \(1, 1\)"),
        ({"distances": [[0.0, -1.0]]}, "distances must be at least 0, got -1.0: pass Euclidean distances"),
        ({"distances": [[0.0, np.nan]]}, "distances must be at least 0, got nan"),
        ({"ids": [["a", "b"]]}, "ids and labels must hold numbers"),
    ],
)
def test_neighbors_that_break_a_rule_say_which(fields, words):
    with pytest.raises(InvalidInputError, match=words):
        Neighbors(**({"ids": [[0, 1]], "distances": [[0.0, 1.0]], "labels": [[0, 1]]} | fields))


def test_neighbors_know_how_many_were_asked_for_though_some_are_missing():
    found = Neighbors(ids=[[3, -1]], distances=[[0.5, np.inf]], labels=[[1, -1]])

    assert (len(found), found.n_neighbors) == (1, 2)


@pytest.mark.parametrize("name", ["ids", "distances", "labels"])
def test_the_arrays_of_neighbors_cannot_be_written(name):
    found = Neighbors(ids=[[3]], distances=[[0.5]], labels=[[1]])

    with pytest.raises(ValueError, match="read-only"):
        getattr(found, name)[0] = 0


def test_neighbors_of_no_queries_are_neighbors():
    nothing = np.empty((0, 4))

    assert Neighbors(ids=nothing.astype(int), distances=nothing, labels=nothing.astype(int)).n_neighbors == 4


def test_a_prediction_has_one_entry_a_row():
    prediction = Prediction(
        predicted=np.array([1]),
        confidence=np.array([0.9]),
        raw_confidence=np.array([0.8]),
        probs=np.array([[0.1, 0.9]]),
    )

    assert len(prediction) == 1


@pytest.mark.parametrize("rows", [[1], slice(1, None), np.array([False, True])], ids=str)
def test_neighbors_are_taken_by_number_slice_or_mask(rows):
    found = Neighbors(ids=[[3], [4]], distances=[[0.5], [0.7]], labels=[[1], [2]], approximate=True)

    taken = found.take(rows)

    assert (taken.ids.tolist(), taken.distances.tolist(), taken.labels.tolist()) == ([[4]], [[0.7]], [[2]])
    assert taken.approximate


def test_columns_in_parts_are_joined_and_let_go_one_by_one():
    columns = {
        "logits": [np.zeros((2, 2)), np.ones((1, 2))],
        "texts": [["a", "b"], ["c"]],
        "layers.0": [np.zeros((2, 3)), np.ones((1, 3))],
        "layers.1": [np.ones((2, 3)), np.zeros((1, 3))],
    }

    outputs = join_columns(columns, class_names=["neg", "pos"])

    assert columns == {}
    assert outputs.texts == ("a", "b", "c")
    assert outputs.class_names == ("neg", "pos")
    assert [layer[:, 0].tolist() for layer in outputs.layers] == [[0, 0, 1], [1, 1, 0]]


@pytest.mark.parametrize("rows", [slice(None), [0, 1, 2], np.array([True, True, True])])
def test_all_rows_in_order_are_the_record_itself(rows):
    outputs = Outputs(logits=np.eye(3), texts=["a", "b", "c"])
    neighbors = Neighbors(ids=[[0], [1], [2]], distances=[[0.0], [1.0], [2.0]], labels=[[0], [1], [2]])

    assert outputs.take(rows) is outputs
    assert neighbors.take(rows) is neighbors


@pytest.mark.parametrize("rows", [[2, 1, 0], [0, 1], [0, 1, 1], np.array([True, False, True])])
def test_other_rows_are_a_record_of_their_own(rows):
    outputs = Outputs(logits=np.eye(3), texts=["a", "b", "c"])

    assert outputs.take(rows).texts == tuple(np.array(["a", "b", "c"])[rows])
