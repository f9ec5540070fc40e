"""Of every class as many rows as of the others, as far as it has them."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knn_ue.errors import InvalidInputError
from knn_ue.stores import balanced_rows

LABELS = st.lists(st.integers(0, 5), min_size=1, max_size=60)


@given(labels=LABELS, n_rows=st.integers(1, 70), seed=st.integers(0, 5))
def test_no_class_has_two_more_than_one_that_could_have_more(labels, n_rows, seed):
    rows = balanced_rows(np.array(labels), n_rows, seed=seed).tolist()

    assert rows == sorted(set(rows)) and len(rows) == min(n_rows, len(labels))
    kept, had = Counter(labels[row] for row in rows), Counter(labels)
    for label in had:
        if kept[label] < had[label]:
            assert all(kept[other] <= kept[label] + 1 for other in had)


def test_the_seed_decides_which_rows():
    labels = np.zeros(1000, dtype=np.int64)
    first, again, other = (balanced_rows(labels, 10, seed=seed).tolist() for seed in (0, 0, 1))

    assert first == again != other


@pytest.mark.parametrize("n_rows", [0, -1])
def test_a_number_that_keeps_nothing_is_refused(n_rows):
    with pytest.raises(InvalidInputError, match="n_rows must be"):
        balanced_rows(np.array([0, 1]), n_rows)
