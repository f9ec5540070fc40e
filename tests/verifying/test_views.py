"""Views: what the labeled rows set, against plain loops."""

import math

import numpy as np
import pytest

from knn_ue.errors import InvalidInputError
from knn_ue.verifying.hashing import word_ngrams
from knn_ue.verifying.views import FittedView, fit_view, inner_views

LABELED = ["good film", "bad film", "a good good day", "nothing here at all"]
NEW = ["good day today", "", "unheard of"]


def slow_tf_idf(counts, labeled):
    """Rows (n, columns) of unit length over all columns, those that no labeled row has with the largest idf."""
    dense, seen = counts.to_scipy().toarray(), labeled.to_scipy().toarray()
    rows = np.zeros(dense.shape)
    for i in range(len(dense)):
        for j in np.flatnonzero(dense[i]):
            idf = math.log((1 + len(seen)) / (1 + np.count_nonzero(seen[:, j]))) + 1
            rows[i, j] = (1 + math.log(dense[i, j])) * idf
        rows[i] /= np.linalg.norm(rows[i]) or 1.0
    return rows


def test_inner_products_of_sparse_rows_are_those_of_slow_tf_idf():
    labeled, new = word_ngrams(LABELED), word_ngrams(NEW)

    inner, _ = fit_view(labeled).inner(new)

    np.testing.assert_allclose(inner, slow_tf_idf(new, labeled) @ slow_tf_idf(labeled, labeled).T, atol=1e-6)


def test_a_row_without_known_words_has_inner_products_and_cosines_of_zero():
    inner, cosines = fit_view(word_ngrams(LABELED)).inner(word_ngrams(["", "unheard"]))

    assert not inner.any() and not cosines.any()


def test_dense_rows_are_centered_and_have_unit_length_on_the_mean():
    values = np.random.default_rng(0).normal(3.0, 5.0, (40, 7))

    gram, _ = fit_view(values).gram()

    assert np.diag(gram).mean() == pytest.approx(1.0, rel=1e-5)
    np.testing.assert_allclose(gram.sum(axis=0), 0.0, atol=1e-4)


def test_new_dense_rows_use_the_center_of_the_labeled_ones():
    values = np.random.default_rng(0).normal(size=(40, 7))
    fitted = fit_view(values)

    inner, _ = fitted.inner(values[:3])

    np.testing.assert_allclose(inner, fitted.gram()[0][:3], atol=1e-5)


@pytest.mark.parametrize("raw", [word_ngrams(LABELED), np.eye(4)], ids=["sparse", "dense"])
def test_arrays_restore_the_view(raw):
    fitted = fit_view(raw)

    again = FittedView.from_arrays(fitted.arrays())

    np.testing.assert_array_equal(again.inner(raw)[0], fitted.inner(raw)[0])


def test_taken_rows_are_the_rows_with_these_numbers():
    counts = word_ngrams(LABELED)

    taken = counts.take(np.array([2, 0]))

    np.testing.assert_array_equal(taken.to_scipy().toarray(), counts.to_scipy().toarray()[[2, 0]])


def test_views_of_another_reader_are_refused():
    fitted = {"static": fit_view(np.eye(3))}

    with pytest.raises(InvalidInputError, match="was fitted on the views static, got words: use the reader"):
        inner_views(fitted, {"words": word_ngrams(NEW)})


def test_vectors_of_another_length_are_refused():
    with pytest.raises(InvalidInputError, match=r"a view must be \(n, 3\), got \(2, 2\)"):
        fit_view(np.eye(3)).inner(np.eye(2))


def test_constant_vectors_say_nothing():
    inner, cosines = fit_view(np.ones((5, 2))).gram()

    assert not inner.any() and not cosines.any()
