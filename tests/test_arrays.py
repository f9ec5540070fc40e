"""Every check says what was wrong in words a user can act on, and softmax never changes the predicted class."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from knn_ue.arrays import (
    bool_vector,
    check_choice,
    check_length,
    check_not_empty,
    check_positive,
    float_matrix,
    float_vector,
    label_vector,
    probability_matrix,
    probability_vector,
    read_only,
    softmax,
    text_tuple,
    to_numpy,
)
from knn_ue.errors import InvalidInputError


class Tensor:
    """A tensor on another device, of a type that numpy does not have."""

    dtype = "torch.bfloat16"

    def __init__(self, values, dtype="torch.bfloat16"):
        self.values, self.dtype = values, dtype

    def detach(self):
        return self

    def cpu(self):
        return self

    def float(self):
        return Tensor(self.values, "torch.float32")

    def __array__(self, dtype=None, copy=None):
        if self.dtype == "torch.bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return np.asarray(self.values, dtype=dtype)


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (lambda: to_numpy([[1, 2], [3]], "x"), "x cannot be read as an array .*: pass a rectangular array"),
        (lambda: to_numpy(["a"], "x"), "x must hold numbers, got dtype <U1: convert it first"),
        (lambda: to_numpy(None, "x"), "x must hold numbers, got dtype object: convert it first"),
        (lambda: to_numpy([1 + 2j], "x"), "x must hold numbers, got dtype complex128"),
        (lambda: to_numpy(np.array(["2020"], "datetime64[Y]"), "x"), "x must hold numbers, got dtype datetime64"),
        (
            lambda: float_matrix([1.0], "x"),
            r"x must have two dimensions .*, got shape \(1,\): reshape it",
        ),
        (lambda: float_matrix(np.ones((2, 0)), "x"), r"x must have at least one column, got shape \(2, 0\)"),
        (
            lambda: float_matrix([[1.0, np.nan]], "x"),
            r"x must be finite, got nan at \(0, 1\): remove or replace",
        ),
        (lambda: float_matrix([[1.0], [-np.inf]], "x"), r"x must be finite, got -inf at \(1, 0\)"),
        (
            lambda: float_matrix([[1e300]], "x", dtype=np.float32),
            r"x must be finite, got 1e\+300 at \(0, 0\): .* \(values are held as float32\)",
        ),
        (lambda: float_vector([[1.0]], "x"), r"x must have one dimension, got shape \(1, 1\): ravel it"),
        (lambda: float_vector([1.0], "x", length=3), "x has 1 rows but 3 are expected, one per example"),
        (lambda: float_vector([np.inf], "x"), r"x must be finite, got inf at \(0,\)"),
        (lambda: probability_vector([0.5, 1.5], "p"), r"p must lie within \[0, 1\], got 1.5: pass probabilities"),
        (
            lambda: probability_vector([-0.1], "p"),
            r"p must lie within \[0, 1\], got -0.1: .*not logits",
        ),
        (
            lambda: probability_matrix([[-0.5, 1.5]], "p"),
            "p must not be negative, got -0.5: pass probabilities",
        ),
        (lambda: probability_matrix([[0.5, 0.5], [0.5, 0.4]], "p"), "each row of p must sum to 1, row 1 sums to 0.9"),
        (lambda: label_vector([[0]], "y"), r"y must have one dimension, got shape \(1, 1\): one class number per row"),
        (lambda: label_vector([0.0], "y"), r"y must be whole class numbers, got dtype float64: use astype\(int\)"),
        (lambda: label_vector([0, -100], "y"), "y must not be negative, got -100: drop the rows you want ignored"),
        (lambda: label_vector([1, 3], "y", n_classes=3), "y must be below the number of classes 3, got 3: number the"),
        (lambda: label_vector([0], "y", length=2), "y has 1 rows but 2 are expected"),
        (lambda: bool_vector([[True]], "ok"), r"ok must have one dimension, got shape \(1, 1\): ravel it"),
        (lambda: bool_vector([0, 2], "ok"), r"ok must hold only 0 and 1 \(or booleans\), got 2"),
        (lambda: bool_vector([np.nan], "ok"), r"ok must hold only 0 and 1 \(or booleans\), got nan"),
        (lambda: bool_vector([True], "ok", length=2), "ok has 1 rows but 2 are expected"),
        (lambda: text_tuple("abc", "texts"), "texts must be a sequence of strings, got one string: wrap it in a list"),
        (lambda: text_tuple(["a", 5], "texts"), "texts must be strings, item 1 is a int"),
        (lambda: text_tuple(["a"], "texts", length=2), "texts has 1 rows but 2 are expected"),
        (lambda: check_length(1, "x", 2), "x has 1 rows but 2 are expected, one per example"),
        (lambda: check_not_empty(0, "x"), "x is empty: at least one row is needed"),
        (lambda: check_positive(0, "k"), "k must be a whole number of at least 1, got 0"),
        (lambda: check_positive(2.0, "k"), "k must be a whole number of at least 1, got 2.0"),
        (lambda: check_positive(True, "k"), "k must be a whole number of at least 1, got True"),
        (lambda: check_choice("c", "x", ("a", "b")), "x must be one of 'a', 'b', got 'c'"),
    ],
)
def test_a_broken_rule_is_named_with_the_value_and_the_way_out(check, words):
    with pytest.raises(InvalidInputError, match=words):
        check()


@pytest.mark.parametrize("dtype", [np.float16, np.int32, np.bool_, ">f4"])
def test_numbers_of_other_types_become_float32(dtype):
    result = float_matrix(np.ones((2, 3), dtype=dtype), "x")

    assert result.dtype == np.float32
    assert result.dtype.isnative


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_contiguous_float_matrix_is_not_copied(dtype):
    array = np.ones((2, 3), dtype=dtype)

    assert np.shares_memory(float_matrix(array, "x"), array)


def test_a_strided_matrix_becomes_contiguous():
    assert float_matrix(np.ones((4, 6))[::2, ::3], "x").flags.c_contiguous


def test_a_matrix_without_rows_is_a_matrix():
    assert float_matrix(np.empty((0, 3)), "x").shape == (0, 3)


def test_a_bad_value_behind_many_good_rows_is_found(monkeypatch):
    monkeypatch.setattr("knn_ue.arrays._CHECK_ROWS", 16)
    array = np.zeros((100, 2))
    array[77, 1] = np.inf

    with pytest.raises(InvalidInputError, match=r"got inf at \(77, 1\)"):
        float_matrix(array, "x")


def test_large_finite_values_whose_sum_overflows_are_accepted():
    array = np.full((3, 2), 3e38, dtype=np.float32)

    np.testing.assert_array_equal(float_matrix(array, "x"), array)


def test_a_tensor_of_a_type_numpy_lacks_is_converted():
    np.testing.assert_array_equal(to_numpy(Tensor([1.0, 2.0]), "x"), [1.0, 2.0])


def test_a_torch_tensor_is_read_without_a_copy():
    torch = pytest.importorskip("torch")
    tensor = torch.ones((2, 3), requires_grad=True)

    assert np.shares_memory(float_matrix(tensor, "x"), tensor.detach().numpy())


def test_labels_of_no_rows_may_be_an_empty_list():
    assert label_vector([], "y").dtype == np.int64


def test_booleans_may_be_given_as_zeros_and_ones():
    assert bool_vector([0, 1.0, 1], "ok").tolist() == [False, True, True]


def test_rows_that_sum_to_one_but_for_rounding_are_probabilities():
    np.testing.assert_array_equal(probability_matrix([[0.5, 0.50005]], "p"), [[0.5, 0.50005]])


def test_a_read_only_view_leaves_the_array_writable():
    array = np.zeros(2)

    with pytest.raises(ValueError, match="read-only"):
        read_only(array)[0] = 1
    array[0] = 1


# --- softmax -------------------------------------------------------------------------------------------------------

LOGITS = arrays(
    st.sampled_from([np.float32, np.float64]),
    st.tuples(st.integers(1, 4), st.integers(2, 6)),
    elements=st.floats(width=32, allow_nan=False, allow_infinity=False)
    | st.floats(-3, 3, width=32)
    | st.sampled_from([0.0, 1.0, 1.0 + 2**-23]),
)
WEIGHT = st.floats(1e-300, 1e300) | st.floats(1e-12, 10.0) | st.sampled_from([5e-324, 1e-12, 1.0])


@settings(max_examples=300, deadline=None)
@given(logits=LOGITS, weight=WEIGHT)
@example(logits=np.array([[1.7e308, -1.7e308]]), weight=1e-12)
@example(logits=np.array([[0.0, 5e-324]]), weight=1e-12)
def test_softmax_keeps_the_argmax_and_sums_to_one_for_any_positive_weight(logits, weight):
    probs = softmax(logits, np.full(len(logits), weight))

    np.testing.assert_array_equal(probs.argmax(axis=1), logits.argmax(axis=1))
    np.testing.assert_allclose(probs.sum(axis=1), 1, atol=1e-12)
    assert (probs >= 0).all()


@settings(max_examples=100, deadline=None)
@given(logits=LOGITS)
def test_softmax_without_weight_keeps_the_argmax(logits):
    np.testing.assert_array_equal(softmax(logits).argmax(axis=1), logits.argmax(axis=1))


def test_equal_logits_give_equal_probabilities():
    np.testing.assert_array_equal(softmax(np.array([[2.0, 2.0, 2.0, 2.0]])), 0.25)


def test_softmax_equals_the_definition():
    logits = np.array([[1.0, 2.0, -1.0], [0.0, 0.5, 3.0]])

    exponentials = np.exp(0.7 * logits)
    np.testing.assert_allclose(
        softmax(logits, np.array([0.7, 0.7])), exponentials / exponentials.sum(axis=1, keepdims=True), rtol=1e-14
    )


def test_softmax_leaves_its_inputs_as_they_were():
    logits, weight = np.array([[1.0, 2.0]]), np.array([0.5])
    softmax(logits, weight)

    assert logits.tolist() == [[1.0, 2.0]]
    assert weight.tolist() == [0.5]


def test_softmax_of_no_rows_is_no_rows():
    assert softmax(np.empty((0, 3)), np.empty(0)).shape == (0, 3)
