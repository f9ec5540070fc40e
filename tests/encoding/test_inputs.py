"""Rows of every accepted shape, without torch."""

from dataclasses import dataclass

import numpy as np
import pytest

from knn_ue.encoding import Example, read_example, read_examples
from knn_ue.encoding.inputs import WINDOW_BATCHES, all_labeled, class_numbers, reads_numbers, windows
from knn_ue.errors import InvalidInputError


@dataclass(frozen=True)
class Text:
    text: str
    label: str | None = None


@dataclass(frozen=True)
class Pair:
    premise: str
    hypothesis: str
    label: str | None = None


@dataclass(frozen=True)
class Tagged:
    tokens: tuple[str, ...]
    tags: tuple[str, ...] | None = None


@pytest.mark.parametrize("row", ["fine", {"text": "fine"}, {"text": "fine", "label": None}, Text("fine")])
def test_a_text_may_have_any_of_these_shapes(row):
    assert read_example(row, "text-classification") == Example(("fine",))


@pytest.mark.parametrize("row", [("a", "b"), ["a", "b"], {"premise": "a", "hypothesis": "b"}, Pair("a", "b")])
def test_a_pair_may_have_any_of_these_shapes(row):
    assert read_example(row, "text-pair") == Example(("a", "b"))


@pytest.mark.parametrize("row", [["a", "b"], ("a", "b"), "a b", {"tokens": ["a", "b"]}, Tagged(("a", "b"))])
def test_a_sentence_may_have_any_of_these_shapes(row):
    assert read_example(row, "token-classification") == Example(("a", "b"))


@pytest.mark.parametrize(
    ("row", "task", "labels"),
    [
        (Text("fine", "pos"), "text-classification", ("pos",)),
        ({"text": "fine", "label": 3}, "text-classification", ("3",)),
        ({"text": "fine", "label": np.int64(3)}, "text-classification", ("3",)),
        (Pair("a", "b", "neutral"), "text-pair", ("neutral",)),
        (Tagged(("a", "b"), ("O", "B-X")), "token-classification", ("O", "B-X")),
    ],
)
def test_labels_become_names(row, task, labels):
    assert read_example(row, task).labels == labels


@pytest.mark.parametrize("task", ["text-classification", "text-pair", "token-classification"])
@pytest.mark.parametrize("row", [3, None, {"body": "fine"}, {"tokens": "fine"}, ("a", "b", 3)])
def test_a_row_of_another_shape_is_refused_with_its_number(row, task):
    with pytest.raises(InvalidInputError, match="row 7 must"):
        read_example(row, task, 7)


def test_a_label_that_is_neither_text_nor_number_is_refused():
    with pytest.raises(InvalidInputError, match="row 0 must have a label that is a string or number, got float nan"):
        read_example({"text": "fine", "label": float("nan")}, "text-classification")


def test_tags_must_be_as_many_as_words():
    with pytest.raises(InvalidInputError, match="row 0 has 2 words but 1 tags"):
        read_example({"tokens": ["a", "b"], "tags": ["O"]}, "token-classification")


def test_one_string_of_tags_is_refused():
    with pytest.raises(InvalidInputError, match="row 0 must have a list of tags, got str 'OO'"):
        read_example({"tokens": ["a", "b"], "tags": "OO"}, "token-classification")


def test_half_a_surrogate_pair_becomes_the_replacement_character():
    assert read_example("fine \ud83d", "text-classification").parts[0].startswith("fine \ufffd")


def test_emoji_and_right_to_left_text_stay_as_they_are():
    assert read_example("שלום 😀", "text-classification").parts == ("שלום 😀",)


@pytest.mark.parametrize("rows", ["fine", {"text": "fine"}, 3])
def test_one_row_instead_of_a_list_is_refused(rows):
    with pytest.raises(InvalidInputError, match="rows must be a list of rows"):
        list(read_examples(rows, "text-classification"))


def test_an_example_is_passed_on_as_it_is():
    example = Example(("fine",), ("pos",))

    (read,) = read_examples([example], "text-classification")

    assert read is example


def test_a_label_here_and_none_there_is_refused():
    with pytest.raises(InvalidInputError, match="row 1 has no label, unlike the rows before it"):
        all_labeled([Example(("a",), ("pos",)), Example(("b",))])


def test_labels_are_looked_up_by_name():
    examples = [Example(("a",), ("pos",)), Example(("b",), ("neg",))]

    np.testing.assert_array_equal(class_numbers(examples, ["neg", "pos"]), [1, 0])


def test_an_unknown_label_is_named_with_those_the_model_knows():
    with pytest.raises(
        InvalidInputError,
        match="row 4 has the label 'maybe', which the model does not know; its 2 labels are: neg, pos",
    ):
        class_numbers([Example(("a",), ("maybe",))], ["neg", "pos"], start=4)


def test_numbers_alone_do_for_a_model_without_names():
    np.testing.assert_array_equal(class_numbers([Example(("a",), ("1",))], ["LABEL_0", "LABEL_1"]), [1])


def test_numbers_are_those_of_the_classes_where_no_class_is_called_by_one():
    assert class_numbers([Example(("a",), ("1",)), Example(("b",), ("0",))], ["neg", "pos"]).tolist() == [1, 0]


def test_numbers_are_names_where_a_class_is_called_by_one():
    with pytest.raises(InvalidInputError, match="row 0 has the label '0', which the model does not know"):
        class_numbers([Example(("a",), ("0",))], ["1", "2"])


def test_windows_hold_at_most_so_many_rows():
    sizes = [len(window) for window in windows([Example(("fine",))] * (2 * WINDOW_BATCHES + 1), batch_size=1)]

    assert sizes == [WINDOW_BATCHES, WINDOW_BATCHES, 1]


def test_windows_hold_fewer_rows_where_texts_are_very_long():
    examples = [Example(("x" * 3_000_000,))] * 4

    sizes = [len(window) for window in windows(examples, batch_size=4)]

    assert sizes == [2, 2]


def test_reading_ahead_stops_at_the_window():
    taken = []

    def examples():
        for number in range(1000):
            taken.append(number)
            yield Example(("fine",))

    next(windows(examples(), batch_size=2))

    assert len(taken) == 2 * WINDOW_BATCHES


def test_a_label_of_another_case_is_told_which_one_is_meant():
    with pytest.raises(InvalidInputError, match="write 'POS', as the model does"):
        class_numbers([Example(("fine",), ("pos",))], ["NEG", "POS"])


@pytest.mark.parametrize("labels", [("0", "1"), ("0.0", "1.0"), ("1.00", "0")])
def test_whole_numbers_with_zeros_behind_the_point_are_class_numbers(labels):
    examples = [Example(("fine",), (label,)) for label in labels]

    assert reads_numbers(examples, ["neg", "pos"])
    assert class_numbers(examples, ["neg", "pos"]).tolist() == [int(float(label)) for label in labels]


def test_a_number_is_the_class_that_has_its_value():
    examples = [Example(("fine",), (label,)) for label in ("1", "2.0", "3")]

    assert not reads_numbers(examples, ["1.0", "2.0", "3.0"])
    assert class_numbers(examples, ["1.0", "2.0", "3.0"]).tolist() == [0, 1, 2]
    assert class_numbers(examples, ["3", "2", "1"]).tolist() == [2, 1, 0]


@pytest.mark.parametrize("label", ["2", "-1", "2.0"])
def test_a_class_number_out_of_range_is_answered_with_the_range(label):
    examples = [Example(("fine",), ("1",)), Example(("poor",), (label,))]

    with pytest.raises(
        InvalidInputError,
        match=rf"row 1 has the label '{label}', but labels that are numbers must be class numbers from 0 \(neg\) to 1 ",
    ):
        class_numbers(examples, ["neg", "pos"])


def test_blanks_around_a_label_are_noticed():
    with pytest.raises(InvalidInputError, match=r"has the label 'POS ', .*: write 'pos', as the model does"):
        class_numbers([Example(("fine",), ("POS ",))], ["neg", "pos"])
