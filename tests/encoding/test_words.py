"""Sub-words to words, without torch."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knn_ue.encoding.words import best_windows, cut_windows, with_every_word, word_in_context, word_spans
from knn_ue.errors import InvalidInputError


def test_a_word_without_subwords_gets_the_unknown_token_in_its_place():
    ids, word_of = with_every_word([5, 6], [1, 1], n_words=3, unknown_id=9)

    assert (ids, word_of) == ([9, 5, 6, 9], [0, 1, 1, 2])


def test_subwords_stay_as_they_are_where_every_word_has_one():
    assert with_every_word([5, 6, 7], [0, 1, 1], n_words=2, unknown_id=9) == ([5, 6, 7], [0, 1, 1])


def test_spans_cover_all_subwords_of_a_word():
    first, last = word_spans([0, 1, 1, 1, 2])

    np.testing.assert_array_equal(first, [0, 1, 4])
    np.testing.assert_array_equal(last, [0, 3, 4])


@given(st.integers(1, 300), st.integers(1, 40))
def test_windows_cover_every_position(length, capacity):
    covered = {position for start, stop in cut_windows(length, capacity=capacity) for position in range(start, stop)}

    assert covered == set(range(length))


@given(st.integers(1, 300), st.integers(1, 40))
def test_no_window_is_longer_than_the_capacity(length, capacity):
    assert max(stop - start for start, stop in cut_windows(length, capacity=capacity)) <= capacity


@given(st.integers(2, 300), st.integers(4, 40))
def test_neighboring_windows_share_at_least_a_quarter(length, capacity):
    windows = cut_windows(length, capacity=capacity)

    assert all(stop - start >= capacity // 4 for (_, stop), (start, _) in pairwise(windows))


def test_a_sentence_that_fits_is_one_window():
    assert cut_windows(8, capacity=8) == [(0, 8)]


def test_a_window_without_room_is_refused():
    with pytest.raises(InvalidInputError, match="at least 1 sub-word, got 0: raise max_length"):
        cut_windows(8, capacity=0)


@st.composite
def sentences(draw):
    """Sub-words of up to 40 words, and a capacity."""
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=40))
    return np.repeat(np.arange(len(sizes)), sizes).tolist(), draw(st.integers(1, 30))


def context(first, last, window, length):
    """Count the sub-words to the nearer end of the window, as the docstring says."""
    start, stop = window
    before = 2 * length if start == 0 else first - start
    after = 2 * length if stop == length else stop - 1 - last
    return min(before, after)


@given(sentences())
def test_every_word_begins_inside_its_window(sentence):
    word_of, capacity = sentence
    first, last = word_spans(word_of)
    windows = cut_windows(len(word_of), capacity=capacity)

    chosen = best_windows(first, last, windows, length=len(word_of))

    assert all(windows[w][0] <= f < windows[w][1] for w, f in zip(chosen, first, strict=True))


@given(sentences())
def test_no_other_window_gives_a_word_more_context(sentence):
    word_of, capacity = sentence
    n, windows = len(word_of), cut_windows(len(word_of), capacity=capacity)
    first, last = word_spans(word_of)

    chosen = best_windows(first, last, windows, length=n)

    for f, end, w in zip(first, last, chosen, strict=True):
        others = [context(f, end, window, n) for window in windows if window[0] <= f < window[1]]
        assert context(f, end, windows[w], n) == max(others)


def test_a_word_is_shown_in_brackets_between_its_neighbors():
    assert word_in_context(["a", "b", "c", "d", "e"], 2, width=1) == "b [c] d"


def test_context_ends_with_the_sentence():
    assert word_in_context(["a", "b"], 0, width=4) == "[a] b"


def test_width_zero_is_the_bare_word():
    assert word_in_context(["a", "b"], 1, width=0) == "b"
